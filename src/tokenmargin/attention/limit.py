"""The limit of a path: to infinity in a direction, to a finite point, part of it each, or unknown.

It is judged by the dynamics alone (`limits_of`): no max-margin problem is solved here, so that comparing the two later
is a comparison of independent things.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from tokenmargin._types import Vector
from tokenmargin.attention._points import unit_rows
from tokenmargin.attention._repeats import same_key
from tokenmargin.attention.blocks import Role, by_block
from tokenmargin.attention.risk import Risk
from tokenmargin.data import EmbeddedSequences, Selection, score_tie_widths, scores


class LimitKind(Enum):
    """Kind of limit that a path has; the value of each member says it in words."""

    DIVERGES = "diverges"
    FINITE = "finite"
    MIXED = "mixed"
    STALLED = "stalled"


class LimitVerdict:
    """The kind of a limit, as questions."""

    kind: LimitKind

    @property
    def diverges(self) -> bool:
        """True if |p| goes to infinity along `velocity`."""
        return self.kind is LimitKind.DIVERGES

    @property
    def finite(self) -> bool:
        """True if p converges to an attracting stationary point."""
        return self.kind is LimitKind.FINITE

    @property
    def mixed(self) -> bool:
        """True if part of p converges while the rest goes to infinity along `velocity`."""
        return self.kind is LimitKind.MIXED

    @property
    def stalled(self) -> bool:
        """True if nothing could be certified; `reason` says why."""
        return self.kind is LimitKind.STALLED


@dataclass(frozen=True, eq=False)
class BlockLimit:
    """The limit of one block of a point, each array of the block's shape."""

    point: np.ndarray  #: its end
    direction: np.ndarray  #: the end over its length, which approaches the limit like 1/length
    velocity: np.ndarray  #: unit vector along which it moves; zeros where it does not
    spread: float  #: weighted mean of |rate/mean rate - 1| over what carries weight in its gradient
    finite_part: np.ndarray | None  #: where the part that converges stays, orthogonal to the velocity


@dataclass(frozen=True, eq=False, repr=False)
class Limit(LimitVerdict):
    """The limit of a trajectory with the numbers that certify it. Numbers that its judge does not have are NaN.

    When p diverges and no two tokens of an input tie in score, the velocity and the support weights are a dual
    certificate of (ATT-SVM) for the selection. A token that ties with the selected one pulls on nothing, so it may fall
    behind by as little as it likes: then they certify the problem without it, in which either of the two will do
    [M, (ATT-SVM')]; `sequences` is that problem. In a mixed limit they certify the part that diverges.
    """

    kind: LimitKind
    risk: Risk
    point: Vector  #: the last point, shape (D,): all blocks one after the other
    velocity: Vector  #: the unit velocity of each block, in one vector; zeros where nothing moves
    selection: Selection  #: tokens of largest logit: along the velocity if diverging, else at the point
    reason: str  #: one sentence
    spreads: tuple[float, ...]  #: for each block, weighted mean of |gap/mean gap - 1|, or of rates where v moves too
    least_excess: float  #: smallest gap/mean gap - 1 over tokens of another score; inf if there are none
    support: tuple[tuple[int, int, int], ...] = ()  #: weighted pairs (input, selected, other), when diverging
    support_weights: np.ndarray = field(default_factory=lambda: np.zeros(0))  #: normalised duals, from the dynamics
    adverse_weight: float = float("nan")  #: of pairs that pull to the lower score or join two unselected tokens
    newton_step: float = float("nan")  #: |J^-1 G| / (1 + |p|), on the span of the differences
    largest_eigenvalue: float = float("nan")  #: of J on that span, relative to its norm; negative if attracting
    finite_part: Vector | None = None  #: where the part that converges stays, shape (D,), orthogonal to the velocity

    @property
    def spread(self) -> float:
        """The largest of `spreads`: how far from one common speed all that carries weight still is."""
        return max(self.spreads)

    @property
    def direction(self) -> Vector:
        """Each block of the last point over its length, in one vector: approaches the limit like 1/length."""
        return np.concatenate([unit_rows(one.reshape(-1)) for one in by_block(self.risk.blocks, self.point).values()])

    @property
    def blocks(self) -> dict[str, BlockLimit]:
        """The limit of each block by its name."""
        own = self.risk.blocks
        point, direction, velocity = (by_block(own, one) for one in (self.point, self.direction, self.velocity))
        stays = {} if self.finite_part is None else by_block(own, self.finite_part)
        return {
            name: BlockLimit(point[name], direction[name], velocity[name], spread, stays.get(name))
            for name, spread in zip(own, self.spreads, strict=True)
        }

    @cached_property
    def sequences(self) -> EmbeddedSequences:
        """The problem whose max-margin direction this is to be compared with: see `felt` of the risk.

        Tokens of one key act as one, whatever p is: they all have their mean score. Tokens that tie in score with a
        selected one and are not selected are masked: nothing holds them back. In a mixed limit the selected tokens of
        an input share its attention for ever, so they all have the score that they have together. Where a head is
        trained too, the tokens themselves are asked for, and stay as they are.
        """
        felt = self.risk.felt(self.point)
        if any(block.role is Role.HEAD for block in self.risk.blocks.values()):
            return felt
        felt = with_one_score_a_key(felt)
        if not self.mixed:
            return _without_tied(felt, self.selection.chosen)
        gamma = np.where(felt.mask, scores(felt), 0.0)
        share = np.where(self.selection.chosen, self.risk.attention(self.point), 0.0)
        together = (share * gamma).sum(axis=1) / share.sum(axis=1)
        gamma = np.where(self.selection.chosen, together[:, None], gamma)
        return EmbeddedSequences.from_scores(felt.keys, gamma, felt.mask)

    def __repr__(self) -> str:
        """The kind, the selected tokens and the reason."""
        return f"Limit({self.kind.value}, {self.selection}: {self.reason})"


def with_one_score_a_key(data: EmbeddedSequences) -> EmbeddedSequences:
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
