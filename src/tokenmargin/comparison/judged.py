"""A classifier whose predictions are explained, and that judges the explanations: texts as counts in, margins out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify.token_model import checked_counts


@runtime_checkable
class Classifier(Protocol):
    """What is asked of a classifier: `TokenModel` and `TfidfLogistic` are two, a user's own may be a third."""

    def margins(self, counts: Any) -> np.ndarray:
        """Shape (n, K'): one margin for two classes, above 0 for the one that sorts last, and one a class for more."""

    def probabilities(self, counts: Any) -> np.ndarray:
        """Shape (n, K)."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Texts, a classifier, and what it predicts of them.

    Args:
        key: the name of the classifier in files.
        name: the same for people.
        classifier: from counts to margins and probabilities.
        counts: the texts, shape (n, V): sorted rows without stored zeros.
        predicted: the number of the class that it predicts of each text, shape (n,).
    """

    key: str
    name: str
    classifier: Classifier
    counts: sp.csr_array
    predicted: np.ndarray

    @property
    def row_of(self) -> np.ndarray:
        """The text of each stored count, shape (nnz,)."""
        return np.repeat(np.arange(self.counts.shape[0]), np.diff(self.counts.indptr))

    def part(self, first: int, last: int) -> Judged:
        """Some of the texts."""
        counts = sp.csr_array(self.counts[first:last])
        return Judged(self.key, self.name, self.classifier, counts, self.predicted[first:last])

    def probability(self, counts: sp.csr_array, texts: np.ndarray) -> np.ndarray:
        """Of what was predicted of the whole texts (one number of a text a row), given other counts."""
        return self.classifier.probabilities(counts)[np.arange(len(texts)), self.predicted[texts]]

    def log_odds(self, counts: sp.csr_array, text: int) -> np.ndarray:
        """Of what was predicted of one text, given other counts of its tokens: what SHAP values add up to."""
        return directed(self.classifier.margins(counts), np.full(counts.shape[0], self.predicted[text]))


def judged_by(key: str, name: str, classifier: Classifier, counts: Any) -> Judged:
    """Texts with what a classifier predicts of them."""
    matrix = checked_counts(counts)
    return Judged(key, name, classifier, matrix, classifier.probabilities(matrix).argmax(axis=1))


def directed(numbers: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A number towards a class from each row, shape (n,): with one column +- it, with more it less the mean of all."""
    if numbers.shape[1] == 1:
        return np.where(classes == 1, numbers[:, 0], -numbers[:, 0])
    return numbers[np.arange(len(classes)), classes] - numbers.mean(axis=1)


def masked(judged: Judged, text: int, masks: np.ndarray) -> sp.csr_array:
    """The counts of a text with some of its tokens left out, one row a mask, shape (k, V); masks are (k, tokens)."""
    own = slice(judged.counts.indptr[text], judged.counts.indptr[text + 1])
    kept = np.asarray(masks, dtype=bool)
    places = np.nonzero(kept)[1]
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    parts = (judged.counts.data[own][places], judged.counts.indices[own][places], starts)
    return sp.csr_array(parts, shape=(len(kept), judged.counts.shape[1]))
