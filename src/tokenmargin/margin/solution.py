"""Answer to a max-margin problem: how it was decided, and the residuals by which it was judged.

Every problem of this package asks for the shortest vector under linear constraints, A p >= b and E p = 0, or proves
that there is none. Whatever solver an answer came from, residuals that are computed here decide what it is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from math import inf, sqrt

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told

#: Largest KKT residual of the scaled problem (unit rows, relative to the solution's length) of an optimal point.
#: Active-set solutions reach 1e-12 and better; 1e-9 leaves room for ill-conditioned supports.
KKT_TOLERANCE = 1e-9

#: |p||z| over what is asked of a row z, and the largest over the smallest number of a problem, up to which floats tell:
#: a product is rounded by 1e-16 of |p||z|, so by 1e-10 of the margin. Beyond it exact arithmetic decides.
REACH = 1e6


class Status(Enum):
    """Decision on a max-margin problem; the value of each member says it in words.

    Infeasible is proved by weights on the constraints. Where these cancel up to rounding only, to 1e-12, what they
    prove is that every feasible vector is 1e12 times as long as the constraints that carry weight alone ask for, in the
    mean: moved by 1e-12 of their lengths they contradict each other. Of numbers that are more than 1e6 apart it is said
    only where, moreover, no vector of float64 near the shortest meets the constraints.
    """

    OPTIMAL = "the shortest vector was found and its optimality checked"
    INFEASIBLE = "no vector satisfies the constraints"
    TRIVIAL = "nothing is asked to be separated, so the shortest vector is 0"
    BRACKETED = "the search was cut short: the length of the shortest vector lies between two bounds"
    UNDECIDED = "neither the shortest vector nor a proof that there is none reached its tolerance"


class Unique(Enum):
    """Uniqueness of an answer; the value of each member says it in words."""

    YES = "no other vector is as short"
    NO = "other vectors are as short"
    NOT_DECIDED = "whether another vector is as short was not decided"


@dataclass(frozen=True, slots=True)
class Residuals:
    """The five KKT residuals of an answer; all 0 at the optimum. Each solution says in which units."""

    primal: float  #: largest violation of A p >= b, in units of b (of |p| where b = 0), or of E p = 0
    dual: float  #: most negative multiplier
    stationarity: float  #: |p - A'lambda - E'nu|
    complementarity: float  #: largest lambda_k (A p - b)_k
    gap: float  #: |primal value - dual value|

    @property
    def worst(self) -> float:
        """The largest of the five."""
        return max(self.primal, self.dual, self.stationarity, self.complementarity, self.gap)


#: Residuals of p = 0 where nothing is asked.
NOTHING_ASKED = Residuals(0.0, 0.0, 0.0, 0.0, 0.0)

#: Residuals where there is no point to judge.
NO_POINT = Residuals(inf, 0.0, 0.0, 0.0, inf)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution(Told, ABC):
    """An answer with its proof: the shortest vector and multipliers, or what shows that there is none.

    Infeasible is an answer. Residuals are those of the scaled problem (unit rows, relative to the solution's length)
    unless a solution says otherwise.
    """

    status: Status
    residuals: Residuals
    reason: str = field(default="", kw_only=True)  #: why it is undecided, where more can be said than the residuals

    @checked
    def is_optimal(self, tolerance: float = KKT_TOLERANCE) -> bool:
        """True if the problem was solved, and all KKT residuals, computed by us, are within `tolerance`."""
        return self.status is Status.OPTIMAL and self.residuals.worst <= tolerance

    @property
    def is_infeasible(self) -> bool:
        """True if it is proved that no vector satisfies the constraints."""
        return self.status is Status.INFEASIBLE

    @abstractmethod
    def explain(self) -> str:
        """One or two sentences a person understands."""

    def _explain_undecided(self) -> str:
        if self.reason:
            return f"The problem was not decided: {self.reason}."
        return (
            f"The problem is too ill-conditioned to decide: the best point has a KKT residual of "
            f"{self.residuals.worst:.1e} (needed {KKT_TOLERANCE:.0e})."
        )


def residuals_of(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> Residuals:
    """KKT residuals at (p, duals) of unit rows A p >= b, in units of max(1, |p|); equalities apart.

    What a row misses is in units of what is asked of it, as far as floats tell (`REACH`).
    """
    slack = unit @ p - bound
    pull = duals @ unit - p
    square = float(p @ p)
    length = max(1.0, sqrt(square))
    return Residuals(
        primal=max(0.0, -float((slack / _margin_units(bound, length)).min())),
        dual=max(0.0, -float(duals.min())) / length,
        stationarity=sqrt(float(pull @ pull)) / length,
        complementarity=float(np.abs(duals * slack).max()) / length**2,
        gap=abs(square - float(duals @ bound)) / length**2,
    )


def _margin_units(bound: np.ndarray, length: float | np.ndarray) -> np.ndarray:
    """Margins asked of unit rows; `length` where one is 0, or so small that floats do not tell."""
    return np.where(bound * REACH >= length, bound, length)


def residuals_batch(
    slack: np.ndarray, pull: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray
) -> np.ndarray:
    """`residuals_of` for a batch, from slack = A p - b and pull = A'duals - p: the five numbers in order, (B, 5)."""
    square = np.einsum("bd,bd->b", p, p)
    length = np.maximum(1.0, np.sqrt(square))
    numbers = np.empty((len(p), 5))
    numbers[:, 0] = np.maximum(0.0, -(slack / _margin_units(bound, length[:, None])).min(axis=1))
    numbers[:, 1] = np.maximum(0.0, -duals.min(axis=1)) / length
    numbers[:, 2] = np.sqrt(np.einsum("bd,bd->b", pull, pull)) / length
    numbers[:, 3] = np.abs(duals * slack).max(axis=1) / length**2
    numbers[:, 4] = np.abs(square - np.einsum("bm,bm->b", duals, bound)) / length**2
    return numbers
