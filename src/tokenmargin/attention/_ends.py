"""Points to be judged side by side, with all that the dynamics says of them: how tokens separate along velocities.

Every array has the point first, B of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokenmargin.attention._kinks import at_pattern
from tokenmargin.attention._lane_field import evaluated, widened
from tokenmargin.attention._pieces import has_kinks
from tokenmargin.attention._points import lengths
from tokenmargin.attention._stacks import Stack, in_few_shapes, stacked
from tokenmargin.attention._stationary import in_units_asked
from tokenmargin.attention.risk import Risk
from tokenmargin.data import tie_widths

#: Tokens this close to the top along the velocity, in units of the mean gap of the weighted pairs, are tied with it,
#: and no token may lie closer behind than 1 minus this. The velocity converges exponentially; 1e-6 is far above what is
#: left of that and far below gaps in general position.
GAP_TOLERANCE = 1e-6

#: Largest mean deviation of the weighted pairs' gaps from their mean, relative to it: the complementarity of the
#: certificate. The flow settles to 1e-9.
SPREAD_TOLERANCE = 1e-7

#: Logits of size |p| carry a rounding error of eps |p|, which moves the gaps along G by eps |p| / |G|^2 of themselves;
#: the spread may be this many times that, if it is more than `SPREAD_TOLERANCE`.
ROUNDING_FACTOR = 32.0

#: No spread above this is put down to rounding.
LARGEST_SPREAD = 0.05

#: Inputs that carry weight with keys below this share of the longest have logits, and a rounding, of another scale.
OTHER_SCALE = 0.125

#: Pairs with less than this share of the total weight are left out of the support.
WEIGHT_FLOOR = 1e-9

#: |p| (in units of 1/longest key difference) below which a direction is not yet a limit: log-weights of order ten may
#: still be reordering.
LEAST_NORM = 1e3


@dataclass(frozen=True, eq=False)
class Ends:
    """Points to be judged, with all that the dynamics says of them."""

    risks: list[Risk]
    stack: Stack
    p: np.ndarray  #: shape (B, D)
    y: np.ndarray  #: p in the coordinates of its system
    keys: np.ndarray  #: in those coordinates
    present: np.ndarray  #: which tokens there are
    logits: np.ndarray  #: at p, with multiplicity
    force: np.ndarray
    jacobian: np.ndarray
    signed: np.ndarray
    scores: np.ndarray
    order: np.ndarray  #: of the loss where each input is, shape (B, n); its keys are so many times as long here
    norm: np.ndarray  #: |p| in units of 1/longest key difference
    speed: np.ndarray  #: |G|

    @classmethod
    def of(cls, risks: list[Risk], stack: Stack, p: np.ndarray, y: np.ndarray, told: tuple[np.ndarray, ...]) -> Ends:
        """Points p with their y and what `evaluated` told of it."""
        force, jacobian, signed, scores = told
        fields = stack.fields
        present = np.isfinite(fields.log_multiplicity)
        logits = np.matmul(fields.keys, y[:, None, :, None])[..., 0] + fields.log_multiplicity
        keys, signed, order = in_units_asked(fields, fields.keys, logits, scores, signed)
        norm = lengths(p) * stack.coordinates.kappa[:, 0, 0]
        speed = np.linalg.norm(force, axis=1)
        return cls(risks, stack, p, y, keys, present, logits, force, jacobian, signed, scores, order, norm, speed)

    @property
    def most_spread(self) -> np.ndarray:
        """The largest spread of gaps that is settled, rounding of the logits that carry weight allowed for."""
        eps = float(np.finfo(self.keys.dtype).eps)
        lengths = np.linalg.norm(np.where(self.present[..., None], self.keys, 0.0), axis=3).max(axis=2)
        carries = np.abs(self.signed).sum(axis=(2, 3)) > WEIGHT_FLOOR
        longest = np.where(carries, lengths, 0.0).max(axis=1)
        own_scale = np.where(longest < OTHER_SCALE * lengths.max(axis=1), longest, 1.0)
        rounding = ROUNDING_FACTOR * eps * self.norm * own_scale**3 / np.maximum(self.speed, 1e-150) ** 2
        return np.maximum(SPREAD_TOLERANCE, np.minimum(rounding, LARGEST_SPREAD))


def ends_of(risks: Sequence[Risk], found: list[Stack], points: Sequence[np.ndarray]) -> list[Ends]:
    """The points of each stack, evaluated by programs that stacks share."""
    p = [np.stack([points[j] for j in stack.numbers.tolist()]) for stack in found]
    y = [stack.coordinates.inward(own[:, None])[:, 0] for stack, own in zip(found, p, strict=True)]
    # A unit that is at its kink on a token is on or off by what little is attended to besides.
    found = [_on_pieces(stack, own) if has_kinks(stack.fields) else stack for stack, own in zip(found, y, strict=True)]
    told: dict[int, tuple[np.ndarray, ...]] = {}
    for members, fields in in_few_shapes(found):
        answers = evaluated(fields, np.concatenate([widened(y[k], fields) for k in members]))
        ends = np.cumsum([len(y[k]) for k in members])
        for k, end in zip(members, ends.tolist(), strict=True):
            n, T, r = found[k].shape
            force, jacobian, signed, scores = (one[end - len(y[k]) : end] for one in answers)
            told[k] = force[:, :r], jacobian[:, :r, :r], signed[:, :n, :T, :T], scores[:, :n, :T]
    return [
        Ends.of([risks[j] for j in stack.numbers.tolist()], stack, p[k], y[k], told[k]) for k, stack in enumerate(found)
    ]


def _on_pieces(stack: Stack, y: np.ndarray) -> Stack:
    return replace(stack, fields=stacked([at_pattern(stack.one(b)[0], point) for b, point in enumerate(y)]))


@dataclass(frozen=True)
class Separation:
    """Selected tokens along a velocity, how much weight holds back each other token, and how well this certifies it."""

    chosen: np.ndarray  #: shape (B, n, T)
    held_back: np.ndarray  #: shape (B, n, T)
    spread: np.ndarray
    excess: np.ndarray
    adverse: np.ndarray
    above: np.ndarray  #: tokens of higher score than the selected, no further behind than the mean, shape (B, n, T)

    def support(self, b: int, order: np.ndarray) -> tuple[tuple[tuple[int, int, int], ...], np.ndarray]:
        """The weighted pairs (input, selected, other) of point b, and their weights beside keys as they are."""
        held = self.held_back[b] > WEIGHT_FLOOR
        selected = self.chosen[b].argmax(axis=1).tolist()
        pairs = tuple((i, selected[i], t) for i, t in np.argwhere(held).tolist())
        weights = (self.held_back[b] * order[:, None])[held]
        return pairs, weights / weights.sum()


def separation(ends: Ends, signed: np.ndarray, u: np.ndarray) -> Separation:
    """Along velocities u, shape (B, r)."""
    logits = np.where(ends.present, np.matmul(ends.keys, u[:, None, :, None])[..., 0], -np.inf)
    gaps = logits.max(axis=2, keepdims=True) - logits  # masked: inf
    ahead = np.maximum(signed, 0.0)  # weight of (t, u), t of higher score
    with np.errstate(invalid="ignore"):  # masked
        between = np.where(ahead > 0, gaps[:, :, None, :] - gaps[:, :, :, None], 0.0)
    mean = (ahead * between).sum(axis=(1, 2, 3))  # the weights sum to 1, so this is their mean gap, and equals |G|
    chosen = ends.present & (gaps <= (GAP_TOLERANCE * np.maximum(mean, 0.0))[:, None, None])
    held_back = (ahead * (chosen[:, :, :, None] & ~chosen[:, :, None, :])).sum(axis=2)
    adverse = np.maximum(0.0, ahead.sum(axis=(1, 2, 3)) - held_back.sum(axis=(1, 2)))
    certifies = (mean > 0.0) & held_back.any(axis=(1, 2))
    unit = np.where(certifies, mean, 1.0)
    spread = (ahead * np.abs(between / unit[:, None, None, None] - 1.0)).sum(axis=(1, 2, 3))
    first = np.take_along_axis(ends.scores, gaps.argmin(axis=2)[:, :, None], axis=2)
    feels = ends.present & ~chosen & (ends.scores != first)
    behind = np.where(feels, gaps / unit[:, None, None] - 1.0, np.inf)
    above = (behind <= GAP_TOLERANCE) & (ends.scores > first + tie_widths(ends.scores)[:, :, None])
    excess = np.where(certifies, behind.min(axis=(1, 2)), -np.inf)
    return Separation(chosen, held_back, np.where(certifies, spread, np.inf), excess, adverse, above)
