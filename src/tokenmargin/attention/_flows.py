"""Flows of many risks, each from its start, in lanes; and those from so far out that rounding blurs their logits.

Far out a softmax is saturated, and what pulls on p is the pairs of largest log-weight, -(gap at p) up to a number of
order one. Where gaps are of the order of |p| itself, dividing p by a power of two divides them all by it and leaves the
same pairs in front: the flow from p/c is the flow from p divided by c, up to 1/|p/c| of its length, and goes to the
same limit. So a start is followed from two lengths that float64 resolves; if both runs have one limit, it is that of
the start. A start with logits that nearly tie, beside its length, is not in such a position: how they tie is lost on
the way, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import numpy as np

from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._exact_logits import SATURATED, is_clear
from tokenmargin.attention._kinked_ends import KinkedSplit, kinked_split
from tokenmargin.attention._kinks import directions, landed
from tokenmargin.attention._lane_field import widened
from tokenmargin.attention._mixed import Split, split
from tokenmargin.attention._pieces import has_kinks
from tokenmargin.attention._points import lengths
from tokenmargin.attention._rails import rails_at
from tokenmargin.attention._several_blocks import block_flow
from tokenmargin.attention._size_classes import in_shared_shapes
from tokenmargin.attention._sliding import NO_WAY, followed_pieces, integrate_pieces
from tokenmargin.attention._stacks import Stack, in_few_shapes, stacked, stacks
from tokenmargin.attention.flow import AWAY, Flow, FlowEnd, integrate
from tokenmargin.attention.limit import Limit
from tokenmargin.attention.risk import Risk
from tokenmargin.attention.trajectory import Outcome, Trajectory

#: Runs as they end, each with its number among those asked for.
Flows = Iterator[tuple[int, Trajectory]]

#: Longest key differences between which `Flow.until_norm` is the norm of p itself. Keys beyond are measured in units of
#: their own: logits, not |p|, are what saturates a softmax and what rounding is relative to.
ORDINARY_KEYS = (1.0, 8.0)

#: Beyond `FAR`, where every step further is rounded more, a flow goes on by this only instead of `AWAY`: enough for the
#: weights of pairs that nearly tie, for which such a start is not followed from nearer, to settle.
ONWARD = 1e4

#: Binary exponents of |p|, in units of 1/longest key difference: beyond the first a start is followed from nearer where
#: it can be; beyond the second (eps |p| = 2e-3) not at all where it cannot.
FAR, OUT_OF_REACH = 30, 43

#: Binary exponents of the two lengths from which it is followed: 1e8 and 1e6.
NEARER = (27, 20)

#: 1 - cos between the velocities of the two runs above which they have not one limit.
ONE_VELOCITY = 1e-10

#: How often what is left beside a held part is followed as a problem of its own.
AGAIN = 12

#: Distance between two finite limits, relative to 1 + |p|, above which they are not one.
ONE_POINT = 1e-6


def flows(risks: Sequence[Risk], points: list[np.ndarray], method: Flow, keep_path: bool) -> Flows:
    """(number, trajectory) of each flow, as they end: first those without a span, each by itself, then the others."""
    found, without = stacks(risks)
    for j in without:
        path, times, reached = block_flow(risks[j], points[j], method)
        outcome = Outcome.NORM_REACHED if reached else Outcome.STEPS_SPENT
        yield j, Trajectory(risks[j], method, path, times, outcome, len(path) - 1)
    yield from _in_spans(risks, found, points, method, keep_path)


def _in_spans(
    risks: Sequence[Risk], found: list[Stack], points: list[np.ndarray], method: Flow, keep_path: bool
) -> Flows:
    """(number, trajectory) of each flow of a risk with a span, as they end; those from far out last."""
    sizes = np.zeros(len(risks), dtype=int)
    for stack in found:
        sizes[stack.numbers] = exponents(_of(points, stack), stack.coordinates)
    far = [FarStart.of(j, risks[j], points[j], int(sizes[j])) for j in np.flatnonzero(sizes > FAR).tolist()]
    clear, lost = [one for one in far if one.is_clear], {one.number: one for one in far}
    runs = []
    for k in range(2 if clear else 0):
        until = np.ldexp(method.until_norm, [-one.powers[k] for one in clear])
        some, starts = [one.risk for one in clear], [one.nearer[k] for one in clear]
        runs.append(dict(_near(some, stacks(some)[0], starts, method, keep_path, until)))
    for j, one in enumerate(clear):
        joined = one.joined(runs[0][j], (runs[0][j].limit, runs[1][j].limit))
        if joined is not None:
            del lost[one.number]
            yield one.number, joined
    for j, one in lost.items():
        if sizes[j] > OUT_OF_REACH:
            yield j, one.left_alone(method)
    known = sizes <= FAR
    known[[j for j in lost if sizes[j] <= OUT_OF_REACH]] = True
    parts = [stack.some(known[stack.numbers]) for stack in found]
    until = np.full(len(risks), method.until_norm)
    yield from _near(risks, [part for part in parts if len(part.numbers)], points, method, keep_path, until)


def _of(points: list[np.ndarray], stack: Stack) -> np.ndarray:
    """The point of each problem of a stack, shape (B, 1, D)."""
    return np.stack([points[j] for j in stack.numbers.tolist()])[:, None]


def _near(
    risks: Sequence[Risk],
    found: list[Stack],
    points: list[np.ndarray],
    method: Flow,
    keep_path: bool,
    until_norm: np.ndarray,
) -> Flows:
    """The same for starts whose logits are known, each to a norm of its own, or `AWAY` from its start."""
    for members, systems in in_few_shapes(found):
        followed = integrate_pieces if has_kinks(systems) else partial(integrate, record=keep_path)
        starts = [found[k].coordinates.inward(_of(points, found[k]))[:, 0] for k in members]
        norm = np.concatenate([lengths(one) for one in starts])
        kappa = np.concatenate([found[k].coordinates.kappa[:, 0, 0] for k in members])
        asked = until_norm[np.concatenate([found[k].numbers for k in members])]
        away = np.where(norm < 2.0**FAR, norm * AWAY, norm + ONWARD)
        until = np.maximum(asked * np.clip(kappa, *ORDINARY_KEYS), away)
        owners = [(found[k], b) for k in members for b in range(len(found[k].numbers))]
        inside = np.concatenate([widened(one, systems) for one in starts])
        for lane, end in followed(systems, inside, until, method):
            stack, b = owners[lane]
            j, coordinates, outcome = int(stack.numbers[b]), stack.coordinates.one(b), _outcome(end)
            path = coordinates.outward(end.path[:, : stack.shape[2]], points[j])
            path[0] = points[j]
            run = Trajectory(risks[j], method, path, coordinates.times(end.times), outcome, end.n_steps)
            if outcome is Outcome.STATIONARY:
                run = _beyond(run, stack.one(b)[0], coordinates, float(until[lane]), method)
            yield j, run


def _beyond(run: Trajectory, system: Any, coordinates: Coordinates, until: float, method: Flow) -> Trajectory:
    """A run that ended where pairs of weight cancel, followed on where the others still pull; itself where none do."""
    if has_kinks(system):
        return _beyond_kinks(run, system, coordinates, until, method)
    if not system.has_fixed_scores:
        return run
    y = coordinates.inward(run.points[-1])
    parts = split(system, y, np.asarray(_pair_weights(system, y)))
    if parts is None or not parts.attracts:
        return run
    end, inner = _followed_beside(parts, coordinates, run, until, method)
    joined = _joined(run, replace(end, path=parts.whole(end.path)), coordinates)
    return _beyond(joined, parts.rest, inner, until, method) if joined.outcome is Outcome.STATIONARY else joined


def _beyond_kinks(run: Trajectory, system: Any, coordinates: Coordinates, until: float, method: Flow) -> Trajectory:
    """The same behind a head with kinks: the rest is a problem of its own until another token regains attention."""
    before = None
    for _ in range(AGAIN):
        if run.outcome is not Outcome.STATIONARY or run.n_steps >= method.max_steps:
            return run
        y = coordinates.inward(run.points[-1])
        if before is not None and np.abs(y - before).max() <= NO_WAY:
            return run
        before = y
        parts = kinked_split(system, y)
        if not isinstance(parts, KinkedSplit) or not parts.attracts:
            onward = _along_rails(run, system, coordinates, until, method)
            if onward is None:
                return run
            run = onward
            continue
        if parts.is_whole:
            return run
        if parts.vanishing or parts.is_beside or parts.still.dead.any():
            strong = kinked_split(system, y, parts.at.lasting)
            if not isinstance(strong, KinkedSplit) or not strong.attracts or strong.is_whole:
                return run
            parts, linear, inner = strong, strong.still.pulls, None
            end = followed_pieces(system, strong.whole(y), until, method, strong.beside(system))
        else:
            linear = np.ones(len(parts.kept), dtype=bool)
            end, inner = _followed_beside(parts, coordinates, run, until, method)
            end = replace(end, path=parts.whole(end.path))
        path = parts.known_part(system, end.path, linear)
        is_cut = len(path) < len(end.path)
        if not is_cut:
            path[-1] = landed(system, parts.at, path[-1])
        run = _joined(run, replace(end, path=path, times=end.times[: len(path)]), coordinates)
        if is_cut:
            run = _joined(run, followed_pieces(system, path[-1], until, method), coordinates)
        elif inner is not None:
            return _beyond(run, parts.rest, inner, until, method) if run.outcome is Outcome.STATIONARY else run
    return run


def _along_rails(
    run: Trajectory, system: Any, coordinates: Coordinates, until: float, method: Flow
) -> Trajectory | None:
    """A run that ended where all that pulls is still, followed along its surfaces; None where it rests there."""
    y = coordinates.inward(run.points[-1])
    rails = rails_at(system, directions(system, y), y)
    if rails is None:
        return None
    end = followed_pieces(system, y, until, method, rails)
    if len(end.path) < 2:
        return None
    run = _joined(run, end, coordinates)
    return run if end.reached else _joined(run, followed_pieces(system, end.path[-1], until, method), coordinates)


def _followed_beside(
    parts: Split, coordinates: Coordinates, run: Trajectory, until: float, method: Flow
) -> tuple[FlowEnd, Coordinates]:
    """The flow of what is left beside the held part, from where a run ended, and its coordinates."""
    inner = coordinates.within(parts.free)
    rest = stacked(in_shared_shapes([parts.rest]))
    start = widened(inner.inward(run.points[-1]), rest)[None]
    ((_, end),) = integrate(rest, start, np.array([until]), method, record=True)
    return replace(end, path=end.path[:, : parts.free.shape[1]]), inner


def _joined(run: Trajectory, end: FlowEnd, coordinates: Coordinates) -> Trajectory:
    """A run and what followed it."""
    onward, times = coordinates.outward(end.path, run.points[-1]), run.times[-1] + coordinates.times(end.times)
    is_kept = len(run.points) > 2
    return replace(
        run,
        points=np.concatenate([run.points, onward[1:]]) if is_kept else np.stack([run.points[0], onward[-1]]),
        times=np.concatenate([run.times, times[1:]]) if is_kept else np.array([run.times[0], times[-1]]),
        outcome=_outcome(end),
        n_steps=run.n_steps + end.n_steps,
    )


def _outcome(end: FlowEnd) -> Outcome:
    return Outcome.NORM_REACHED if end.reached else Outcome.STATIONARY if end.finished else Outcome.STEPS_SPENT


_pair_weights = eqx.filter_jit(lambda system, y: system.pair_weights(y)[0])


def exponents(starts: np.ndarray, coordinates: Coordinates) -> np.ndarray:
    """Binary exponents of the lengths of starts (B, 1, D), in units of 1/longest key difference."""
    inside = lengths(coordinates.along(starts)[:, 0])
    return np.asarray(np.frexp(inside)[1] + np.frexp(coordinates.kappa[:, 0, 0])[1] - 1)


@dataclass(frozen=True, eq=False)
class FarStart:
    """A start with its risk, and the powers of two by which it is divided, one for each of the two runs."""

    number: int
    risk: Risk
    start: np.ndarray
    powers: tuple[int, int]

    @classmethod
    def of(cls, number: int, risk: Risk, start: np.ndarray, size: int) -> FarStart:
        """Make a far start from `size`, the binary exponent of its length."""
        return cls(number, risk, start, (size - NEARER[0], size - NEARER[1]))

    @property
    def nearer(self) -> tuple[np.ndarray, np.ndarray]:
        """The two starts from which it is followed."""
        first, second = (np.ldexp(self.start, -power) for power in self.powers)
        return first, second

    @property
    def is_clear(self) -> bool:
        """True if no two log-weights nearly tie, so that the nearer starts feel the same field as this one."""
        data = self.risk.sequences
        return is_clear(data.keys, data.mask, self.nearer[1], SATURATED)

    def joined(self, run: Trajectory, limits: tuple[Limit, Limit]) -> Trajectory | None:
        """The run from the first of the nearer starts as one from this, or None where the two have not one limit."""
        if not _are_one(*limits):
            return None
        limit = limits[0]
        with np.errstate(over="ignore"):
            points = np.ldexp(run.points, self.powers[0]) if limit.diverges else np.stack([self.start, limit.point])
            if limit.mixed:
                points[-1] = np.ldexp(limit.point - limit.finite_part, self.powers[0]) + limit.finite_part
            times = np.ldexp(run.times if limit.diverges else run.times[[0, -1]], self.powers[0])
        if not np.isfinite(points).all():
            return None
        points[0] = self.start
        return replace(run, points=points, times=times, judged_at=run.points[-1])

    def left_alone(self, method: Flow) -> Trajectory:
        """The run that goes nowhere, as float64 cannot say where."""
        return Trajectory(self.risk, method, np.stack([self.start] * 2), np.zeros(2), Outcome.OUT_OF_REACH, 0)


def _are_one(a: Limit, b: Limit) -> bool:
    if a.kind is not b.kind or a.stalled:
        return False
    if a.finite:
        return bool(lengths(a.point - b.point) <= ONE_POINT * (1.0 + lengths(a.point)))
    return a.selection == b.selection and bool(0.5 * np.sum((a.velocity - b.velocity) ** 2) <= ONE_VELOCITY)
