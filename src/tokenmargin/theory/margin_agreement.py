"""Does a run reach the largest margin in its norm? The margin that it has beside the one that a solver finds.

Where optima need not be unique, as in the norms "max", "sum", "spectral" and "nuclear", a direction alone says nothing:
two runs may both be right and orthogonal to each other. The margin ratio, margin of the run over the largest one, is 1
exactly at all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tokenmargin.attention import Limit
from tokenmargin.attention.limit import MARGIN_TOLERANCE
from tokenmargin.margin import MarginSolution
from tokenmargin.margin.solution import Status, Unique
from tokenmargin.norms import Norm

#: A run whose second half has at least this share of the gap to the largest margin that all of it has gains no more.
NO_PROGRESS = 0.9

#: Least logit gap of a run that can contradict: below it the softmax still mixes tokens, and directions turn.
SATURATED_GAP = 20.0


class RunVerdict(Enum):
    """Verdict on a run beside a max-margin problem; the value of each member says it in words."""

    AGREES = "agrees"
    NOT_YET = "not yet"
    CONTRADICTS = "contradicts"
    NOTHING = "nothing to compare"


@dataclass(frozen=True)
class MarginRatio:
    """The margin of a run over the largest one in a norm, as the solver has it."""

    norm: Norm
    ratio: float  #: of the last point; NaN where it separates nothing, or there is no largest margin
    onward: float  #: of the velocity: the part of the run that its start weighs on least
    gap: float = float("nan")  #: least logit gap at the last point
    reason: str = ""  #: why it is NaN

    @property
    def verdict(self) -> RunVerdict:
        """Agreement to `MARGIN_TOLERANCE`; else whether the run still gains on it."""
        if np.isnan(self.ratio):
            return RunVerdict.NOTHING
        if self.ratio >= 1.0 - MARGIN_TOLERANCE:
            return RunVerdict.AGREES
        gains = self.gap < SATURATED_GAP or self.onward >= 1.0 - NO_PROGRESS * (1.0 - self.ratio)
        return RunVerdict.NOT_YET if gains else RunVerdict.CONTRADICTS


def margin_ratio(limit: Limit, solution: MarginSolution) -> MarginRatio:
    """The margin of a limit over that of the solution, at its last point and along its velocity."""
    norm = solution.norm
    if solution.status is not Status.OPTIMAL:
        return MarginRatio(norm, float("nan"), float("nan"), reason=solution.explain())
    last, onward = (margin * solution.value for margin in limit.margins(norm))
    if not last > 0:
        reason = "The last point separates nothing: its margin is not positive."
        return MarginRatio(norm, float("nan"), onward, reason=reason)
    size = float(norm.value(limit.risk.logit_point(limit.point)))
    return MarginRatio(norm, last, onward, last / solution.value * size)


def is_unique(solution: MarginSolution) -> bool:
    """True if the solution is certified to be the only one, so that its direction can be compared with another."""
    return solution.status is Status.OPTIMAL and solution.unique is Unique.YES
