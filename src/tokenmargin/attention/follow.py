"""Follow an objective from a start by a method: the one entry point to all dynamics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.attention._lane_field import LaneField
from tokenmargin.attention.descent import DEFAULT_STEPS, Descent, NormalizedDescent, descend
from tokenmargin.attention.flow import Flow, integrate
from tokenmargin.attention.risk import AttentionRisk
from tokenmargin.attention.trajectory import Outcome, Trajectory
from tokenmargin.errors import InvalidInputError

#: Longest key differences between which `Flow.until_norm` is the norm of p itself. Keys beyond are measured in units of
#: their own: logits, not |p|, are what saturates a softmax and what rounding is relative to.
ORDINARY_KEYS = (1.0, 8.0)

Method = Descent | NormalizedDescent | Flow


def follow(
    objective: AttentionRisk, start: ArrayLike, method: Method, *, steps: int | None = None, every: int = 1
) -> Trajectory:
    """Follow `objective` from `start`.

    Args:
        objective: what is descended.
        start: p(0), shape (d,).
        method: `Descent(lr)`, `NormalizedDescent(lr)` or `Flow()`.
        steps: number of steps of a descent (1000 if not given); the flow decides for itself (`Flow.max_steps`).
        every: keep every so many points of a descent; the last is always kept.

    Returns:
        Trajectory with all points kept, and `.limit`.
    """
    return _follow([objective], [start], method, steps, every, record=True)[0]


def follow_all(
    objectives: Sequence[AttentionRisk],
    starts: Sequence[ArrayLike] | np.ndarray,
    method: Method,
    *,
    steps: int | None = None,
    progress: Progress = silent,
) -> list[Trajectory]:
    """Follow many objectives at once, each from its own start; only the first and last points are kept.

    Problems of one shape and loss run together in one compiled batch. To follow one objective from many starts,
    repeat it. `progress(done, total, what)` is called as problems finish.
    """
    if len(objectives) != len(starts):
        raise InvalidInputError(f"{len(objectives)} objectives but {len(starts)} starts: give one start for each.")
    return _follow(objectives, starts, method, steps, None, record=False, progress=progress)


@keep_precision
def _follow(
    objectives: Sequence[AttentionRisk],
    starts: Sequence[ArrayLike] | np.ndarray,
    method: Method,
    steps: int | None,
    every: int | None,
    record: bool,
    progress: Progress = silent,
) -> list[Trajectory]:
    n_steps = _checked_steps(method, steps, every)
    points = [
        risk.sequences.direction(start, "start").astype(risk.sequences.keys.dtype, copy=False)
        for risk, start in zip(objectives, starts, strict=True)
    ]
    reduced = [risk.in_span for risk in objectives]
    groups: dict[tuple[object, ...], list[int]] = {}
    for j, ((system, _), risk) in enumerate(zip(reduced, objectives, strict=True)):
        groups.setdefault((*system.keys.shape, system.keys.dtype, risk.loss), []).append(j)
    trajectories: list[Trajectory | None] = [None] * len(objectives)
    done = 0
    for members in groups.values():
        systems = [reduced[j][0] for j in members]
        inside = [reduced[j][1].inward(points[j]).astype(points[j].dtype) for j in members]
        if isinstance(method, Flow):
            until = [method.until_norm * float(np.clip(reduced[j][1].kappa, *ORDINARY_KEYS)) for j in members]
            for lane, end in integrate(systems, inside, until, method, record):
                j = members[lane]
                outcome = (
                    Outcome.NORM_REACHED if end.reached else Outcome.STATIONARY if end.finished else Outcome.STEPS_SPENT
                )
                path = reduced[j][1].outward(end.path, points[j])
                path[0] = points[j]
                trajectories[j] = Trajectory(objectives[j], path, end.times, outcome, end.n_steps)
                done += 1
                progress(done, len(objectives), "flows")
        else:
            kept = every if every is not None else max(n_steps, 1)
            scales = np.array([reduced[j][1].kappa for j in members])
            keys, gamma, log_multiplicity = (
                np.stack(parts)
                for parts in zip(*((one.keys, one.scores, one.log_multiplicity) for one in systems), strict=True)
            )
            fields = LaneField.of(keys, gamma, log_multiplicity, systems[0].loss)
            paths = descend(fields, np.stack(inside), scales, method, n_steps, kept)
            for lane, j in enumerate(members):
                path = reduced[j][1].outward(paths[lane], points[j])
                path[0] = points[j]
                times = np.arange(len(path), dtype=float) * kept
                trajectories[j] = Trajectory(objectives[j], path, times, Outcome.STEPS_SPENT, n_steps)
            done += len(members)
            progress(done, len(objectives), "descents")
    return [trajectory for trajectory in trajectories if trajectory is not None]


def _checked_steps(method: Method, steps: int | None, every: int | None) -> int:
    if isinstance(method, Flow):
        if steps is not None:
            raise InvalidInputError("the flow chooses its own steps: set Flow(max_steps=...) instead of steps=.")
        return 0
    if not isinstance(method, Descent | NormalizedDescent):
        raise InvalidInputError(
            f"method must be Descent(lr), NormalizedDescent(lr) or Flow(), got {type(method).__name__}."
        )
    n_steps = DEFAULT_STEPS if steps is None else steps
    if not (isinstance(n_steps, int | np.integer) and n_steps > 0):
        raise InvalidInputError(f"steps must be a positive integer, got {steps!r}.")
    if every is not None and not (isinstance(every, int | np.integer) and every > 0 and n_steps % every == 0):
        raise InvalidInputError(f"every must be a positive divisor of steps = {n_steps}, got {every!r}.")
    return int(n_steps)
