"""Where a path of p goes: to infinity in a direction, to a finite point, part of it each, or unknown.

Judged by the dynamics alone (`limits_of`): no max-margin problem is solved here, so that comparing the two later is a
comparison of independent things.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from tokenmargin._types import Vector
from tokenmargin.attention._repeats import same_key
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.risk import AttentionRisk
from tokenmargin.data import EmbeddedSequences, Selection, score_tie_widths, scores


class LimitKind(Enum):
    """Where the path goes; the value of each member says it in words."""

    DIVERGES = "diverges"
    FINITE = "finite"
    MIXED = "mixed"
    STALLED = "stalled"


#: A risk that is a function of p alone.
PointRisk = AttentionRisk | HeadRisk


class LimitVerdict:
    """What every limit says of itself."""

    kind: LimitKind

    @property
    def diverges(self) -> bool:
        """Whether |p| goes to infinity along `velocity`."""
        return self.kind is LimitKind.DIVERGES

    @property
    def finite(self) -> bool:
        """Whether p converges to an attracting stationary point."""
        return self.kind is LimitKind.FINITE

    @property
    def mixed(self) -> bool:
        """Whether part of p converges while the rest goes to infinity along `velocity`."""
        return self.kind is LimitKind.MIXED

    @property
    def stalled(self) -> bool:
        """Whether neither could be certified."""
        return self.kind is LimitKind.STALLED


@dataclass(frozen=True, eq=False)
class Limit(LimitVerdict):
    """The limit of a trajectory with the numbers that certify it.

    When p diverges and no two tokens of an input tie in score, the velocity and the support weights are a dual
    certificate of (ATT-SVM) for the selection. A token that ties with the selected one pulls on nothing, so it may fall
    behind by as little as it likes: then they certify the problem without it, in which either of the two will do
    [M, (ATT-SVM')]; `sequences` is that problem. In a mixed limit they certify the part that diverges.
    """

    kind: LimitKind
    risk: PointRisk = field(repr=False)
    p: Vector  #: last point, shape (d,)
    direction: Vector  #: p/|p|, which approaches the limit like 1/|p|
    velocity: Vector  #: G/|G|, which approaches it exponentially; zeros where the field vanishes
    selection: Selection  #: tokens of largest logit: along the velocity if diverging, else at p
    support: tuple[tuple[int, int, int], ...]  #: weighted pairs (input, selected, other), when diverging
    support_weights: np.ndarray = field(repr=False)  #: their weights, sum 1: the normalised duals, from the dynamics
    gap_spread: float  #: weighted mean of |gap/mean gap - 1| over the weighted pairs
    least_excess: float  #: smallest gap/mean gap - 1 over tokens of another score; inf if there are none
    adverse_weight: float  #: total weight of pairs that pull to the lower score or join two unselected tokens
    newton_step: float  #: |J^-1 G| / (1 + |p|), on the span of the differences
    largest_eigenvalue: float  #: of J's symmetric part on that span, relative to its norm; negative if attracting
    reason: str  #: one sentence
    finite_part: Vector | None = None  #: where the part that converges stays, shape (d,), orthogonal to the velocity

    @cached_property
    def sequences(self) -> EmbeddedSequences:
        """The problem whose max-margin direction this is to be compared with: see `felt` of the risk.

        Tokens of one key act as one, whatever p is: they all have their mean score. Tokens that tie in score with a
        selected one and are not selected are masked: nothing holds them back. In a mixed limit the selected tokens of
        an input share its attention for ever, so they all have the score that they have together.
        """
        felt = _with_one_score_a_key(self.risk.felt(self.p))
        if not self.mixed:
            return _without_tied(felt, self.selection.chosen)
        gamma = np.where(felt.mask, scores(felt), 0.0)
        share = np.where(self.selection.chosen, self.risk.attention(self.p), 0.0)
        together = (share * gamma).sum(axis=1) / share.sum(axis=1)
        gamma = np.where(self.selection.chosen, together[:, None], gamma)
        return EmbeddedSequences.from_scores(felt.keys, gamma, felt.mask)


def _with_one_score_a_key(data: EmbeddedSequences) -> EmbeddedSequences:
    """The data, with their mean score for tokens of an input that share a key."""
    gamma = np.where(data.mask, scores(data), 0.0)
    same = same_key(data.relative_keys, data.mask)
    mean = (same * gamma[:, None, :]).sum(axis=2) / np.maximum(same.sum(axis=2), 1)
    unlike = np.abs(mean - gamma) > score_tie_widths(data)[:, None]
    if not unlike.any():
        return data
    return EmbeddedSequences.from_scores(data.keys, np.where(unlike, mean, gamma), data.mask)


def _without_tied(data: EmbeddedSequences, chosen: np.ndarray) -> EmbeddedSequences:
    """The data without the tokens that tie in score with a selected one of their input and are not selected."""
    gamma = scores(data)
    selected = np.where(chosen, gamma, -np.inf).max(axis=1)
    tied = ~chosen & data.mask & (np.abs(gamma - selected[:, None]) <= score_tie_widths(data)[:, None])
    if not tied.any():
        return data
    keys = None if data.keys_are_tokens else data.keys
    return EmbeddedSequences(data.tokens, data.labels, data.head, keys=keys, mask=data.mask & ~tied)
