"""Priors of tokens before they are fitted: initial scores, and where, and in which units, values are kept."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from tokenmargin._types import Scores


class Belief(NamedTuple):
    """Initial scores, shape (V,), the unit of each value and where it is kept, (c, V), or (1, V) for all margins."""

    start: Scores
    unit: np.ndarray
    centre: np.ndarray


class Holders(NamedTuple):
    """The documents of each class that hold each token, shape (K, V), and all documents of each class, shape (K,)."""

    by_token: np.ndarray
    documents: np.ndarray


class Prior(Enum):
    """Units of the values in the ridge penalty, and where it keeps them: at 0 unless another place is named.

    Scores start at the logarithm of inverse document frequency; with naive-Bayes ratios, which weigh rare tokens
    already, at 0. Values kept near those ratios end, under a strong ridge, at what counting says, and leave it where
    documents say otherwise: where tokens are independent given the class, nothing beats counting.
    """

    PLAIN = "all values alike"
    IDF = "values of rare tokens may be larger"
    NAIVE_BAYES = "values in units of naive-Bayes ratios"
    NEAR_NAIVE_BAYES = "values near naive-Bayes ratios, in their units"

    def belief(self, holders: Holders) -> Belief:
        """Starts, units of mean square 1, and centres, from the documents that hold each token."""
        start = log_idf(holders)
        nowhere = np.zeros((1, len(start)))
        if self is Prior.PLAIN:
            return Belief(start, np.ones((1, len(start))), nowhere)
        if self is Prior.IDF:
            return Belief(start, _of_mean_square_one(np.exp(start)[None]), nowhere)
        ratios = naive_bayes_ratios(holders)
        unit = _of_mean_square_one(np.abs(ratios))
        if self is Prior.NEAR_NAIVE_BAYES:  # of a token that nothing is known of there is nothing to keep
            nowhere = np.where(holders.by_token.sum(axis=0) > 0, ratios, 0.0)
        return Belief(np.zeros(len(start)), unit, nowhere)


def _of_mean_square_one(unit: np.ndarray) -> np.ndarray:
    unit = unit / np.sqrt(max((unit**2).mean(), np.finfo(float).tiny)) if unit.size else unit
    # A ratio of exactly 0 would hold its value at 0 for ever, and divide by it.
    return np.maximum(unit, LEAST_UNIT)


#: Units below this are as good as none.
LEAST_UNIT = 1e-3


def holders(counts: sp.csr_array, targets: np.ndarray, weights: np.ndarray, n_classes: int) -> Holders:
    """Count, by weight, the documents of each class that hold each token."""
    by_class = np.zeros((len(targets), n_classes))
    by_class[np.arange(len(targets)), targets] = weights
    pattern = sp.csr_array((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)
    return Holders(np.ascontiguousarray((pattern.T @ by_class).T), by_class.sum(axis=0))


def log_idf(held: Holders) -> Scores:
    """Logarithm of the smoothed inverse document frequency, log(1 + log((1 + n) / (1 + n_s)))."""
    return log_idf_of(held.by_token.sum(axis=0), float(held.documents.sum()))


def log_idf_of(held_by: np.ndarray, n: float) -> Scores:
    """The same from the number of documents that hold each token, of n."""
    return np.log1p(np.log((1 + n) / (1 + held_by)))


def naive_bayes_ratios(held: Holders) -> np.ndarray:
    """log P(s | class) / P(s | other classes), each class against the rest, one text added to every count; (c, V)."""
    own = held.by_token + 1.0
    rest = held.by_token.sum(axis=0) - held.by_token + 1.0
    ratios = np.log(own / own.sum(axis=1, keepdims=True)) - np.log(rest / rest.sum(axis=1, keepdims=True))
    return ratios[1:] if len(ratios) == 2 else ratios
