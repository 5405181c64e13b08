"""What a practitioner would try first, on the same counts: TF-IDF with logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tokenmargin.errors import MissingExtraError
from tokenmargin.explain._splitting import held_out
from tokenmargin.explain.evaluation import SMALLEST

#: Inverse strengths of the penalty that are tried, on a part of the texts that are learnt from.
STRENGTHS = (1.0, 3.0, 10.0, 30.0)

#: The part of the texts learnt from on which the strength is chosen.
VALIDATION_SHARE = 0.1

MAX_ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class Baseline:
    """Its probabilities on held-out texts, shape (n, K), and the strength that was chosen."""

    probabilities: np.ndarray
    C: float


def tfidf_logistic_regression(
    counts: sp.csr_array, targets: np.ndarray, held_out_counts: sp.csr_array, seed: int
) -> Baseline:
    """Fit TF-IDF (sublinear) with logistic regression, its C chosen on a part of these texts, and predict others."""
    try:
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingExtraError("Comparing with TF-IDF and logistic regression", "sklearn") from None
    weights = TfidfTransformer(sublinear_tf=True)
    x, y = weights.fit_transform(sp.csr_matrix(counts)), sp.csr_matrix(held_out_counts)

    def fitted(rows: np.ndarray, C: float) -> LogisticRegression:
        # L-BFGS adds up short vectors: several threads would wait for each other longer than they work.
        with threadpool_limits(1, "blas"):
            return LogisticRegression(C=C, max_iter=MAX_ITERATIONS).fit(x[rows], targets[rows])

    everything = np.ones(len(targets), dtype=bool)
    is_validation = _validation_part(targets, seed)
    best = 1.0
    if is_validation.any():
        own = targets[is_validation]
        # By the loss, which is less of a lottery than the number of texts that are right.
        losses = []
        for C in STRENGTHS:
            p = fitted(~is_validation, C).predict_proba(x[is_validation])[np.arange(len(own)), own]
            losses.append(-np.log(np.maximum(p, SMALLEST)).mean())
        best = STRENGTHS[int(np.argmin(losses))]
    return Baseline(fitted(everything, best).predict_proba(weights.transform(y)), best)


def _validation_part(targets: np.ndarray, seed: int) -> np.ndarray:
    """A part of every class; nobody where a class is too small to be cut."""
    if np.bincount(targets).min() < 2:
        return np.zeros(len(targets), dtype=bool)
    return held_out(targets, VALIDATION_SHARE, seed)
