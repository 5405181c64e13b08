"""Where v and p go together, judged by the dynamics alone.

Along the velocities of v and of p the weight of an input in grad_v, and of a pair of tokens in grad_p, falls like
exp(-r s) with a rate r of its own. In the limit all that carry weight fall at one rate and all others faster; as the
velocities are the weighted sums of what carries weight, this is the optimality condition of the max-margin problems
that theory names. No such problem is solved here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, HeadVector, Vector
from tokenmargin.attention._judging import LEAST_NORM
from tokenmargin.attention._mixed import SAME_DIFFERENCE
from tokenmargin.attention.joint_risk import JointField, JointRisk
from tokenmargin.attention.limit import LimitKind, LimitVerdict
from tokenmargin.data import EmbeddedSequences, Selection, tie_widths

#: Largest weighted mean of |rate/mean rate - 1|, and most by which a rate may fall short of the mean. Rates carry terms
#: of order 1/|v| (scores grow with v), 1e-6 at the norm to which the flow goes; a wrong selection is off by 1e-2.
RATE_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class JointLimit(LimitVerdict):
    """The limit of a joint run with the numbers that certify it."""

    kind: LimitKind
    sequences: EmbeddedSequences = field(repr=False)
    v: HeadVector  #: last v, shape (k,)
    p: Vector  #: last p, shape (d,)
    head_velocity: HeadVector  #: unit vector along which v moves
    velocity: Vector  #: unit vector along which p moves
    rate: float  #: speed of v over speed of p
    selection: Selection  #: the token of largest attention of each input
    label_spread: float  #: weighted mean of |rate/mean rate - 1| over inputs, for v
    gap_spread: float  #: the same over pairs of tokens, for p
    least_excess: float  #: smallest rate/mean rate - 1 over inputs and over pairs
    reason: str  #: one sentence


@keep_precision
def joint_limit(
    risk: JointRisk, end: tuple[HeadVector, Vector], velocity: tuple[HeadVector, Vector], selection: Selection
) -> JointLimit:
    """Judge where (v, p) goes, given the unit velocities of v and of p.

    Args:
        risk: what is followed.
        end: the last v and p.
        velocity: of v and of p, as the path has them: the gradient at the end still feels the log-weights' error.
        selection: the token of largest attention in each input.
    """
    v, p = end
    move = risk.speeds[0] * velocity[0], risk.speeds[1] * velocity[1]
    inputs, pairs = ((np.asarray(w), np.asarray(rate)) for w, rate in _weights_and_rates(risk.own_field, end, move))
    label, gap = _spread(*inputs), _spread(*pairs)
    excess = min(label[1], gap[1])
    far = min(float(np.linalg.norm(v)), float(np.linalg.norm(p))) >= LEAST_NORM
    settled = far and max(label[0], gap[0]) <= RATE_TOLERANCE and excess >= -RATE_TOLERANCE
    above = settled and _keeps_its_distance(risk.own_field, end, *pairs)
    kind = LimitKind.DIVERGES if settled and not above else LimitKind.STALLED
    reason = (
        "A token of higher score keeps its distance: it pulls p away further on."
        if above
        else "All inputs and pairs that carry weight lose it at one rate, and all others lose it faster."
        if settled
        else "Inputs or pairs of tokens that carry weight still lose it at different rates: follow the flow further."
    )
    rate = risk.speeds[0] / risk.speeds[1]
    return JointLimit(kind, risk.sequences, v, p, *velocity, rate, selection, label[0], gap[0], excess, reason)


@eqx.filter_jit
def _weights_and_rates(
    field: JointField, end: tuple[AnyArray, AnyArray], move: tuple[AnyArray, AnyArray]
) -> tuple[tuple[AnyArray, AnyArray], tuple[AnyArray, AnyArray]]:
    """Log-weights of inputs and of pairs, each with the rate at which it falls along the move."""
    labels, change = jax.jvp(field.log_input_weights, end, move)
    pairs, pair_change = jax.jvp(field.log_pair_weights, end, move)
    lower = jnp.tril(jnp.ones(pairs.shape[1:], bool), -1)  # each pair once
    return (labels, -change), (jnp.where(lower[None], pairs, -jnp.inf).ravel(), -pair_change.ravel())


def _spread(log_w: np.ndarray, rate: np.ndarray) -> tuple[float, float]:
    """(weighted mean of |rate/mean rate - 1|, smallest rate/mean rate - 1); (inf, -inf) where nothing falls."""
    there = np.isfinite(log_w)
    if not there.any():
        return 0.0, np.inf
    weights, mean = _weighted_mean(log_w[there], rate[there])
    if not mean > 0:
        return np.inf, -np.inf
    off = rate[there] / mean - 1.0
    return float(weights @ np.abs(off)), float(off.min())


def _weighted_mean(log_w: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights, sum 1, and their mean rate."""
    weights = np.exp(log_w - log_w.max())
    weights /= weights.sum()
    return weights, float(weights @ rate)


def _keeps_its_distance(field: JointField, end: tuple[HeadVector, Vector], log_w: np.ndarray, rate: np.ndarray) -> bool:
    """Whether a token scores more than the selected one and loses no weight beside the pairs that hold p back.

    However little it weighs, it pulls for ever; unless another input that shares the two tokens selects the better one.
    """
    keys, weighted, present = (
        np.asarray(field.keys),
        np.isfinite(log_w),
        np.isfinite(np.asarray(field.log_multiplicity)),
    )
    if not weighted.any():
        return False
    (n, T), (v, p) = present.shape, end
    gamma = np.asarray(field.labels)[:, None] * (np.asarray(field.tokens) @ v)
    each, top = np.arange(n), np.where(present, keys @ p, -np.inf).argmax(axis=1)
    ahead = np.where(present, gamma - gamma[each, top][:, None], 0.0)
    level = (
        rate.reshape(n, T, T)[each, top] / _weighted_mean(log_w[weighted], rate[weighted])[1] - 1.0 <= RATE_TOLERANCE
    )
    rows = keys[each, top][:, None] - keys
    above = level & (ahead > tie_widths(gamma)[:, None])
    below = rows[level & (ahead < 0.0)]
    apart = np.abs(rows[above][:, None] - below).max(axis=-1)
    return bool((apart.min(axis=1, initial=np.inf) > SAME_DIFFERENCE * np.abs(rows).max()).any())
