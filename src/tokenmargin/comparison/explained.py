"""A classifier whose predictions are explained, and that judges the explanations: texts as counts in, margins out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from tokenmargin._notebook import Told
from tokenmargin.classify.token_model import checked_counts


@runtime_checkable
class Classifier(Protocol):
    """Methods that a classifier must have: `TokenModel` and `TfidfLogistic` are two, a user's own may be a third."""

    def margins(self, counts: Any) -> np.ndarray:
        """Margins, shape (n, K'): for two classes one, above 0 for the class that sorts last; for more, one a class."""

    def probabilities(self, counts: Any) -> np.ndarray:
        """Probabilities of the classes, shape (n, K)."""


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedTexts(Told):
    """Texts, a classifier, and the classes that it predicts.

    Args:
        key: the name of the classifier in files.
        name: the name of the classifier for people.
        classifier: classifier from counts to margins and probabilities.
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

    def part(self, first: int, last: int) -> ExplainedTexts:
        """Texts first to last - 1."""
        counts = sp.csr_array(self.counts[first:last])
        return ExplainedTexts(self.key, self.name, self.classifier, counts, self.predicted[first:last])

    def probability(self, counts: sp.csr_array, texts: np.ndarray) -> np.ndarray:
        """Probability of the class predicted for the whole text, given other counts; row i belongs to `texts[i]`."""
        return self.classifier.probabilities(counts)[np.arange(len(texts)), self.predicted[texts]]

    def log_odds(self, counts: sp.csr_array, text: int) -> np.ndarray:
        """Log-odds of the class predicted for one text, given other counts of its tokens, as SHAP explains them."""
        return directed(self.classifier.margins(counts), np.full(counts.shape[0], self.predicted[text]))


def explained_texts(key: str, name: str, classifier: Classifier, counts: Any) -> ExplainedTexts:
    """Texts with the classes that a classifier predicts."""
    matrix = checked_counts(counts)
    return ExplainedTexts(key, name, classifier, matrix, classifier.probabilities(matrix).argmax(axis=1))


def directed(numbers: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A number towards a class from each row, shape (n,): with one column +- it, with more it less the mean of all."""
    if numbers.shape[1] == 1:
        return np.where(classes == 1, numbers[:, 0], -numbers[:, 0])
    return numbers[np.arange(len(classes)), classes] - numbers.mean(axis=1)


def masked(judged: ExplainedTexts, text: int, masks: np.ndarray) -> sp.csr_array:
    """The counts of a text with some of its tokens left out, one row a mask, shape (k, V); masks are (k, tokens)."""
    own = slice(judged.counts.indptr[text], judged.counts.indptr[text + 1])
    kept = np.asarray(masks, dtype=bool)
    places = np.nonzero(kept)[1]
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    parts = (judged.counts.data[own][places], judged.counts.indices[own][places], starts)
    return sp.csr_array(parts, shape=(len(kept), judged.counts.shape[1]))
