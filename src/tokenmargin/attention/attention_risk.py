"""The training risk of attention on fixed tokens, as an objective to follow [M, (ERM)]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._exact_logits import shifted_gaps
from tokenmargin.attention._outer_keys import field_keys, in_spans
from tokenmargin.attention._repeats import have_repeats, repeats_merged
from tokenmargin.attention.head_risk import HeadRisk, Numbers
from tokenmargin.attention.heads import LinearHead
from tokenmargin.attention.pair_field import PairField
from tokenmargin.attention.risk import Risk, check_data_and_loss, check_decreasing
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection, score_tie_widths, scores
from tokenmargin.data.scores import scores_of_many
from tokenmargin.data.sequences import relative_to_first
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss, logistic


@checked
@dataclass(frozen=True, eq=False)
class AttentionRisk(Risk):
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

    @cached_property
    def field(self) -> PairField:
        """The same risk as pure JAX: repeated tokens merged, tied scores made equal, keys relative to a first token."""
        return _pair_field(self.sequences, self.loss)

    @keep_precision
    def descent_directions(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`descent_direction` at points of any norm, shape (s, d): (D of shape (s, d), c of shape (s,)).

        Differences of logits are exact, so that it is right where rounding hides the logits themselves.
        """
        field = self.field
        present, scores = np.isfinite(field.log_multiplicity), np.asarray(field.scores)
        parts = [shifted_gaps(self.sequences.keys, present, scores, point) for point in points]
        log_multiplicity = np.stack([np.where(present, field.log_multiplicity - gaps, -np.inf) for gaps, _ in parts])
        directions, log_scale = _directions(field, log_multiplicity)
        return np.asarray(directions), np.asarray(log_scale) - np.array([shift for _, shift in parts])

    @keep_precision
    def jacobian(self, p: ArrayLike) -> np.ndarray:
        """Derivative of `force` at p, shape (d, d)."""
        return np.asarray(_force_and_jacobian(self.field, self.point(p))[1])

    @checked
    def log_excess(self, points: ArrayLike, allowed: Selection | None = None) -> tuple[Numbers, Numbers, Numbers]:
        """Cost of attention outside the allowed tokens, at any norm of p; see `HeadRisk.log_excess`.

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


def as_risk(given: object) -> Risk:
    """A risk; that of a data set with the logistic loss, where the data alone are given."""
    if isinstance(given, Risk):
        return given
    if isinstance(given, EmbeddedSequences):
        return AttentionRisk(given)
    raise InvalidInputError(
        f"risk must be a Risk, such as an AttentionRisk, a HeadRisk or a JointRisk, or a data set, got "
        f"{type(given).__name__}: wrap your arrays as EmbeddedSequences(tokens, labels, head)."
    )


@eqx.filter_jit
def _directions(field: PairField, log_multiplicity: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Descent directions where the logits are those given in place of multiplicities."""

    def one(given: AnyArray) -> tuple[AnyArray, AnyArray]:
        moved = eqx.tree_at(lambda f: f.log_multiplicity, field, given)
        return moved.descent_direction(jnp.zeros(field.keys.shape[2], field.keys.dtype))

    return jax.vmap(one)(log_multiplicity)


_force_and_jacobian = eqx.filter_jit(lambda risk, p: risk.force_and_jacobian(p))


def _pair_field(sequences: EmbeddedSequences, loss: Loss) -> PairField:
    gamma, mask = scores(sequences), sequences.mask
    check_decreasing(loss, gamma)
    told = merged_scores(sequences.key_marks[None], gamma[None], score_tie_widths(sequences)[None], mask[None])
    return PairField(keys=field_keys(sequences), scores=told[0][0], log_multiplicity=told[1][0], loss=loss)


def pair_fields(risks: Sequence[AttentionRisk]) -> tuple[PairField, Coordinates]:
    """`in_span` of many risks, whose data have arrays of the same shapes and no queries, and whose loss is one."""
    data, loss = [risk.sequences for risk in risks], risks[0].loss
    gamma, widths = scores_of_many(data)
    for own in gamma:
        check_decreasing(loss, own)
    mask = np.stack([one.mask for one in data])
    keys = relative_to_first(np.stack([one.keys for one in data]), mask)
    told = merged_scores(keys, gamma, widths, mask)
    inside, coordinates = in_spans(keys, mask)
    first = PairField(keys=inside[0], scores=told[0][0], log_multiplicity=told[1][0], loss=loss)
    arrays = inside, *told
    return eqx.tree_at(lambda one: (one.keys, one.scores, one.log_multiplicity), first, arrays), coordinates


def merged_scores(
    marks: np.ndarray, gamma: np.ndarray, widths: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and log multiplicity of B problems, repeated tokens merged and tied scores made equal.

    Args:
        marks: numbers of a token that are those of another of its input where their keys are, shape (B, n, T, m).
        gamma: scores, shape (B, n, T).
        widths: distances below which they are ties, shape (B, n).
        mask: shape (B, n, T).
    """
    gamma = ties_made_equal(np.where(mask, gamma, 0.0), widths[:, :, None])
    log_multiplicity = np.where(mask, 0.0, -np.inf)
    for j in np.flatnonzero(have_repeats(marks, mask)).tolist():
        values, log_multiplicity[j] = repeats_merged(marks[j], gamma[j, :, :, None], mask[j])
        gamma[j] = values[:, :, 0]
    return gamma, log_multiplicity


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
