"""What following an objective returns: the points passed, why it stopped, and where it is going."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from tokenmargin._types import Path, Vector
from tokenmargin.attention._points import PathOfPoints
from tokenmargin.attention.limit import Limit, limits_of
from tokenmargin.attention.risk import AttentionRisk


class Outcome(Enum):
    """Why the run ended; the value of each member says it in words."""

    NORM_REACHED = "the norm asked for was reached"
    STATIONARY = "the gradient vanished"
    STEPS_SPENT = "the number of steps allowed was spent"


@dataclass(frozen=True, eq=False)
class Trajectory(PathOfPoints):
    """The path of p: `points` of shape (s, d), the first the start, the last the end.

    `times` counts steps for descent. For the flow it is the parameter of dp/ds = G(p), the gradient flow with the
    time changed so that the speed stays of order one; the orbit is the same.
    """

    objective: AttentionRisk = field(repr=False)
    points: Path = field(repr=False)
    times: np.ndarray = field(repr=False)
    outcome: Outcome
    n_steps: int

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
        """Where the path goes, judged at its last point by the dynamics alone."""
        return limits_of([self.objective], [self.final])[0]
