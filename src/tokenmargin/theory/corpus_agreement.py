"""Do they agree on a corpus? A query beside the max-margin direction of the tokens that it selects [E, (8), (9)].

The query satisfies every constraint of its own selection once it is scaled up, so p_hat is the point nearest to 0 of a
convex set that holds p/m, m being the margin of p/|p|. Hence <p_hat, p/m> >= |p_hat|^2, that is

    cos(p, p_hat)  >=  m |p_hat|  =  the share of the largest margin that p reaches.

The share is the sharper measure: where a selection leaves only a narrow cone of queries, every query of the cone has a
cosine near 1, and most of them a small share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._types import ArrayLike
from tokenmargin.data.token_selection import CorpusSelection, corpus_selection, query_vector, token_vectors
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.margin.corpus_margin import CorpusMargin
from tokenmargin.margin.corpus_svm import corpus_svm
from tokenmargin.margin.solution import Status
from tokenmargin.theory.agreement import one_minus_cosine


@dataclass(frozen=True, eq=False)
class CorpusAgreement:
    """Tokens that a query selects in every document, and (ATT-SVM) for that selection."""

    selection: CorpusSelection
    solution: CorpusMargin
    direction_error: float  #: 1 - cos(p, p_hat); NaN where the problem has no direction
    margin: float  #: least p'(E_s - E_t)/|p| over s selected, t not, of one document; NaN if all is selected
    selected_weight: float  #: softmax weight on the selected tokens of a document, mean over documents

    @property
    def is_solved(self) -> bool:
        """True if the max-margin problem has an answer whose KKT residuals were checked."""
        return self.solution.status in (Status.OPTIMAL, Status.TRIVIAL)

    @property
    def cosine(self) -> float:
        """cos(p, p_hat)."""
        return 1.0 - self.direction_error

    @property
    def margin_share(self) -> float:
        """The margin of p/|p| over the largest margin, at most 1, and a lower bound of the cosine."""
        return self.margin * self.solution.value


@checked
def corpus_agreement(dataset: TokenDataset, embeddings: ArrayLike, query: ArrayLike) -> CorpusAgreement:
    """Solve (ATT-SVM) for what the query selects in all documents, ties included, and compare directions.

    Args:
        dataset: n documents over V tokens.
        embeddings: E, shape (V, d).
        query: p, shape (d,).
    """
    E = token_vectors(dataset, embeddings)
    p = query_vector(query, E.shape[1])
    selection = corpus_selection(dataset, E, p)
    solution = corpus_svm(dataset, E, selection, start=p)
    solved = solution.status is Status.OPTIMAL
    return CorpusAgreement(
        selection,
        solution,
        one_minus_cosine(p, solution.p) if solved else float("nan"),
        selection.narrowest,
        selected_weight(dataset, E @ p, selection),
    )


def selected_weight(dataset: TokenDataset, logits: np.ndarray, selection: CorpusSelection) -> float:
    """Softmax weight that falls on the selected tokens of a document, mean over documents, from p'E_s, shape (V,).

    A token that occurs c times has weight c exp(logit): the softmax of [E, (1)] runs over positions.
    """
    selection.check_fits(dataset)
    counts, starts = dataset.counts, dataset.counts.indptr[:-1]
    own = logits[counts.indices]
    top = np.repeat(np.maximum.reduceat(own, starts), np.diff(counts.indptr))
    weights = counts.data * np.exp(own - top)
    on_selected = np.add.reduceat(np.where(selection.chosen, weights, 0.0), starts)
    return float((on_selected / np.add.reduceat(weights, starts)).mean())


def documents_selecting(dataset: TokenDataset, selection: CorpusSelection) -> np.ndarray:
    """Number of documents in which each token is selected, shape (V,)."""
    selection.check_fits(dataset)
    return np.bincount(dataset.counts.indices[selection.chosen], minlength=dataset.vocabulary_size)
