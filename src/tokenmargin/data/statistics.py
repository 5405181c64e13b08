"""Token statistics: counts in positive and in negative documents, and the class of each token [E, Sec. 2]."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.data.tokens import TokenDataset

#: |alpha_s| below this is zero: alpha_s is a sum of n ratios of counts, whose rounding is about 1e-16 each. With
#: documents of one length the sum is over whole numbers and exact.
ALPHA_ROUNDING = 1e-14


class TokenClass(IntEnum):
    """[E, Def. 1]; a completely positive (negative) token is positive (negative) too, an absent one none of these."""

    COMPLETELY_NEGATIVE = -2
    NEGATIVE = -1
    IRRELEVANT = 0
    POSITIVE = 1
    COMPLETELY_POSITIVE = 2
    ABSENT = 9


@dataclass(frozen=True, eq=False, repr=False)
class TokenStatistics:
    """Statistics of every token, each of shape (V,)."""

    token: tuple[str, ...]
    signed_frequency: np.ndarray  #: alpha_s = mean over documents of y c_s / T [E, (3)]
    posterior_difference: np.ndarray  #: P(+1 | s) - P(-1 | s) over occurrences [E, (37)]; NaN for absent tokens
    count: np.ndarray  #: occurrences
    positive_count: np.ndarray  #: occurrences in documents of label +1
    negative_count: np.ndarray  #: occurrences in documents of label -1
    document_count: np.ndarray  #: documents that hold the token
    token_class: np.ndarray  #: values of `TokenClass`

    def __repr__(self) -> str:
        """Show the number of tokens; `columns()` has the numbers."""
        return f"TokenStatistics({len(self.token)} tokens)"

    def columns(self) -> dict[str, np.ndarray]:
        """Named columns of a table."""
        names = np.array([TokenClass(int(value)).name.lower().replace("_", " ") for value in self.token_class])
        return {
            "token": np.array(self.token),
            "signed_frequency": self.signed_frequency,
            "posterior_difference": self.posterior_difference,
            "count": self.count,
            "positive_count": self.positive_count,
            "negative_count": self.negative_count,
            "document_count": self.document_count,
            "token_class": names,
        }


@checked
def signed_frequency(dataset: TokenDataset) -> np.ndarray:
    """alpha_s, shape (V,): the mean over documents of y c_s / T [E, (3)].

    With documents of one length T this is [E, (3)]. With lengths that differ it is still what the first gradient step
    adds to an embedding, as softmax starts uniform at 1/T of each document's own T.
    """
    lengths = dataset.lengths
    if (lengths == lengths[0]).all():  # whole numbers: exact, so that "irrelevant" is exact too
        return (dataset.counts.T @ dataset.labels) / (dataset.n_documents * float(lengths[0]))
    return (dataset.counts.T @ (dataset.labels / lengths)) / dataset.n_documents


@checked
def token_statistics(dataset: TokenDataset) -> TokenStatistics:
    """Signed frequency, posterior difference, counts and class of every token."""
    positive = np.asarray(dataset.counts[dataset.labels > 0].sum(axis=0)).astype(np.int64)
    negative = np.asarray(dataset.counts[dataset.labels < 0].sum(axis=0)).astype(np.int64)
    documents = np.bincount(dataset.counts.indices, minlength=dataset.vocabulary_size)
    return statistics_of_sums(dataset.vocabulary, signed_frequency(dataset), positive, negative, documents)


def statistics_of_sums(
    vocabulary: tuple[str, ...], alpha: np.ndarray, positive: np.ndarray, negative: np.ndarray, documents: np.ndarray
) -> TokenStatistics:
    """Statistics from alpha and sums over documents, each of shape (V,), whatever the order of summation was.

    `positive` and `negative` count occurrences in documents of either label, `documents` the documents with the token.
    """
    count = positive + negative
    with np.errstate(invalid="ignore"):
        posterior = np.where(count > 0, (positive - negative) / np.maximum(count, 1), np.nan)
    kind = np.where(np.abs(alpha) <= ALPHA_ROUNDING, int(TokenClass.IRRELEVANT), np.sign(alpha).astype(int))
    kind = np.where(negative == 0, int(TokenClass.COMPLETELY_POSITIVE), kind)
    kind = np.where(positive == 0, int(TokenClass.COMPLETELY_NEGATIVE), kind)
    kind = np.where(count == 0, int(TokenClass.ABSENT), kind)
    return TokenStatistics(vocabulary, alpha, posterior, count, positive, negative, documents, kind)
