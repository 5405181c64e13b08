"""The limit of a path: to infinity in a direction, to a finite point, part of it each, or unknown.

It is judged by the dynamics alone (`limits_of`): no max-margin problem is solved here, so that comparing the two later
is a comparison of independent things.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._precision import keep_precision
from tokenmargin._types import Vector
from tokenmargin.attention._kinks import pattern_at
from tokenmargin.attention._margin_interval import margin_interval, margin_of
from tokenmargin.attention._pieces import has_kinks
from tokenmargin.attention._points import unit_rows
from tokenmargin.attention._repeats import same_key
from tokenmargin.attention.blocks import Role, by_block
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import Kink
from tokenmargin.attention.risk import Risk
from tokenmargin.data import EmbeddedSequences, Selection, score_tie_widths, scores
from tokenmargin.losses import Loss
from tokenmargin.norms import L2, Norm

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

#: A run whose margin is within this share of the largest goes to it: steps of .1 are so near after some 20,000 of them.
MARGIN_TOLERANCE = 5e-3

#: Why nothing is said of a run that may only have to go on.
NOT_YET = (
    "Neither a common separation speed nor a stationary point was reached yet: follow it further, with a larger "
    "Flow(until_norm=...) or more steps."
)

#: The norm in which the flow moves, and most methods.
EUCLIDEAN = L2()


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


@dataclass(frozen=True, eq=False, repr=False)
class BlockLimit(Told):
    """The limit of one block of a point, each array of the block's shape."""

    point: np.ndarray  #: its end
    direction: np.ndarray  #: the end over its length, which approaches the limit like 1/length
    velocity: np.ndarray  #: unit vector along which it moves; zeros where it does not
    spread: float  #: weighted mean of |rate/mean rate - 1| over what carries weight in its gradient
    finite_part: np.ndarray | None  #: where the part that converges stays, orthogonal to the velocity


@dataclass(frozen=True, eq=False, repr=False)
class Limit(LimitVerdict, Told):
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
    norm: Norm | None = EUCLIDEAN  #: the norm of the max-margin problem that it is judged by; None where none is known
    weights: np.ndarray | None = None  #: of tokens, summed over parts of the run, shape (c, n, T); None: at `point`
    kinks: tuple[Kink, ...] = ()  #: units that hold p at their kinks: with these shares nothing pulls on it
    onward: np.ndarray | None = None  #: of the array of logits over the second half of the run; None: `velocity`

    @cached_property
    def asked(self) -> Vector:
        """Margin that each input asks of its selected tokens, shape (n,): 1, and 1/k where the loss has order k there.

        Where the label has all attention, the squared loss is exp(-2 gap) and not exp(-gap): half the gap will do.
        """
        loss, head = (getattr(self.risk, name, None) for name in ("loss", "head"))
        if not isinstance(loss, Loss) or not loss.is_flat or head is not None:  # behind a head scores are relative
            return np.ones(self.sequences.n_inputs)
        reached = scores(self.sequences)[np.arange(self.sequences.n_inputs), self.selection.representatives]
        return 1.0 / np.asarray(loss.order(reached), dtype=np.float64)

    @cached_property
    def margin_interval(self) -> tuple[float, float]:
        """(low, high) around the largest margin of the selection in the norm: what the run proves without a solver.

        Low is the margin of the last point over its norm, and high is by the weights that pairs had on the way. Both
        are NaN where no norm is known, or the field does not say its weights; low is 0 or below where the point
        separates nothing.
        """
        weights = self.weights if self.weights is not None else weights_at(self.risk, self.point)
        if self.norm is None or weights is None:
            return float("nan"), float("nan")
        point = self.risk.logit_point(self.point)
        return margin_interval(self.sequences, self.selection, point, weights, self.norm, self.asked)

    @property
    def margin_ratio(self) -> float:
        """Low over high of `margin_interval`, at most 1 up to rounding; NaN where the point separates nothing.

        The margin of the last point is at least this share of the largest that there is.
        """
        low, high = self.margin_interval
        return low / high if low > 0 and high > 0 else float("nan")

    @checked
    def margins(self, norm: Norm) -> tuple[float, float]:
        """Least logit gap of the selection over the norm: of the last point, and of the way over the second half."""
        onward = self.risk.logit_point(self.velocity) if self.onward is None else self.onward
        last, later = (
            margin_of(self.sequences, self.selection, array, norm, self.asked)
            for array in (self.risk.logit_point(self.point), onward)
        )
        return last, later

    def plot(self, ax: Any = None) -> Figure:
        """Draw the limit: its direction among the tokens of the plane, or the weights of the pairs that hold it.

        Args:
            ax: matplotlib axes to draw on; a figure of its own when absent.
        """
        from tokenmargin.plots.answers import draw_bars, draw_plane  # matplotlib, an extra

        data = self.risk.sequences
        if data.width == 2 == len(self.point):
            ways = [self.velocity] if np.any(self.velocity) else []
            return draw_plane(
                data.keys, scores(data), ax, directions=ways, labels=["direction of the limit"] * len(ways)
            )
        names = [f"input {i}: {s} over {t}" for i, s, t in self.support]
        return draw_bars(names, self.support_weights, "weight of the pair, from the dynamics", ax)

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
        felt = self._felt()
        if any(block.role is Role.HEAD for block in self.risk.blocks.values()):
            return felt
        felt = with_one_score_a_key(felt)
        if self.mixed:
            gamma = np.where(felt.mask, scores(felt), 0.0)
            share = np.where(self.selection.chosen, self.risk.attention(self.point), 0.0)
            together = (share * gamma).sum(axis=1) / share.sum(axis=1)
            felt = felt.rescored(np.where(self.selection.chosen, together[:, None], gamma))
        return _without_tied(felt, self.selection.chosen)

    def _felt(self) -> EmbeddedSequences:
        if not (isinstance(self.risk, HeadRisk) and has_kinks(self.risk.field)):
            return self.risk.felt(self.point)
        on = pattern_at(self.risk.field, self.point)
        for one in self.kinks:
            on[one.input, one.unit] = one.share
        return self.risk.felt(self.point, on)

    def __repr__(self) -> str:
        """The kind, the selected tokens and the reason."""
        return f"Limit({self.kind.value}, {self.selection}: {self.reason})"


@keep_precision
def weights_at(risk: Risk, point: Vector) -> np.ndarray | None:
    """Weights of tokens in the gradient at a point, shape (1, n, T); None where the field does not say them."""
    net = _net(risk.field, point)
    return None if net is None else np.asarray(net)[None]


_net = eqx.filter_jit(lambda field, y: field.descent(y)[0].net)


def with_one_score_a_key(data: EmbeddedSequences) -> EmbeddedSequences:
    """The data, with their mean score for tokens of an input that share a key."""
    gamma = np.where(data.mask, scores(data), 0.0)
    same = same_key(data.key_marks, data.mask)
    mean = (same * gamma[:, None, :]).sum(axis=2) / np.maximum(same.sum(axis=2), 1)
    unlike = np.abs(mean - gamma) > score_tie_widths(data)[:, None]
    if not unlike.any():
        return data
    return data.rescored(np.where(unlike, mean, gamma))


def _without_tied(data: EmbeddedSequences, chosen: np.ndarray) -> EmbeddedSequences:
    """The data without the tokens that tie in score with a selected one of their input and are not selected."""
    gamma = scores(data)
    selected = np.where(chosen, gamma, -np.inf).max(axis=1)
    tied = ~chosen & data.mask & (np.abs(gamma - selected[:, None]) <= score_tie_widths(data)[:, None])
    if not tied.any():
        return data
    return data.masked(data.mask & ~tied)
