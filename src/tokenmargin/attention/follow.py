"""Follow a risk from a start by a method: the one entry to all dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.attention._flows import flows
from tokenmargin.attention._lane_field import in_lanes, widened
from tokenmargin.attention._size_classes import in_shared_shapes
from tokenmargin.attention._stacks import for_each, likeness
from tokenmargin.attention.attention_risk import as_risk
from tokenmargin.attention.descent import DEFAULT_STEPS, Descent, NormalizedDescent, descend
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.method import Method
from tokenmargin.attention.pair_field import KeyField
from tokenmargin.attention.risk import Risk
from tokenmargin.attention.runs import Runs
from tokenmargin.attention.trajectory import Outcome, Trajectory
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError, WrongTypeError

if TYPE_CHECKING:
    Start = np.ndarray[tuple[int], np.dtype[Any]] | tuple[ArrayLike, ...] | Mapping[str, ArrayLike] | Sequence[float]
else:
    Start = Any  # one start, for the type checker alone


class Options(TypedDict, total=False):
    """The optional arguments of `follow`."""

    steps: int | None
    every: int | None
    keep_path: bool | None
    progress: Progress


@overload
def follow(
    risk: Risk | EmbeddedSequences, start: Start, method: Method | Flow, **options: Unpack[Options]
) -> Trajectory: ...
@overload
def follow(
    risk: Risk | EmbeddedSequences | Sequence[Risk | EmbeddedSequences],
    start: Sequence[Any] | np.ndarray,
    method: Method | Flow | Sequence[Method | Flow],
    **options: Unpack[Options],
) -> Runs: ...
@overload
def follow(risk: Any, start: Any, method: Any, **options: Unpack[Options]) -> Any: ...
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
    """Follow `risk` from `start`; or many risks, each from one start or many, by many methods.

    Problems of many shapes run in few compiled programs: they are filled up by tokens and inputs that pull on nothing.

    Args:
        risk: an `AttentionRisk`, a `HeadRisk`, a `JointRisk`, or a `Risk` of your own; or a list of them. A data set
            stands for its `AttentionRisk` with the logistic loss.
        start: a point of the risk, such as p of shape (d,) or a tuple (v, p). Many starts have one axis more, such as
            shape (s, d), or are a list of tuples. For a list of risks, a list with the start or the starts of each.
        method: `Descent(lr)`, `NormalizedDescent(lr)`, any `Method` of your own, or `Flow()`; or a list.
        steps: number of steps of a method, 1000 if not given; the flow decides for itself (`Flow.max_steps`).
        every: keep every so many points of a method's path (a divisor of `steps`); all of them if not given.
        keep_path: True if the points passed are kept. By default they are for one run, and first and last for many.
        progress: called as progress(done, total, what) as runs end.

    Returns:
        A trajectory with its `limit`; or `Runs`, an array of them, with an axis for each argument that was a list:
        problems, starts, methods.
    """
    risks = for_each(as_risk, risk if isinstance(risk, list | tuple) else [risk])
    methods = list(method) if isinstance(method, list | tuple) else [method]
    points, shape = _grid(risk, risks, start)
    if isinstance(method, list | tuple):
        shape = (*shape, len(methods))
    kept = (not shape) if keep_path is None else keep_path
    if every is not None and not kept:
        raise InvalidInputError("every= keeps points of a path, but only the ends are kept: pass keep_path=True.")
    if not methods:
        raise InvalidInputError("there are no methods: give at least one.")
    each = [one for one, own in zip(risks, points, strict=True) for _ in own]
    flat = [point for own in points for point in own]
    table = np.empty((len(flat), len(methods)), dtype=object)
    for k, one in enumerate(methods):
        own_steps, own_every = (None, None) if isinstance(one, Flow) and len(methods) > 1 else (steps, every)
        table[:, k] = _follow(each, flat, one, own_steps, own_every, kept, progress)
    return Runs(table.reshape(shape)) if shape else table[0, 0]


def _grid(given: Any, risks: list[Any], start: Any) -> tuple[list[list[np.ndarray]], tuple[int, ...]]:
    """(the starts of each risk, the axes that they and the risks have)."""
    if not isinstance(given, list | tuple):
        points, many = risks[0].starts(start)
        return [points], (len(points),) if many else ()
    if not risks:
        raise InvalidInputError("there are no risks: give at least one.")
    if not isinstance(start, list | tuple | np.ndarray) or len(start) != len(risks):
        words = f"{len(start)} starts" if hasattr(start, "__len__") else f"start is a {type(start).__name__}"
        raise InvalidInputError(f"{len(risks)} risks but {words}: give one start for each, or many for each.")
    found = for_each(lambda both: both[0].starts(both[1]), list(zip(risks, start, strict=True)))
    sizes = sorted({(many, len(points)) for points, many in found})
    if len(sizes) > 1:
        raise InvalidInputError(
            f"risks have between {sizes[0][1]} and {sizes[-1][1]} starts: give as many for each, or one for each."
        )
    return [points for points, _ in found], (len(risks), *(size for many, size in sizes if many))


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
) -> list[Trajectory]:
    """`follow` for many risks, each from its own start, as a list; no risks give none."""
    if len(risks) != len(starts):
        raise InvalidInputError(f"{len(risks)} risks but {len(starts)} starts: give one start for each.")
    options: Options = {"steps": steps, "every": every, "keep_path": keep_path, "progress": progress}
    return list(follow(list(risks), list(starts), method, **options)) if risks else []


@checked
def continued(run: Trajectory, method: Flow | None = None) -> Trajectory:
    """The flow from where a run ended, `Flow()` when absent: where a descent goes once its steps are short.

    |p| grows like the logarithm of the number of steps, so that a descent is seldom far enough to have a limit;
    `continued(run).limit` is that of the flow through its last point.

    Raises:
        InvalidInputError: the method of the run does not move in the norm of the flow, so that the flow through its
            last point goes elsewhere.
    """
    if not isinstance(run, Trajectory):
        raise WrongTypeError(f"run must be what follow returned, got {type(run).__name__}.")
    onward = Flow() if method is None else method
    if run.method.geometry != onward.geometry:
        norm = run.method.geometry
        moves = "names no norm" if norm is None else f"moves points in the norm {norm.name}"
        raise InvalidInputError(
            f"{type(run.method).__name__} {moves}, the flow in {onward.geometry.name}: the flow would go elsewhere "
            "than this run. Follow the run for more steps; write `geometry = L2()` in the class of a method whose "
            "short steps follow the gradient; or ask for the flow by follow(run.risk, run.final, Flow())."
        )
    return follow_all([run.risk], [run.final], onward, keep_path=True)[0]


@keep_precision
def _follow(
    risks: Sequence[Risk],
    points: list[np.ndarray],
    method: Any,
    steps: int | None,
    every: int | None,
    keep_path: bool,
    progress: Progress,
) -> list[Trajectory]:
    n_steps = _checked_steps(method, steps, every)
    runs: dict[int, Trajectory] = {}

    def ended(j: int, run: Trajectory) -> None:
        runs[j] = run
        progress(len(runs), len(risks), "flows" if isinstance(method, Flow) else "descents")

    if isinstance(method, Flow):
        for j, run in flows(risks, points, method, keep_path):
            ended(j, run)
    else:
        spacing = every if every is not None else 1 if keep_path else n_steps
        for j, (path, weights) in enumerate(_descents(risks, points, method, n_steps, spacing)):
            times = np.arange(len(path), dtype=float) * spacing
            ended(j, Trajectory(risks[j], method, path, times, Outcome.STEPS_SPENT, n_steps, weights=weights))
    return [runs[j] for j in range(len(risks))]


def _descents(
    risks: Sequence[Risk], points: list[np.ndarray], method: Method, steps: int, every: int
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """The path of each descent, shape (1 + steps // every, D), and the weights of its tokens so far."""
    spans = for_each(lambda risk: risk.followed_in(method.geometry), risks)
    fields: list[Any] = [risk.field if span is None else span[0] for risk, span in zip(risks, spans, strict=True)]
    inside = [
        point if span is None else span[1].inward(point).astype(point.dtype)
        for point, span in zip(points, spans, strict=True)
    ]
    paths: dict[int, tuple[np.ndarray, np.ndarray | None]] = {}
    # A method of the user's own is given the problem as it is.
    fits = isinstance(method, Descent | NormalizedDescent) and all(isinstance(field, KeyField) for field in fields)
    shared = in_shared_shapes(fields) if fits else fields
    alike: dict[object, list[int]] = {}
    for j, field in enumerate(shared):
        alike.setdefault(likeness(field), []).append(j)
    for members in alike.values():
        known = [getattr(fields[j], "n_outputs", 1) for j in members]
        lanes = in_lanes([shared[j] for j in members], known)
        begin = np.stack([widened(inside[j], shared[j]) if shared[j] is not fields[j] else inside[j] for j in members])
        passed, weights = descend(lanes, begin, method, steps, every, counts=True)
        for lane, j in enumerate(members):
            span, path = spans[j], passed[lane, :, : len(inside[j])]
            whole = path.copy() if span is None else span[1].outward(path, points[j])
            whole[0] = points[j]
            told = None if weights is None else weights[lane]
            if told is not None and shared[j] is not fields[j]:
                told = told[(..., *map(slice, fields[j].keys.shape[:2]))]
            paths[j] = whole, told
    return [paths[j] for j in range(len(risks))]


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
