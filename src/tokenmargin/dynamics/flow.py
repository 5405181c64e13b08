"""Gradient flow followed to its directional limit, one problem or thousands at once.

dp/ds = G(p) has the orbits of the gradient flow and regular finite stationary points (see `pair_field`); the Rosenbrock
step of `rosenbrock` takes it to norm 1e6 in a few hundred steps. Problems of one shape run in lanes: a fixed number of
lanes advances a chunk of steps at a time, and a lane whose problem is finished takes the next one waiting. So no lane
waits for the slowest problem, and one compilation serves a shape.

diffrax's implicit solvers are the library way; `benchmarks/flow.py` measures both. They spend a Newton iteration on
every stage and run a batch in lockstep until its slowest member is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin.dynamics.descent import positive
from tokenmargin.dynamics.pair_field import PairField
from tokenmargin.dynamics.rosenbrock import rosenbrock_step
from tokenmargin.errors import InvalidInputError

#: Most lanes that advance together: wide enough to amortise the host loop, narrow enough for few idle lanes at the end.
LANES = 128

#: Steps between two looks at which lanes are finished.
CHUNK = 32

#: |G| (keys scaled to unit differences) below which a point is stationary.
STATIONARY_FIELD = 1e-12

_FIRST_STEP = 1e-2
_SHRINK, _GROW, _SAFETY = 0.2, 5.0, 0.8


@dataclass(frozen=True)
class Flow:
    """Gradient flow until |p| reaches `until_norm` or the gradient vanishes.

    Args:
        until_norm: norm at which to stop; the direction is then known to about 1/until_norm, the velocity far better.
            For keys whose longest difference is kappa < 1 it is read as until_norm / kappa.
        atol: tolerance of the local error of the logits.
        rtol: the same, relative to |p|.
        max_steps: steps after which to give up.
    """

    until_norm: float = 1e6
    atol: float = 1e-4
    rtol: float = 1e-9
    max_steps: int = 20_000

    def __post_init__(self) -> None:
        """Check every number."""
        for name in ("until_norm", "atol", "rtol"):
            positive(getattr(self, name), name)
        if not (isinstance(self.max_steps, int) and self.max_steps > 0):
            raise InvalidInputError(f"max_steps must be a positive integer, got {self.max_steps!r}.")


class _Lane(eqx.Module):
    """The state of one integration."""

    y: jax.Array
    here: jax.Array  # field(y)
    step: jax.Array
    time: jax.Array
    taken: jax.Array  # attempts so far
    until: jax.Array
    tolerance: jax.Array  # (atol, rtol)

    def finished(self) -> jax.Array:
        """Whether the norm is reached or the field vanishes."""
        return (jnp.sqrt(jnp.sum(self.y**2)) >= self.until) | (jnp.sqrt(jnp.sum(self.here**2)) <= STATIONARY_FIELD)


@dataclass(frozen=True)
class FlowEnd:
    """Where one integration ended, in the coordinates of the system, with the accepted points if recorded."""

    y: np.ndarray
    time: float
    n_steps: int
    reached: bool
    stationary: bool
    path: np.ndarray
    times: np.ndarray


def integrate(
    systems: list[PairField], starts: list[np.ndarray], until: list[float], method: Flow, record: bool
) -> Iterator[tuple[int, FlowEnd]]:
    """Follow every system (all of one shape and loss) from its start; yields (index, end) as they finish."""
    lanes = min(LANES, 1 << (len(systems) - 1).bit_length())
    waiting = iter(range(len(systems)))
    owner = np.full(lanes, -1)
    paths: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    system = jax.tree.map(lambda *x: np.stack(x), *([systems[0]] * lanes))
    state = _fresh(systems[0], starts[0], np.inf, method)
    state = jax.tree.map(lambda x: np.stack([x] * lanes), state)
    # An idle lane counts as spent, so it is never stepped into trouble and never reported.
    state = eqx.tree_at(lambda s: s.taken, state, np.full(lanes, method.max_steps))
    while True:
        for lane in np.flatnonzero(owner < 0):
            j = next(waiting, None)
            if j is None:
                break
            owner[lane] = j
            fresh = _fresh(systems[j], starts[j], until[j], method)
            _put(system, lane, systems[j])
            _put(state, lane, fresh)
            paths[j] = []
        if (owner < 0).all():
            return
        advanced, finished, trail = _advance(system, state, method.max_steps, record)
        state = jax.tree.map(lambda x: np.array(x), advanced)
        finished = np.asarray(finished)
        if record:
            trail_y, trail_time, accepted = (np.asarray(x) for x in trail)
        for lane in np.flatnonzero(owner >= 0):
            j = int(owner[lane])
            if record:
                kept = accepted[:, lane]
                paths[j].append((trail_y[kept, lane], trail_time[kept, lane]))
            if finished[lane] or state.taken[lane] >= method.max_steps:
                owner[lane] = -1
                yield j, _end(state, lane, starts[j], paths.pop(j))


def _fresh(system: PairField, start: np.ndarray, until: float, method: Flow) -> _Lane:
    dtype = start.dtype
    return _Lane(
        np.asarray(start),
        np.full_like(start, np.nan),  # asked for on the first step
        np.asarray(_FIRST_STEP, dtype),
        np.asarray(0.0, dtype),
        np.asarray(0),
        np.asarray(until, dtype),
        np.asarray([method.atol, method.rtol], dtype),
    )


def _put(batch: eqx.Module, lane: int, value: eqx.Module) -> None:
    """Overwrite one lane of stacked host arrays in place."""
    for whole, part in zip(jax.tree.leaves(batch), jax.tree.leaves(value), strict=True):
        whole[lane] = part


def _end(state: _Lane, lane: int, start: np.ndarray, trail: list[tuple[np.ndarray, np.ndarray]]) -> FlowEnd:
    y, here = state.y[lane].copy(), state.here[lane]
    reached = bool(np.sqrt((y**2).sum()) >= state.until[lane])
    stationary = bool(np.sqrt((here**2).sum()) <= STATIONARY_FIELD)
    time = float(state.time[lane])
    if trail:
        path = np.concatenate([start[None], *(ys for ys, _ in trail)])
        times = np.concatenate([[0.0], *(ts for _, ts in trail)])
    else:
        path, times = np.stack([start, y]), np.array([0.0, time])
    return FlowEnd(y, time, int(state.taken[lane]), reached, stationary, path, times)


@eqx.filter_jit
def _advance(
    systems: PairField, states: _Lane, max_steps: int, record: bool
) -> tuple[_Lane, jax.Array, tuple[jax.Array, jax.Array, jax.Array] | None]:
    """CHUNK attempted steps in every lane; finished and spent lanes stand still."""

    def attempt(system: PairField, state: _Lane) -> tuple[_Lane, jax.Array]:
        here, jacobian = system.field_and_jacobian(state.y)
        state = eqx.tree_at(lambda s: s.here, state, here)
        y, there, error = rosenbrock_step(system.field, state.y, here, jacobian, state.step)
        allowed = state.tolerance[0] + state.tolerance[1] * jnp.sqrt(jnp.sum(y**2))
        good = (error <= allowed) & jnp.all(jnp.isfinite(y))
        factor = _SAFETY * jnp.cbrt(allowed / jnp.maximum(error, 1e-30))
        factor = jnp.where(jnp.isfinite(error), jnp.clip(factor, _SHRINK, _GROW), _SHRINK)
        active = ~state.finished() & (state.taken < max_steps)
        move = active & good
        return (
            _Lane(
                jnp.where(move, y, state.y),
                jnp.where(move, there, here),
                jnp.where(active, state.step * factor, state.step),
                jnp.where(move, state.time + state.step, state.time),
                state.taken + active,
                state.until,
                state.tolerance,
            ),
            move,
        )

    def chunk(states: _Lane, _: None) -> tuple[_Lane, tuple[jax.Array, jax.Array, jax.Array] | None]:
        states, moved = jax.vmap(attempt)(systems, states)
        return states, (states.y, states.time, moved) if record else None

    states, trail = jax.lax.scan(chunk, states, None, length=CHUNK)
    return states, jax.vmap(lambda s: s.finished())(states), trail
