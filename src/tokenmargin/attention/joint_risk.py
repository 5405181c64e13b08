"""Both gradients of the joint risk L(v, p), right after softmax and loss saturate [M, Sec. 3].

For input i with softmax s, attended token xbar = sum_t s_t x_t and signed output f = Y v'xbar,

    -grad_v L = (1/n) sum_i |l'(f_i)| Y_i xbar_i,
    -grad_p L = (1/n) sum_i |l'(f_i)| sum_{t<u} s_t s_u (gamma_t - gamma_u)(k_t - k_u),    gamma = Y X v.

|l'| underflows once |v| passes 745, so each gradient is returned as (D, c), the gradient being exp(c) D: the weights of
v are scaled over the inputs in logarithms; those of p come from `PairField`, whose sums do not cancel, with the scores
of the current v. The sum for v needs no such care: where the attended tokens are separable by label, no weights
make it shorter than their label margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._precision import keep_precision
from tokenmargin._types import (
    AnyArray,
    ArrayLike,
    HeadVector,
    InputNumbersJ,
    KeysJ,
    ScalarJ,
    TokenNumbers,
    TokenNumbersJ,
    Vector,
    VectorJ,
)
from tokenmargin.attention._softmax import log_attention
from tokenmargin.attention.field import PairField
from tokenmargin.attention.losses import Loss, logistic
from tokenmargin.attention.risk import check_data_and_loss
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError

TokensJ = Float[Array | np.ndarray, "n T k"]
HeadVectorJ = Float[Array | np.ndarray, "k"]
FeaturesJ = Float[Array | np.ndarray, "n k"]


class JointField(eqx.Module):
    """The risk L(v, p) = (1/n) sum_i l(Y_i v'X_i' softmax(K_i p)) as pure JAX."""

    tokens: TokensJ
    keys: KeysJ
    labels: InputNumbersJ
    log_multiplicity: TokenNumbersJ
    loss: Loss

    def attended(self, p: VectorJ) -> FeaturesJ:
        """Y_i xbar_i, shape (n, k): the attended token of each input, times its label."""
        weights = jnp.exp(log_attention(self.keys, self.log_multiplicity, p))
        return self.labels[:, None] * jnp.einsum("nt,ntk->nk", weights, self.tokens)

    def outputs(self, v: HeadVectorJ, p: VectorJ) -> InputNumbersJ:
        """Signed outputs Y_i f(X_i), shape (n,)."""
        return self.attended(p) @ v

    def value(self, v: HeadVectorJ, p: VectorJ) -> ScalarJ:
        """L(v, p)."""
        return jnp.mean(self.loss.value(self.outputs(v, p)))

    def head_direction(self, v: HeadVectorJ, p: VectorJ) -> tuple[HeadVectorJ, ScalarJ]:
        """(D, c) with -grad_v L = exp(c) D and D of order one.

        The largest |l'_i| |xbar_i| is taken out as exp(c): an input whose attended token has all but vanished keeps
        |l'| = 1/2 and would drown the others if |l'| alone were.
        """
        attended = self.attended(p)
        slope = self.loss.log_slope(attended @ v)
        size = jax.lax.stop_gradient(jnp.max(jnp.abs(attended), axis=1))
        present = size > 0
        unit = jnp.where(present, size, 1.0)
        log_weight = jnp.where(present, slope + jnp.log(unit), -jnp.inf)
        largest = jnp.max(log_weight)
        largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
        return jnp.exp(log_weight - largest) @ (attended / unit[:, None]), largest - jnp.log(self.labels.shape[0])

    def attention_direction(self, v: HeadVectorJ, p: VectorJ) -> tuple[VectorJ, ScalarJ]:
        """(D, c) with -grad_p L = exp(c) D, free of cancellation however saturated the softmax is."""
        scores = self.labels[:, None] * (self.tokens @ v)
        return PairField(self.keys, scores, self.log_multiplicity, self.loss).descent_direction(p)

    def gradients(self, v: HeadVectorJ, p: VectorJ) -> tuple[HeadVectorJ, VectorJ]:
        """(grad_v L, grad_p L); they may underflow, their directions do not."""
        head, head_scale = self.head_direction(v, p)
        attention, attention_scale = self.attention_direction(v, p)
        return -jnp.exp(head_scale) * head, -jnp.exp(attention_scale) * attention

    def velocity(self, v: HeadVectorJ, p: VectorJ, rate_v: ScalarJ, rate_p: ScalarJ) -> tuple[HeadVectorJ, VectorJ]:
        """(rate_v g_v/|g_v|, rate_p g_p/|g_p|) with g = -grad L; a gradient that is exactly zero gives zero."""
        return (
            rate_v * _unit(self.head_direction(v, p)[0]),
            rate_p * _unit(self.attention_direction(v, p)[0]),
        )


def _unit(vector: AnyArray) -> AnyArray:
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(vector)))
    moving = largest > 0
    scaled = vector / jnp.where(moving, largest, 1.0)  # its square neither under- nor overflows
    return jnp.where(moving, scaled / jnp.sqrt(jnp.where(moving, jnp.sum(scaled**2), 1.0)), 0.0)


@dataclass(frozen=True, eq=False)
class JointRisk:
    """L(v, p) = (1/n) sum_i l(Y_i v'X_i' softmax(K_i p)) with both v and p free [M, (ERM) and Sec. 3].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        loss: a decreasing loss.
    """

    sequences: EmbeddedSequences
    loss: Loss = logistic

    def __post_init__(self) -> None:
        """Refuse anything that is not a data set and a loss."""
        check_data_and_loss(self.sequences, self.loss)

    @cached_property
    def joint_field(self) -> JointField:
        """The same risk as pure JAX, tokens of one key merged and keys relative to a first token."""
        return _joint_field(self.sequences, self.loss)

    @keep_precision
    def value(self, v: ArrayLike, p: ArrayLike) -> float:
        """L(v, p)."""
        return float(_value(self.joint_field, *self.checked(v, p)))

    @keep_precision
    def gradients(self, v: ArrayLike, p: ArrayLike) -> tuple[HeadVector, Vector]:
        """(grad_v L, grad_p L), correct to rounding relative to their own size until they underflow."""
        head, attention = _gradients(self.joint_field, *self.checked(v, p))
        return np.asarray(head), np.asarray(attention)

    @keep_precision
    def directions(self, v: ArrayLike, p: ArrayLike) -> tuple[HeadVector, Vector]:
        """Unit vectors along -grad_v L and -grad_p L (zero where a gradient is), whatever their size."""
        head, attention = _directions(self.joint_field, *self.checked(v, p))
        return np.asarray(head), np.asarray(attention)

    def attention(self, p: ArrayLike) -> TokenNumbers:
        """softmax(K_i p), shape (n, T); zero on masked tokens."""
        mask = self.sequences.mask
        keys = np.where(mask[:, :, None], self.sequences.keys, 0)
        logits = np.where(mask, keys @ self.sequences.direction(p), -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def probabilities(self, v: ArrayLike, p: ArrayLike, selection: Selection) -> tuple[float, float]:
        """(mean attention of the selected tokens, mean of 1/(1 + exp(-Y f))): the curves of [M, Fig. 3(c)].

        The paper's formula takes the largest attention of each input instead; what it plots (and calls the curve) is
        that of the optimal tokens, which is the smaller of the two until they are selected.
        """
        selection.check_fits(self.sequences)
        head, point = self.checked(v, p)
        attention = self.attention(point)
        tokens = np.where(self.sequences.mask[:, :, None], self.sequences.tokens, 0)
        output = self.sequences.labels * (np.einsum("nt,ntk->nk", attention, tokens) @ head)
        selected = np.where(selection.chosen, attention, 0.0).sum(axis=1)
        return float(selected.mean()), float(np.exp(-np.logaddexp(0.0, -output)).mean())

    def checked(self, v: ArrayLike, p: ArrayLike) -> tuple[HeadVector, Vector]:
        """v and p as arrays of the data's dtype, or an error that says what is wrong with them."""
        head, k = np.asarray(v), self.sequences.tokens.shape[2]
        if head.shape != (k,) or head.dtype.kind not in "fiu" or not np.isfinite(head).all():
            raise InvalidInputError(f"v must be {k} finite numbers, one per token coordinate, got {v!r}.")
        dtype = self.sequences.keys.dtype
        return head.astype(dtype), self.sequences.direction(p).astype(dtype, copy=False)


_value = eqx.filter_jit(lambda risk, v, p: risk.value(v, p))
_gradients = eqx.filter_jit(lambda risk, v, p: risk.gradients(v, p))
_directions = eqx.filter_jit(lambda risk, v, p: risk.velocity(v, p, jnp.ones((), v.dtype), jnp.ones((), v.dtype)))


def _joint_field(sequences: EmbeddedSequences, loss: Loss) -> JointField:
    """Keys relative to the first token of their input; tokens of one key merged into their mean.

    Tokens of one key get equal attention whatever p is. Left apart, a pair of them would carry weight but no force,
    and drown the pairs that do.
    """
    mask, dtype = sequences.mask, sequences.keys.dtype
    keys = np.where(mask[:, :, None], sequences.keys, 0)
    keys = keys - keys[np.arange(len(keys)), mask.argmax(axis=1)][:, None, :]
    keys = np.where(mask[:, :, None], keys, 0)
    tokens = np.where(mask[:, :, None], sequences.tokens, 0)
    same = (keys[:, :, None, :] == keys[:, None, :, :]).all(axis=-1) & mask[:, :, None] & mask[:, None, :]
    count = same.sum(axis=2)
    mean = np.einsum("ntu,nuk->ntk", same, tokens) / np.maximum(count, 1)[:, :, None]
    first = mask & (same.argmax(axis=2) == np.arange(mask.shape[1]))
    log_multiplicity = np.where(first, np.log(np.maximum(count, 1)), -np.inf)
    tokens = np.where((count > 1)[:, :, None], mean, tokens)
    return JointField(
        tokens.astype(dtype), keys.astype(dtype), sequences.labels.astype(dtype), log_multiplicity.astype(dtype), loss
    )
