"""Do they agree? A limit found by the dynamics against the max-margin solution found without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._types import ArrayLike
from tokenmargin.attention import Limit
from tokenmargin.data import EmbeddedSequences, optimal_selection
from tokenmargin.margin import MarginSolution, Status, att_svm, is_locally_optimal

#: 1 - cos between velocity and max-margin direction below which the two are the same direction. At norm 1e6 the
#: velocity of a certified limit is within 1e-12; a wrong selection is off by 1e-4 and more.
SAME_DIRECTION = 1e-8


@dataclass(frozen=True, eq=False)
class Agreement:
    """A diverging limit beside (ATT-SVM) for the tokens it selects."""

    limit: Limit
    solution: MarginSolution
    direction_error: float  #: 1 - cos(p, p_mm), of order 1/|p|^2
    velocity_error: float  #: 1 - cos(velocity, p_mm)
    weight_error: float  #: largest |support weight - normalised dual|; NaN with ties, whose rows are split
    is_lmm: bool  #: the selected tokens are locally optimal [M, Def. 2]
    is_gmm: bool  #: they are the tokens of highest score [M, Def. 1]

    @property
    def agrees(self) -> bool:
        """Whether dynamics and max-margin problem name the same direction."""
        return self.velocity_error <= SAME_DIRECTION

    def explain(self) -> str:
        """One sentence."""
        kind = (
            "the globally optimal" if self.is_gmm else "a locally optimal" if self.is_lmm else "a not locally optimal"
        )
        if self.agrees:
            return (
                f"The flow goes to {kind} max-margin direction of {self.solution.selection} "
                f"(1 - cos = {self.velocity_error:.1e} for the velocity, {self.direction_error:.1e} for p/|p|)."
            )
        return (
            f"The flow selects {self.solution.selection} but does not go to its max-margin direction "
            f"(1 - cos = {self.velocity_error:.1e}). {self.solution.explain()}"
        )


def compare(limit: Limit, sequences: EmbeddedSequences) -> Agreement | None:
    """Solve (ATT-SVM) for what the limit selects and compare directions; None when the limit does not diverge.

    An infeasible problem gives an `Agreement` with errors NaN that does not agree: the limit then contradicts [M].
    """
    if not limit.diverges:
        return None
    return compared_with(limit, att_svm(sequences, limit.selection))


def compared_with(limit: Limit, solution: MarginSolution) -> Agreement:
    """`compare` with the max-margin problem already solved."""
    solved = solution.status is Status.OPTIMAL
    return Agreement(
        limit,
        solution,
        one_minus_cosine(limit.direction, solution.direction) if solved else float("nan"),
        one_minus_cosine(limit.velocity, solution.direction) if solved else float("nan"),
        _weight_error(limit, solution) if solved else float("nan"),
        is_locally_optimal(solution),
        limit.selection == optimal_selection(solution.sequences),
    )


def one_minus_cosine(a: ArrayLike, b: ArrayLike) -> float:
    """1 - cos(a, b) as |a/|a| - b/|b||^2 / 2, which keeps its digits when the two nearly coincide."""
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    if min(lengths) == 0.0:
        return float("nan")
    return 0.5 * float(np.sum((first / lengths[0] - second / lengths[1]) ** 2))


def _weight_error(limit: Limit, solution: MarginSolution) -> float:
    if len(solution.tie_triples):
        return float("nan")
    total = float(solution.duals.sum())
    duals = {tuple(row): dual / total for row, dual in zip(solution.triples.tolist(), solution.duals, strict=True)}
    weights = dict(zip(limit.support, limit.support_weights.tolist(), strict=True))
    return max(abs(weights.get(key, 0.0) - dual) for key, dual in duals.items())
