"""The descent direction and the field of many problems at once, problems side by side along the last axis.

The same sums as in `PairField`, laid out so that every operation runs over neighbouring problems: a processor does four
or eight of them at a time, where an axis of six tokens would leave it idle.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._types import AnyArray
from tokenmargin.attention._outer_keys import OuterKeys
from tokenmargin.attention._pulls import Pulls
from tokenmargin.attention._scaled import ScaledVector
from tokenmargin.attention._size_classes import is_small
from tokenmargin.attention.method import Excess, Gradient
from tokenmargin.attention.pair_field import (
    KeyField,
    PairField,
    Separation,
    in_their_orders,
    pair_excess,
    tokens_behind,
)
from tokenmargin.losses import Loss

LaneKeys = Float[Array | np.ndarray, "n T d lanes"]
LaneScores = Float[Array | np.ndarray, "n T lanes"]
LaneVectors = Float[Array | np.ndarray, "d lanes"]
LaneMatrices = Float[Array | np.ndarray, "d d lanes"]
LaneNumbers = Float[Array | np.ndarray, "lanes"]

#: Sums of at most so many terms are written out: the compiler then keeps the partial sums in registers.
WRITTEN_OUT = 32

#: Most points evaluated together: with as many problems or more, one compilation serves any number of them.
EVALUATED = 128


class LaneField(eqx.Module):
    """Risks L(p) of problems of one shape and loss, one in each lane; the first key of every input is 0."""

    keys: LaneKeys
    scores: LaneScores
    log_multiplicity: LaneScores
    loss: Loss
    n_outputs: LaneNumbers  #: number of inputs that the loss is a mean over: without those that fill up a shape
    has_fixed_scores: ClassVar[bool] = True

    @classmethod
    def of(
        cls, keys: AnyArray, scores: AnyArray, log_multiplicity: AnyArray, loss: Loss, n_outputs: AnyArray | None = None
    ) -> LaneField:
        """Make it from problems stacked along axis 0. Keys become relative to the first: softmax feels no shift."""
        counts = np.full(len(keys), float(keys.shape[1])) if n_outputs is None else n_outputs
        return cls(_last(keys - keys[:, :, :1]), _last(scores), _last(log_multiplicity), loss, counts)

    def lanes(self, which: np.ndarray) -> LaneField:
        """Some of the lanes."""
        keys, scores, counts = (x[..., which] for x in (self.keys, self.scores, self.log_multiplicity))
        return LaneField(keys, scores, counts, self.loss, self.n_outputs[which])

    def descent(self, p: LaneVectors) -> tuple[Gradient, Excess]:
        """Gradient and excess at p, which a method's step is given, for every lane along the last axis."""
        coefficient, log_scale = self.coefficients(p)
        size = jnp.sum(jnp.abs(coefficient), axis=(0, 1)) / 2
        net = coefficient / jnp.where(size > 0, size, 1.0)[None, None]
        total = ScaledVector(self._summed(coefficient), log_scale)
        pulls = jax.vmap(self._pulls, -1, -1)(self.keys, self.scores, self.log_multiplicity, self._log_more, p)
        return Gradient((total,), pulls, net), Excess(*self.log_excess(p))

    def _pulls(
        self, keys: AnyArray, scores: AnyArray, log_multiplicity: AnyArray, more: AnyArray, p: AnyArray
    ) -> Pulls:
        """The pulls of tokens in one lane, of which `more` is the logarithm of what a mean over fewer inputs adds."""
        told = PairField(keys=keys, scores=scores, log_multiplicity=log_multiplicity, loss=self.loss).pulls(p)
        return Pulls(told.keys, told.top, told.sign, told.log_weight + more, told.log_scale + more)

    @property
    def _log_more(self) -> LaneNumbers:
        """Logarithm of all inputs over those that count."""
        return jnp.log(self.keys.shape[0] / jnp.asarray(self.n_outputs))

    @staticmethod
    def moved(before: LaneVectors, after: LaneVectors) -> LaneVectors:
        """Return `after`, the point to which a step from `before` leads."""
        del before
        return after

    def log_excess(self, p: LaneVectors) -> tuple[LaneNumbers, LaneNumbers]:
        """(sign, log of the size) of L(p) minus the loss of the tokens of highest score, for every lane."""
        log_s = jax.nn.log_softmax(jnp.sum(self.keys * p[None, None], axis=2) + self.log_multiplicity, axis=1)
        one = partial(pair_excess, loss=self.loss)
        sign, size = jax.vmap(one, in_axes=-1, out_axes=-1)(log_s, self.scores, self.log_multiplicity)
        return sign, size + self._log_more

    def descent_direction(self, p: LaneVectors) -> tuple[LaneVectors, LaneNumbers]:
        """(D, c) with -grad L(p) = exp(c) D and D of order one, for every lane.

        With * the top token of an input and w_t = |l'| s_t (gamma_t - gamma_*) in units of exp(c), the coefficient of
        key t is w_t - s_t sum w, and that of the top key minus the sum of the others. No coefficient cancels; what
        rounds is their sum over keys, to 1e-16 of the longest key difference.
        """
        coefficient, log_scale = self.coefficients(p)
        return self._summed(coefficient), log_scale

    def _summed(self, coefficient: LaneScores) -> LaneVectors:
        n, T, _, _ = self.keys.shape
        if 1 < T <= WRITTEN_OUT // n:
            return _total([self.keys[i, t] * coefficient[i, t][None] for i in range(n) for t in range(1, T)])
        return jnp.sum(self.keys * coefficient[:, :, None], axis=(0, 1))

    def coefficients(self, p: LaneVectors) -> tuple[LaneScores, LaneNumbers]:
        """(coefficient of each key in the descent direction, c), for every lane."""
        T = self.keys.shape[1]
        logits = self._along(p) + self.log_multiplicity
        top = jnp.arange(T)[None, :, None] == jnp.argmax(logits, axis=1, keepdims=True)
        behind = logits - jnp.max(logits, axis=1, keepdims=True)
        share = jnp.exp(behind)
        normaliser = jnp.sum(share, axis=1, keepdims=True)
        share /= normaliser
        ahead = self.scores - jnp.sum(jnp.where(top, self.scores, 0.0), axis=1, keepdims=True)
        log_share = behind - jnp.log(normaliser)
        slope = self.loss.log_slope_of(log_share, share, self.scores) - jnp.log(normaliser[:, 0])
        log_weight = jnp.where(ahead != 0, behind + slope[:, None], -jnp.inf)
        largest = jnp.max(log_weight, axis=(0, 1))
        largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
        pull = jnp.exp(log_weight - largest[None, None]) * ahead
        others = jnp.where(top, 0.0, pull - share * jnp.sum(pull, axis=1, keepdims=True))
        return jnp.where(top, -jnp.sum(others, axis=1, keepdims=True), others), largest - jnp.log(self.n_outputs)

    def force(self, p: LaneVectors) -> LaneVectors:
        """G(p) of `PairField.force`, for every lane."""
        return self._pulled(jnp.sum(self._pairs(p)[0], axis=2))

    def force_and_jacobian(self, p: LaneVectors) -> tuple[LaneVectors, LaneMatrices]:
        """G(p) and its derivative, of `PairField.force_and_jacobian`, for every lane.

        With c_t the coefficient of key t in grad log|l'| - 2 xbar, b_i = sum_t c_it x_it and m the weighted mean of
        grad log w, J = sum_it x_it (sum_u C_itu x_iu + (C 1)_it (x_it + b_i - m))': one outer product a token.
        """
        pairs, share, log_share, _ = self._pairs(p)
        T = self.keys.shape[1]
        net, load = jnp.sum(pairs, axis=2), jnp.sum(jnp.abs(pairs), axis=2)
        bend = self.loss.log_slope_shares(log_share, share, self.scores) - 2.0 * share
        felt = load + 0.5 * jnp.sum(load, axis=1, keepdims=True) * bend
        shift = jnp.sum(self.keys * bend[:, :, None], axis=1) - self._pulled(felt)[None]
        reached = self.keys + shift[:, None]
        beside = [pairs[:, :, u, None] * self.keys[:, None, u] for u in range(1, T)]
        rows = _total([net[:, :, None] * reached, *beside])
        return self._pulled(net), jnp.einsum("itcl,itdl->cdl", self.keys[:, 1:], rows[:, 1:])

    def separation(self, p: LaneVectors) -> Separation:
        """Separation at p for every lane, as in `KeyField.separation`."""
        pairs, share, log_share, log_weight = self._pairs(p)
        force = self._pulled(jnp.sum(pairs, axis=2))
        reach = self._along(force)
        mean_gap = jnp.sum(force**2, axis=0)
        outputs = jnp.sum(share * self.scores, axis=1)
        pairs, reach, mean_gap = in_their_orders(self.loss, outputs, pairs, reach, mean_gap)
        unit = jnp.where(mean_gap > 0, mean_gap, 1.0)
        uneven = jnp.abs(jnp.sign(pairs) * _apart(reach) - mean_gap[None, None, None])
        spread = jnp.sum(jnp.abs(pairs) * uneven, axis=(0, 1, 2)) / 2 / unit
        falls = (self._of_first(reach, log_share) - reach) / unit[None, None]
        falls = jnp.where(jnp.isfinite(self.log_multiplicity), falls, jnp.inf)
        ahead = jnp.abs(self.scores - self._of_first(self.scores, log_share))
        feels = ahead > 0
        with_first = jnp.where(feels, log_weight + jnp.log(jnp.where(feels, ahead, 1.0)), -jnp.inf)
        behind = jnp.where(feels, jnp.max(with_first, axis=(0, 1))[None, None] - with_first, -log_share)
        told = tokens_behind(falls, feels, behind, jnp.sum(jnp.abs(pairs), axis=2), share)
        return Separation(spread, *told[:-1], told[-1] / unit)

    def _along(self, p: LaneVectors) -> LaneScores:
        """K_i p, shape (n, T, lanes)."""
        d = self.keys.shape[2]
        if d <= WRITTEN_OUT:
            return _total([self.keys[:, :, j] * p[j][None, None] for j in range(d)])
        return jnp.sum(self.keys * p[None, None], axis=2)

    def _pulled(self, coefficients: LaneScores) -> LaneVectors:
        """sum_it coefficient_it x_it, shape (d, lanes)."""
        return jnp.sum(self.keys * coefficients[:, :, None], axis=(0, 1))

    @staticmethod
    def _of_first(numbers: LaneScores, logits: LaneScores) -> AnyArray:
        """The number of the first token of largest logit, shape (n, 1, lanes)."""
        top = jnp.arange(logits.shape[1])[None, :, None] == jnp.argmax(logits, axis=1, keepdims=True)
        return jnp.sum(jnp.where(top, numbers, 0.0), axis=1, keepdims=True)

    def _pairs(self, p: LaneVectors) -> tuple[AnyArray, LaneScores, LaneScores, LaneScores]:
        """(C_itu, s_it, b_t, log-weight of t beside the first token): C as in `KeyField.pair_weights`.

        With b_t the logit of t minus the largest, w_tu = |l'| exp(b_t) exp(b_u) over squares of normalisers. Of the two
        exponentials that of a token which does not tie with the first in score takes the common scale out: it is then
        at most 1, as pairs with the first are among those that the scale is the largest of.
        """
        logits = self._along(p) + self.log_multiplicity
        behind = logits - jnp.max(logits, axis=1, keepdims=True)
        plain = jnp.exp(behind)
        normaliser = jnp.sum(plain, axis=1, keepdims=True)
        share = plain / normaliser
        differs = self.scores != self._of_first(self.scores, logits)
        log_normaliser = jnp.log(normaliser)
        slope = self.loss.log_slope_of(behind - log_normaliser, share, self.scores)[:, None] - 2.0 * log_normaliser
        log_weight = jnp.where(differs, behind + slope, -jnp.inf)
        largest = jnp.max(log_weight, axis=(0, 1))
        scaled = jnp.exp(log_weight - jnp.where(jnp.isfinite(largest), largest, 0.0)[None, None])
        # Both tokens of a pair make the same choice, so that what pulls one holds back the other exactly.
        earlier = jnp.triu(jnp.ones((logits.shape[1],) * 2, dtype=bool), 1)[None, :, :, None]
        by_other = differs[:, None] & (~differs[:, :, None] | earlier)
        weight = jnp.where(by_other, plain[:, :, None] * scaled[:, None], scaled[:, :, None] * plain[:, None])
        pulls = _apart(self.scores) * weight
        total = jnp.sum(jnp.abs(pulls), axis=(0, 1, 2)) / 2
        return pulls / jnp.where(total > 0, total, 1.0)[None, None, None], share, behind, log_weight


class StackedFields(eqx.Module):
    """Any risks of one structure, one in each lane, where no faster layout is known."""

    stacked: Any  #: the field of a risk, its arrays stacked along the first axis

    def lanes(self, which: np.ndarray) -> StackedFields:
        """Some of the lanes."""
        return StackedFields(jax.tree.map(lambda x: x[which], self.stacked))

    def descent(self, p: LaneVectors) -> tuple[Gradient, Excess]:
        """Gradient and excess at p, which a method's step is given, for every lane along the last axis."""
        told: tuple[Gradient, Excess] = jax.vmap(lambda field, x: field.descent(x), (0, -1), -1)(self.stacked, p)
        return told

    def moved(self, before: LaneVectors, after: LaneVectors) -> LaneVectors:
        """Points to which a step from `before` to `after` leads, after the correction by every lane's field."""
        return jax.vmap(lambda field, x, y: field.moved(x, y), (0, -1, -1), -1)(self.stacked, before, after)


def in_lanes(fields: Sequence[Any], n_outputs: Sequence[int] = ()) -> LaneField | StackedFields:
    """Fields of one structure and shape, a lane for each, in the fastest layout that is known for them.

    Args:
        fields: the fields.
        n_outputs: number of inputs that each loss is a mean over, where others fill up the shape; all if not given.
    """
    stacked = jax.tree.map(lambda *x: np.stack(x), *fields)
    known = fields[0].has_fixed_scores and not isinstance(fields[0].keys, OuterKeys)
    counts = np.array(n_outputs, stacked.scores.dtype) if known and len(n_outputs) else None
    return side_by_side(stacked, fields[0].loss, counts) if known else StackedFields(stacked)


def side_by_side(stacked: Any, loss: Loss | None = None, n_outputs: AnyArray | None = None) -> LaneField:
    """Fields of fixed scores, stacked along the first axis, with problems along the last."""
    return LaneField.of(stacked.keys, stacked.scores, stacked.log_multiplicity, loss or stacked.loss, n_outputs)


def evaluated(systems: KeyField, points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Force, Jacobian, signed pair weights and scores at a point of each of a stack, EVALUATED of them at a time."""
    several = EVALUATED if is_small(systems.keys.shape[1:]) else 1 << (len(points) - 1).bit_length()
    size = min(EVALUATED, several) if len(points) > 1 else 1
    parts = []
    for begin in range(0, len(points), size):
        rows = np.minimum(np.arange(begin, begin + size), len(points) - 1)  # a short block repeats the last point
        some = jax.tree.map(lambda x, rows=rows: x[rows], systems)
        parts.append(jax.device_get(_evaluate(some, points[rows])))
    return tuple(np.concatenate(found)[: len(points)] for found in zip(*parts, strict=True))


def widened(points: np.ndarray, system: Any) -> np.ndarray:
    """Points with zeros in the coordinates that fill up the keys of a system, shape (..., d)."""
    return np.pad(points, [(0, 0)] * (points.ndim - 1) + [(0, system.keys.shape[-1] - points.shape[-1])])


@eqx.filter_jit
def _evaluate(systems: KeyField, points: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    def one(system: KeyField, y: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        signed, _ = system.pair_weights(y)
        return *system.force_and_jacobian(y), signed, system.seen(y).scores

    return jax.vmap(one)(systems, points)


def _apart(numbers: AnyArray) -> AnyArray:
    """Number t minus number u of the same input, shape (n, T, lanes) -> (n, T, T, lanes)."""
    return numbers[:, :, None] - numbers[:, None]


def _total(parts: Sequence[AnyArray]) -> AnyArray:
    return reduce(operator.add, parts)


def _last(stacked: AnyArray) -> AnyArray:
    if isinstance(stacked, jax.Array):
        return jnp.moveaxis(stacked, 0, -1)
    return np.ascontiguousarray(np.moveaxis(stacked, 0, -1))
