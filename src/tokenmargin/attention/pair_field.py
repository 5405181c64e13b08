"""The gradient of attention as a sum over pairs of tokens, right after the softmax saturates.

For input i with softmax s, scores gamma (label absorbed), f = sum s gamma and keys x,

    -grad L = (1/n) sum_i |l'(f_i)| sum_{t<u} s_t s_u (gamma_t - gamma_u)(x_t - x_u).

The textbook form s_t (gamma_t - f) x_t cancels to rounding noise once 1 - s rounds to 0, at a logit gap of 37 in
float64 and 17 in float32; here every term is a product, so nothing cancels, and log-weights

    log w = log|l'_i| + log s_t + log s_u + log|gamma_t - gamma_u|

never underflow. With w normalised over all pairs of all inputs, G(p) = sum sgn(gamma_t - gamma_u) w_tu (x_t - x_u) has
the orbits of the gradient flow, stays of order one for ever, and vanishes exactly at stationary points.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._module import Module
from tokenmargin._types import (
    AnyArray,
    InputNumbersJ,
    InputVectorsJ,
    MatrixJ,
    PairNumbersJ,
    ScalarJ,
    TokenNumbersJ,
    VectorJ,
)
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._excess import DIRECT_ATTENTION, log_mean_excess
from tokenmargin.attention._outer_keys import FieldKeys, OuterKeys, behind, in_span, pulled
from tokenmargin.attention._pulls import Pulls
from tokenmargin.attention.field import Field
from tokenmargin.attention.method import Excess, Gradient
from tokenmargin.losses import Loss

#: Share of all weights below which a token takes no part in the field, and attention below which none in the output:
#: 1e-9 of a key difference is below what turns the velocity of a certified limit.
NEGLIGIBLE = 1e-9


#: Weight up to which a token may be one that comes or goes; above, its own pair makes the spread.
LIGHT = 1e-3

#: A step goes at most this share of the way to where another token carries weight, and so much of a logit beyond: the
#: token is met where its weight shows in the error of a step.
APPROACH, PASSED_BY = 0.9, 2.0


class Seen(Module):
    """Numbers that decide the pull on p at a point: attention, slopes of the loss, and scores of tokens."""

    log_attention: TokenNumbersJ
    log_slope: InputNumbersJ  #: log|l'| of each input
    scores: TokenNumbersJ  #: up to a constant for each input


def log_attention(keys: FieldKeys, log_multiplicity: TokenNumbersJ, p: VectorJ) -> TokenNumbersJ:
    """log softmax(K p) per input, shape (n, T); a token that stands c times has log multiplicity log c.

    Masked tokens have log multiplicity -inf and attention 0.
    """
    return jax.nn.log_softmax(keys @ p + log_multiplicity, axis=-1)


def attended_score(log_weights: TokenNumbersJ, token_scores: TokenNumbersJ) -> InputNumbersJ:
    """f_i = sum_t s_it gamma_it, shape (n,): the signed output Y_i f(X_i)."""
    return jnp.sum(jnp.exp(log_weights) * token_scores, axis=-1)


class KeyField(Field):
    """A risk L(p) of one query p over fixed keys, to subclass: `seen` says what pulls on p; all else follows from it.

    It is followed in the span of the key differences, and judged by the pairs of tokens that carry weight.
    """

    keys: eqx.AbstractVar[FieldKeys]  #: each relative to the key of a first token of its input, which is 0
    log_multiplicity: eqx.AbstractVar[TokenNumbersJ]  #: log of how often a token stands; -inf where there is none

    @property
    def n_outputs(self) -> int:
        """Number of outputs that the loss is a mean over: one for each input, unless inputs share them."""
        return int(self.log_multiplicity.shape[0])

    @abstractmethod
    def seen(self, p: VectorJ) -> Seen:
        """Attention, slopes and scores at p."""

    @abstractmethod
    def value(self, p: VectorJ) -> ScalarJ:
        """L(p)."""

    @abstractmethod
    def log_excess(self, p: VectorJ) -> tuple[ScalarJ, ScalarJ]:
        """(sign, log of the size) of L(p) minus the loss of the tokens of highest score."""

    def descent(self, p: VectorJ) -> tuple[Gradient, Excess]:
        """Gradient and excess at p, which a method's step is given."""
        pulls = self.pulls(p)
        return Gradient((pulls.total,), pulls, pulls.net), Excess(*self.log_excess(p))

    def log_weights(self, p: VectorJ) -> tuple[PairNumbersJ]:
        """Logarithms of the weights of pairs of tokens, shape (n, T, T)."""
        return (self.log_pair_weights(p)[1],)

    def in_span(self) -> tuple[Any, Coordinates]:
        """The same field with keys in the span of their differences, in units of the longest one."""
        keys, coordinates = in_span(self.keys, np.isfinite(np.asarray(self.log_multiplicity)))
        return replace(self, keys=keys.astype(self.keys.dtype)), coordinates

    def pulls(self, p: VectorJ) -> Pulls:
        """-grad L(p) as a sum over tokens, each relative to the top token * of its input.

        |l'|^-1 times an input's term is sum_t s_t (gamma_t - f)(x_t - x_*): with scores relative to that of *, whose
        own term is 0, no product cancels, and the logarithm of each is taken from its factors.
        """
        seen = self.seen(p)
        log_s, scores = seen.log_attention, seen.scores
        top = jnp.argmax(log_s, axis=-1, keepdims=True)
        ahead = scores - jnp.take_along_axis(scores, top, axis=-1)
        over = ahead - jnp.sum(jnp.exp(log_s) * ahead, axis=-1, keepdims=True)
        there = (over != 0) & (jnp.arange(scores.shape[1])[None] != top)
        log_share = seen.log_slope[:, None] + log_s - jnp.log(self.n_outputs)
        largest = jnp.max(jnp.where(ahead != 0, log_share, -jnp.inf))
        log_weight = jnp.where(there, log_share + jnp.log(jnp.abs(jnp.where(there, over, 1.0))), -jnp.inf)
        return Pulls(
            behind(self.keys, top), top, jnp.sign(over), log_weight, jnp.where(jnp.isfinite(largest), largest, 0.0)
        )

    def descent_direction(self, p: VectorJ) -> tuple[VectorJ, ScalarJ]:
        """(D, c) with -grad L(p) = exp(c) D and D of order one, in O(T) per input."""
        total = self.pulls(p).total
        return total.direction, total.log_scale

    def gradient(self, p: VectorJ) -> VectorJ:
        """grad L(p), correct to rounding relative to its own size however saturated the softmax is."""
        direction, log_scale = self.descent_direction(p)
        return -jnp.exp(log_scale) * direction

    def pair_weights(self, p: VectorJ) -> tuple[PairNumbersJ, ScalarJ]:
        """(C, c): signed normalised weights of pairs, antisymmetric, shape (n, T, T), and log of their sum.

        C_itu = sgn(gamma_t - gamma_u) w_itu, with sum over t < u of |C| equal to 1 (to 0 if no pair has a force), and
        -grad L(p) = exp(c) sum_{t<u} C_itu (x_it - x_iu).
        """
        return self._normalised(*self.log_pair_weights(p))

    def _normalised(self, sign: PairNumbersJ, log_w: PairNumbersJ) -> tuple[PairNumbersJ, ScalarJ]:
        largest = jnp.max(log_w)
        any_force = jnp.isfinite(largest)
        largest = jnp.where(any_force, largest, 0.0)
        w = jnp.exp(log_w - largest)
        total = jnp.where(any_force, jnp.sum(w) / 2, 1.0)
        return sign * w / total, largest + jnp.log(total) - jnp.log(self.n_outputs)

    def log_pair_weights(self, p: VectorJ) -> tuple[PairNumbersJ, PairNumbersJ]:
        """(sgn(gamma_t - gamma_u), log w_itu), each of shape (n, T, T); -inf for a pair without force."""
        seen = self.seen(p)
        log_s = seen.log_attention
        ahead = seen.scores[:, :, None] - seen.scores[:, None, :]
        apart = ahead != 0
        log_size = jnp.where(apart, jnp.log(jnp.where(apart, jnp.abs(ahead), 1.0)), -jnp.inf)
        return jnp.sign(ahead), seen.log_slope[:, None, None] + log_s[:, :, None] + log_s[:, None, :] + log_size

    def force(self, p: VectorJ) -> VectorJ:
        """G(p) = sum_{t<u} C_tu (x_t - x_u), shape (d,): -grad L(p) over the sum of all pair weights."""
        signed, _ = self.pair_weights(p)
        return pulled(self.keys, jnp.sum(signed, axis=-1))

    def force_and_jacobian(self, p: VectorJ) -> tuple[VectorJ, MatrixJ]:
        """G(p) and its derivative J(p), shape (d, d)."""
        return self.force(p), jax.jacfwd(self.force)(p)

    def separation(self, p: VectorJ) -> Separation:
        """Distance of p from separating tokens at one speed, and how far it may move before others join in."""
        sign, log_w = self.log_pair_weights(p)
        signed, _ = self._normalised(sign, log_w)
        seen = self.seen(p)
        field = self.force(p)
        reach = self.keys @ field
        mean_gap = jnp.sum(field**2)
        if self.has_fixed_scores:
            outputs = attended_score(seen.log_attention, seen.scores)
            signed, reach, mean_gap = in_their_orders(getattr(self, "loss", None), outputs, signed, reach, mean_gap)
        unit = jnp.where(mean_gap > 0, mean_gap, 1.0)
        gaps = jnp.sign(signed) * (reach[:, :, None] - reach[:, None, :])
        spread = jnp.sum(jnp.abs(signed) * jnp.abs(gaps - mean_gap)) / 2 / unit
        first = jnp.argmax(seen.log_attention, axis=-1, keepdims=True)
        falls = (jnp.take_along_axis(reach, first, axis=-1) - reach) / unit
        falls = jnp.where(jnp.isfinite(self.log_multiplicity), falls, jnp.inf)
        feels = seen.scores != jnp.take_along_axis(seen.scores, first, axis=-1)
        with_first = jnp.take_along_axis(log_w, first[:, :, None], axis=1)[:, 0]
        behind = jnp.where(
            feels,
            jnp.max(with_first) - with_first,
            jnp.max(seen.log_attention, axis=-1, keepdims=True) - seen.log_attention,
        )
        load = jnp.sum(jnp.abs(signed), axis=-1)
        told = tokens_behind(falls, feels, behind, load, jnp.exp(seen.log_attention))
        return Separation(spread, *told[:-1], told[-1] / unit)


def in_their_orders(
    loss: Any, outputs: AnyArray, signed: AnyArray, reach: AnyArray, speed: AnyArray
) -> tuple[Any, Any, Any]:
    """(weights, speeds, common speed) with each input in units of the margin that it asks for, 1/order of the loss.

    An input of order k has weights that fall like exp(-k gap). It is one of order 1 whose keys are k times as long, and
    whose weights are 1/k of what they are. Inputs along the first axis.
    """
    if not (isinstance(loss, Loss) and loss.is_flat):
        return signed, reach, speed
    order = loss.order(outputs)
    signed, reach = signed / order[:, None, None], reach * order[:, None]
    total = jnp.sum(jnp.abs(signed), axis=(0, 1, 2)) / 2
    return signed, reach, speed / jnp.where(total > 0, total, 1.0)


class Separation(Module):
    """Measures of how far p is from separating tokens at one speed: all but the last are 0 or better in the limit.

    The gap of a pair is its key difference along the field, from the higher score to the lower; the mean gap is taken
    over the weights. A number each, or one for every lane.
    """

    spread: AnyArray  #: weighted mean of |gap/mean gap - 1|
    excess: AnyArray  #: smallest gap/mean gap - 1 of a token behind the first of its input at p
    lag: AnyArray  #: how fast a token without weight catches up: however little it weighs now, it will outweigh others
    leaves: AnyArray  #: the part of the spread that is due to tokens of little weight, which come or go
    joins: AnyArray  #: time until another token carries weight, at these speeds: a longer step passes it by


def tokens_behind(
    falls: AnyArray, feels: AnyArray, behind: AnyArray, load: AnyArray, share: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """(excess, lag, leaves, joins) over all tokens, the first two axes; the last in units of 1/mean gap.

    A token that pulls on p must fall behind the first of its input as fast as those that carry weight do, or its weight
    passes theirs some day; one that ties in score with the first must only not pass it. Lag is infinite where a token
    that pulls has attention yet: that input is not decided.

    Args:
        falls: speed at which a token falls behind the first of its input at p, in units of the mean gap.
        feels: True if its score differs from that token's.
        behind: its log-weight below the largest; below the first's logit if it does not pull.
        load: the weight of its pairs.
        share: its attention.
    """

    def total(numbers: AnyArray) -> AnyArray:
        return jnp.sum(jnp.where(load > 0, load * numbers, 0.0), axis=(0, 1))

    excess = falls - feels
    lag = jnp.where(feels & (share > NEGLIGIBLE), jnp.inf, jnp.where(load > NEGLIGIBLE, -jnp.inf, -excess))
    # The weight of a pair grows itself where a token of higher score is behind: then the others must be faster to join.
    weight = total(falls != 0)
    closes = (total(falls) / jnp.where(weight > 0, weight, 1.0))[None, None] * feels - falls
    is_joining = (closes > 0) & (behind > 0)
    joins = jnp.where(is_joining, (APPROACH * behind + PASSED_BY) / jnp.where(is_joining, closes, 1.0), jnp.inf)
    leaves = total(jnp.where(load <= LIGHT, jnp.abs(excess), 0.0))
    return jnp.min(excess, axis=(0, 1)), jnp.max(lag, axis=(0, 1)), leaves, jnp.min(joins, axis=(0, 1))


class PairField(KeyField):
    """The field of a linear head, whose scores do not depend on p, with its Jacobian in closed form."""

    keys: FieldKeys
    scores: TokenNumbersJ
    log_multiplicity: TokenNumbersJ
    loss: Loss
    has_fixed_scores: ClassVar[bool] = True

    def log_attention(self, p: VectorJ) -> TokenNumbersJ:
        """log s_it, shape (n, T)."""
        return log_attention(self.keys, self.log_multiplicity, p)

    def seen(self, p: VectorJ) -> Seen:
        """Attention and slopes at p; the scores are what they are."""
        log_s = self.log_attention(p)
        return Seen(log_s, self.loss.log_slope_of(log_s, jnp.exp(log_s), self.scores), self.scores)

    def value(self, p: VectorJ) -> ScalarJ:
        """L(p) = (1/n) sum_i l(f_i) [M, (ERM)]."""
        return jnp.mean(self.loss.value_of(self.log_attention(p), self.scores))

    def log_excess(self, p: VectorJ) -> tuple[ScalarJ, ScalarJ]:
        """(sign, log of the size) of L(p) - (1/n) sum_i l(max_t gamma_it)."""
        return pair_excess(self.log_attention(p), self.scores, self.log_multiplicity, self.loss)

    def force_and_jacobian(self, p: VectorJ) -> tuple[VectorJ, MatrixJ]:
        """G(p) and its derivative J(p), shape (d, d).

        J = sum_k C_k z_k (grad log w_k - m)' with z = x_t - x_u, grad log w = (l''/l') grad f + x_t + x_u - 2 xbar and
        m the weighted mean of grad log w. Pairs are never formed: sum_k C_k z_k (x_t + x_u)' = X'(diag(C 1) + C) X.
        """
        if isinstance(self.keys, OuterKeys):  # those of a matrix are followed in their span, where they are arrays
            return super().force_and_jacobian(p)
        signed, _ = self.pair_weights(p)
        log_s = self.log_attention(p)
        mean_key = jnp.einsum("nt,ntd->nd", jnp.exp(log_s), self.keys)
        bend = self._log_slope_gradient(log_s) - 2.0 * mean_key
        net = jnp.sum(signed, axis=-1)
        force = jnp.einsum("nt,ntd->nd", net, self.keys)
        load = jnp.sum(jnp.abs(signed), axis=-1)
        mean_change = jnp.einsum("nt,ntd->d", load, self.keys) + 0.5 * jnp.sum(load, axis=-1) @ bend
        field = jnp.sum(force, axis=0)
        mixed = jnp.einsum("nt,ntd->ntd", net, self.keys) + jnp.einsum("ntu,nud->ntd", signed, self.keys)
        jacobian = jnp.einsum("ntc,ntd->cd", self.keys, mixed) + force.T @ bend - jnp.outer(field, mean_change)
        return field, jacobian

    def _log_slope_gradient(self, log_s: TokenNumbersJ) -> InputVectorsJ:
        """grad_p log|l'(f_i)|, shape (n, d)."""
        bends = self.loss.log_slope_shares(log_s, jnp.exp(log_s), self.scores)
        return jnp.einsum("nt,ntd->nd", bends, self.keys)


def pair_excess(
    log_s: AnyArray, scores: AnyArray, log_multiplicity: AnyArray, loss: Loss, heads: int = 1
) -> tuple[AnyArray, AnyArray]:
    """(sign, log of the size) of the mean over inputs of l(sum_t s_t gamma_t) - l(max_t gamma_t).

    The output falls short of the highest score by sum_t s_t (max gamma - gamma_t): a sum of positive terms, which is
    taken in logarithms.
    """
    best = jnp.max(jnp.where(jnp.isfinite(log_multiplicity), scores, -jnp.inf), axis=-1)
    short = best[:, None] - scores
    counts = (short > 0) & jnp.isfinite(log_multiplicity)
    log_short = jnp.where(counts, log_s + jnp.log(jnp.where(counts, short, 1.0)), -jnp.inf)
    mass = jnp.sum(jnp.where(counts, jnp.exp(log_s), 0.0), axis=-1)
    log_change = jax.nn.logsumexp(log_short, axis=-1)
    if heads > 1:
        best, mass = (jnp.sum(one.reshape(heads, -1), axis=0) for one in (best, mass))
        log_change = jax.nn.logsumexp(log_change.reshape(heads, -1), axis=0)
    return log_mean_excess(loss, best, -jnp.ones_like(best), log_change, mass > DIRECT_ATTENTION)
