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

from tokenmargin._checks import array_of, checked, positive
from tokenmargin._precision import keep_precision
from tokenmargin._types import (
    ArrayLike,
    HeadVector,
    InputNumbersJ,
    KeysJ,
    PairNumbersJ,
    ScalarJ,
    TokenNumbers,
    TokenNumbersJ,
    Vector,
    VectorJ,
)
from tokenmargin.attention._repeats import repeats_merged
from tokenmargin.attention._risk_inputs import check_data_and_loss
from tokenmargin.attention._softmax import log_attention
from tokenmargin.attention.field import PairField
from tokenmargin.attention.method import Block, Excess, Gradient, unit
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError, WrongTypeError
from tokenmargin.losses import Loss, logistic

TokensJ = Float[Array | np.ndarray, "n T k"]
HeadVectorJ = Float[Array | np.ndarray, "k"]
FeaturesJ = Float[Array | np.ndarray, "n k"]
PairOfNumbers = Float[Array | np.ndarray, "2"]
BothJ = Float[Array | np.ndarray, "k_and_d"]


class JointField(eqx.Module):
    """The risk L(v, p) = (1/n) sum_i l(Y_i v'X_i' softmax(K_i p)) as pure JAX."""

    tokens: TokensJ
    keys: KeysJ
    labels: InputNumbersJ
    log_multiplicity: TokenNumbersJ
    speeds: PairOfNumbers  #: of v and of p
    loss: Loss

    def descent(self, y: BothJ) -> tuple[Gradient, Excess]:
        """What a method's step is told at y = (v, p): -grad L in two blocks, and L, whose infimum is 0."""
        v, p = self.parts(y)
        blocks = Block(*self.head_direction(v, p)), Block(*self.attention_direction(v, p))
        value = self.value(v, p)
        return Gradient(blocks), Excess(jnp.sign(value), jnp.log(jnp.abs(value)))

    def moved(self, before: BothJ, after: BothJ) -> BothJ:
        """Where a step leads when v and p move at their own speeds."""
        k = self.tokens.shape[2]
        speed = jnp.repeat(
            jnp.asarray(self.speeds), np.array([k, before.shape[0] - k]), total_repeat_length=len(before)
        )
        return jnp.where(speed == 1, after, before + speed * (after - before))

    def parts(self, y: BothJ) -> tuple[HeadVectorJ, VectorJ]:
        """(v, p) of a point."""
        k = self.tokens.shape[2]
        return y[:k], y[k:]

    def field(self, y: BothJ) -> BothJ:
        """(speed_v g_v/|g_v|, speed_p g_p/|g_p|) with g = -grad L: what the flow of both follows."""
        return jnp.concatenate(self.velocity(*self.parts(y), self.speeds[0], self.speeds[1]))

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

    def log_input_weights(self, v: HeadVectorJ, p: VectorJ) -> InputNumbersJ:
        """Logarithm of the weight of each input in grad_v, |l'_i| times the size of its attended token, shape (n,)."""
        attended = self.attended(p)
        size = jnp.max(jnp.abs(attended), axis=1)
        return jnp.where(
            size > 0, self.loss.log_slope(attended @ v) + jnp.log(jnp.where(size > 0, size, 1.0)), -jnp.inf
        )

    def log_pair_weights(self, v: HeadVectorJ, p: VectorJ) -> PairNumbersJ:
        """Logarithm of the weight of each pair of tokens in grad_p, shape (n, T, T)."""
        return self._pairs(v).log_pair_weights(p)[1]

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
        return self._pairs(v).descent_direction(p)

    def _pairs(self, v: HeadVectorJ) -> PairField:
        """The field of p with the scores of this v."""
        scores = self.labels[:, None] * (self.tokens @ v)
        return PairField(keys=self.keys, scores=scores, log_multiplicity=self.log_multiplicity, loss=self.loss)

    def gradients(self, v: HeadVectorJ, p: VectorJ) -> tuple[HeadVectorJ, VectorJ]:
        """(grad_v L, grad_p L); they may underflow, their directions do not."""
        head, head_scale = self.head_direction(v, p)
        attention, attention_scale = self.attention_direction(v, p)
        return -jnp.exp(head_scale) * head, -jnp.exp(attention_scale) * attention

    def velocity(self, v: HeadVectorJ, p: VectorJ, rate_v: ScalarJ, rate_p: ScalarJ) -> tuple[HeadVectorJ, VectorJ]:
        """(rate_v g_v/|g_v|, rate_p g_p/|g_p|) with g = -grad L; a gradient that is exactly zero gives zero."""
        return rate_v * unit(self.head_direction(v, p)[0]), rate_p * unit(self.attention_direction(v, p)[0])


@checked
@dataclass(frozen=True, eq=False)
class JointRisk:
    """L(v, p) = (1/n) sum_i l(Y_i v'X_i' softmax(K_i p)) with both v and p free [M, (ERM) and Sec. 3].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        loss: a decreasing loss.
        speeds: of v and of p. Every step of a method moves v so many times as far, and p; normalised, |v| and |p| then
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
    def width(self) -> int:
        """k + d, the width of a point (v, p)."""
        return self.sequences.tokens.shape[2] + self.sequences.width

    @cached_property
    def own_field(self) -> JointField:
        """The same risk as pure JAX, tokens of one key merged and keys relative to a first token."""
        data = self.sequences
        tokens, log_multiplicity = repeats_merged(data.relative_keys, data.tokens, data.mask)
        return JointField(
            tokens, data.relative_keys, data.labels, log_multiplicity, np.array(self.speeds, float), self.loss
        )

    def point(self, start: ArrayLike | tuple[ArrayLike, ArrayLike], name: str = "start") -> Vector:
        """(v, p), or the two in one vector, as a vector of shape (k + d,); an error says what is wrong with it."""
        k = self.sequences.tokens.shape[2]
        if isinstance(start, tuple) and len(start) == 2 and array_of(start[0], name, "a tuple (v, p)").ndim == 1:
            v, p = start
        else:
            whole = array_of(start, name, "a tuple (v, p)")
            if whole.shape != (self.width,):
                raise InvalidInputError(
                    f"{name} has shape {whole.shape}: give a tuple (v, p) of widths {k} and {self.width - k}."
                )
            v, p = whole[:k], whole[k:]
        return np.concatenate(self.checked(v, p))

    @keep_precision
    def value(self, v: ArrayLike, p: ArrayLike) -> float:
        """L(v, p)."""
        return float(_value(self.own_field, *self.checked(v, p)))

    @keep_precision
    def gradients(self, v: ArrayLike, p: ArrayLike) -> tuple[HeadVector, Vector]:
        """(grad_v L, grad_p L), correct to rounding relative to their own size until they underflow."""
        head, attention = _gradients(self.own_field, *self.checked(v, p))
        return np.asarray(head), np.asarray(attention)

    @keep_precision
    def directions(self, v: ArrayLike, p: ArrayLike) -> tuple[HeadVector, Vector]:
        """Unit vectors along -grad_v L and -grad_p L (zero where a gradient is), whatever their size."""
        head, attention = _directions(self.own_field, *self.checked(v, p))
        return np.asarray(head), np.asarray(attention)

    def attention(self, p: ArrayLike) -> TokenNumbers:
        """softmax(K_i p), shape (n, T); zero on masked tokens."""
        return self.sequences.attention(p)

    def probabilities(self, v: ArrayLike, p: ArrayLike, selection: Selection) -> tuple[float, float]:
        """(mean attention of the selected tokens, mean of 1/(1 + exp(-Y f))): the curves of [M, Fig. 3(c)].

        The paper's formula takes the largest attention of each input instead; what it plots (and calls the curve) is
        that of the optimal tokens, which is the smaller of the two until they are selected.
        """
        if not isinstance(selection, Selection):
            raise WrongTypeError(f"selection must be a Selection, got {type(selection).__name__}.")
        selection.check_fits(self.sequences)
        head, point = self.checked(v, p)
        attention = self.attention(point)
        output = self.sequences.labels * (np.einsum("nt,ntk->nk", attention, self.sequences.tokens) @ head)
        selected = np.where(selection.chosen, attention, 0.0).sum(axis=1)
        return float(selected.mean()), float(np.exp(-np.logaddexp(0.0, -output)).mean())

    def checked(self, v: ArrayLike, p: ArrayLike) -> tuple[HeadVector, Vector]:
        """v and p as arrays of float64, or an error that says what is wrong with them."""
        head, k = array_of(v, "v", "numbers"), self.sequences.tokens.shape[2]
        if head.shape != (k,) or head.dtype.kind not in "fiu" or not np.isfinite(head).all():
            raise InvalidInputError(f"v must be {k} finite numbers, one per token coordinate, got {v!r}.")
        return head.astype(np.float64), self.sequences.direction(p)


_value = eqx.filter_jit(lambda risk, v, p: risk.value(v, p))
_gradients = eqx.filter_jit(lambda risk, v, p: risk.gradients(v, p))
_directions = eqx.filter_jit(lambda risk, v, p: risk.velocity(v, p, jnp.ones((), v.dtype), jnp.ones((), v.dtype)))
