"""The flow of several blocks at once, each normalised by its own gradient.

Lengths of the blocks then grow at the speeds asked for; which max-margin problem p solves beside v depends on their
ratio [M, Sec. 3].
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.attention._points import lengths
from tokenmargin.attention._rosenbrock import FIRST_STEP, ROSENBROCK_POWER, controlled, rosenbrock_step
from tokenmargin.attention.blocks import by_block
from tokenmargin.attention.field import Field
from tokenmargin.attention.flow import AWAY, Flow
from tokenmargin.attention.risk import Risk
from tokenmargin.attention.trajectory import Outcome, Trajectory

#: Attempted steps of the flow between two looks at how far it got.
CHUNK = 64

#: Local error of a point allowed in a step, in units of the method's tolerance for p alone: nothing settles the gaps at
#: the end of such a run, so its log-weights must be right all along.
FINER = 1e-2

#: (y, step, time, whether the norm was reached) and what a step leaves behind: (y, time, was it accepted).
_State = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
_Trail = tuple[AnyArray, AnyArray, AnyArray]


def block_flow(risk: Risk, start: np.ndarray, method: Flow) -> Trajectory:
    """dy/ds = force(y) from a start, until the first block is as long as `until_norm`.

    From a start further out it goes on until all blocks have moved `AWAY` times as far as the longest of them is.

    It is the limit of normalised descent of all blocks for short steps, by the Rosenbrock step with the Jacobian from
    autodiff. A block whose gradient vanishes at a finite point has no such flow; the run then spends its steps, and
    says so.
    """
    blocks, dtype = list(risk.blocks.values()), start.dtype
    first = blocks[0]
    state: _State = start, np.asarray(FIRST_STEP, dtype), np.asarray(0.0, dtype), np.asarray(False)
    sizes = [float(lengths(part.reshape(-1))) for part in by_block(risk.blocks, start).values()]
    longest = max(size * first.speed / block.speed for size, block in zip(sizes, blocks, strict=True))
    until = max(method.until_norm, AWAY * longest)
    # A step is at most as long as the norm: overshooting costs digits.
    limits = tuple(np.asarray(x, dtype) for x in (until, until / first.speed, FINER * method.atol, method.rtol))
    trail, times, attempts = [start[None]], [np.zeros(1)], 0
    while not state[3] and attempts < method.max_steps:
        state, (ys, ss, moved) = _advance(risk.field, state, limits, first.size)
        kept = np.asarray(moved)
        trail.append(np.asarray(ys)[kept])
        times.append(np.asarray(ss)[kept])
        attempts += CHUNK
    path = np.concatenate(trail)
    outcome = Outcome.NORM_REACHED if state[3] else Outcome.STEPS_SPENT
    return Trajectory(risk, method, path, np.concatenate(times), outcome, len(path) - 1)


@eqx.filter_jit
def _advance(field: Field, state: _State, limits: tuple[AnyArray, ...], measured: int) -> tuple[_State, _Trail]:
    """CHUNK attempted steps of the flow; the first `measured` entries are those whose length is asked for."""
    until, longest_step, atol, rtol = limits

    def attempt(state: _State, _: None) -> tuple[_State, _Trail]:
        y, step, time, _reached = state
        reached = jnp.sqrt(jnp.sum(y[:measured] ** 2)) >= until
        step = jnp.minimum(step, longest_step)
        there, error = rosenbrock_step(field.force, y, field.force(y), jax.jacfwd(field.force)(y), step)
        allowed = atol + rtol * jnp.sqrt(jnp.sum(there**2))
        good, factor = controlled(error, allowed, jnp.all(jnp.isfinite(there)), ROSENBROCK_POWER)
        move = good & ~reached
        y, time = jnp.where(move, there, y), jnp.where(move, time + step, time)
        return (y, step * factor, time, reached), (y, time, move)

    return jax.lax.scan(attempt, state, None, length=CHUNK)
