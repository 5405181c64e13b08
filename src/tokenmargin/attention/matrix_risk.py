"""The training risk of self-attention with logits x'W z, as a function of the matrix W."""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._types import AnyArray, ArrayLike, MatrixJ, ScalarJ, TokenNumbersJ, VectorJ
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._outer_keys import OuterKeys, block_diagonal, in_sides
from tokenmargin.attention.attention_risk import AttentionRisk
from tokenmargin.attention.blocks import Block, Blocks
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import Head
from tokenmargin.attention.pair_field import KeyField, PairField, Seen, attended_score, pair_excess
from tokenmargin.attention.risk import Risk
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss, logistic
from tokenmargin.norms import Norm


class SummedField(PairField):
    """The field of several linear heads, whose outputs for an input are added before the loss is taken."""

    heads: int = eqx.field(kw_only=True, static=True)
    has_fixed_scores: ClassVar[bool] = False  # so they are; but no fast layout knows that inputs share an output

    @property
    def n_outputs(self) -> int:
        """Number of inputs, of which each head has its own."""
        return super().n_outputs // self.heads

    def outputs(self, log_s: TokenNumbersJ) -> AnyArray:
        """The sum over heads of attended scores, shape (n/H,)."""
        return jnp.sum(attended_score(log_s, self.scores).reshape(self.heads, -1), axis=0)

    def seen(self, p: VectorJ) -> Seen:
        """Attention of all heads; the slope at an output is that of every head."""
        log_s = self.log_attention(p)
        return Seen(log_s, jnp.tile(self.loss.log_slope(self.outputs(log_s)), self.heads), self.scores)

    def value(self, p: VectorJ) -> ScalarJ:
        """L(W_1, ..., W_H)."""
        return jnp.mean(self.loss.value(self.outputs(self.log_attention(p))))

    def log_excess(self, p: VectorJ) -> tuple[ScalarJ, ScalarJ]:
        """(sign, log of the size) of L minus the loss of the tokens of highest score of every head."""
        log_s = self.log_attention(p)
        return pair_excess(log_s, self.scores, self.log_multiplicity, self.loss, self.heads)

    def force_and_jacobian(self, p: VectorJ) -> tuple[VectorJ, MatrixJ]:
        """G(p) and its derivative, by autodiff."""
        return KeyField.force_and_jacobian(self, p)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class MatrixRisk(Risk):
    """L(W) = (1/n) sum_i l(Y_i psi(X_i' softmax(X_i W z_i))), a point being W of shape (d, e).

    It is the risk of the vector with the entries of W over the keys x z_i', which are never formed: a method whose norm
    rotations leave alone runs in the span of their differences, and one whose norm feels no rotation of rows and of
    columns in the spans of tokens and of queries.

    Args:
        sequences: n inputs of T tokens, each with a query.
        loss: a decreasing loss.
        head: psi; the linear head of the data when absent.
        heads: v_1 to v_H, shape (H, k): several heads, whose outputs are added. W then has shape (H, d, e), and
            `sequences` becomes the problem of the block-diagonal matrix of all W_h, in which each head selects for
            itself (`CrossSequences.with_heads`).
    """

    sequences: CrossSequences
    loss: Loss = logistic
    head: Head | None = None
    heads: ArrayLike | None = None
    _of_one_head: CrossSequences = dataclass_field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse data without queries; a head and a loss are checked where they are used."""
        check_queries(self.sequences, type(self).__name__)
        if self.heads is not None:
            if self.head is not None:
                raise InvalidInputError("head= is one head of any kind, heads= several linear ones: give one of them.")
            object.__setattr__(self, "_of_one_head", self.sequences)
            object.__setattr__(self, "sequences", self.sequences.with_heads(self.heads))
        _ = self.of_vectors

    @cached_property
    def of_vectors(self) -> AttentionRisk | HeadRisk:
        """The same risk of W in one line; with several heads, each input of a head for itself."""
        if self.head is None:
            return AttentionRisk(self.sequences, self.loss)
        return HeadRisk(self.sequences, self.head, self.loss)

    @property
    def blocks(self) -> Blocks:
        """W, of shape (d, e) or, with several heads, (H, d, e)."""
        return {"W": Block(self.shape)}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of W."""
        keys = self.field.keys
        assert isinstance(keys, OuterKeys)
        return keys.matrix

    @cached_property
    def field(self) -> KeyField:
        """The same risk as pure JAX, a function of W in one line."""
        whole = self.of_vectors.field
        if self.heads is None or not isinstance(whole, PairField):
            return whole
        one, count = self._of_one_head, np.shape(self.heads)[0]
        keys = OuterKeys(np.tile(one.relative_tokens, (count, 1, 1)), np.tile(one.queries, (count, 1)), count)
        return SummedField(
            keys=keys, scores=whole.scores, log_multiplicity=whole.log_multiplicity, loss=whole.loss, heads=count
        )

    def logit_point(self, point: Any) -> np.ndarray:
        """W; with several heads the block-diagonal matrix of all W_h, shape (H d, H e)."""
        W = self.point(point).reshape(self.shape)
        return W if self.heads is None else np.asarray(block_diagonal(W.reshape(-1, *self.shape[-2:])))

    def followed_in(self, moved: Norm | None) -> tuple[Any, Coordinates] | None:
        """The span of the key differences, or those of tokens and of queries, as the norm allows."""
        if moved is None or moved.rotation_invariant or not moved.unitarily_invariant:
            return super().followed_in(moved)
        keys, coordinates = self.sides
        return replace(self.field, keys=keys), coordinates

    @cached_property
    def sides(self) -> tuple[OuterKeys, Coordinates]:
        """The keys by tokens in the span of their differences and queries in theirs, and the way there and back."""
        keys = self.field.keys
        assert isinstance(keys, OuterKeys)
        return in_sides(keys, np.isfinite(np.asarray(self.field.log_multiplicity)))

    def felt(self, point: Any) -> EmbeddedSequences:
        """The problem that W feels: the data itself, or its scores around what W attends to behind a nonlinear head."""
        return self.of_vectors.felt(self.logit_point(point).reshape(-1))

    @property
    def optimal(self) -> Selection:
        """The tokens of highest score."""
        return self.of_vectors.optimal


def check_queries(sequences: object, risk: str) -> None:
    """Raise unless these are sequences with queries."""
    if not isinstance(sequences, CrossSequences):
        raise InvalidInputError(
            f"{risk} needs tokens with queries, got {type(sequences).__name__}: wrap the arrays as "
            "CrossSequences(tokens, queries=..., labels=..., head=...)."
        )
