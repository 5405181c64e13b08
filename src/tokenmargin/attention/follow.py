"""Follow a risk from a start by a method: the one entry to all dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import equinox as eqx
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.attention._flows import flows
from tokenmargin.attention._lane_field import LaneField, StackedFields, alike
from tokenmargin.attention.descent import DEFAULT_STEPS, descend
from tokenmargin.attention.field import PairField
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.joint import flow_of_both
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.attention.limit import PointRisk
from tokenmargin.attention.method import Method
from tokenmargin.attention.risk import AttentionRisk
from tokenmargin.attention.trajectory import JointTrajectory, Outcome, Trajectory
from tokenmargin.errors import InvalidInputError, WrongTypeError

#: What can be followed.
Risk = AttentionRisk | HeadRisk | JointRisk

#: What following returns.
AnyRun = TypeVar("AnyRun", Trajectory, JointTrajectory)

if TYPE_CHECKING:
    Matrix = np.ndarray[tuple[int, int], np.dtype[Any]]
else:
    Matrix = Any  # a matrix of starts, for the type checker alone


@overload
def follow(
    risk: PointRisk,
    start: Sequence[Sequence[float]] | Matrix,
    method: Method | Flow,
    *,
    steps: int | None = None,
    every: int | None = None,
    keep_path: bool | None = None,
    progress: Progress = silent,
) -> list[Trajectory]: ...
@overload
def follow(
    risk: PointRisk,
    start: ArrayLike,
    method: Method | Flow,
    *,
    steps: int | None = None,
    every: int | None = None,
    keep_path: bool | None = None,
    progress: Progress = silent,
) -> Trajectory: ...
@overload
def follow(
    risk: JointRisk,
    start: list[tuple[ArrayLike, ArrayLike]] | Matrix,
    method: Method | Flow,
    *,
    steps: int | None = None,
    every: int | None = None,
    keep_path: bool | None = None,
    progress: Progress = silent,
) -> list[JointTrajectory]: ...
@overload
def follow(
    risk: JointRisk,
    start: tuple[ArrayLike, ArrayLike],
    method: Method | Flow,
    *,
    steps: int | None = None,
    every: int | None = None,
    keep_path: bool | None = None,
    progress: Progress = silent,
) -> JointTrajectory: ...
@checked
def follow(
    risk: Any,
    start: Any,
    method: Any,
    *,
    steps: int | None = None,
    every: int | None = None,
    keep_path: bool | None = None,
    progress: Progress = silent,
) -> Any:
    """Follow `risk` from `start`, or from many starts at once.

    Args:
        risk: what is descended: an `AttentionRisk`, a `HeadRisk`, or a `JointRisk`, whose point is a tuple (v, p).
        start: p(0), shape (d,); or a matrix of starts, shape (s, d). For a joint risk (v, p), or a list of such tuples.
        method: `Descent(lr)`, `NormalizedDescent(lr)`, any `Method` of your own, or `Flow()`.
        steps: of a method, 1000 if not given; the flow decides for itself (`Flow.max_steps`).
        every: keep every so many points of a method's path (a divisor of `steps`); all of them if not given.
        keep_path: whether the points passed are kept. By default they are for one start, and first and last for many.
        progress: called as progress(done, total, what) as runs end.

    Returns:
        A trajectory with its `limit`; a list of them, in the order of the starts, for many starts.
    """
    check_risk(risk)
    starts, many = _starts(risk, start)
    kept = (not many) if keep_path is None else keep_path
    if every is not None and not kept:
        raise InvalidInputError("every= keeps points of a path, but only the ends are kept: pass keep_path=True.")
    runs = _follow([risk] * len(starts), starts, method, steps, every, kept, progress)
    return runs if many else runs[0]


@checked
def follow_all(
    risks: Sequence[Any],
    starts: Sequence[Any] | np.ndarray,
    method: Method | Flow,
    *,
    steps: int | None = None,
    every: int | None = None,
    keep_path: bool = False,
    progress: Progress = silent,
) -> list[Any]:
    """`follow` for many risks, each from its own start.

    Risks of one structure and shape run together in one compiled batch.
    """
    for risk in risks:
        check_risk(risk)
    if len(risks) != len(starts):
        raise InvalidInputError(f"{len(risks)} risks but {len(starts)} starts: give one start for each.")
    if every is not None and not keep_path:
        raise InvalidInputError("every= keeps points of a path, but only the ends are kept: pass keep_path=True.")
    points = [risk.point(start, "start") for risk, start in zip(risks, starts, strict=True)]
    return _follow(risks, points, method, steps, every, keep_path, progress)


@checked
def continued(run: AnyRun, method: Flow | None = None) -> AnyRun:
    """The flow from where a run ended, `Flow()` when absent: where a descent goes once its steps are short.

    |p| grows like the logarithm of the number of steps, so that a descent is seldom far enough to have a limit;
    `continued(run).limit` is that of the flow through its last point.
    """
    if not isinstance(run, Trajectory | JointTrajectory):
        raise WrongTypeError(f"run must be what follow returned, got {type(run).__name__}.")
    ended: AnyRun = follow_all([run.objective], [run.final], Flow() if method is None else method, keep_path=True)[0]
    return ended


def check_risk(risk: object) -> None:
    """Raise unless this can be followed."""
    if not isinstance(risk, Risk):
        raise InvalidInputError(
            f"risk must be an AttentionRisk, a HeadRisk or a JointRisk, got {type(risk).__name__}: wrap your data as "
            "AttentionRisk(sequences)."
        )


def _starts(risk: Risk, start: Any) -> tuple[list[np.ndarray], bool]:
    """Points, and whether there are many."""
    if isinstance(risk, JointRisk) and isinstance(start, list):
        return [risk.point(one, "start") for one in start], True
    if isinstance(risk, JointRisk) and isinstance(start, tuple):
        return [risk.point(start, "start")], False
    try:
        is_matrix = np.ndim(start) == 2
    except ValueError:
        is_matrix = False  # ragged: `point` says so
    if is_matrix and not len(start):
        raise InvalidInputError("there are no starts: give at least one.")
    if is_matrix:
        return [risk.point(one, "start") for one in np.asarray(start)], True
    return [risk.point(start, "start")], False


@keep_precision
def _follow(
    risks: Sequence[Any],
    points: list[np.ndarray],
    method: Any,
    steps: int | None,
    every: int | None,
    keep_path: bool,
    progress: Progress,
) -> list[Any]:
    n_steps = _checked_steps(method, steps, every)
    runs: dict[int, Any] = {}

    def ended(j: int, run: Any) -> None:
        runs[j] = run
        progress(len(runs), len(risks), "flows" if isinstance(method, Flow) else "descents")

    alone = [j for j, risk in enumerate(risks) if isinstance(risk, JointRisk)]
    shared = [j for j, risk in enumerate(risks) if not isinstance(risk, JointRisk)]
    if isinstance(method, Flow):
        for j in alone:
            ended(j, flow_of_both(risks[j], points[j], method))
        for j, run in flows([risks[j] for j in shared], [points[j] for j in shared], method, keep_path):
            ended(shared[j], run)
    else:
        spacing = every if every is not None else 1 if keep_path else n_steps
        for group in (shared, alone):
            paths = _descents([risks[j] for j in group], [points[j] for j in group], method, n_steps, spacing)
            for j, path in zip(group, paths, strict=True):
                ended(j, _of_steps(risks[j], path, n_steps, spacing))
    return [runs[j] for j in range(len(risks))]


def _descents(risks: list[Any], points: list[np.ndarray], method: Method, steps: int, every: int) -> list[np.ndarray]:
    """The path of each descent, shape (1 + steps // every, d)."""
    isotropic = method.is_isotropic and not any(isinstance(risk, JointRisk) for risk in risks)
    fields = [risk.in_span[0] if isotropic else risk.own_field for risk in risks]
    paths: dict[int, np.ndarray] = {}
    for members in alike(fields):
        # A descent feels no unit: the keys go back to theirs, by a power of two and so exactly.
        units = [risks[j].in_span[1].kappa if isotropic else 1.0 for j in members]
        own = [
            eqx.tree_at(lambda f: f.keys, fields[j], fields[j].keys * k) for j, k in zip(members, units, strict=True)
        ]
        lanes = _in_lanes(own) if isinstance(own[0], PairField) else StackedFields.of(own)
        coordinates = [risks[j].in_span[1] if isotropic else None for j in members]
        inside = [
            points[j] if c is None else (c.inward(points[j]) / c.kappa).astype(points[j].dtype)
            for j, c in zip(members, coordinates, strict=True)
        ]
        passed = descend(lanes, np.stack(inside), method, steps, every)
        for path, j, c in zip(passed, members, coordinates, strict=True):
            paths[j] = path if c is None else c.outward(path * c.kappa, points[j])
            paths[j][0] = points[j]
    return [paths[j] for j in range(len(risks))]


def _in_lanes(fields: list[PairField]) -> LaneField:
    keys, gamma, log_multiplicity = (
        np.stack(parts) for parts in zip(*((one.keys, one.scores, one.log_multiplicity) for one in fields), strict=True)
    )
    return LaneField.of(keys, gamma, log_multiplicity, fields[0].loss)


def _of_steps(risk: Risk, path: np.ndarray, steps: int, every: int) -> Trajectory | JointTrajectory:
    times = np.arange(len(path), dtype=float) * every
    if isinstance(risk, JointRisk):
        k = risk.sequences.tokens.shape[2]
        return JointTrajectory(risk, path[:, :k], path[:, k:], times, Outcome.STEPS_SPENT, steps)
    return Trajectory(risk, path, times, Outcome.STEPS_SPENT, steps)


def _checked_steps(method: object, steps: int | None, every: int | None) -> int:
    if isinstance(method, Flow):
        if steps is not None:
            raise InvalidInputError("the flow chooses its own steps: set Flow(max_steps=...) instead of steps=.")
        if every is not None:
            raise InvalidInputError("the flow keeps every accepted step: every= is for a method with steps of its own.")
        return 0
    if not isinstance(method, Method):
        raise InvalidInputError(
            f"method must be Descent(lr), NormalizedDescent(lr), Flow(), or a Method of your own, "
            f"got {type(method).__name__}."
        )
    n_steps = DEFAULT_STEPS if steps is None else steps
    if not (isinstance(n_steps, int | np.integer) and n_steps > 0):
        raise InvalidInputError(f"steps must be a positive integer, got {steps!r}.")
    if every is not None and not (isinstance(every, int | np.integer) and every > 0 and n_steps % every == 0):
        raise InvalidInputError(f"every must be a positive divisor of steps = {n_steps}, got {every!r}.")
    return int(n_steps)
