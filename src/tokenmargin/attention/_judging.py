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
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._precision import keep_precision
from tokenmargin._types import ArrayLike
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._ends import (
    GAP_TOLERANCE,
    LEAST_NORM,
    ROUNDING_FACTOR,
    SPREAD_TOLERANCE,
    WEIGHT_FLOOR,
    Ends,
    Separation,
    ends_of,
    separation,
)
from tokenmargin.attention._kinked_ends import AT_REST, KinkedSplit, is_held, split_at
from tokenmargin.attention._kinked_limit import kinked_limit
from tokenmargin.attention._kinks import directions
from tokenmargin.attention._mixed import netted, overtakes, split
from tokenmargin.attention._pieces import has_kinks
from tokenmargin.attention._rails import rails_at, rests_on_rails
from tokenmargin.attention._repeats import same_key
from tokenmargin.attention._stacks import Stack, stacks
from tokenmargin.attention._stationary import (
    CURVATURE_TOLERANCE,
    NEWTON_TOLERANCE,
    settled_velocity,
    stationarity,
)
from tokenmargin.attention.limit import NOT_YET, Limit, LimitKind
from tokenmargin.attention.risk import Risk
from tokenmargin.data import Selection, tie_widths
from tokenmargin.errors import InvalidInputError

#: Logits are known to eps |p| times `ROUNDING_FACTOR`; where that is more than this, weights at p are anything.
KNOWN_LOGITS = 1.0

#: Longest Newton step, in units in which logits are of order |p|, at a point that is called stationary however far out
#: it is: the Jacobian speaks of changes of logits that are small beside 1.
LONGEST_NEWTON_STEP = 1e-2


#: The cases of `_verdicts`, in their order.
VERDICTS = (
    (LimitKind.STALLED, "The field is not finite at the last point: the loss or the head overflows there."),
    (LimitKind.FINITE, "No two tokens of an input differ in score and key, so no p moves at all."),
    (LimitKind.STALLED, "p is so long that rounding hides its logits: follow it from nearer to 0."),
    (
        LimitKind.STALLED,
        "p selects other tokens than its velocity does, whose weights come back: follow it further.",
    ),
    (LimitKind.STALLED, "Tokens of different scores stay level along the velocity: their weights come back."),
    (
        LimitKind.STALLED,
        "The velocity is that of a limit, but p does not select its tokens clearly yet: follow it further.",
    ),
    (LimitKind.STALLED, "A token of higher score keeps its distance: it pulls p away further on."),
    (
        LimitKind.DIVERGES,
        "The weighted pairs separate at one common speed and every other token falls behind faster.",
    ),
    (LimitKind.FINITE, "The gradient vanishes at a strict local minimum."),
    (
        LimitKind.STALLED,
        "The gradient vanishes, but not at a strict local minimum: a saddle, or a flat direction.",
    ),
    (LimitKind.STALLED, NOT_YET),
)


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
    limits = judged(risks, [risk.point(p) for risk, p in zip(risks, points, strict=True)])
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        raise InvalidInputError(
            "a risk without a span of its own, such as one of v and p, is judged along a path: use follow(...).limit."
        )
    return known


@keep_precision
def judged(risks: Sequence[Risk], ends: Sequence[np.ndarray]) -> list[Limit | None]:
    """`limits_of` for points that were looked at already; None for a risk without a span."""
    found, without = stacks(risks)
    limits: dict[int, Limit | None] = dict.fromkeys(without)
    for stack, some in zip(found, ends_of(risks, found, ends), strict=True):
        limits |= zip(stack.numbers.tolist(), _judged(some), strict=True)
    return [limits[j] for j in range(len(risks))]


def _judged(ends: Ends) -> list[Limit]:
    """The limit of every point."""
    with np.errstate(invalid="ignore", over="ignore"):  # a field that is not finite is seen by the verdict
        newton, top_eigenvalue = stationarity(ends.keys, ends.present, ends.force, ends.jacobian, ends.norm)
        unit = ends.force / np.where(ends.speed > 0, ends.speed, 1.0)[:, None]
        signed, along = ends.signed, separation(ends, ends.signed, unit)
        both_ways = np.flatnonzero(along.adverse > WEIGHT_FLOOR).tolist()
        if both_ways:
            signed = signed.copy()
            for b in both_ways:
                signed[b] = netted(ends.keys[b], signed[b])
            along = separation(ends, signed, unit)
        spread = along.spread
        is_far = (ends.norm >= LEAST_NORM) & (spread <= ends.most_spread)
        if is_far.any():
            unit[is_far] = settled_velocity(ends.keys[is_far], signed[is_far], ends.force[is_far])
            along = separation(ends, signed, unit)
        logits = np.where(ends.present, np.matmul(ends.keys, ends.y[:, None, :, None])[..., 0], -np.inf)
    top = logits >= logits.max(axis=2, keepdims=True)
    velocity = np.where(ends.speed[:, None] > 0, ends.stack.coordinates.velocity(unit[:, None])[:, 0], 0.0)
    kinked = has_kinks(ends.stack.fields)
    limits = []
    for b, (kind, reason) in enumerate(_verdicts(ends, along, is_far, newton, top_eigenvalue)):
        if (
            kind is not LimitKind.STALLED
            and kinked
            and (ends.speed[b] == 0 or is_held(ends.stack.one(b)[0], ends.y[b]))
        ):
            kind = LimitKind.STALLED  # the field was taken on one side of the kinks that hold p
        parts = _mixed(ends, b) if kind is LimitKind.STALLED else None
        if isinstance(parts, Limit):
            limits.append(parts)
            continue
        diverging = kind is LimitKind.DIVERGES
        support, weights = along.support(b, ends.order[b]) if diverging else ((), np.zeros(0))
        limits.append(
            Limit(
                kind,
                ends.risks[b],
                ends.p[b],
                velocity[b],
                _selection(ends.risks[b], along.chosen[b] if diverging else top[b], ends.present[b]),
                parts or reason,
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


def _rest(ends: Ends, b: int, field: Any, coordinates: Coordinates) -> Limit:
    """The limit of what is left of problem b beside a part that is held."""
    found, risks = [Stack.of([field], [coordinates], [0])], [ends.risks[b]]
    ((limit,),) = map(_judged, ends_of(risks, found, [ends.p[b]]))
    return limit


def _mixed(ends: Ends, b: int) -> Limit | str | None:
    """The limit if part of p stays where pairs of weight cancel and the rest diverges; else why not, or None."""
    system, coordinates = ends.stack.one(b)
    is_known = bool(np.isfinite(ends.signed[b]).all())
    if not (is_known and system.has_fixed_scores):
        return _on_kinks(ends, b) if is_known and has_kinks(system) else None
    parts = split(system, ends.y[b], ends.signed[b])
    if parts is None or not parts.attracts:
        return None
    rest = _rest(ends, b, parts.rest, coordinates.within(parts.free))
    if not (rest.diverges or rest.mixed):
        return None
    chosen = np.take_along_axis(rest.selection.chosen, parts.group, axis=1) & ends.present[b]
    finite = coordinates.velocity(parts.held @ parts.finite) / coordinates.kappa
    return replace(
        rest,
        kind=LimitKind.MIXED,
        selection=_selection(ends.risks[b], chosen, ends.present[b]),
        newton_step=max(parts.newton_step, rest.newton_step if rest.mixed else 0.0),
        largest_eigenvalue=max(parts.largest_eigenvalue, rest.largest_eigenvalue if rest.mixed else -np.inf),
        finite_part=finite + (0.0 if rest.finite_part is None else rest.finite_part),
        reason="Pairs whose weights cancel hold part of p at a strict local minimum; along the rest the other weighted "
        "pairs separate at one common speed.",
    )


def _on_kinks(ends: Ends, b: int) -> Limit | str | None:
    """The limit behind a head with kinks, if p rests on all or part of the span of the differences; else why not."""
    risk, (system, coordinates) = ends.risks[b], ends.stack.one(b)
    parts = split_at(system, ends.y[b])
    if parts == AT_REST:
        first = _selection(risk, ends.logits[b] >= ends.logits[b].max(axis=1, keepdims=True), ends.present[b])
        return Limit(LimitKind.FINITE, risk, ends.p[b], np.zeros(len(ends.p[b])), first, AT_REST, (0.0,), np.inf)
    if not isinstance(parts, KinkedSplit) or not parts.holds:
        reason = parts.why_not if isinstance(parts, KinkedSplit) else parts
        return _on_rails(ends, b, system) or reason
    rest, chosen = None, parts.kept
    if not parts.is_whole:
        rest = _rest(ends, b, parts.rest, coordinates.within(parts.free))
        chosen = np.take_along_axis(rest.selection.chosen, parts.group, axis=1) & ends.present[b]
    finite = coordinates.velocity(parts.held @ parts.finite) / coordinates.kappa
    return kinked_limit(
        parts, rest, risk=risk, point=ends.p[b], finite=finite, selection=_selection(risk, chosen, ends.present[b])
    )


def _on_rails(ends: Ends, b: int, system: Any) -> Limit | None:
    """The limit if p rests on surfaces on which all that pulls is still; None where it does not."""
    y = ends.y[b]
    rails = rails_at(system, directions(system, y), y)
    found = None if rails is None else rests_on_rails(rails, y)
    if rails is None or found is None:
        return None
    first = _selection(ends.risks[b], ends.logits[b] >= ends.logits[b].max(axis=1, keepdims=True), ends.present[b])
    return Limit(
        LimitKind.FINITE,
        ends.risks[b],
        ends.p[b],
        np.zeros(len(ends.p[b])),
        first,
        found.reason,
        (0.0,),
        np.inf,
        newton_step=found.newton_step,
        largest_eigenvalue=found.largest_eigenvalue,
        kinks=rails.named(found.kinks),
    )


def _verdicts(
    ends: Ends, along: Separation, is_far: np.ndarray, newton: np.ndarray, top_eigenvalue: np.ndarray
) -> list[tuple[LimitKind, str]]:
    """Verdict on each point by the numbers: the kind of its limit, and a sentence that gives the reason.

    The first of the cases that is true counts.
    """
    eps = float(np.finfo(ends.keys.dtype).eps)
    is_finite = np.isfinite(ends.force).all(axis=1) & np.isfinite(ends.jacobian).all(axis=(1, 2))
    separates = is_far & (along.spread <= SPREAD_TOLERANCE) & (along.excess >= -GAP_TOLERANCE)
    separates &= along.adverse <= WEIGHT_FLOOR
    elsewhere, level, unclear = _come_back(ends, along)
    overtaken = np.zeros_like(separates)
    for b in np.flatnonzero(separates & along.above.any(axis=(1, 2))).tolist():
        support = along.support(b, ends.order[b])[0]
        overtaken[b] = overtakes(ends.keys[b], along.above[b], along.chosen[b], support)
    rests = (newton <= NEWTON_TOLERANCE) & (newton * (1.0 + ends.norm) <= LONGEST_NEWTON_STEP)
    cases = (
        ~is_finite,
        (ends.speed == 0.0) & ~ends.signed.any(axis=(1, 2, 3)),
        ROUNDING_FACTOR * eps * ends.norm > KNOWN_LOGITS,
        separates & elsewhere,
        separates & level,
        separates & unclear,
        separates & overtaken,
        separates,
        rests & (top_eigenvalue < -CURVATURE_TOLERANCE),
        rests,
        np.ones_like(separates),
    )
    return [VERDICTS[k] for k in np.stack(cases).argmax(axis=0).tolist()]


def _come_back(ends: Ends, along: Separation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reasons why pairs without weight at p may gain weight further along the velocity, each True or False for a point.

    The first token at p is not selected along the velocity; tokens of other scores are level with it for ever; or they
    are not behind it by enough yet.
    """
    first = ends.logits.argmax(axis=2)[:, :, None]
    elsewhere = np.asarray(~np.take_along_axis(along.chosen, first, axis=2).all(axis=(1, 2)))
    apart = np.abs(ends.scores - np.take_along_axis(ends.scores, first, axis=2))
    pulls = ends.present & (apart > tie_widths(ends.scores)[:, :, None])
    gaps = np.take_along_axis(ends.logits, first, axis=2) - ends.logits
    unclear = (pulls & (gaps < -np.log(WEIGHT_FLOOR))).any(axis=(1, 2))
    return elsewhere, (pulls & along.chosen).any(axis=(1, 2)), unclear


def _selection(risk: Risk, chosen: np.ndarray, present: np.ndarray) -> Selection:
    """Selected tokens with every copy of a repeated token, of which one is present."""
    data = risk.sequences
    if present.sum() == data.mask.sum():
        return Selection(chosen)
    return Selection((same_key(data.key_marks, data.mask) & chosen[:, :, None]).any(axis=1))
