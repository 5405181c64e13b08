"""Flows of many risks, each from its start: those from nearby in lanes, those from far out from nearer."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._far import FAR, OUT_OF_REACH, FarStart, exponent
from tokenmargin.attention._lane_field import alike
from tokenmargin.attention._mixed import split
from tokenmargin.attention._points import lengths
from tokenmargin.attention.field import Field, PairField
from tokenmargin.attention.flow import Flow, integrate
from tokenmargin.attention.limit import PointRisk
from tokenmargin.attention.trajectory import Outcome, Trajectory

#: Longest key differences between which `Flow.until_norm` is the norm of p itself. Keys beyond are measured in units of
#: their own: logits, not |p|, are what saturates a softmax and what rounding is relative to.
ORDINARY_KEYS = (1.0, 8.0)

#: A flow goes on to this many times the norm of its start at least: that far out, what reorders tokens happens after a
#: time of the order of that norm.
AWAY = 4.0


def flows(risks: list[PointRisk], points: list[np.ndarray], method: Flow, keep_path: bool) -> Any:
    """(number, trajectory) of each flow, as they end; those from far out last."""
    sizes = [exponent(start, risk.in_span[1]) for risk, start in zip(risks, points, strict=True)]
    far = [FarStart.of(j, risks[j], points[j], size) for j, size in enumerate(sizes) if size > FAR]
    clear, lost = [one for one in far if one.is_clear], {one.number: one for one in far}
    runs = []
    for k in range(2 if clear else 0):
        until = [float(np.ldexp(method.until_norm, -one.powers[k])) for one in clear]
        runs.append(
            dict(_near([one.risk for one in clear], [one.nearer[k] for one in clear], method, keep_path, until))
        )
    for j, one in enumerate(clear):
        joined = one.joined(runs[0][j], (runs[0][j].limit, runs[1][j].limit))
        if joined is not None:
            del lost[one.number]
            yield one.number, joined
    for j, one in lost.items():
        if sizes[j] > OUT_OF_REACH:
            yield j, one.left_alone
    known = [j for j, size in enumerate(sizes) if size <= FAR or (j in lost and size <= OUT_OF_REACH)]
    until = [method.until_norm] * len(known)
    for j, run in _near([risks[j] for j in known], [points[j] for j in known], method, keep_path, until):
        yield known[j], run


def _near(
    risks: list[PointRisk], points: list[np.ndarray], method: Flow, keep_path: bool, until_norm: list[float]
) -> Any:
    """The same for starts whose logits are known, each to a norm of its own, or `AWAY` from its start."""
    reduced = [risk.in_span for risk in risks]
    for members in alike([system for system, _ in reduced]):
        inside = [reduced[j][1].inward(points[j]).astype(points[j].dtype) for j in members]
        until = [
            max(until_norm[j] * float(np.clip(reduced[j][1].kappa, *ORDINARY_KEYS)), AWAY * float(lengths(start)))
            for j, start in zip(members, inside, strict=True)
        ]
        for lane, end in integrate([reduced[j][0] for j in members], inside, until, method, keep_path):
            j = members[lane]
            outcome = (
                Outcome.NORM_REACHED if end.reached else Outcome.STATIONARY if end.finished else Outcome.STEPS_SPENT
            )
            path = reduced[j][1].outward(end.path, points[j])
            path[0] = points[j]
            run = Trajectory(risks[j], path, reduced[j][1].times(end.times), outcome, end.n_steps)
            system, coordinates = reduced[j]
            is_still = outcome is Outcome.STATIONARY
            yield j, _beyond(run, system, coordinates, until[lane], method) if is_still else run


def _beyond(run: Trajectory, system: Field, coordinates: Coordinates, until: float, method: Flow) -> Trajectory:
    """A run that ended where pairs of weight cancel, followed on where the others still pull; itself where none do."""
    if not isinstance(system, PairField):
        return run
    y = coordinates.inward(run.final)
    parts = split(system, y, np.asarray(_pair_weights(system, y)))
    if parts is None or not parts.attracts:
        return run
    inner = coordinates.within(parts.free)
    (_, end), *_ = integrate([parts.rest], [inner.inward(run.final)], [until], method, record=True)
    onward, times = coordinates.outward(parts.whole(end.path), run.final), coordinates.times(end.times)
    outcome = Outcome.NORM_REACHED if end.reached else Outcome.STATIONARY if end.finished else Outcome.STEPS_SPENT
    joined = Trajectory(
        run.objective,
        np.concatenate([run.points, onward[1:]]) if len(run.points) > 2 else np.stack([run.start, onward[-1]]),
        np.concatenate([run.times, run.times[-1] + times[1:]])
        if len(run.points) > 2
        else np.array([run.times[0], run.times[-1] + times[-1]]),
        outcome,
        run.n_steps + end.n_steps,
    )
    return _beyond(joined, parts.rest, inner, until, method) if outcome is Outcome.STATIONARY else joined


_pair_weights = eqx.filter_jit(lambda system, y: system.pair_weights(y)[0])
