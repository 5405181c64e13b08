"""The max-margin direction of a corpus with its proof, or the tokens whose demands contradict each other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin.margin._constraint_generation import Round
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.margin.solution import Status

#: Largest KKT residual of an optimal point, in units of the margin 1 and of |p|. Answers on a working set are right to
#: 1e-12; logits of |p| max|E| = 1e9, the longest that a selection allows, to 1e-7.
CORPUS_TOLERANCE = 1e-6

#: Pairs of tokens that a sentence names before it says how many more there are.
NAMED = 5


@dataclass(frozen=True, repr=False)
class CorpusConflict(Told):
    """Weights on pairs of tokens that prove a selection infeasible (Farkas).

    `asked` are (selected, other, weight > 0), weights adding up to 1, and `tied` (selected, selected', weight of
    either sign): the weighted differences of embeddings add up to a vector of length `residual`, so a p that met the
    demands would be at least 1/`residual` long. When `circular`, the tokens themselves cancel and no embeddings
    whatever could meet the demands.
    """

    asked: tuple[tuple[int, int, float], ...]
    tied: tuple[tuple[int, int, float], ...]
    documents: tuple[int | None, ...]  #: a document that asks for each of the first pairs
    residual: float
    circular: bool

    @property
    def norm_bound(self) -> float:
        """Any p that met the demands would have at least this norm."""
        return 1.0 / self.residual if self.residual > 0 else float("inf")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CorpusMargin(LeastNormSolution):
    """Solution of the max-margin problem [E, (9)] for the selected tokens of a corpus.

    `pairs[k] = (s, t)` are the token pairs that carry a multiplier `duals[k]` > 0, and p is the sum of
    duals times (E_s - E_t) and of tie duals times tied differences; equally p = sum over tokens of `token_weights` E_s
    (both times 2 to the power `dual_exponent`).

    Residuals are over the constraints of all documents, in units of the margin 1 (primal) and of |p| (the others:
    multipliers and products with them over |p|^2, which is the sum of all multipliers).
    """

    vocabulary: tuple[str, ...] = field(repr=False)
    pairs: np.ndarray = field(repr=False)  #: token ids (selected, other) that carry a multiplier, shape (k, 2)
    ties: np.ndarray = field(repr=False)  #: token ids asked level, shape (q, 2)
    token_weights: np.ndarray = field(repr=False)  #: c with p = E'c, shape (V,)
    rounds: tuple[Round, ...] = field(repr=False)
    n_constraints: int  #: distinct pairs of tokens asked apart
    n_asked: int  #: the same with a pair counted once for each document that asks for it
    n_tight: int  #: distinct pairs whose margin is 1 to tolerance
    conflict: CorpusConflict | None = field(default=None, repr=False)

    @property
    def n_active(self) -> int:
        """Number of pairs that carry a multiplier."""
        return len(self.duals)

    @checked
    def is_optimal(self, tolerance: float = CORPUS_TOLERANCE) -> bool:
        """True if the problem was solved, and all KKT residuals, over all documents, are within `tolerance`."""
        return super().is_optimal(tolerance)

    @checked
    def support(self, k: int | None = None) -> tuple[tuple[str, str, float], ...]:
        """The k pairs that limit the margin most, (selected, other, multiplier), heaviest first; all if k is absent."""
        order = np.argsort(-self.duals, kind="stable")[:k]
        names = self.vocabulary
        return tuple(
            (names[s], names[t], float(w)) for (s, t), w in zip(self.pairs[order], self.duals[order], strict=True)
        )

    def explain(self) -> str:
        """One or two sentences a person understands."""
        if self.status is Status.TRIVIAL:
            return "Every token of every document is selected, so there is nothing to separate and p = 0."
        if self.status is Status.OPTIMAL:
            named = "; ".join(f"'{s}' over '{t}'" for s, t, _ in self.support(NAMED))
            more = f"; and {self.n_active - NAMED} more pairs" if self.n_active > NAMED else ""
            return (
                f"In every document the selected tokens are separated from the others with margin {self.margin:.6g} "
                f"(|p| = {self.value:.6g}). What limits the margin is {named}{more}."
            )
        if self.status is Status.INFEASIBLE and self.conflict is not None:
            return self._explain_conflict(self.conflict)
        if self.reason:
            return f"{self._explain_undecided()} Give embeddings in larger units."
        last = self.rounds[-1] if self.rounds else None
        bounds = f" The shortest p has a norm between {last.lower:.6g} and {last.upper:.6g}." if last else ""
        return (
            f"The problem was not decided after {len(self.rounds)} rounds: the best point has a KKT residual of "
            f"{self.residuals.worst:.1e}.{bounds} Raise the tie tolerance of the selection, so that near-copies of "
            "selected tokens count as tied."
        )

    def _explain_conflict(self, conflict: CorpusConflict) -> str:
        names = self.vocabulary
        where = [*conflict.documents, *[None] * len(conflict.asked)]
        demands = [
            f"'{names[a]}' over '{names[b]}'" + ("" if document is None else f" (document {document})")
            for (a, b, _), document in zip(conflict.asked, where, strict=False)
        ]
        demands += [f"'{names[a]}' level with '{names[b]}'" for a, b, _ in conflict.tied]
        shown = ", ".join(demands[:NAMED]) + (f" and {len(demands) - NAMED} more" if len(demands) > NAMED else "")
        if conflict.circular:
            return f"No embeddings can meet the demands of this selection, which go in a circle: {shown}."
        return (
            f"No p of norm below {conflict.norm_bound:.2g} can meet the demands of this selection at once: {shown}; "
            f"weighted, these differences of embeddings add up to a vector of length {conflict.residual:.1e}."
        )
