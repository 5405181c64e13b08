"""The training risk of attention on fixed tokens, as an objective to follow [M, (ERM)]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin._types import ArrayLike
from tokenmargin.attention._coordinates import Coordinates, in_span_of_differences
from tokenmargin.attention.field import PairField
from tokenmargin.attention.losses import Loss, logistic
from tokenmargin.data import EmbeddedSequences, score_tie_width, scores
from tokenmargin.errors import InvalidInputError


def check_data_and_loss(sequences: object, loss: object) -> None:
    """Raise unless these are what every risk is made of."""
    if not isinstance(sequences, EmbeddedSequences):
        raise InvalidInputError(
            f"sequences must be EmbeddedSequences, got {type(sequences).__name__}: "
            "wrap the arrays as EmbeddedSequences(tokens, labels, head)."
        )
    if not isinstance(loss, Loss):
        raise InvalidInputError(
            f"loss must be a Loss, got {type(loss).__name__}: use logistic, exponential, correlation, "
            "or CustomLoss(function) for your own."
        )


@dataclass(frozen=True, eq=False)
class AttentionRisk:
    """L(p) = (1/n) sum_i l(Y_i v'X_i' softmax(K_i p)) for fixed tokens and head [M, (ERM)].

    Args:
        sequences: n inputs of T tokens, keys of width d.
        loss: a decreasing loss; `logistic`, `exponential`, `correlation` or `CustomLoss(function)`.
    """

    sequences: EmbeddedSequences
    loss: Loss = logistic

    def __post_init__(self) -> None:
        """Refuse anything that is not a data set and a loss."""
        check_data_and_loss(self.sequences, self.loss)

    @property
    def width(self) -> int:
        """d, the width of p."""
        return self.sequences.width

    @cached_property
    def pair_field(self) -> PairField:
        """The same risk as pure JAX: repeated tokens merged, tied scores made equal, keys relative to a first token."""
        return _pair_field(self.sequences, self.loss)

    @cached_property
    def in_span(self) -> tuple[PairField, Coordinates]:
        """The same again in the span of the key differences, where it is followed."""
        return in_span_of_differences(self.pair_field)

    @keep_precision
    def value(self, p: ArrayLike) -> float:
        """L(p)."""
        return float(_value(self.pair_field, self._point(p)))

    @keep_precision
    def gradient(self, p: ArrayLike) -> np.ndarray:
        """grad L(p), shape (d,), free of cancellation however saturated the softmax is (see `pair_field`)."""
        return np.asarray(_gradient(self.pair_field, self._point(p)))

    @keep_precision
    def field(self, p: ArrayLike) -> np.ndarray:
        """G(p) = -grad L(p) / (sum of pair weights), shape (d,): never under- or overflows."""
        return np.asarray(_field(self.pair_field, self._point(p)))

    @keep_precision
    def jacobian(self, p: ArrayLike) -> np.ndarray:
        """Derivative of `field` at p, shape (d, d)."""
        return np.asarray(_field_and_jacobian(self.pair_field, self._point(p))[1])

    @keep_precision
    def attention(self, p: ArrayLike) -> np.ndarray:
        """softmax(K_i p), shape (n, T); zero on masked tokens. Each copy of a repeated token gets its own share."""
        keys = np.where(self.sequences.mask[:, :, None], self.sequences.keys, 0)
        logits = np.where(self.sequences.mask, keys @ self._point(p), -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    @cached_property
    def smoothness(self) -> float:
        """L_p, a Lipschitz constant of the gradient, so that descent with lr <= 1/L_p decreases the risk.

        With keys tied to the tokens (K = X, W = I) it is [M, (6)],
        (1/n) sum_i M0 |v|^2 |X_i|^4 + 3 M1 |v| |X_i|^3; with keys given beside X the step before it in the proof
        [M, (29)], (1/n) sum_i M0 |gamma_i|^2 |K_i|^2 + 3 M1 |gamma_i| |K_i|^2. Spectral norms; M0 and M1 bound
        l'' and |l'| over the range of the scores.
        """
        data = self.sequences
        gamma = np.where(data.mask, scores(data), 0.0)
        present = gamma[data.mask]
        m0, m1 = self.loss.bounds(float(present.min()), float(present.max()))
        keys = np.where(data.mask[:, :, None], data.keys, 0.0)
        size = np.linalg.norm(keys, ord=2, axis=(1, 2))
        if data.keys_are_tokens:
            head = float(np.linalg.norm(data.head))
            return float(np.mean(m0 * head**2 * size**4 + 3 * m1 * head * size**3))
        score_norm = np.linalg.norm(gamma, axis=1)
        return float(np.mean(m0 * score_norm**2 * size**2 + 3 * m1 * score_norm * size**2))

    def _point(self, p: ArrayLike) -> np.ndarray:
        return self.sequences.direction(p).astype(self.sequences.keys.dtype, copy=False)


_value = eqx.filter_jit(lambda risk, p: risk.value(p))
_gradient = eqx.filter_jit(lambda risk, p: risk.gradient(p))
_field = eqx.filter_jit(lambda risk, p: risk.field(p))
_field_and_jacobian = eqx.filter_jit(lambda risk, p: risk.field_and_jacobian(p))


def _pair_field(sequences: EmbeddedSequences, loss: Loss) -> PairField:
    keys = np.where(sequences.mask[:, :, None], sequences.keys, 0)
    first = sequences.mask.argmax(axis=1)
    keys = np.where(sequences.mask[:, :, None], keys - keys[np.arange(len(keys)), first][:, None, :], 0)
    gamma = np.where(sequences.mask, scores(sequences), 0)
    gamma = ties_made_equal(gamma, score_tie_width(gamma))
    gamma, log_multiplicity = _repeats_merged(keys, gamma, sequences.mask)
    dtype = sequences.keys.dtype
    return PairField(keys.astype(dtype), gamma.astype(dtype), log_multiplicity.astype(dtype), loss)


def ties_made_equal(gamma: np.ndarray, width: float | np.ndarray) -> np.ndarray:
    """Scores of one input, along the last axis, that differ by rounding become one number.

    A pair of selected tokens keeps its full weight for ever; with a score gap of 1e-17 it would outweigh, past a norm
    of 39, everything that decides the direction.
    """
    order = np.argsort(gamma, axis=-1)
    ordered = np.take_along_axis(gamma, order, axis=-1)
    starts_group = np.diff(ordered, axis=-1, prepend=-np.inf) > width
    if starts_group.all():
        return gamma.copy()
    leader = np.maximum.accumulate(np.where(starts_group, np.arange(gamma.shape[-1]), 0), axis=-1)
    equal = np.empty_like(gamma)
    np.put_along_axis(equal, order, np.take_along_axis(ordered, leader, axis=-1), axis=-1)
    return equal


def _repeats_merged(keys: np.ndarray, gamma: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of one input with identical keys act as one token of that multiplicity and their mean score (exactly).

    Left apart, a pair of them would carry weight but no force, and drown the pairs that do.
    """
    n, T = gamma.shape
    merged, log_multiplicity = gamma.copy(), np.where(mask, 0.0, -np.inf)
    same = (keys[:, :, None, :] == keys[:, None, :, :]).all(axis=-1) & mask[:, :, None] & mask[:, None, :]
    if same.sum() == mask.sum():
        return merged, log_multiplicity
    for i in range(n):
        for t in range(T):
            group = np.flatnonzero(same[i, t])
            if len(group) < 2:
                continue
            if group[0] == t:
                values = gamma[i, group]
                merged[i, t] = values[0] if (values == values[0]).all() else values.mean()
                log_multiplicity[i, t] = np.log(len(group))
            else:
                log_multiplicity[i, t] = -np.inf
    return merged, log_multiplicity
