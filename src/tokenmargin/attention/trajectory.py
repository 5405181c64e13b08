"""What following a risk returns: the points passed, why it stopped, and where it is going."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from tokenmargin._types import HeadVector, Path, Vector
from tokenmargin.attention._judging import limits_of
from tokenmargin.attention._points import PathOfPoints, unit_rows
from tokenmargin.attention.joint_limit import JointLimit, joint_limit
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.attention.limit import Limit, PointRisk
from tokenmargin.data import Selection

HeadPath = Float[np.ndarray, "s k"]


class Outcome(Enum):
    """Why the run ended; the value of each member says it in words."""

    NORM_REACHED = "the norm asked for was reached"
    STATIONARY = "the gradient vanished"
    STEPS_SPENT = "the number of steps allowed was spent"
    OUT_OF_REACH = "the start is so long that rounding hides its logits, and nearly ties beside its length"


@dataclass(frozen=True, eq=False)
class Trajectory(PathOfPoints):
    """The path of p: `points` of shape (s, d), the first the start, the last the end.

    `times` counts steps for descent. For the flow it is the parameter of dp/ds = G(p), the gradient flow with the
    time changed so that the speed stays of order one; the orbit is the same.
    """

    objective: PointRisk = field(repr=False)
    points: Path = field(repr=False)
    times: np.ndarray = field(repr=False)
    outcome: Outcome
    n_steps: int
    judged_at: Vector | None = None  #: where the limit is judged if not at the end: see `flows`

    @property
    def start(self) -> Vector:
        """The first point, shape (d,)."""
        return self.points[0]

    @property
    def final(self) -> Vector:
        """The last point, shape (d,)."""
        return self.points[-1]

    @cached_property
    def limit(self) -> Limit:
        """Where the path goes, judged at its last point by the dynamics alone.

        |p| grows like the logarithm of the number of steps, so a descent is seldom far enough to tell:
        `continued(run).limit` says where the flow goes from where it ended.
        """
        (limit,) = limits_of([self.objective], [self.final if self.judged_at is None else self.judged_at])
        return limit if self.judged_at is None else replace(limit, p=self.final, direction=unit_rows(self.final))


@dataclass(frozen=True, eq=False)
class JointTrajectory(PathOfPoints):
    """The path of (v, p): `heads` of shape (s, k) and `points` of shape (s, d), the first the start."""

    objective: JointRisk = field(repr=False)
    heads: HeadPath = field(repr=False)
    points: Path = field(repr=False)
    times: np.ndarray = field(repr=False)
    outcome: Outcome
    n_steps: int

    @property
    def start(self) -> tuple[HeadVector, Vector]:
        """The first v and p."""
        return self.heads[0], self.points[0]

    @property
    def final(self) -> tuple[HeadVector, Vector]:
        """The last v and p."""
        return self.heads[-1], self.points[-1]

    @property
    def velocity_v(self) -> HeadVector:
        """Unit vector along the second half (in time) of the path of v: sheds the start like 1/|v|^2."""
        return self._secant(self.heads)

    @property
    def velocity_p(self) -> Vector:
        """Unit vector along the second half (in time) of the path of p."""
        return self._secant(self.points)

    @property
    def selection(self) -> Selection:
        """The token of largest attention in each input at the end."""
        attention = self.objective.attention(self.points[-1])
        return Selection.from_indices(attention.argmax(axis=1), attention.shape[1])

    @cached_property
    def limit(self) -> JointLimit:
        """Where v and p go, judged at the end of the path by the dynamics alone; see `continued` for a descent."""
        return joint_limit(self.objective, self.final, (self.velocity_v, self.velocity_p), self.selection)

    def _secant(self, path: Any) -> Any:
        middle = int(np.searchsorted(self.times, 0.5 * self.times[-1]))
        step = path[-1] - path[min(middle, len(path) - 2)]
        length = float(np.linalg.norm(step))
        return step / length if length > 0 else step
