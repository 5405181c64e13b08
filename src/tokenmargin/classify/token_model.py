"""One layer of attention as what it is on counts: two numbers a token.

At any width the model f(X) = Softmax(p'E_X')E_X v sees the embedding of a token through <E_s, p> and <E_s, v> alone
[E, (1)]: its *score*, how loudly it asks for attention, and its *value*, where it pulls to. With c_s the count of token
s in a document, m the number of distinct tokens in it and t the power,

    margin = intercept + sqrt(m) * sum_s attention_s value_s,   attention_s ~ c_s^t exp(score_s), of sum one.

[E] has t = 1 and no root. With more than two classes a token has one score and a value a class. What predicts needs
NumPy alone; SciPy is imported where sparse matrices are given or asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin._checks import bounded, checked
from tokenmargin._notebook import Told
from tokenmargin.errors import InvalidInputError

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Counts whose contributions are held at once while margins are summed; a matter of memory alone.
BLOCK = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Contributions(Told):
    """Contributions of the tokens of each document to its margins: c numbers for each stored count of a sparse matrix.

    Args:
        indptr: index at which each document begins, shape (n + 1,).
        indices: the token of each stored count, shape (nnz,).
        data: its contribution, shape (nnz, c).
        vocabulary_size: V.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    vocabulary_size: int

    @property
    def n_documents(self) -> int:
        """n, the number of documents."""
        return len(self.indptr) - 1

    @checked
    def matrix(self, column: int = 0) -> sp.csr_array:
        """The contributions to one margin as a sparse matrix, shape (n, V)."""
        if not 0 <= column < self.data.shape[1]:
            raise InvalidInputError(f"there are {self.data.shape[1]} margins, counted from 0; got {column}.")
        import scipy.sparse as sp

        return sp.csr_array(
            (self.data[:, column], self.indices, self.indptr), shape=(self.n_documents, self.vocabulary_size)
        )

    def sums(self) -> np.ndarray:
        """The sum over each document's tokens, in the order of their columns, one after the other; shape (n, c)."""
        rows = np.repeat(np.arange(self.n_documents), np.diff(self.indptr))
        columns = [np.bincount(rows, column, self.n_documents) for column in self.data.T]  # adds one after the other
        return np.stack(columns, axis=1)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class TokenModel(Told):
    """One layer of attention through a score a token and a value a token and margin [E, (1)].

    Args:
        score: attention score of each token, shape (V,).
        value: value of each token, shape (V, c). c = 1 for two classes, above 0 for the one that sorts last; c = K
            for K > 2 classes.
        intercept: the margins of an empty document, shape (c,).
        power: t; a token that occurs twice has 2^t times the weight.
        root_length: True if margins are multiplied by the root of the number of distinct tokens.
    """

    score: np.ndarray
    value: np.ndarray
    intercept: np.ndarray
    power: float
    root_length: bool = True

    @property
    def n_classes(self) -> int:
        """K."""
        return max(2, self.value.shape[1])

    def attention(self, counts: Any) -> sp.csr_array:
        """The attention that each document gives to each of its tokens, shape (n, V): rows of sum one, or empty."""
        import scipy.sparse as sp

        matrix = checked_counts(counts, len(self.score))
        weights = self.weights(matrix.indptr, matrix.indices, matrix.data)
        return sp.csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)

    def contributions(self, counts: Any) -> Contributions:
        """Compute what each token adds to each margin: sqrt(m) attention_s value_s."""
        matrix = checked_counts(counts, len(self.score))
        return self.contributions_of(matrix.indptr, matrix.indices, matrix.data)

    def margins(self, counts: Any) -> np.ndarray:
        """The sum of a document's contributions, and then the intercept: to the last bit that sum; shape (n, c)."""
        matrix = checked_counts(counts, len(self.score))
        return self.margins_of(matrix.indptr, matrix.indices, matrix.data)

    def probabilities(self, counts: Any) -> np.ndarray:
        """The probability of each class, shape (n, K): logistic function of the margin, or softmax of the margins."""
        return probabilities_of(self.margins(counts))

    # --- the same from the three arrays of compressed rows, sorted and without zeros ----------------------------------

    def margins_of(self, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Margins, shape (n, c); rows are taken in runs of about `BLOCK` counts, so that many need no room."""
        cuts = np.searchsorted(indptr, np.arange(BLOCK, indptr[-1], BLOCK))
        edges = np.unique([0, *cuts, len(indptr) - 1])
        parts = [np.zeros((0, self.value.shape[1]))]
        for low, high in pairwise(edges):
            own = slice(indptr[low], indptr[high])
            parts.append(self.contributions_of(indptr[low : high + 1] - indptr[low], indices[own], data[own]).sums())
        return np.concatenate(parts) + self.intercept

    def contributions_of(
        self, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, weights: np.ndarray | None = None
    ) -> Contributions:
        """Contributions, one row a stored count; `weights` are those of the counts, where they are known."""
        lengths = np.diff(indptr)
        loudness = self.weights(indptr, indices, data) if weights is None else weights
        if self.root_length:
            loudness = loudness * np.repeat(np.sqrt(lengths), lengths)
        return Contributions(indptr, indices, loudness[:, None] * self.value[indices], len(self.score))

    def weights(self, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Softmax over each row's stored counts, of logits t log c + score."""
        lengths = np.diff(indptr)
        logits = self.score[indices] + self.power * np.log(data)
        filled = lengths > 0
        starts, of_filled = indptr[:-1][filled], lengths[filled]
        if not of_filled.size:
            return logits
        weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, starts), of_filled))
        return weights / np.repeat(np.add.reduceat(weights, starts), of_filled)


def probabilities_of(margins: np.ndarray) -> np.ndarray:
    """Margins as probabilities of all classes, shape (n, K)."""
    if margins.shape[1] > 1:
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    # Each from its own margin: one minus the other would lose the digits of a small one.
    return np.concatenate([_logistic(-margins), _logistic(margins)], axis=1)


def _logistic(margins: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-margin)), from powers that never overflow."""
    small = np.exp(-np.abs(margins))
    return np.where(margins >= 0, 1.0, small) / (1.0 + small)


def checked_counts(counts: Any, vocabulary_size: int | None = None) -> sp.csr_array:
    """Counts as sorted float64 rows without stored zeros; the given matrix is left as it is."""
    import scipy.sparse as sp

    bounded(counts, "counts")
    try:
        matrix = sp.csr_array(counts, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError("counts must be a matrix of numbers, documents x tokens, sparse or dense.") from error
    if matrix.ndim != 2:
        raise InvalidInputError(f"counts must be a matrix, documents x tokens; got {matrix.ndim} axes.")
    if vocabulary_size is not None and matrix.shape[1] != vocabulary_size:
        raise InvalidInputError(
            f"counts have {matrix.shape[1]} columns but the model has {vocabulary_size} tokens: count with the "
            "vocabulary that it was fitted with."
        )
    if not np.isfinite(matrix.data).all():
        raise InvalidInputError("counts hold a NaN or an infinity: a count is a finite number >= 0.")
    if (matrix.data < 0).any():
        raise InvalidInputError(
            "counts hold a negative number: a token occurs 0 times or more. Give counts, not differences."
        )
    if not matrix.has_canonical_format:
        # There and back sorts, in less time than sorting.
        matrix = sp.csr_array(matrix.tocsc())
        matrix.sum_duplicates()
    if (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix
