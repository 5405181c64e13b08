"""Many problems of one shape as arrays of keys and scores, which are all that the training of p uses of a data set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tokenmargin._isometry import isometric_rows
from tokenmargin._softmax import softmax
from tokenmargin.data.scores import tie_widths
from tokenmargin.data.sequences import EmbeddedSequences
from tokenmargin.errors import InvalidInputError

BatchKeys = Float[np.ndarray, "B n T d"]
BatchScores = Float[np.ndarray, "B n T"]
BatchVectors = Float[np.ndarray, "B d"]
BatchIndices = Int[np.ndarray, "B n"]
BatchWidths = Float[np.ndarray, "B n"]


@dataclass(frozen=True, eq=False)
class ProblemBatch:
    """B problems of n inputs of T tokens, no mask; `batch[j]` is problem j as a data set.

    Replacing the keys by others with the same inner products changes no risk, no descent from 0, no norm and no angle:
    `in_span_of_keys` and, where only differences within an input matter, `in_span_of_differences` do so, after which
    nothing depends on the width d that the keys came in.
    """

    keys: BatchKeys
    scores: BatchScores  #: gamma, the label absorbed [M, Def. 1]

    @classmethod
    def from_tokens(cls, tokens: np.ndarray, labels: np.ndarray, heads: np.ndarray) -> ProblemBatch:
        """Keys equal to the tokens (B, n, T, d); gamma_it = Y_i v'x_it with labels (B, n) and heads (B, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = np.matmul(tokens, heads[:, None, :, None])[..., 0]
        if not np.isfinite(products).all():
            raise InvalidInputError("tokens times heads are beyond float64, 1.8e308: divide either by a power of two.")
        return cls(tokens, labels[:, :, None] * products)

    @classmethod
    def concatenated(cls, parts: list[ProblemBatch]) -> ProblemBatch:
        """One batch of several of the same shape."""
        return cls(np.concatenate([part.keys for part in parts]), np.concatenate([part.scores for part in parts]))

    def __len__(self) -> int:
        """B, the number of problems."""
        return len(self.keys)

    def __getitem__(self, j: int) -> EmbeddedSequences:
        """Problem j as a data set."""
        return EmbeddedSequences.from_scores(self.keys[j], self.scores[j])

    def in_span_of_keys(self) -> ProblemBatch:
        """Isometric keys, of width n T at most."""
        B, n, T, d = self.keys.shape
        rows = isometric_rows(self.keys.reshape(B, n * T, d))
        return ProblemBatch(rows.reshape(B, n, T, -1), self.scores)

    def in_span_of_differences(self) -> ProblemBatch:
        """Keys relative to the first token of their input, of width n (T - 1) at most.

        Softmax does not feel a shift of all logits of an input, so differences are all that acts on p.
        """
        B, n, T, d = self.keys.shape
        rows = isometric_rows((self.keys[:, :, 1:] - self.keys[:, :, :1]).reshape(B, n * (T - 1), d))
        keys = np.zeros((B, n, T, rows.shape[-1]))
        keys[:, :, 1:] = rows.reshape(B, n, T - 1, -1)
        return ProblemBatch(keys, self.scores)

    def tie_widths(self) -> BatchWidths:
        """Scores of an input within this distance are ties, shape (B, n): the tolerance times its largest modulus."""
        return tie_widths(self.scores)

    def attention(self, points: BatchVectors) -> BatchScores:
        """softmax(K_i p), shape (B, n, T), at one point of shape (d,) for each problem."""
        return softmax(self.logits(points))

    def logits(self, points: BatchVectors) -> BatchScores:
        """K_i p, shape (B, n, T)."""
        return np.matmul(self.keys, points[:, None, :, None])[..., 0]

    def is_optimal(self, alpha: BatchIndices) -> np.ndarray:
        """True where alpha names the only token of highest score in every input, shape (B,); False where tokens tie."""
        best = self.scores >= self.scores.max(axis=2, keepdims=True) - self.tie_widths()[:, :, None]
        chosen = np.arange(self.scores.shape[2]) == alpha[:, :, None]
        return (best == chosen).all(axis=(1, 2))
