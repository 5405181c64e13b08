"""Gradient flow followed to its directional limit, one problem or thousands at once.

dp/ds = G(p) has the orbits of the gradient flow and regular finite stationary points (see `pair_field.py`); the step of
fifth order in `_rosenbrock` takes it to norm 1e6 in some sixty steps. Problems of one shape run in lanes: a fixed
number of lanes advances a chunk of steps at a time, and a lane whose problem is finished takes the next one waiting. So
no lane waits for the slowest problem, and one compilation serves a shape.

diffrax's implicit solvers are the library way; `benchmarks/flow.py` measures both. They spend a Newton iteration on
every stage and run a batch in lockstep until its slowest member is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked, positive, whole_number
from tokenmargin._types import AnyArray
from tokenmargin.attention._lane_field import LaneField, side_by_side
from tokenmargin.attention._rosenbrock import (
    FIRST_STEP,
    PASSED,
    RODAS_POWER,
    ROSENBROCK_POWER,
    controlled,
    rodas_step,
    rosenbrock_step,
)
from tokenmargin.attention._size_classes import is_small
from tokenmargin.attention.pair_field import LIGHT, KeyField
from tokenmargin.norms import L2

#: Most lanes that advance together: wide enough to amortise the host loop, narrow enough for few idle lanes at the end
#: and for their matrices to stay in a core's cache.
LANES = 32

#: Up to so many problems run in as many lanes, and each as it would alone.
FEW = 4

#: Steps between two looks at which lanes are finished.
CHUNK = 32

#: Past `until_norm` a lane goes on at this tolerance until its gaps have settled: at norm 1e6 the running tolerance
#: leaves log-weights 1e-3 off, which the direction does not feel but the velocity and the weights do.
SETTLING_TOLERANCE = 1e-7

#: Spread of the gaps (see `KeyField.separation`) at which a diverging lane has settled, and the same in units of what
#: rounding allows: logits of size |p| carry an error of eps |p|, which turns G by eps |p| / |G| and so moves the gaps,
#: of size |G|, by eps |p| / |G|^2 of themselves.
SETTLED_SPREAD, SETTLED_ROUNDING = 1e-9, 8.0

#: Steps after which a lane that does not settle is reported as it is. Rounding grows with the norm, so overshooting
#: costs digits: a lane lands below twice `until_norm` and grows by at most that norm again while it settles.
SETTLING_STEPS = 400

#: A step that aims at the largest norm allowed may end this many times as far: the compiler may work out twice whether
#: it does, for the state and for the path, and rounding must not decide between them.
LANDING = 1.0 + 1e-9

#: A lane whose margin |G| is so small that logit gaps, |p||G|, are below this at `until_norm` goes on until they are
#: not: its softmax still mixes tokens. But not beyond so many times `until_norm`.
SATURATED_GAP, FURTHEST = 60.0, 1e3

#: So does a lane in which a token without weight catches up faster than this (`Separation.lag`): p does not select yet
#: what its velocity selects, as after a start far out. What the running tolerance leaves of the gaps is below it.
CLOSING = 1e-3

#: `Flow.rtol` is relative to |p| up to here only: beyond, log-weights would be off by more than decides where p goes.
RELATIVE_UP_TO = 2.0**24

#: No step can be better than the rounding of its logits, eps |p|, this many times.
STEP_ROUNDING = 8.0

#: |G| (keys scaled to unit differences) below which a point is stationary.
STATIONARY_FIELD = 1e-12

#: A flow goes on to this many times the norm of its start at least: that far out, what reorders tokens happens after a
#: time of the order of that norm.
AWAY = 4.0


@checked
@dataclass(frozen=True)
class Flow:
    """Gradient flow until |p| reaches `until_norm` and p selects what its velocity selects, or the gradient vanishes.

    A start further out is followed to four times its norm, and on to a thousand times while tokens still change places.

    Args:
        until_norm: norm at which to stop; the direction is then known to about 1/until_norm, the velocity far better.
            For keys whose longest difference kappa lies outside [1, 8] it is the norm of p times kappa (or kappa/8).
        atol: tolerance of the local error of the logits.
        rtol: the same, relative to |p|.
        max_steps: steps after which to give up.
    """

    until_norm: float = 1e6
    atol: float = 1e-4
    rtol: float = 1e-9
    max_steps: int = 20_000
    geometry = L2()  # not a field: every flow of a gradient moves in the Euclidean norm

    def __post_init__(self) -> None:
        """Check every number."""
        for name in ("until_norm", "atol", "rtol"):
            positive(getattr(self, name), name)
        whole_number(self.max_steps, "max_steps", 1)


class _Lane(eqx.Module):
    """The state of one integration."""

    y: AnyArray
    step: AnyArray
    time: AnyArray
    taken: AnyArray  # attempts so far
    settling: AnyArray  # attempts since the norm was reached
    finished: AnyArray
    until: AnyArray
    tolerance: AnyArray  # (atol, rtol)


#: Points passed, their times and "was the step accepted" of a chunk, each with the step first and the lane second.
_Trail = tuple[AnyArray, AnyArray, AnyArray]

_Batch = TypeVar("_Batch", _Lane, _Trail)


@dataclass(frozen=True)
class FlowEnd:
    """End of one integration, in the coordinates of the system, with the accepted points if recorded."""

    n_steps: int
    reached: bool
    finished: bool
    path: np.ndarray
    times: np.ndarray


def integrate(
    systems: KeyField, starts: np.ndarray, until: np.ndarray, method: Flow, record: bool
) -> Iterator[tuple[int, FlowEnd]]:
    """Follow every system of a stack from its start; yields (index, end) as they finish."""
    count = len(starts)
    lanes = min(LANES, 1 << (count - 1).bit_length())
    if lanes > 1 and is_small_stack(systems):  # idle lanes cost less than a program for every number of them
        lanes = FEW if lanes <= FEW else LANES
    owner, following = np.full(lanes, -1), 0
    parts = [np.asarray(x) for x in jax.tree.leaves(systems)]
    system = jax.tree.map(lambda x: np.repeat(x[:1], lanes, axis=0), systems)
    first = jax.tree.leaves(_fresh(starts[0], method))
    state = jax.tree.map(lambda x: np.stack([x] * lanes), _fresh(starts[0], method))
    state.finished[:] = True  # idle lanes stand still
    paths: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    while True:
        idle = np.flatnonzero(owner < 0)[: count - following]
        taken = following + np.arange(len(idle))
        following += len(idle)
        owner[idle] = taken
        if (owner < 0).all():
            return
        if len(idle):
            _put(system, idle, [part[taken] for part in parts])
            _put(state, idle, first)
            state.y[idle], state.until[idle] = starts[taken], until[taken]
        advanced, trail = _advance(system, state, record or lanes <= FEW)  # the same program, where it costs little
        state = jax.tree.map(np.array, jax.device_get(advanced))
        if record and trail is not None:
            _keep(paths, owner, *map(np.asarray, trail))
        for lane in np.flatnonzero((owner >= 0) & (state.finished | (state.taken >= method.max_steps))).tolist():
            j, owner[lane] = int(owner[lane]), -1
            yield j, _end(state, lane, starts[j], paths.pop(j, []))


def _fresh(start: np.ndarray, method: Flow) -> _Lane:
    dtype = start.dtype
    return _Lane(
        y=np.asarray(start),
        step=np.asarray(FIRST_STEP, dtype),
        time=np.asarray(0.0, dtype),
        taken=np.asarray(0),
        settling=np.asarray(0),
        finished=np.asarray(False),
        until=np.asarray(np.inf, dtype),
        tolerance=np.asarray([method.atol, method.rtol], dtype),
    )


def _put(batch: eqx.Module, lanes: np.ndarray, parts: list[Any]) -> None:
    """Overwrite some lanes of stacked host arrays in place."""
    for whole, part in zip(jax.tree.leaves(batch), parts, strict=True):
        whole[lanes] = part


def _keep(
    paths: dict[int, list[tuple[np.ndarray, np.ndarray]]],
    owner: np.ndarray,
    points: np.ndarray,
    times: np.ndarray,
    accepted: np.ndarray,
) -> None:
    """Add what each lane passed, of a trail with the step first, to the path of its problem."""
    for lane in np.flatnonzero(owner >= 0).tolist():
        kept = accepted[:, lane]
        passed = points[kept, lane], times[kept, lane]
        paths.setdefault(int(owner[lane]), []).append((passed[0].reshape(-1, points.shape[-1]), passed[1].reshape(-1)))


def _end(state: _Lane, lane: int, start: np.ndarray, trail: list[tuple[np.ndarray, np.ndarray]]) -> FlowEnd:
    y = state.y[lane]
    if trail:
        path = np.concatenate([start[None], *(ys for ys, _ in trail)])
        times = np.concatenate([[0.0], *(ts for _, ts in trail)])
    else:
        path, times = np.array([start, y]), np.array([0.0, state.time[lane]])
    reached = bool(np.sqrt((y**2).sum()) >= state.until[lane])
    return FlowEnd(int(state.taken[lane]), reached, bool(state.finished[lane]), path, times)


#: With more passes of LLVM a program takes longer to compile, and then a third longer to run (`docs/speed.md`). Whoever
#: sets the level in XLA_FLAGS has it.
PASSES = "xla_backend_optimization_level"
COMPILER: dict[str, Any] = {"compiler_options": {} if PASSES in os.environ.get("XLA_FLAGS", "") else {PASSES: 1}}


@eqx.filter_jit(**COMPILER)
def _advance(systems: KeyField, states: _Lane, record: bool) -> tuple[_Lane, _Trail | None]:
    """CHUNK attempted steps in every lane; finished lanes stand still."""
    if len(states.finished) >= LANES and is_small_stack(systems):  # sums are written out
        attempt, last = partial(_attempt, side_by_side(systems)), -1
    else:
        attempt, last = partial(jax.vmap(_attempt), systems), 0

    def chunk(states: _Lane, _: None) -> tuple[_Lane, _Trail | None]:
        states, trail = attempt(states)
        return states, _moved_axis(trail, last, 0) if record else None

    states, trail = jax.lax.scan(chunk, _moved_axis(states, 0, last), None, length=CHUNK)
    return _moved_axis(states, last, 0), trail


def is_small_stack(systems: KeyField) -> bool:
    """True if problems are small enough to be laid out along the last axis, where there are many."""
    return systems.has_fixed_scores and is_small(systems.keys.shape[-3:])


def _moved_axis(batch: _Batch, source: int, target: int) -> _Batch:
    moved: _Batch = jax.tree.map(lambda x: jnp.moveaxis(x, source, target), batch)
    return moved


def _attempt(system: KeyField | LaneField, state: _Lane) -> tuple[_Lane, _Trail]:
    """One step of one problem, or of many along the last axis, and what it passed."""
    here, jacobian = system.force_and_jacobian(state.y)
    norm, speed = (jnp.sqrt(jnp.sum(x**2, axis=0)) for x in (state.y, here))
    along = system.separation(state.y)
    on_its_way = (norm * speed >= SATURATED_GAP) & (along.lag <= CLOSING)
    reached = (norm >= state.until) & (on_its_way | (norm >= FURTHEST * state.until))
    eps = float(jnp.finfo(state.y.dtype).eps)
    rounding = eps * norm / jnp.maximum(speed, STATIONARY_FIELD) ** 2
    near = jnp.maximum(SETTLED_SPREAD, SETTLED_ROUNDING * rounding)
    steady = (
        (along.spread <= near) & (along.excess >= -near) & (along.leaves <= jnp.maximum(SETTLED_SPREAD, LIGHT * near))
    )
    settled = reached & (steady | (state.settling >= SETTLING_STEPS))
    finished = state.finished | settled | (speed <= STATIONARY_FIELD)
    limit = jnp.where(reached, norm + state.until / SETTLING_STEPS, 2.0 * jnp.maximum(state.until, norm))
    step = jnp.minimum(jnp.minimum(state.step, along.joins), (limit - norm) / jnp.maximum(speed, STATIONARY_FIELD))
    passed, shares, error, power = _stepped(system, state.y, here, jacobian, step)
    y = passed[-1]
    length = jnp.sqrt(jnp.sum(y**2, axis=0))
    running = state.tolerance[0] + state.tolerance[1] * jnp.minimum(length, RELATIVE_UP_TO)
    allowed = jnp.where(reached, jnp.minimum(SETTLING_TOLERANCE, running), running)
    allowed = jnp.maximum(allowed, STEP_ROUNDING * eps * length)
    good, factor = controlled(error, allowed, length <= LANDING * limit, power)
    move = good & ~finished
    after = _Lane(
        y=jnp.where(move[None], y, state.y),
        step=jnp.where(finished, state.step, step * factor),
        time=jnp.where(move, state.time + step, state.time),
        taken=state.taken + ~finished,
        settling=state.settling + (reached & ~finished),
        finished=finished,
        until=state.until,
        tolerance=state.tolerance,
    )
    return after, (passed, jnp.stack([state.time + x * step for x in shares]), move)


def _stepped(
    system: KeyField | LaneField, y: AnyArray, here: AnyArray, jacobian: AnyArray, step: AnyArray
) -> tuple[AnyArray, tuple[float, ...], AnyArray, int]:
    """(points passed, at which shares of the step, estimated error, its power): the method that suits the field.

    A high order is for what is smooth, as the field of a linear head is. Others may have kinks, or hold tokens level
    where their scores cross: there a step is short whatever its order, and the cheaper one gets further.
    """
    if system.has_fixed_scores:
        passed, error = rodas_step(system.force, y, here, jacobian, step)
        return passed, PASSED, error, RODAS_POWER
    end, error = rosenbrock_step(system.force, y, here, jacobian, step)
    return end[None], (1.0,), error, ROSENBROCK_POWER
