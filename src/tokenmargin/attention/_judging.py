"""Judging where a path goes, by what the dynamics says at its last point.

Diverging: along the velocity u = G/|G| all pairs that carry weight have the same gap, every one pulls from a selected
token of higher score, and no other token is closer behind. As G is the weighted sum of those differences, this *is* a
dual certificate of the max-margin problem; yet no such problem is solved here, so that comparing the two later is a
comparison of independent things. It says where p goes only if p itself selects what u selects: then p + tau u does so
for every tau > 0, each log-weight that is behind falls at least as fast as those in front, and none comes back. Where p
selects another token, as it may far out, that one's pair regains its weight further on, and turns p. Finite: the Newton
step is negligible and the Jacobian negative definite on the span of the token differences. Mixed: the one on a part of
that span, the other on the rest. None of these: `stalled`, and never called finite. A saturated softmax proves nothing
either way.

Points of risks of one shape are judged side by side: every array here has the point first, B of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._precision import keep_precision
from tokenmargin._types import ArrayLike
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._kinked_ends import AT_REST, KinkedSplit, is_held, kinked_split
from tokenmargin.attention._kinked_limit import kinked_limit
from tokenmargin.attention._kinks import at_pattern
from tokenmargin.attention._lane_field import alike, evaluated
from tokenmargin.attention._mixed import netted, overtakes, split
from tokenmargin.attention._pieces import has_kinks
from tokenmargin.attention._points import lengths
from tokenmargin.attention._repeats import same_key
from tokenmargin.attention._size_classes import Shape, shared_shapes
from tokenmargin.attention._stationary import (
    CURVATURE_TOLERANCE,
    NEWTON_TOLERANCE,
    in_units_asked,
    settled_velocity,
    stationarity,
)
from tokenmargin.attention.limit import Limit, LimitKind
from tokenmargin.attention.risk import Risk
from tokenmargin.data import Selection, tie_widths
from tokenmargin.errors import InvalidInputError

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

#: Logits are known to eps |p| times `ROUNDING_FACTOR`; where that is more than this, weights at p are anything.
KNOWN_LOGITS = 1.0

#: Longest Newton step, in units in which logits are of order |p|, at a point that is called stationary however far out
#: it is: the Jacobian speaks of changes of logits that are small beside 1.
LONGEST_NEWTON_STEP = 1e-2

#: |p| (in units of 1/longest key difference) below which a direction is not yet a limit: log-weights of order ten may
#: still be reordering.
LEAST_NORM = 1e3


@checked
@keep_precision
def limits_of(risks: Sequence[Risk], points: Sequence[ArrayLike]) -> list[Limit]:
    """Judge where each point is going under the gradient flow of its risk.

    Args:
        risks: those of one shape are evaluated together. Each must live in a span: else a point alone tells nothing.
        points: one point for each.
    """
    if len(risks) != len(points):
        raise InvalidInputError(f"{len(risks)} risks but {len(points)} points: give one point for each.")
    reduced = [one for risk in risks if (one := risk.in_span) is not None]
    if len(reduced) < len(risks):
        raise InvalidInputError(
            "a risk without a span of its own, such as one of v and p, is judged along a path: use follow(...).limit."
        )
    ends = [risk.point(p) for risk, p in zip(risks, points, strict=True)]
    reduced = [(at_pattern(system, own.inward(p)), own) for (system, own), p in zip(reduced, ends, strict=True)]
    limits: list[Limit | None] = [None] * len(risks)
    shapes = shared_shapes([system.keys.shape for system, _ in reduced])
    for members in alike([system for system, _ in reduced]):
        some = [(risks[j], *reduced[j], ends[j]) for j in members]
        for j, limit in zip(members, _judged(_Ends.of(some, shapes[members[0]])), strict=True):
            limits[j] = limit
    return [limit for limit in limits if limit is not None]


@dataclass(frozen=True, eq=False)
class _Ends:
    """Points to be judged, with all that the dynamics says of them."""

    risks: list[Risk]
    systems: list[Any]
    coordinates: list[Coordinates]
    p: list[np.ndarray]
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
    def of(cls, ends: list[tuple[Risk, Any, Coordinates, np.ndarray]], shape: Shape | None = None) -> _Ends:
        """Points, each with its risk and the system and coordinates in which it is judged; all systems alike.

        They are evaluated by the program of a shape.
        """
        risks, systems, coordinates, p = (list(column) for column in zip(*ends, strict=True))
        stacked = jax.tree.map(lambda *x: np.stack(x), *systems)
        y = np.stack([own.inward(point) for own, point in zip(coordinates, p, strict=True)])
        force, jacobian, signed, scores = evaluated(stacked, y, shape)
        norm = np.array([float(lengths(point)) * own.kappa for own, point in zip(coordinates, p, strict=True)])
        present = np.isfinite(stacked.log_multiplicity)
        logits = np.matmul(stacked.keys, y[:, None, :, None])[..., 0] + stacked.log_multiplicity
        keys, signed, order = in_units_asked(systems[0], stacked.keys, logits, scores, signed)
        told = risks, systems, coordinates, p, y, keys, present, logits, force, jacobian, signed, scores, order, norm
        return cls(*told, speed=np.linalg.norm(force, axis=1))

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


def _judged(ends: _Ends) -> list[Limit]:
    """The limit of every point."""
    with np.errstate(invalid="ignore", over="ignore"):  # a field that is not finite is seen by the verdict
        newton, top_eigenvalue = stationarity(ends.keys, ends.present, ends.force, ends.jacobian, ends.norm)
        unit = ends.force / np.where(ends.speed > 0, ends.speed, 1.0)[:, None]
        signed, along = ends.signed, _separation(ends, ends.signed, unit)
        both_ways = np.flatnonzero(along.adverse > WEIGHT_FLOOR).tolist()
        if both_ways:
            signed = signed.copy()
            for b in both_ways:
                signed[b] = netted(ends.keys[b], signed[b])
            along = _separation(ends, signed, unit)
        spread = along.spread
        is_far = (ends.norm >= LEAST_NORM) & (spread <= ends.most_spread)
        if is_far.any():
            unit[is_far] = settled_velocity(ends.keys[is_far], signed[is_far], ends.force[is_far])
            along = _separation(ends, signed, unit)
        logits = np.where(ends.present, np.matmul(ends.keys, ends.y[:, None, :, None])[..., 0], -np.inf)
    top = logits >= logits.max(axis=2, keepdims=True)
    limits = []
    for b in range(len(ends.p)):
        kind, reason = _verdict(ends, along, b, bool(is_far[b]), newton[b], top_eigenvalue[b])
        if kind is not LimitKind.STALLED and is_held(ends.systems[b], ends.y[b]):
            kind = LimitKind.STALLED  # the field was taken on one side of the kinks that hold p
        parts = _mixed(ends, b) if kind is LimitKind.STALLED else None
        if isinstance(parts, Limit):
            limits.append(parts)
            continue
        reason = parts or reason
        diverging, p = kind is LimitKind.DIVERGES, ends.p[b]
        support, weights = along.support(b, ends.order[b]) if diverging else ((), np.zeros(0))
        limits.append(
            Limit(
                kind,
                ends.risks[b],
                p,
                ends.coordinates[b].velocity(unit[b]) if ends.speed[b] > 0 else np.zeros(len(p)),
                _selection(ends.risks[b], along.chosen[b] if diverging else top[b]),
                reason,
                (float(spread[b]),),
                float(along.excess[b]),
                support,
                weights,
                float(along.adverse[b]),
                float(newton[b]),
                float(top_eigenvalue[b]),
            )
        )
    return limits


def _mixed(ends: _Ends, b: int) -> Limit | str | None:
    """The limit if part of p stays where pairs of weight cancel and the rest diverges; else why not, or None."""
    system, coordinates = ends.systems[b], ends.coordinates[b]
    is_known = bool(np.isfinite(ends.signed[b]).all())
    if not (is_known and system.has_fixed_scores):
        return _on_kinks(ends, b) if is_known and has_kinks(system) else None
    parts = split(system, ends.y[b], ends.signed[b])
    if parts is None or not parts.attracts:
        return None
    (rest,) = _judged(_Ends.of([(ends.risks[b], parts.rest, coordinates.within(parts.free), ends.p[b])]))
    if not (rest.diverges or rest.mixed):
        return None
    chosen = np.take_along_axis(rest.selection.chosen, parts.group, axis=1) & ends.present[b]
    finite = coordinates.velocity(parts.held @ parts.finite) / coordinates.kappa
    return replace(
        rest,
        kind=LimitKind.MIXED,
        selection=_selection(ends.risks[b], chosen),
        newton_step=max(parts.newton_step, rest.newton_step if rest.mixed else 0.0),
        largest_eigenvalue=max(parts.largest_eigenvalue, rest.largest_eigenvalue if rest.mixed else -np.inf),
        finite_part=finite + (0.0 if rest.finite_part is None else rest.finite_part),
        reason="Pairs whose weights cancel hold part of p at a strict local minimum; along the rest the other weighted "
        "pairs separate at one common speed.",
    )


def _on_kinks(ends: _Ends, b: int) -> Limit | str | None:
    """The limit behind a head with kinks, if p rests on all or part of the span of the differences; else why not."""
    risk, coordinates, parts = ends.risks[b], ends.coordinates[b], kinked_split(ends.systems[b], ends.y[b])
    if parts == AT_REST:
        first = _selection(risk, ends.logits[b] >= ends.logits[b].max(axis=1, keepdims=True))
        return Limit(LimitKind.FINITE, risk, ends.p[b], np.zeros(len(ends.p[b])), first, AT_REST, (0.0,), np.inf)
    if not isinstance(parts, KinkedSplit) or not parts.holds:
        return parts.why_not if isinstance(parts, KinkedSplit) else parts
    rest, chosen = None, parts.kept
    if not parts.is_whole:
        (rest,) = _judged(_Ends.of([(risk, parts.rest, coordinates.within(parts.free), ends.p[b])]))
        chosen = np.take_along_axis(rest.selection.chosen, parts.group, axis=1) & ends.present[b]
    finite = coordinates.velocity(parts.held @ parts.finite) / coordinates.kappa
    return kinked_limit(parts, rest, risk=risk, point=ends.p[b], finite=finite, selection=_selection(risk, chosen))


def _verdict(
    ends: _Ends, along: _Separation, b: int, is_far: bool, newton: float, top_eigenvalue: float
) -> tuple[LimitKind, str]:
    """Verdict on point b by the numbers: the kind of its limit, and a sentence that gives the reason."""
    if not (np.isfinite(ends.force[b]).all() and np.isfinite(ends.jacobian[b]).all()):
        return LimitKind.STALLED, "The field is not finite at the last point: the loss or the head overflows there."
    if ends.speed[b] == 0.0 and not ends.signed[b].any():
        same = "No two tokens of an input differ in score and key, so no p moves at all."
        return LimitKind.FINITE, AT_REST if has_kinks(ends.systems[b]) else same
    if ROUNDING_FACTOR * float(np.finfo(ends.keys.dtype).eps) * ends.norm[b] > KNOWN_LOGITS:
        return LimitKind.STALLED, "p is so long that rounding hides its logits: follow it from nearer to 0."
    separates = along.spread[b] <= SPREAD_TOLERANCE and along.excess[b] >= -GAP_TOLERANCE
    if is_far and separates and along.adverse[b] <= WEIGHT_FLOOR:
        if (reason := _comes_back(ends, along, b)) is not None:
            return LimitKind.STALLED, reason
        if overtakes(ends.keys[b], along.above[b], along.chosen[b], along.support(b, ends.order[b])[0]):
            return LimitKind.STALLED, "A token of higher score keeps its distance: it pulls p away further on."
        return (
            LimitKind.DIVERGES,
            "The weighted pairs separate at one common speed and every other token falls behind faster.",
        )
    if newton <= NEWTON_TOLERANCE and newton * (1.0 + ends.norm[b]) > LONGEST_NEWTON_STEP:
        newton = np.inf
    if newton <= NEWTON_TOLERANCE and top_eigenvalue < -CURVATURE_TOLERANCE:
        return LimitKind.FINITE, "The gradient vanishes at a strict local minimum."
    if newton <= NEWTON_TOLERANCE:
        return (
            LimitKind.STALLED,
            "The gradient vanishes, but not at a strict local minimum: a saddle, or a flat direction.",
        )
    return (
        LimitKind.STALLED,
        "Neither a common separation speed nor a stationary point was reached yet: follow it further, with a larger "
        "Flow(until_norm=...) or more steps.",
    )


@dataclass(frozen=True)
class _Separation:
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


def _separation(ends: _Ends, signed: np.ndarray, u: np.ndarray) -> _Separation:
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
    return _Separation(chosen, held_back, np.where(certifies, spread, np.inf), excess, adverse, above)


def _comes_back(ends: _Ends, along: _Separation, b: int) -> str | None:
    """Reason why pairs without weight at p may gain weight further along the velocity; None if no pair can."""
    each, first = np.arange(len(ends.logits[b])), ends.logits[b].argmax(axis=1)
    if not along.chosen[b][each, first].all():
        return "p selects other tokens than its velocity does, whose weights come back: follow it further."
    scores = ends.scores[b]
    pulls = ends.present[b] & (np.abs(scores - scores[each, first][:, None]) > tie_widths(scores)[:, None])
    if (pulls & along.chosen[b]).any():
        return "Tokens of different scores stay level along the velocity: their weights come back."
    gaps = ends.logits[b][each, first][:, None] - ends.logits[b]
    if (gaps[pulls] < -np.log(WEIGHT_FLOOR)).any():
        return "The velocity is that of a limit, but p does not select its tokens clearly yet: follow it further."
    return None


def _selection(risk: Risk, chosen: np.ndarray) -> Selection:
    """Selected tokens with every copy of a repeated token."""
    same = same_key(risk.sequences.key_marks, risk.sequences.mask)
    return Selection((same & chosen[:, :, None]).any(axis=1))
