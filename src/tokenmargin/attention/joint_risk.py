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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._checks import checked, positive
from tokenmargin._types import InputNumbersJ, KeysJ, PairNumbersJ, ScalarJ, TokenNumbersJ, VectorJ
from tokenmargin.attention._repeats import repeats_merged
from tokenmargin.attention.blocks import Block, Blocks, Role, by_block
from tokenmargin.attention.field import Field
from tokenmargin.attention.method import Excess, Gradient, ScaledVector
from tokenmargin.attention.pair_field import PairField, log_attention
from tokenmargin.attention.risk import Risk, check_data_and_loss
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss, logistic

TokensJ = Float[Array | np.ndarray, "n T k"]
HeadVectorJ = Float[Array | np.ndarray, "k"]
FeaturesJ = Float[Array | np.ndarray, "n k"]
PairOfNumbers = Float[Array | np.ndarray, "2"]
BothJ = Float[Array | np.ndarray, "k_and_d"]


class JointField(Field):
    """The risk L(v, p) = (1/n) sum_i l(Y_i v'X_i' softmax(K_i p)) as pure JAX."""

    tokens: TokensJ
    keys: KeysJ
    labels: InputNumbersJ
    log_multiplicity: TokenNumbersJ
    speeds: PairOfNumbers  #: of v and of p
    loss: Loss

    def value(self, y: BothJ) -> ScalarJ:
        """L(v, p)."""
        v, p = self.parts(y)
        return jnp.mean(self.loss.value(self.attended(p) @ v))

    def descent(self, y: BothJ) -> tuple[Gradient, Excess]:
        """-grad L at y = (v, p) in two blocks, and L itself, whose infimum is 0."""
        v, p = self.parts(y)
        blocks = ScaledVector(*self.head_direction(v, p)), ScaledVector(*self._pairs(v).descent_direction(p))
        value = self.value(y)
        return Gradient(blocks), Excess(jnp.sign(value), jnp.log(jnp.abs(value)))

    def moved(self, before: BothJ, after: BothJ) -> BothJ:
        """Point to which a step leads when v and p move at their own speeds."""
        k = self.tokens.shape[2]
        speed = jnp.repeat(
            jnp.asarray(self.speeds), np.array([k, before.shape[0] - k]), total_repeat_length=len(before)
        )
        return jnp.where(speed == 1, after, before + speed * (after - before))

    def parts(self, y: BothJ) -> tuple[HeadVectorJ, VectorJ]:
        """(v, p) of a point."""
        k = self.tokens.shape[2]
        return y[:k], y[k:]

    def force(self, y: BothJ) -> BothJ:
        """(speed_v g_v/|g_v|, speed_p g_p/|g_p|) with g = -grad L: the velocity of the flow of both."""
        head, attention = self.descent(y)[0].descent
        return jnp.concatenate([self.speeds[0] * head.unit, self.speeds[1] * attention.unit])

    def log_weights(self, y: BothJ) -> tuple[InputNumbersJ, PairNumbersJ]:
        """Log-weights of inputs in grad_v, |l'_i| times the size of the attended token, and of pairs in grad_p."""
        v, p = self.parts(y)
        attended = self.attended(p)
        size = jnp.max(jnp.abs(attended), axis=1)
        slope = self.loss.log_slope(attended @ v)
        inputs = jnp.where(size > 0, slope + jnp.log(jnp.where(size > 0, size, 1.0)), -jnp.inf)
        return inputs, self._pairs(v).log_pair_weights(p)[1]

    def attended(self, p: VectorJ) -> FeaturesJ:
        """Y_i xbar_i, shape (n, k): the attended token of each input, times its label."""
        weights = jnp.exp(log_attention(self.keys, self.log_multiplicity, p))
        return self.labels[:, None] * jnp.einsum("nt,ntk->nk", weights, self.tokens)

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

    def _pairs(self, v: HeadVectorJ) -> PairField:
        """The field of p with the scores of this v."""
        scores = self.labels[:, None] * (self.tokens @ v)
        return PairField(keys=self.keys, scores=scores, log_multiplicity=self.log_multiplicity, loss=self.loss)


@checked
@dataclass(frozen=True, eq=False)
class JointRisk(Risk):
    """L(v, p) = (1/n) sum_i l(Y_i v'X_i' softmax(K_i p)) with both v and p free [M, (ERM) and Sec. 3].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        loss: a decreasing loss.
        speeds: speeds of v and p. A step moves v and p so many times as far; with normalised steps, |v| and |p| then
            grow in this ratio, which decides the max-margin problem that p solves.
    """

    sequences: EmbeddedSequences
    loss: Loss = logistic
    speeds: tuple[float, ...] = (1.0, 1.0)

    def __post_init__(self) -> None:
        """Refuse anything that is not a data set, a loss and two speeds."""
        check_data_and_loss(self.sequences, self.loss)
        if not (isinstance(self.speeds, tuple) and len(self.speeds) == 2):
            raise InvalidInputError(f"speeds must be two numbers, of v and of p, got {self.speeds!r}.")
        positive(self.speeds[0], "the speed of v")
        positive(self.speeds[1], "the speed of p")

    @property
    def blocks(self) -> Blocks:
        """v, shape (k,), and p, shape (d,)."""
        k, d = self.sequences.tokens.shape[2], self.sequences.width
        return {"v": Block((k,), Role.HEAD, self.speeds[0]), "p": Block((d,), speed=self.speeds[1])}

    @cached_property
    def field(self) -> JointField:
        """The same risk as pure JAX, tokens of one key merged and keys relative to a first token."""
        data = self.sequences
        tokens, log_multiplicity = repeats_merged(data.relative_keys, data.tokens, data.mask)
        return JointField(
            tokens, data.relative_keys, data.labels, log_multiplicity, np.array(self.speeds, float), self.loss
        )

    def felt(self, point: Any) -> EmbeddedSequences:
        """The problem that p feels: the data with the v of the point as their head."""
        data, v = self.sequences, by_block(self.blocks, self.point(point))["v"]
        keys = None if data.keys_are_tokens else data.keys
        return EmbeddedSequences(data.tokens, data.labels, v, keys=keys, mask=data.mask)
