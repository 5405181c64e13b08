"""Head v and attention p followed together: the flow of both, and the path of minimisers over two balls.

Each block is normalised by its own gradient, so that |v| and |p| grow at the speeds asked for; which max-margin problem
p then solves depends on their ratio [M, Sec. 3].
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.attention._flows import AWAY
from tokenmargin.attention._points import lengths
from tokenmargin.attention._rosenbrock import FIRST_STEP, ROSENBROCK_POWER, controlled, rosenbrock_step
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.joint_risk import JointField, JointRisk
from tokenmargin.attention.trajectory import JointTrajectory, Outcome
from tokenmargin.errors import InvalidInputError

#: Attempted steps of the flow between two looks at how far it got.
CHUNK = 64

#: Local error of (v, p) allowed in a step, in units of the method's tolerance for p alone: nothing settles the gaps at
#: the end of a joint run, so its log-weights must be right all along.
FINER = 1e-2

#: Projected steps for each pair of radii of `joint_path`, and their length: a step moves log-weights by about its
#: length, and successive minimisers are about one unit apart once radii grow geometrically.
PATH_STEPS, PATH_STEP = 4_000, 0.25

#: Distance between the unit gradient and the unit vector at a minimiser on the sphere: above it, it was not found.
PATH_RESIDUAL = 1e-9

#: (y = (v, p), step, time, whether |v| was reached) and what a step leaves behind: (y, time, was it accepted).
_State = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
_Trail = tuple[AnyArray, AnyArray, AnyArray]


def flow_of_both(risk: JointRisk, start: np.ndarray, method: Flow) -> JointTrajectory:
    """dv/ds = speed_v g_v/|g_v|, dp/ds = speed_p g_p/|g_p| from (v, p), until |v| reaches `until_norm`.

    From a start further out it goes on until both have moved `AWAY` times as far as the longer of the two is.

    The limit of normalised descent of both for short steps, by the Rosenbrock step with the Jacobian from autodiff. A
    block whose gradient vanishes at a finite point has no such flow; the run then spends its steps, and says so.
    """
    field, k, dtype = risk.own_field, risk.sequences.tokens.shape[2], start.dtype
    state: _State = start, np.asarray(FIRST_STEP, dtype), np.asarray(0.0, dtype), np.asarray(False)
    longest = max(float(lengths(start[:k])), float(lengths(start[k:])) * risk.speeds[0] / risk.speeds[1])
    until = max(method.until_norm, AWAY * longest)
    limits = tuple(np.asarray(x, dtype) for x in (until, FINER * method.atol, method.rtol))
    trail, times, attempts = [start[None]], [np.zeros(1)], 0
    while not state[3] and attempts < method.max_steps:
        state, (ys, ss, moved) = _advance(field, state, limits)
        kept = np.asarray(moved)
        trail.append(np.asarray(ys)[kept])
        times.append(np.asarray(ss)[kept])
        attempts += CHUNK
    path = np.concatenate(trail)
    outcome = Outcome.NORM_REACHED if state[3] else Outcome.STEPS_SPENT
    return JointTrajectory(risk, path[:, :k], path[:, k:], np.concatenate(times), outcome, len(path) - 1)


@checked
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
    radii = real_array(radii_v, "radii_v", "(s,)"), real_array(radii_p, "radii_p", "(s,)")
    for r in radii:
        if r.ndim != 1 or r.shape != radii[0].shape or not r.size or not (np.isfinite(r) & (r > 0)).all():
            raise InvalidInputError("radii_v and radii_p must be positive finite numbers, equally many of each.")
    v, p = risk.checked(start_v, start_p)
    if not (v.any() and p.any()):
        raise InvalidInputError("start_v and start_p give directions to begin with: neither may be zero.")
    heads, points, residuals = _minimise(risk.own_field, v, p, *(r.astype(v.dtype) for r in radii))
    found = bool(np.max(np.asarray(residuals)) <= PATH_RESIDUAL)
    outcome = Outcome.NORM_REACHED if found else Outcome.STEPS_SPENT
    return JointTrajectory(risk, np.asarray(heads), np.asarray(points), radii[1], outcome, PATH_STEPS * len(radii[0]))


@eqx.filter_jit
def _advance(field: JointField, state: _State, limits: tuple[AnyArray, ...]) -> tuple[_State, _Trail]:
    """CHUNK attempted steps of the flow."""
    until, atol, rtol = limits

    def attempt(state: _State, _: None) -> tuple[_State, _Trail]:
        y, step, time, _reached = state
        reached = jnp.sqrt(jnp.sum(field.parts(y)[0] ** 2)) >= until
        step = jnp.minimum(step, until / field.speeds[0])  # overshooting costs digits
        there, error = rosenbrock_step(field.field, y, field.field(y), jax.jacfwd(field.field)(y), step)
        allowed = atol + rtol * jnp.sqrt(jnp.sum(there**2))
        good, factor = controlled(error, allowed, jnp.all(jnp.isfinite(there)), ROSENBROCK_POWER)
        move = good & ~reached
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
