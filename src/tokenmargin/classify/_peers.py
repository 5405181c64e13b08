"""The strongest of what a practitioner would try first: TF-IDF with logistic regression or a linear SVM, and NBSVM."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify._splitting import held_out_mask
from tokenmargin.classify.prior import holders, naive_bayes_ratios
from tokenmargin.classify.token_model import checked_counts, probabilities_of
from tokenmargin.errors import MissingExtraError

#: Peers by name, each with the C that are tried.
PEERS: dict[str, tuple[float, ...]] = {
    "TF-IDF with logistic regression": (1.0, 3.0, 10.0, 30.0, 100.0),
    "TF-IDF with a linear SVM": (0.1, 0.3, 1.0, 3.0, 10.0),
    "a naive-Bayes SVM": (0.003, 0.01, 0.03, 0.1, 1.0),
}

#: The peer and its C are chosen on at most so many texts, a fifth of them held out; the winner learns from all.
MOST_TO_CHOOSE, VALIDATION_SHARE = 5000, 0.2


@dataclass(frozen=True, eq=False)
class Peer:
    """A linear classifier of weighted counts: margins = intercept + sum_s x_s coefficient_s.

    Args:
        name: in words.
        C: the inverse strength of its penalty.
        weight: weight of each token, shape (V,), for TF-IDF; None: a text holds a token or not (NBSVM).
        coefficient: shape (V, K'); one margin for two classes, above 0 for the one that sorts last.
        intercept: shape (K',).
    """

    name: str
    C: float
    weight: np.ndarray | None
    coefficient: np.ndarray
    intercept: np.ndarray

    @property
    def has_probabilities(self) -> bool:
        """True if its margins are meant as log-odds; those of an SVM are not."""
        return "logistic" in self.name

    def probabilities(self, counts: Any) -> np.ndarray:
        """Margins through the logistic function or softmax, shape (n, K)."""
        matrix = checked_counts(counts, len(self.coefficient))
        return probabilities_of(np.asarray(_features(matrix, self.weight) @ self.coefficient) + self.intercept)


def strongest_peer(counts: Any, targets: np.ndarray, seed: int = 0) -> Peer:
    """Choose a peer and its C by accuracy on held-out texts, and fit it to all.

    Args:
        counts: shape (n, V), of a vocabulary that need not be cut.
        targets: the number of each text's class, shape (n,).
        seed: seed of the draw of the held-out texts.
    """
    matrix = checked_counts(counts)
    name, C = next(iter(PEERS)), PEERS[next(iter(PEERS))][1]
    if np.bincount(targets).min() > 1:
        some = np.ones(len(targets), dtype=bool)
        if len(targets) > MOST_TO_CHOOSE:
            some = held_out_mask(targets, MOST_TO_CHOOSE / len(targets), seed)
        part, own = sp.csr_array(matrix[some]), targets[some]
        if np.bincount(own, minlength=int(targets.max()) + 1).min() > 1:
            out = held_out_mask(own, VALIDATION_SHARE, seed + 1)
            tried = [(name, C) for name, strengths in PEERS.items() for C in strengths]
            right = [
                (fit_peer(name, part[~out], own[~out], C).probabilities(part[out]).argmax(axis=1) == own[out]).mean()
                for name, C in tried
            ]
            name, C = tried[int(np.argmax(right))]
    return fit_peer(name, matrix, targets, C)


def fit_peer(name: str, counts: sp.csr_array, targets: np.ndarray, C: float) -> Peer:
    """Fit one of `PEERS`."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import LinearSVC
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingExtraError("Comparing with the classifiers of scikit-learn", "sklearn") from None
    n_classes = int(targets.max()) + 1
    held = holders(counts, targets, np.ones(len(targets)), n_classes)
    is_tfidf = "TF-IDF" in name
    n = counts.shape[0]
    weight = np.log((1 + n) / (1 + held.by_token.sum(axis=0))) + 1 if is_tfidf else None
    x = sp.csr_matrix(_features(counts, weight))
    if x.nnz <= np.iinfo(np.int32).max:  # liblinear takes no others
        x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int32)
    # L-BFGS adds up short vectors: several threads would wait for each other longer than they work.
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a peer that stops at its limit is used as it is
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # classes of three texts each
        if is_tfidf:
            linear = (LogisticRegression(C=C, max_iter=300) if "logistic" in name else LinearSVC(C=C)).fit(x, targets)
            return Peer(name, C, weight, np.ascontiguousarray(linear.coef_.T), linear.intercept_)
        columns, intercepts = [], []
        for k, ratio in enumerate(naive_bayes_ratios(held)):
            one = LinearSVC(C=C).fit(x @ sp.diags(ratio), targets == (1 if n_classes == 2 else k))
            columns.append(one.coef_[0] * ratio)
            intercepts.append(one.intercept_[0])
    return Peer(name, C, None, np.stack(columns, axis=1), np.array(intercepts))


def _features(counts: sp.csr_array, weight: np.ndarray | None) -> sp.csr_array:
    """(1 + log count) times the weight, of Euclidean norm one a text; or 1 for each token that is there."""
    if weight is None:
        return sp.csr_array((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    weights = (1.0 + np.log(counts.data)) * weight[counts.indices]
    norms = np.sqrt(np.bincount(rows, weights=weights**2, minlength=counts.shape[0]))
    return sp.csr_array((weights / norms[rows], counts.indices, counts.indptr), shape=counts.shape)
