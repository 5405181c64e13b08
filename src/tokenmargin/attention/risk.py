"""The training risk of attention on fixed tokens, as an objective to follow [M, (ERM)]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike, TokenNumbers
from tokenmargin.attention._coordinates import Coordinates, in_span_of_differences
from tokenmargin.attention._exact_logits import shifted_gaps
from tokenmargin.attention._repeats import repeats_merged
from tokenmargin.attention._risk_inputs import check_data_and_loss, check_decreasing
from tokenmargin.attention.field import PairField
from tokenmargin.attention.head_risk import HeadRisk, Numbers
from tokenmargin.attention.heads import LinearHead
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection, score_tie_widths, scores
from tokenmargin.losses import Loss, logistic


@checked
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

    @property
    def own_field(self) -> PairField:
        """`pair_field`, by the name that every risk has for the field in its own coordinates."""
        return self.pair_field

    @cached_property
    def in_span(self) -> tuple[PairField, Coordinates]:
        """The same again in the span of the key differences, where it is followed."""
        return in_span_of_differences(self.pair_field)

    @keep_precision
    def value(self, p: ArrayLike) -> float:
        """L(p)."""
        return float(_value(self.pair_field, self.point(p)))

    @keep_precision
    def gradient(self, p: ArrayLike) -> np.ndarray:
        """grad L(p), shape (d,), free of cancellation however saturated the softmax is (see `pair_field`)."""
        return np.asarray(_gradient(self.pair_field, self.point(p)))

    @keep_precision
    def descent_direction(self, p: ArrayLike) -> tuple[np.ndarray, float]:
        """(D, c) with -grad L(p) = exp(c) D and D of order one: never under- or overflows."""
        direction, log_scale = _direction(self.pair_field, self.point(p))
        return np.asarray(direction), float(log_scale)

    @keep_precision
    def descent_directions(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`descent_direction` at points of any norm, shape (s, d): (D of shape (s, d), c of shape (s,)).

        Differences of logits are exact, so that it is right where rounding hides the logits themselves.
        """
        field = self.pair_field
        present, scores = np.isfinite(field.log_multiplicity), np.asarray(field.scores)
        parts = [shifted_gaps(self.sequences.keys, present, scores, point) for point in points]
        log_multiplicity = np.stack([np.where(present, field.log_multiplicity - gaps, -np.inf) for gaps, _ in parts])
        directions, log_scale = _directions(field, log_multiplicity)
        return np.asarray(directions), np.asarray(log_scale) - np.array([shift for _, shift in parts])

    @keep_precision
    def field(self, p: ArrayLike) -> np.ndarray:
        """G(p) = -grad L(p) / (sum of pair weights), shape (d,): never under- or overflows."""
        return np.asarray(_field(self.pair_field, self.point(p)))

    @keep_precision
    def jacobian(self, p: ArrayLike) -> np.ndarray:
        """Derivative of `field` at p, shape (d, d)."""
        return np.asarray(_field_and_jacobian(self.pair_field, self.point(p))[1])

    def attention(self, p: ArrayLike) -> TokenNumbers:
        """softmax(K_i p), shape (n, T); zero on masked tokens. Each copy of a repeated token gets its own share."""
        return self.sequences.attention(p)

    @checked
    def log_excess(self, points: ArrayLike, allowed: Selection | None = None) -> tuple[Numbers, Numbers, Numbers]:
        """How much attention outside the allowed tokens costs, at any norm of p; see `HeadRisk.log_excess`.

        Args:
            points: shape (s, d).
            allowed: shape (n, T); the tokens of highest score when absent, whose loss no p can beat.
        """
        chosen = optimal_selection(self.sequences) if allowed is None else allowed
        return HeadRisk(self.sequences, LinearHead(self.sequences.head), self.loss).log_excess(points, chosen)

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
        size = np.linalg.norm(data.keys, ord=2, axis=(1, 2))
        if data.keys_are_tokens:
            head = float(np.linalg.norm(data.head))
            return float(np.mean(m0 * head**2 * size**4 + 3 * m1 * head * size**3))
        score_norm = np.linalg.norm(gamma, axis=1)
        return float(np.mean(m0 * score_norm**2 * size**2 + 3 * m1 * score_norm * size**2))

    @property
    def optimal(self) -> Selection:
        """The tokens of highest score [M, Def. 1]."""
        return optimal_selection(self.sequences)

    def felt(self, p: ArrayLike) -> EmbeddedSequences:
        """The problem that p feels: the data itself, whatever p is, as the head is linear."""
        del p
        return self.sequences

    @checked
    def point(self, p: ArrayLike, name: str = "p") -> np.ndarray:
        """p as a vector of float64, or an error that says what is wrong with it."""
        return self.sequences.direction(p, name)


_value = eqx.filter_jit(lambda risk, p: risk.value(p))
_gradient = eqx.filter_jit(lambda risk, p: risk.gradient(p))
_direction = eqx.filter_jit(lambda risk, p: risk.descent_direction(p))
_field = eqx.filter_jit(lambda risk, p: risk.field(p))


@eqx.filter_jit
def _directions(field: PairField, log_multiplicity: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Descent directions where the logits are those given in place of multiplicities."""

    def one(given: AnyArray) -> tuple[AnyArray, AnyArray]:
        moved = eqx.tree_at(lambda f: f.log_multiplicity, field, given)
        return moved.descent_direction(jnp.zeros(field.keys.shape[2], field.keys.dtype))

    return jax.vmap(one)(log_multiplicity)


_field_and_jacobian = eqx.filter_jit(lambda risk, p: risk.field_and_jacobian(p))


def _pair_field(sequences: EmbeddedSequences, loss: Loss) -> PairField:
    keys = sequences.relative_keys
    check_decreasing(loss, scores(sequences))
    gamma = np.where(sequences.mask, scores(sequences), 0)
    gamma = ties_made_equal(gamma, score_tie_widths(sequences)[:, None])
    gamma, log_multiplicity = repeats_merged(keys, gamma[:, :, None], sequences.mask)
    return PairField(keys=keys, scores=gamma[:, :, 0], log_multiplicity=log_multiplicity, loss=loss)


def ties_made_equal(gamma: np.ndarray, width: np.ndarray) -> np.ndarray:
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
