"""The path of a point under a method: the points passed, why it stopped, and where it is going."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin._notebook import Told
from tokenmargin._types import Path, Vector
from tokenmargin.attention._judging import judged
from tokenmargin.attention._margin_interval import windows
from tokenmargin.attention._points import PathOfPoints
from tokenmargin.attention._repeats import same_key
from tokenmargin.attention._several_blocks import limit_by_rates, middle_of, not_judged, path_velocity
from tokenmargin.attention.blocks import as_written, by_block
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.limit import MARGIN_TOLERANCE, Limit, LimitKind
from tokenmargin.attention.method import Method
from tokenmargin.attention.risk import Risk
from tokenmargin.data import Selection, scores
from tokenmargin.norms import L2, Norm

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

#: Most by which the low end of an interval may pass the high end: rounding of both. Beyond, `dual` is not the dual.
CROSSED = 1e-9


class Outcome(Enum):
    """Reason why the run ended; the value of each member says it in words."""

    NORM_REACHED = "the norm asked for was reached"
    STATIONARY = "the gradient vanished"
    STEPS_SPENT = "the number of steps allowed was spent"
    OUT_OF_REACH = "the start is so long that rounding hides its logits, and nearly ties beside its length"


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(PathOfPoints, Told):
    """The path of a point under a method: the first of `points` is the start, the last the end.

    `times` counts steps for a method. For the flow it is the parameter of dy/ds = force(y), the gradient flow with the
    time changed so that the speed stays of order one; the orbit is the same.
    """

    risk: Risk
    method: Method | Flow
    points: Path  #: shape (s, D): each point as one vector, all blocks one after the other
    times: np.ndarray  #: shape (s,)
    outcome: Outcome
    n_steps: int
    judged_at: Vector | None = None  #: where the limit is judged if not at the end: see `flows`
    weights: np.ndarray | None = None  #: of tokens, summed over the steps of a method up to each point, shape (s, n, T)

    @property
    def blocks(self) -> dict[str, np.ndarray]:
        """The path of each block by its name, shape (s, *that of the block)."""
        return by_block(self.risk.blocks, self.points)

    @property
    def start(self) -> Any:
        """The first point, as `follow` takes it: an array, or a tuple of arrays where there are several blocks."""
        return as_written(self.risk.blocks, self.points[0])

    @property
    def final(self) -> Any:
        """The last point, as `follow` takes it."""
        return as_written(self.risk.blocks, self.points[-1])

    @cached_property
    def limit(self) -> Limit:
        """Limit of the path, judged at its end by the dynamics alone, in the geometry of risk and method together.

        |p| grows like the logarithm of the number of steps, so a descent is seldom far enough to tell:
        `continued(run).limit` says where the flow goes from where it ended.
        """
        (found,) = judged([self.risk], [self._place()])
        return self._in_its_norm(found)

    def _in_its_norm(self, found: Limit | None) -> Limit:
        """A limit as the dynamics tells it at the end, None where only a path tells, in the geometry of the method."""
        if found is None:
            found = limit_by_rates(self.risk, self.points, self.times)
        elif self.judged_at is not None:
            found = replace(found, point=self.points[-1])
        norm, silent = geometry(self.risk, self.method)
        if found.finite:
            return found
        if norm is None:
            return not_judged(self.risk, self.points, self.times, silent)
        weights = windows(self.weights)
        if norm != found.norm or weights is not None:
            found = replace(found, norm=norm, weights=weights)
        if norm == L2():
            return found
        half = middle_of(self.points, self.times)
        passed = [self.risk.logit_point(self.points[j]) for j in (-1, half)]
        velocity = path_velocity(self.risk, self.points, self.times)
        return judged_by_margin(replace(found, velocity=velocity, onward=passed[0] - passed[1]))

    @property
    def margin_interval(self) -> tuple[float, float]:
        """(low, high) around the largest margin, in the norm of risk and method: see `Limit.margin_interval`."""
        return self.limit.margin_interval

    def plot(self, ax: Any = None) -> Figure:
        """Draw the path: in the plane with its tokens where p has two coordinates, else the attention along it.

        Args:
            ax: matplotlib axes to draw on; a figure of its own when absent.

        Returns:
            The figure; `figure.savefig("path.pdf")` writes it.
        """
        from tokenmargin.plots.answers import draw_attention, draw_plane  # matplotlib, an extra

        if self.risk.sequences.width == 2 == self.points.shape[1]:
            return draw_plane(self.risk.sequences.keys, scores(self.risk.sequences), ax, paths=[self.points])
        attention = np.stack([self.risk.attention(as_written(self.risk.blocks, point)) for point in self.points])
        attention = attention.reshape(len(self.points), -1, attention.shape[-1])
        at_end = attention[:, np.arange(attention.shape[1]), attention[-1].argmax(axis=-1)]
        return draw_attention(np.linalg.norm(self.points, axis=1), at_end, ax)

    def _place(self) -> Vector:
        """The point at which the limit is judged."""
        return self.points[-1] if self.judged_at is None else self.judged_at

    def __repr__(self) -> str:
        """Show the risk, the method, the number of points, and why the run ended."""
        return f"Trajectory({type(self.risk).__name__}, {self.method}, {len(self.points)} points: {self.outcome.value})"


def judge_together(runs: Sequence[Trajectory]) -> None:
    """Give each run its `limit`, all at once."""
    left = [run for run in runs if "limit" not in vars(run)]
    for run, limit in zip(left, judged([r.risk for r in left], [r._place() for r in left]), strict=True):
        vars(run)["limit"] = run._in_its_norm(limit)  # where `cached_property` keeps it


def geometry(risk: Risk, method: Method | Flow) -> tuple[Norm | None, str]:
    """(the norm of the max-margin problem that a limit is to be judged by, why it is not known).

    Risk and method name it together: a matrix and a product of two move differently under the same flow.
    """
    what, how = type(risk).__name__, type(method).__name__
    if method.geometry is None:
        return None, (
            f"{how} names no norm, so that it is not known which max-margin problem its limit solves: write "
            "`geometry = L2()` in the class if its short steps follow the gradient."
        )
    norm = risk.limit_norm(method.geometry)
    if norm is None:
        return None, (
            f"It is not known in which norm {what} moves under {how}, which moves points in {method.geometry.name}: "
            "`limit_norm` of the risk would name it."
        )
    return norm, ""


def judged_by_margin(found: Limit) -> Limit:
    """The limit of a run that goes to a largest margin in a norm of its own, judged by its margin interval."""
    assert found.norm is not None
    limit = replace(found, selection=selected(found.risk, found.point), support=(), support_weights=np.zeros(0))
    (low, high), name, ratio = limit.margin_interval, found.norm.name, limit.margin_ratio
    kind = LimitKind.STALLED
    if np.isnan(high):
        reason = f"The run bounds no margin in the norm {name}: it held no token back."
    elif low > high * (1.0 + CROSSED):
        reason = f"In the norm {name} the margin, {low:.6g}, is above its bound, {high:.6g}: `dual` is not its dual."
    elif not low > 0:
        reason = "The last point separates no selection yet: a token is level with the first of its input."
    elif ratio >= 1.0 - MARGIN_TOLERANCE:
        kind = LimitKind.DIVERGES
        reason = f"Its margin in the norm {name} is within {1 - ratio:.1e} of the largest, by the weights of the run."
    else:
        reason = (
            f"Its margin in the norm {name} is {low:.6g}, and by the weights of the run the largest is at most "
            f"{high:.6g}: {ratio:.4f} of it is reached for certain. Follow it further."
        )
    return replace(limit, kind=kind, reason=reason)


def selected(risk: Risk, point: np.ndarray) -> Selection:
    """The token of largest logit in each input, with every copy of it."""
    data = risk.sequences
    attention = risk.attention(point)
    first = np.arange(attention.shape[1])[None] == attention.argmax(axis=1)[:, None]
    return Selection((same_key(data.key_marks, data.mask) & first[:, :, None]).any(axis=1))
