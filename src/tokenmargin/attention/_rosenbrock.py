"""A linearly implicit, L-stable Rosenbrock method, the 2(3) pair known as ode23s: its step, and how long steps are.

The field past saturation is stiff: logits race apart while the direction settles, and an explicit method would need
millions of steps to norm 1e6. One linear solve with the analytic Jacobian replaces them; there is no Newton loop, so a
step costs the same in every lane of a batch, and steps grow geometrically with the norm.

Shampine and Reichelt, "The MATLAB ODE suite", 1997.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import jax
import jax.numpy as jnp

from tokenmargin._types import AnyArray, MatrixJ, ScalarJ

#: Length of the first step, in units in which keys and fields are of order one: small, as it grows fivefold a step.
FIRST_STEP = 1e-2

#: A step is at least and at most so many times as long as the one before, and aims at this share of the error allowed.
_SHRINK, _GROW, _SAFETY = 0.2, 5.0, 0.8

#: Largest change by refinement, relative to the solution: the next one would be smaller again by this factor, so that
#: the solution has twelve digits beyond what the condition of the problem takes.
_REFINED = 1e-6

_DIAGONAL = 1.0 / (2.0 + sqrt(2.0))
_E32 = 6.0 + sqrt(2.0)


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
    one = jnp.eye(y.shape[0], dtype=y.dtype)
    solve = _by_factors(one, step, jacobian) if y.ndim == 1 else _in_lanes(one, step, jacobian)
    along = jnp.asarray(step)[None]
    k1 = solve(here)
    middle = field(y + 0.5 * along * k1)
    k2 = solve(middle - k1) + k1
    y_next = y + along * k2
    there = field(y_next)
    k3 = solve(there - _E32 * (k2 - middle) - 2.0 * (k1 - here))
    error = step / 6.0 * jnp.max(jnp.abs(k1 - 2.0 * k2 + k3), axis=0)
    return y_next, error


def _by_factors(one: MatrixJ, step: ScalarJ, jacobian: MatrixJ) -> Solve:
    """Solutions of (1 - step c J) x = b for one problem."""
    factors = jax.scipy.linalg.lu_factor(one - step * _DIAGONAL * jacobian)
    return lambda b: jax.scipy.linalg.lu_solve(factors, b)


def _in_lanes(one: MatrixJ, step: AnyArray, jacobian: AnyArray) -> Solve:
    """The same for many problems side by side: by an inverse, and one round of refinement with it.

    The inverse is taken without pivoting, so that all lanes do the same. Where it turns out to be too poor for
    refinement the answer is NaN, and the step is tried again at a fifth of its length: there W is closer to 1.
    """
    system = one[:, :, None] - (step * _DIAGONAL)[None, None] * jacobian
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


def controlled(error: AnyArray, allowed: AnyArray, fits: AnyArray) -> tuple[AnyArray, AnyArray]:
    """(whether a step is accepted, by what to multiply its length): the estimate is of third order.

    Args:
        error: of the step, as `rosenbrock_step` estimates it.
        allowed: what it may be.
        fits: whether the step ends where it may; one that does not is tried again, as short as is ever done at once.
    """
    usable = fits & jnp.isfinite(error)
    factor = _SAFETY * jnp.cbrt(allowed / jnp.maximum(error, 1e-30))
    return usable & (error <= allowed), jnp.where(usable, jnp.clip(factor, _SHRINK, _GROW), _SHRINK)
