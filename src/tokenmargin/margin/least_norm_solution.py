"""The shortest vector under linear constraints with its multipliers, or weights that prove there is none."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tokenmargin._isometry import length
from tokenmargin._types import EqualityNumbers, RowNumbers, Vector
from tokenmargin.margin.solution import NO_POINT, Solution, Status

#: Fractions for rows and for ties.
ExactMultipliers = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]

#: Rows that a sentence names before it says how many more there are.
NAMED = 6


@dataclass(frozen=True, slots=True, eq=False)
class LeastNormSolution(Solution):
    """Primal and dual solution, or weights that prove there is none (`weights`, `equality_weights`)."""

    p: Vector  #: the shortest p, shape (d,); NaN when infeasible
    duals: RowNumbers  #: p = sum of duals times rows and of equality duals times equality rows
    equality_duals: EqualityNumbers
    weights: RowNumbers | None = None
    equality_weights: EqualityNumbers | None = None
    dual_exponent: int = 0  #: multipliers are `duals` times 2 to this power; 0 unless floats do not hold them
    known_slacks: RowNumbers | None = None  #: rows p - rhs of the shortest p before it was rounded, where it is known
    exact: ExactMultipliers | None = None  #: `duals`, or `weights`, of rows and of ties before they were rounded
    least: float = 0.0  #: where it is undecided: no vector that satisfies the constraints is shorter

    def explain(self) -> str:
        """One or two sentences a person understands."""
        if self.status is Status.OPTIMAL:
            carrying = int((self.duals > 0).sum())
            return (
                f"The shortest vector has length {length(self.p):.6g}; "
                f"{carrying} of {len(self.duals)} constraints hold it there."
            )
        if self.status is Status.TRIVIAL:
            return "No constraint asks for anything, so the shortest vector is 0."
        if self.weights is not None:
            rows = np.flatnonzero(self.weights).tolist()
            named = ", ".join(map(str, rows[:NAMED])) + (f" and {len(rows) - NAMED} more" if len(rows) > NAMED else "")
            return f"No vector satisfies the constraints: rows {named} contradict each other, as weights on them prove."
        return f"{self._explain_undecided()} Rescale the rows or merge near-duplicates."


def no_point(
    status: Status,
    width: int,
    n_rows: int,
    n_ties: int,
    weights: tuple[RowNumbers, EqualityNumbers] | None = None,
    exact: ExactMultipliers | None = None,
    reason: str = "",
) -> LeastNormSolution:
    """The answer without a vector: weights on rows and ties that prove it, or the reason why it is undecided."""
    own, tie_own = weights or (None, None)
    nowhere, duals, tie_duals = np.full(width, np.nan), np.zeros(n_rows), np.zeros(n_ties)
    return LeastNormSolution(status, NO_POINT, nowhere, duals, tie_duals, own, tie_own, exact=exact, reason=reason)
