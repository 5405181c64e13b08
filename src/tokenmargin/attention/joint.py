"""Head v and attention p trained together: normalised descent, the flow it discretises, and the path of minimisers.

Each block is normalised by its own gradient, so that |v| and |p| grow at the rates asked for; which max-margin problem
p then solves depends on their ratio [M, Sec. 3].
"""

from __future__ import annotations

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tokenmargin._checks import positive
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike, HeadVector, Path, Vector
from tokenmargin.attention._rosenbrock import rosenbrock_step
from tokenmargin.attention.descent import DEFAULT_STEPS
from tokenmargin.attention.joint_risk import JointField, JointRisk
from tokenmargin.attention.trajectory import Outcome
from tokenmargin.data import Selection
from tokenmargin.errors import InvalidInputError

#: Attempted steps of the flow between two looks at how far it got.
CHUNK = 64

#: Attempted steps after which the flow gives up; to norm 1e6 the toys need a few hundred.
MAX_STEPS = 20_000

#: Local error of (v, p) allowed in a step of the flow, relative to their norm: far above the rounding of logits, and
#: fine enough for the log-weights at norm 1e6 to be known to 1e-3, which the direction of motion no longer feels.
RELATIVE_ERROR = 1e-9

#: Projected steps for each pair of radii of `joint_path`, and their length: a step moves log-weights by about its
#: length, and successive minimisers are about one unit apart once radii grow geometrically.
PATH_STEPS, PATH_STEP = 4_000, 0.25

#: Distance between the unit gradient and the unit vector at a minimiser on the sphere: above it, it was not found.
PATH_RESIDUAL = 1e-9

_FIRST_STEP = 1e-2
_SHRINK, _GROW, _SAFETY = 0.2, 5.0, 0.8

HeadPath = Float[np.ndarray, "s k"]
#: (y = (v, p), step, time, whether |v| was reached) and what a step leaves behind: (y, time, was it accepted).
_State = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
_Trail = tuple[AnyArray, AnyArray, AnyArray]


@dataclass(frozen=True, eq=False)
class JointTrajectory:
    """The path of (v, p): `heads` of shape (s, k) and `points` of shape (s, d), the first the start."""

    objective: JointRisk = field(repr=False)
    heads: HeadPath = field(repr=False)
    points: Path = field(repr=False)
    times: np.ndarray = field(repr=False)
    outcome: Outcome
    n_steps: int

    @property
    def velocity_v(self) -> HeadVector:
        """Unit vector along the second half (in time) of the path of v: sheds the start like 1/|v|^2."""
        return self._secant(self.heads)

    @property
    def velocity_p(self) -> Vector:
        """Unit vector along the second half (in time) of the path of p."""
        return self._secant(self.points)

    @property
    def selection(self) -> Selection:
        """The token of largest attention in each input at the end."""
        attention = self.objective.attention(self.points[-1])
        return Selection.from_indices(attention.argmax(axis=1), attention.shape[1])

    def _secant(self, path: np.ndarray) -> np.ndarray:
        middle = int(np.searchsorted(self.times, 0.5 * self.times[-1]))
        step = path[-1] - path[min(middle, len(path) - 2)]
        length = float(np.linalg.norm(step))
        return step / length if length > 0 else step


@keep_precision
def follow_joint(
    risk: JointRisk,
    start_v: ArrayLike,
    start_p: ArrayLike,
    lr_v: float,
    lr_p: float,
    steps: int = DEFAULT_STEPS,
    every: int = 1,
) -> JointTrajectory:
    """Normalised descent of both blocks at once, v <- v - lr_v g_v/|g_v| and p <- p - lr_p g_p/|g_p| [M, Fig. 3].

    Args:
        risk: what is descended.
        start_v: v(0), shape (k,).
        start_p: p(0), shape (d,).
        lr_v: step length of v.
        lr_p: step length of p.
        steps: how many steps.
        every: keep every so many points, a divisor of `steps`.
    """
    rates = _rates(lr_v, lr_p, risk)
    whole = all(isinstance(x, int | np.integer) and x > 0 for x in (steps, every))
    if not whole or steps % every:
        raise InvalidInputError(f"steps and every must be positive integers, every dividing steps: {steps}, {every}.")
    v, p = risk.checked(start_v, start_p)
    heads, points = _descend(risk.joint_field, v, p, rates, steps // every, np.asarray(every))
    return JointTrajectory(
        risk,
        np.concatenate([v[None], np.asarray(heads)]),
        np.concatenate([p[None], np.asarray(points)]),
        np.arange(1 + steps // every, dtype=float) * every,
        Outcome.STEPS_SPENT,
        int(steps),
    )


@keep_precision
def flow_joint(
    risk: JointRisk,
    start_v: ArrayLike,
    start_p: ArrayLike,
    rate_v: float = 1.0,
    rate_p: float = 1.0,
    until_norm: float = 1e6,
    atol: float = 1e-6,
) -> JointTrajectory:
    """The limit of `follow_joint` for small steps, dv/ds = rate_v g_v/|g_v|, dp/ds = rate_p g_p/|g_p|.

    By the Rosenbrock step of `rosenbrock` with the Jacobian from autodiff, until |v| reaches `until_norm`. A block
    whose gradient vanishes at a finite point has no such flow; the run then spends its steps, and says so.

    Args:
        risk: what is descended.
        start_v: v(0), shape (k,).
        start_p: p(0), shape (d,).
        rate_v: speed of v.
        rate_p: speed of p.
        until_norm: |v| at which to stop.
        atol: tolerance of the local error of (v, p).
    """
    rates = _rates(rate_v, rate_p, risk)
    for name, value in (("until_norm", until_norm), ("atol", atol)):
        positive(value, name)
    v, p = risk.checked(start_v, start_p)
    k = len(v)
    dtype = v.dtype
    state: _State = np.concatenate([v, p]), np.asarray(_FIRST_STEP, dtype), np.asarray(0.0, dtype), np.asarray(False)
    limits = np.asarray(until_norm, dtype), np.asarray(atol, dtype)
    trail, times, attempts = [np.concatenate([v, p])[None]], [np.zeros(1)], 0
    while not state[3] and attempts < MAX_STEPS:
        state, (ys, ss, moved) = _advance(risk.joint_field, state, rates, limits, k)
        kept = np.asarray(moved)
        trail.append(np.asarray(ys)[kept])
        times.append(np.asarray(ss)[kept])
        attempts += CHUNK
    path = np.concatenate(trail)
    outcome = Outcome.NORM_REACHED if state[3] else Outcome.STEPS_SPENT
    return JointTrajectory(risk, path[:, :k], path[:, k:], np.concatenate(times), outcome, len(path) - 1)


@keep_precision
def joint_path(
    risk: JointRisk, start_v: ArrayLike, start_p: ArrayLike, radii_v: ArrayLike, radii_p: ArrayLike
) -> JointTrajectory:
    """The regularisation path: minimisers of L(v, p) over |v| <= r, |p| <= R for each pair of radii [M, Thm 5].

    Both constraints are active where the loss tends to its infimum only at infinity. Each minimiser continues the one
    before, by projected steps along the two unit gradients until these point along v and p; it is a local one, and
    whether all were found to `PATH_RESIDUAL` is the outcome. `times` of the result are the radii of p.

    Args:
        risk: what is minimised.
        start_v: direction of v to begin with, shape (k,).
        start_p: direction of p to begin with, shape (d,).
        radii_v: r > 0, shape (s,); doubling from 1 suits.
        radii_p: R > 0, the same number of them.
    """
    radii = np.asarray(radii_v, dtype=float), np.asarray(radii_p, dtype=float)
    for r in radii:
        if r.ndim != 1 or r.shape != radii[0].shape or not r.size or not (np.isfinite(r) & (r > 0)).all():
            raise InvalidInputError("radii_v and radii_p must be positive finite numbers, equally many of each.")
    v, p = risk.checked(start_v, start_p)
    if not (v.any() and p.any()):
        raise InvalidInputError("start_v and start_p give directions to begin with: neither may be zero.")
    heads, points, residuals = _minimise(risk.joint_field, v, p, *(r.astype(v.dtype) for r in radii))
    found = bool(np.max(np.asarray(residuals)) <= PATH_RESIDUAL)
    outcome = Outcome.NORM_REACHED if found else Outcome.STEPS_SPENT
    return JointTrajectory(risk, np.asarray(heads), np.asarray(points), radii[1], outcome, PATH_STEPS * len(radii[0]))


def _rates(rate_v: float, rate_p: float, risk: JointRisk) -> tuple[np.ndarray, np.ndarray]:
    positive(rate_v, "the rate of v")
    positive(rate_p, "the rate of p")
    dtype = risk.sequences.keys.dtype
    return np.asarray(rate_v, dtype), np.asarray(rate_p, dtype)


@eqx.filter_jit
def _descend(
    risk: JointField, v: AnyArray, p: AnyArray, rates: tuple[AnyArray, AnyArray], records: int, every: AnyArray
) -> tuple[AnyArray, AnyArray]:
    def step(_: AnyArray, point: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray]:
        move_v, move_p = risk.velocity(*point, *rates)
        return point[0] + move_v, point[1] + move_p

    def record(
        point: tuple[AnyArray, AnyArray], _: None
    ) -> tuple[tuple[AnyArray, AnyArray], tuple[AnyArray, AnyArray]]:
        point = jax.lax.fori_loop(0, every, step, point)
        return point, point

    return jax.lax.scan(record, (v, p), None, length=records)[1]


@eqx.filter_jit
def _advance(
    risk: JointField,
    state: _State,
    rates: tuple[AnyArray, AnyArray],
    limits: tuple[AnyArray, AnyArray],
    k: int,
) -> tuple[_State, _Trail]:
    """CHUNK attempted steps of the flow."""
    until, atol = limits

    def along(y: AnyArray) -> AnyArray:
        return jnp.concatenate(risk.velocity(y[:k], y[k:], *rates))

    def attempt(state: _State, _: None) -> tuple[_State, _Trail]:
        y, step, time, _reached = state
        reached = jnp.sqrt(jnp.sum(y[:k] ** 2)) >= until
        step = jnp.minimum(step, until / rates[0])  # overshooting costs digits
        there, error = rosenbrock_step(along, y, along(y), jax.jacfwd(along)(y), step)
        allowed = atol + RELATIVE_ERROR * jnp.sqrt(jnp.sum(there**2))
        move = (error <= allowed) & jnp.all(jnp.isfinite(there)) & ~reached
        factor = _SAFETY * jnp.cbrt(allowed / jnp.maximum(error, 1e-30))
        factor = jnp.where(jnp.isfinite(error), jnp.clip(factor, _SHRINK, _GROW), _SHRINK)
        y, time = jnp.where(move, there, y), jnp.where(move, time + step, time)
        return (y, step * factor, time, reached), (y, time, move)

    return jax.lax.scan(attempt, state, None, length=CHUNK)


@eqx.filter_jit
def _minimise(
    risk: JointField, v: AnyArray, p: AnyArray, radii_v: AnyArray, radii_p: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Minimisers for each pair of radii, each from the one before, and how far each is from stationary."""
    one, step = jnp.ones((), v.dtype), jnp.asarray(PATH_STEP, v.dtype)

    def onto(radius: AnyArray, x: AnyArray) -> AnyArray:
        return x * (radius / jnp.sqrt(jnp.sum(x**2)))

    def solve(
        point: tuple[AnyArray, AnyArray], radii: tuple[AnyArray, AnyArray]
    ) -> tuple[tuple[AnyArray, AnyArray], tuple[AnyArray, AnyArray, AnyArray]]:
        r, R = radii

        def move(_: AnyArray, at: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray]:
            along_v, along_p = risk.velocity(*at, step, step)
            return onto(r, at[0] + along_v), onto(R, at[1] + along_p)

        v, p = jax.lax.fori_loop(0, PATH_STEPS, move, (onto(r, point[0]), onto(R, point[1])))
        unit_v, unit_p = risk.velocity(v, p, one, one)
        residual = jnp.maximum(jnp.max(jnp.abs(unit_v - v / r)), jnp.max(jnp.abs(unit_p - p / R)))
        return (v, p), (v, p, residual)

    return jax.lax.scan(solve, (v, p), (jnp.asarray(radii_v), jnp.asarray(radii_p)))[1]
