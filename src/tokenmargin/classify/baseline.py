"""Baseline that a practitioner would try first, on the same counts: TF-IDF with logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify._splitting import held_out_mask
from tokenmargin.classify.evaluation import SMALLEST
from tokenmargin.classify.token_model import checked_counts, probabilities_of
from tokenmargin.errors import MissingExtraError

#: Inverse strengths of the penalty that are tried, on a part of the texts that are learnt from.
STRENGTHS = (1.0, 3.0, 10.0, 30.0)

#: The part of the texts learnt from on which the strength is chosen.
VALIDATION_SHARE = 0.1

MAX_ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class TfidfLogistic:
    """A linear classifier of TF-IDF weights: margins = intercept + sum_s x_s coefficient_s.

    x_s = (1 + log c_s) idf_s, divided by the Euclidean norm of a text's weights. One margin for two classes, above 0
    for the one that sorts last; one for each class where there are more.

    Args:
        idf: inverse document frequencies, shape (V,).
        coefficient: shape (V, K').
        intercept: shape (K',).
        C: the inverse strength of its penalty.
    """

    idf: np.ndarray
    coefficient: np.ndarray
    intercept: np.ndarray
    C: float

    def features(self, counts: Any) -> sp.csr_array:
        """The TF-IDF weights of texts, shape (n, V): rows of norm one, or empty."""
        matrix = checked_counts(counts, len(self.idf))
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        weights = (1.0 + np.log(matrix.data)) * self.idf[matrix.indices]
        norms = np.sqrt(np.bincount(rows, weights=weights**2, minlength=matrix.shape[0]))
        return sp.csr_array((weights / norms[rows], matrix.indices, matrix.indptr), shape=matrix.shape)

    def margins(self, counts: Any) -> np.ndarray:
        """Shape (n, K')."""
        return np.asarray(self.features(counts) @ self.coefficient) + self.intercept

    def probabilities(self, counts: Any) -> np.ndarray:
        """The probability of each class, shape (n, K)."""
        return probabilities_of(self.margins(counts))


def fit_tfidf_logistic(
    counts: sp.csr_array, targets: np.ndarray, *, seed: int = 0, C: float | None = None
) -> TfidfLogistic:
    """Fit TF-IDF (sublinear) with logistic regression.

    Args:
        counts: shape (n, V).
        targets: shape (n,), the number of each text's class.
        seed: seed of the draw of the texts on which C is chosen.
        C: the inverse strength of the penalty; chosen on a part of these texts where it is not given.
    """
    try:
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingExtraError("Comparing with TF-IDF and logistic regression", "sklearn") from None
    weights = TfidfTransformer(sublinear_tf=True)
    x = weights.fit_transform(sp.csr_matrix(counts))

    def fitted(rows: np.ndarray, strength: float) -> LogisticRegression:
        # L-BFGS adds up short vectors: several threads would wait for each other longer than they work.
        with threadpool_limits(1, "blas"):
            return LogisticRegression(C=strength, max_iter=MAX_ITERATIONS).fit(x[rows], targets[rows])

    if C is None:
        C = 1.0
        is_validation = _validation_part(targets, seed)
        if is_validation.any():
            own = targets[is_validation]
            # By the loss, which is less of a lottery than the number of texts that are right.
            losses = []
            for strength in STRENGTHS:
                p = fitted(~is_validation, strength).predict_proba(x[is_validation])[np.arange(len(own)), own]
                losses.append(-np.log(np.maximum(p, SMALLEST)).mean())
            C = STRENGTHS[int(np.argmin(losses))]
    linear = fitted(np.ones(len(targets), dtype=bool), C)
    return TfidfLogistic(weights.idf_, np.ascontiguousarray(linear.coef_.T), linear.intercept_, C)


def _validation_part(targets: np.ndarray, seed: int) -> np.ndarray:
    """A part of every class; nobody where a class is too small to be cut."""
    if np.bincount(targets).min() < 2:
        return np.zeros(len(targets), dtype=bool)
    return held_out_mask(targets, VALIDATION_SHARE, seed)
