"""Two linearly implicit, L-stable Rosenbrock methods: their steps, and how long steps are.

The field past saturation is stiff: logits race apart while the direction settles, and an explicit method would need
millions of steps to norm 1e6. Linear solves with the analytic Jacobian, one matrix a step, replace them; there is no
Newton loop, so a step costs the same in every lane of a batch, and steps grow geometrically with the norm.

Most of a step's cost is the Jacobian and its matrix, and a stage more costs little: so flows of p on a linear head take
the fifth order of Rodas5P, eight stages, whose error falls with the fifth power of the step. The 2(3) pair known as
ode23s has two stages and an estimate of third order; it serves where the field need not be smooth, or only a point of
rest is looked for.

Shampine and Reichelt, "The MATLAB ODE suite", 1997. Steinebach, "Construction of Rosenbrock-Wanner method Rodas5P and
numerical benchmarks within the Julia Differential Equations package", BIT 63, 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import sqrt
from operator import add

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray, MatrixJ, ScalarJ

#: Length of the first step, in units in which keys and fields are of order one: small, as it grows fivefold a step.
FIRST_STEP = 1e-2

#: A step is at least and at most so many times as long as the one before, and aims at this share of the error allowed.
_SHRINK, _GROW, _SAFETY = 0.2, 5.0, 0.8

#: Largest change by refinement, relative to the solution: the next one would be smaller again by this factor, so that
#: the solution has twelve digits beyond what the condition of the problem takes.
_REFINED = 1e-6

#: Power of a step's length with which its estimated error falls: of `rosenbrock_step`, and of `rodas_step`.
ROSENBROCK_POWER, RODAS_POWER = 3, 5

_DIAGONAL = 1.0 / (2.0 + sqrt(2.0))
_E32 = 6.0 + sqrt(2.0)


def _rows(text: str, width: int = 8) -> np.ndarray:
    """Rows of numbers, parted by semicolons, and zeros to their right."""
    rows = [row.split() for row in text.split(";")]
    return np.array([[*map(float, row), *(0.0,) * (width - len(row))] for row in rows])


# Rodas5P in the variables in which no stage multiplies by the Jacobian: gamma, a_ij and C_ij. The last three stages lie
# at the ends of embedded methods, each the one before plus one increment; the last increment is the estimated error.
_GAMMA = 0.21193756319429014
_STAGES = _rows("""
    0 ;
    3 ;
    2.849394379747939 0.45842242204463923 ;
    -6.954028509809101 2.489845061869568 -10.358996098473584 ;
    2.8029986275628964 0.5072464736228206 -0.3988312541770524 -0.04721187230404641 ;
    -7.502846399306121 2.561846144803919 -11.627539656261098 -0.18268767659942256 0.030198172008377946 ;
    -7.502846399306121 2.561846144803919 -11.627539656261098 -0.18268767659942256 0.030198172008377946 1 ;
    -7.502846399306121 2.561846144803919 -11.627539656261098 -0.18268767659942256 0.030198172008377946 1 1
""")
_COUPLINGS = _rows("""
    0 ;
    -14.155112264123755 ;
    -17.97296035885952 -2.859693295451294 ;
    147.12150275711716 -1.41221402718213 71.68940251302358 ;
    165.43517024871676 -0.4592823456491126 42.90938336958603 -5.961986721573306 ;
    24.854864614690072 -3.0009227002832186 47.4931110020768 5.5814197821558125 -0.6610691825249471 ;
    30.91273214028599 -3.1208243349937974 77.79954646070892 34.28646028294783 -19.097331116725623
    -28.087943162872662 ;
    37.80277123390563 -3.2571969029072276 112.26918849496327 66.9347231244047 -40.06618937091002
    -54.66780262877968 -9.48861652309627
""")
# Its dense output: y(x) = (1 - x) y(0) + x (y(1) + (1 - x)(h_1 + x (h_2 + x h_3))), each h a mixture of the stages.
_DENSE = _rows("""
    25.948786856663858 -2.5579724845846235 10.433815404888879 -2.3679251022685204 0.524948541321073
    1.1241088310450404 0.4272876194431874 -0.17202221070155493 ;
    -9.91568850695171 -0.9689944594115154 3.0438037242978453 -24.495224566215796 20.176138334709044
    15.98066361424651 -6.789040303419874 -6.710236069923372 ;
    11.419903575922262 2.8879645146136994 72.92137995996029 80.12511834622643 -52.072871366152654
    -59.78993625266729 -0.15582684282751913 4.883087185713722
""")

#: Shares of a step at which its points are told, the last its end: close enough to draw a line through.
PASSED = (0.25, 0.5, 0.75, 1.0)

#: b -> x with W x = b.
Solve = Callable[[AnyArray], AnyArray]


def rosenbrock_step(
    field: Callable[[AnyArray], AnyArray], y: AnyArray, here: AnyArray, jacobian: AnyArray, step: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Advance y' = field(y) by `step`: second order, with an estimate of the local error.

    Args:
        field: right-hand side.
        y: current point, shape (d,), or of many problems, shape (d, lanes).
        here: field(y).
        jacobian: derivative of the field at y, shape (d, d) or (d, d, lanes).
        step: step size, shape () or (lanes,).

    Returns:
        (y at the next point, largest entry of the estimated local error).
    """
    solve = _solver(step * _DIAGONAL, jacobian)
    along = jnp.asarray(step)[None]
    k1 = solve(here)
    middle = field(y + 0.5 * along * k1)
    k2 = solve(middle - k1) + k1
    y_next = y + along * k2
    there = field(y_next)
    k3 = solve(there - _E32 * (k2 - middle) - 2.0 * (k1 - here))
    error = step / 6.0 * jnp.max(jnp.abs(k1 - 2.0 * k2 + k3), axis=0)
    return y_next, error


def rodas_step(
    field: Callable[[AnyArray], AnyArray], y: AnyArray, here: AnyArray, jacobian: AnyArray, step: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """The same at fifth order, and the points passed: u_i of (1 - step g J) u_i = g (step field(y + a u) + C u).

    Returns:
        (points at the shares `PASSED` of the step, of order four but for the end, shape (shares, d) or
        (shares, d, lanes); largest entry of the estimated local error).
    """
    solve = _solver(step * _GAMMA, jacobian)
    along = jnp.asarray(step)[None] * _GAMMA
    ahead, coupled = (jnp.asarray(table, y.dtype) for table in (_STAGES, _GAMMA * _COUPLINGS))

    # A loop, as eight fields written out take the compiler longer than they save.
    def stage(i: AnyArray, parts: jax.Array) -> jax.Array:
        there = field(y + _mixture(ahead[i], parts))
        return parts.at[i].set(solve(along * there + _mixture(coupled[i], parts)))

    first = solve(along * here)
    parts = jax.lax.fori_loop(1, len(ahead), stage, jnp.stack([first] + [jnp.zeros_like(y)] * (len(ahead) - 1)))
    end = y + _mixture(ahead[-1], parts) + parts[-1]
    bends = [_mixture(row, parts) for row in jnp.asarray(_DENSE, y.dtype)]
    passed = [(1 - x) * y + x * (end + (1 - x) * (bends[0] + x * (bends[1] + x * bends[2]))) for x in PASSED[:-1]]
    return jnp.stack([*passed, end]), jnp.max(jnp.abs(parts[-1]), axis=0)


def _mixture(weights: AnyArray, parts: AnyArray) -> AnyArray:
    """sum_j weights_j parts_j, written out so that it is fused with what it is for."""
    return reduce(add, [weights[j] * parts[j] for j in range(len(parts))])


def _solver(reach: AnyArray, jacobian: AnyArray) -> Solve:
    """Solutions of (1 - reach J) x = b, for one problem or for many side by side."""
    one = jnp.eye(jacobian.shape[0], dtype=jacobian.dtype)
    return _by_factors(one, reach, jacobian) if jacobian.ndim == 2 else _in_lanes(one, reach, jacobian)


def _by_factors(one: MatrixJ, reach: ScalarJ, jacobian: MatrixJ) -> Solve:
    factors = jax.scipy.linalg.lu_factor(one - reach * jacobian)
    return lambda b: jax.scipy.linalg.lu_solve(factors, b)


def _in_lanes(one: MatrixJ, reach: AnyArray, jacobian: AnyArray) -> Solve:
    """Solver by an inverse, and one round of refinement with it.

    The inverse is taken without pivoting, so that all lanes do the same. Where it turns out to be too poor for
    refinement the answer is NaN, and the step is tried again at a fifth of its length: there W is closer to 1.
    """
    system = one[:, :, None] - reach[None, None] * jacobian
    inverse = _inverted(system)

    def times(matrices: AnyArray, vectors: AnyArray) -> AnyArray:
        return jnp.sum(matrices * vectors[None], axis=1)

    def solve(b: AnyArray) -> AnyArray:
        x = times(inverse, b)
        change = times(inverse, b - times(system, x))
        trusted = jnp.max(jnp.abs(change), axis=0) <= _REFINED * jnp.max(jnp.abs(x), axis=0)
        return jnp.where(trusted[None], x + change, jnp.nan)

    return solve


def _inverted(system: AnyArray) -> AnyArray:
    """Inverses of matrices side by side, shape (d, d, lanes), by Gauss and Jordan."""
    index = jnp.arange(system.shape[0])

    def eliminate(k: AnyArray, matrix: AnyArray) -> AnyArray:
        row, column = matrix[k], matrix[:, k]
        pivot = 1.0 / row[k]
        row = jnp.where((index == k)[:, None], pivot[None], row * pivot[None])
        rest = jnp.where((index == k)[None, :, None], 0.0, matrix) - column[:, None] * row[None]
        return rest.at[k].set(row)

    inverse: AnyArray = jax.lax.fori_loop(0, system.shape[0], eliminate, system)
    return inverse


def controlled(error: AnyArray, allowed: AnyArray, fits: AnyArray, power: int) -> tuple[AnyArray, AnyArray]:
    """(whether a step is accepted, by what to multiply its length).

    Args:
        error: error of the step, as it estimates it.
        allowed: most that the error may be.
        fits: True if the step ends where it may; one that does not is tried again, as short as is ever done at once.
        power: power of the step's length with which its error falls.
    """
    usable = fits & jnp.isfinite(error)
    factor = _SAFETY * (allowed / jnp.maximum(error, 1e-30)) ** (1.0 / power)
    return usable & (error <= allowed), jnp.where(usable, jnp.clip(factor, _SHRINK, _GROW), _SHRINK)
