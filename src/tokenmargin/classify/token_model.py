"""One layer of attention as what it is on counts: two numbers a token.

At any width the model f(X) = Softmax(p'E_X')E_X v sees the embedding of a token through <E_s, p> and <E_s, v> alone
[E, (1)]: its *score*, how loudly it asks for attention, and its *value*, where it pulls to. With c_s the count of token
s in a document, m the number of distinct tokens in it and t the power,

    margin = intercept + sqrt(m) * sum_s attention_s value_s,   attention_s ~ c_s^t exp(score_s), of sum one.

[E] has t = 1 and no root. With more than two classes a token has one score and a value a class.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax

from tokenmargin._checks import bounded, checked
from tokenmargin._types import Intercepts, Margins, Probabilities, Scores, Values
from tokenmargin.errors import InvalidInputError

#: Counts whose contributions are held at once while margins are summed; a matter of memory alone.
BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Contributions:
    """What each token of each document adds to its margins: the pattern of the counts with c numbers a stored count.

    Args:
        indptr: where each document begins, shape (n + 1,).
        indices: the token of each stored count, shape (nnz,).
        data: what it adds, shape (nnz, c).
        vocabulary_size: V.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    vocabulary_size: int

    @property
    def n_documents(self) -> int:
        """How many documents."""
        return len(self.indptr) - 1

    @checked
    def matrix(self, column: int = 0) -> sp.csr_array:
        """The contributions to one margin as a sparse matrix, shape (n, V)."""
        if not 0 <= column < self.data.shape[1]:
            raise InvalidInputError(f"there are {self.data.shape[1]} margins, counted from 0; got {column}.")
        return sp.csr_array(
            (self.data[:, column], self.indices, self.indptr), shape=(self.n_documents, self.vocabulary_size)
        )

    def sums(self) -> Margins:
        """The sum over each document's tokens, in the order of their columns, one after the other; shape (n, c)."""
        ones = np.ones(self.vocabulary_size)
        columns = [self.matrix(column) @ ones for column in range(self.data.shape[1])]
        return np.stack(columns, axis=1)


@checked
@dataclass(frozen=True, eq=False)
class TokenModel:
    """One layer of attention through a score a token and a value a token and margin [E, (1)].

    Args:
        score: how loudly a token asks for attention, shape (V,).
        value: where it pulls to, shape (V, c). c = 1 for two classes, and above 0 means the one that sorts last; c = K
            for K > 2 classes.
        intercept: the margins of an empty document, shape (c,).
        power: t; a token that occurs twice has 2^t times the weight.
        root_length: whether margins are multiplied by the root of the number of distinct tokens.
    """

    score: Scores
    value: Values
    intercept: Intercepts
    power: float
    root_length: bool = True

    @property
    def n_classes(self) -> int:
        """K."""
        return max(2, self.value.shape[1])

    def attention(self, counts: Any) -> sp.csr_array:
        """The attention that each document gives to each of its tokens, shape (n, V): rows of sum one, or empty."""
        matrix = checked_counts(counts, len(self.score))
        return sp.csr_array((self._weights(matrix), matrix.indices, matrix.indptr), shape=matrix.shape)

    def contributions(self, counts: Any) -> Contributions:
        """What each token adds to each margin: sqrt(m) attention_s value_s."""
        matrix = checked_counts(counts, len(self.score))
        lengths = np.diff(matrix.indptr)
        loudness = self._weights(matrix)
        if self.root_length:
            loudness = loudness * np.repeat(np.sqrt(lengths), lengths)
        data = loudness[:, None] * self.value[matrix.indices]
        return Contributions(matrix.indptr, matrix.indices, data, matrix.shape[1])

    def margins(self, counts: Any) -> Margins:
        """The sum of a document's contributions, and then the intercept: to the last bit that sum; shape (n, c)."""
        matrix = checked_counts(counts, len(self.score))
        parts = [self.contributions(block).sums() for block in _blocks(matrix)]
        return np.concatenate([*parts, np.zeros((0, self.value.shape[1]))]) + self.intercept

    def probabilities(self, counts: Any) -> Probabilities:
        """The probability of each class, shape (n, K): logistic function of the margin, or softmax of the margins."""
        return probabilities_of(self.margins(counts))

    def _weights(self, matrix: sp.csr_array) -> np.ndarray:
        """Softmax over each row's stored counts, of logits t log c + score."""
        lengths = np.diff(matrix.indptr)
        logits = self.score[matrix.indices] + self.power * np.log(matrix.data)
        filled = lengths > 0
        starts, of_filled = matrix.indptr[:-1][filled], lengths[filled]
        if not of_filled.size:
            return logits
        weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, starts), of_filled))
        return weights / np.repeat(np.add.reduceat(weights, starts), of_filled)


def probabilities_of(margins: Margins) -> Probabilities:
    """Margins as probabilities of all classes, shape (n, K)."""
    if margins.shape[1] > 1:
        return softmax(margins, axis=1)
    # Each from its own margin: one minus the other would lose the digits of a small one.
    return np.concatenate([expit(-margins), expit(margins)], axis=1)


def checked_counts(counts: Any, vocabulary_size: int | None = None) -> sp.csr_array:
    """Counts as sorted float64 rows without stored zeros; the given matrix is left as it is."""
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


def _blocks(matrix: sp.csr_array) -> list[sp.csr_array]:
    """The rows in runs of about `BLOCK` stored counts, so that contributions of a large corpus need no room."""
    if matrix.nnz <= BLOCK:
        return [matrix]
    cuts = np.searchsorted(matrix.indptr, np.arange(BLOCK, matrix.nnz, BLOCK))
    edges = np.unique([0, *cuts, matrix.shape[0]])
    return [sp.csr_array(matrix[low:high]) for low, high in pairwise(edges)]
