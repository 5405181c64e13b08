"""The training risk of next-token prediction by one layer of attention: minus the log of the label's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._types import ArrayLike
from tokenmargin.attention.factored_risk import FactoredRisk
from tokenmargin.attention.matrix_risk import MatrixRisk
from tokenmargin.data import CrossSequences, NextTokens, TokenGraph
from tokenmargin.errors import InvalidInputError, WrongTypeError
from tokenmargin.losses import LabelLog, LabelSquared, label_log


@dataclass(frozen=True, eq=False, repr=False, init=False)
class NextTokenRisk(MatrixRisk):
    """L(W) = (1/n) sum_i l(u_i), with u_i the share of softmax(X_i W x_i,last) that falls on the next token y_i.

    The last token of a sequence asks, its tokens are what may come next. With l = -log, L is convex in W whatever the
    embeddings are. It is the risk of predicting through a classifier C as well where C E' = I.

    Args:
        sequences: whole numbers of shape (n, T), shorter sequences ending in -1; or lists of numbers or of words.
        labels: the next token of each, which must be one of its sequence.
        embeddings: E, shape (V, d): a row for each token.
        loss: `label_log`, or `label_squared`, which is not convex.
        queries: what each last token asks with, shape (V, e); the embeddings themselves when absent.
        names: the vocabulary by id, where tokens are numbers.
    """

    rows: NextTokens = field(init=False)
    embeddings: np.ndarray = field(init=False)
    token_queries: np.ndarray = field(init=False)  #: what each token asks with where it is the last one

    @checked
    def __init__(
        self,
        sequences: Any,
        labels: Any,
        embeddings: ArrayLike,
        loss: LabelLog | LabelSquared = label_log,
        *,
        queries: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Check and store."""
        if not isinstance(loss, LabelLog | LabelSquared):
            raise WrongTypeError(f"loss must be label_log or label_squared, got {type(loss).__name__}.")
        rows = NextTokens.of(sequences, labels, names)
        E = real_array(embeddings, "embeddings", "(V, d)")
        Q = E if queries is None else real_array(queries, "queries", "(V, e)")
        for name, array in (("embeddings", E), ("queries", Q)):
            if len(array) < rows.n_tokens or not array.size:
                raise InvalidInputError(
                    f"{name} have shape {array.shape} but there are {rows.n_tokens} tokens: give a row for each."
                )
        ids, mask = rows.padded()
        scores = (mask & (ids == rows.labels[:, None])).astype(float)
        data = CrossSequences(
            E[ids], queries=Q[rows.last], labels=np.ones(len(ids)), head=[1.0], mask=mask, values=scores[:, :, None]
        )
        own = {"sequences": data, "loss": loss, "head": None, "rows": rows, "embeddings": E, "token_queries": Q}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @cached_property
    def graph(self) -> TokenGraph:
        """The token graph of the sequences: which log-odds stay finite, and which diverge."""
        return TokenGraph.of(self.rows)

    def factored(self, rank: int) -> FactoredRisk:
        """The same risk of W = K Q', a point being (K, Q) of this rank."""
        return FactoredRisk(self.sequences, rank, self.loss)

    def __repr__(self) -> str:
        """Text with the sizes."""
        return (
            f"NextTokenRisk({len(self.rows.lengths)} sequences of up to {self.rows.lengths.max()} tokens, "
            f"embeddings of shape {self.embeddings.shape}, {type(self.loss).__name__})"
        )
