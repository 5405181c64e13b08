"""The path of a point under a method: the points passed, why it stopped, and where it is going."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from tokenmargin._types import Path, Vector
from tokenmargin.attention._judging import limits_of
from tokenmargin.attention._points import PathOfPoints
from tokenmargin.attention._several_blocks import limit_by_rates, not_judged
from tokenmargin.attention.blocks import as_written, by_block
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.limit import Limit
from tokenmargin.attention.method import Method
from tokenmargin.attention.risk import Risk
from tokenmargin.norms import L2, Norm


class Outcome(Enum):
    """Reason why the run ended; the value of each member says it in words."""

    NORM_REACHED = "the norm asked for was reached"
    STATIONARY = "the gradient vanished"
    STEPS_SPENT = "the number of steps allowed was spent"
    OUT_OF_REACH = "the start is so long that rounding hides its logits, and nearly ties beside its length"


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(PathOfPoints):
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
        norm, silent = geometry(self.risk, self.method)
        found = self._judged()
        if norm == L2() or found.finite:
            return found
        return not_judged(self.risk, self.points, self.times, silent)

    def _judged(self) -> Limit:
        if self.risk.in_span is None:
            return limit_by_rates(self.risk, self.points, self.times)
        (limit,) = limits_of([self.risk], [self.points[-1] if self.judged_at is None else self.judged_at])
        return limit if self.judged_at is None else replace(limit, point=self.points[-1])

    def __repr__(self) -> str:
        """Show the risk, the method, the number of points, and why the run ended."""
        return f"Trajectory({type(self.risk).__name__}, {self.method}, {len(self.points)} points: {self.outcome.value})"


def geometry(risk: Risk, method: Method | Flow) -> tuple[Norm | None, str]:
    """(the norm of the max-margin problem that a limit is to be judged by, why no judge here knows it).

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
    return norm, (
        f"{how} on {what} goes to a max-margin direction in the norm {norm.name}, for which no judge is written: "
        "a dual certificate in that norm would be one. `points` and `velocity` are what the run itself shows."
    )
