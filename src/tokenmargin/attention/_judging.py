"""Judging where a path goes, by what the dynamics says at its last point.

Diverging: along the velocity u = G/|G| all pairs that carry weight have the same gap, every one pulls from a selected
token of higher score, and no other token is closer behind. As G is the weighted sum of those differences, this *is* a
dual certificate of the max-margin problem; yet no such problem is solved here, so that comparing the two later is a
comparison of independent things. Finite: the Newton step is negligible and the Jacobian negative definite on the span
of the token differences. Mixed: the one on a part of that span, the other on the rest. None of these: `stalled`, and
never called finite. A saturated softmax proves nothing either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._lane_field import alike
from tokenmargin.attention._mixed import CURVATURE_TOLERANCE, NEWTON_TOLERANCE, split
from tokenmargin.attention._repeats import same_key
from tokenmargin.attention.field import Field, PairField
from tokenmargin.attention.limit import Limit, LimitKind, PointRisk
from tokenmargin.data import Selection
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

#: Pairs with at least this share of the weight separate at one speed exactly once settled; see `_settled_velocity`.
STEADY_WEIGHT = 1e-6

#: Key differences closer than this, in units of the longest, are one: they come from the same tokens.
SAME_DIFFERENCE = 1e-12

#: Less than this share of all weights, left over where inputs pull both ways, is rounding of logits of size 1e6: then
#: the pulls cancel.
NET_WEIGHT = 1e-6

#: Pairs with less than this share of the total weight are left out of the support.
WEIGHT_FLOOR = 1e-9

#: |p| (in units of 1/longest key difference) below which a direction is not yet a limit: log-weights of order ten may
#: still be reordering.
LEAST_NORM = 1e3

#: Singular values of the key differences below this, relative to the largest, span nothing.
SPAN_TOLERANCE = 1e-12


@checked
@keep_precision
def limits_of(objectives: Sequence[PointRisk], points: Sequence[ArrayLike]) -> list[Limit]:
    """Judge where each point is going under its objective's gradient flow.

    Args:
        objectives: risks; those of one shape are evaluated together.
        points: one point of shape (d,) for each.
    """
    if len(objectives) != len(points):
        raise InvalidInputError(f"{len(objectives)} risks but {len(points)} points: give one point for each.")
    reduced = [objective.in_span for objective in objectives]
    ends = [objective.sequences.direction(p) for objective, p in zip(objectives, points, strict=True)]
    limits: list[Limit | None] = [None] * len(objectives)
    for members in alike([system for system, _ in reduced]):
        systems = [reduced[j][0] for j in members]
        inside = np.stack([reduced[j][1].inward(ends[j]) for j in members])
        evaluated = jax.device_get(_evaluate(jax.tree.map(lambda *x: np.stack(x), *systems), inside))
        for lane, j in enumerate(members):
            force, jacobian, signed, felt = (x[lane] for x in evaluated)
            system, coordinates = reduced[j]
            at = _End(objectives[j], system, coordinates, ends[j], force, jacobian, signed, felt)
            limits[j] = _judge_one(at)
    return [limit for limit in limits if limit is not None]


@eqx.filter_jit
def _evaluate(systems: Field, points: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    def one(system: Field, y: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        signed, _ = system.pair_weights(y)
        return *system.field_and_jacobian(y), signed, system.seen(y).scores

    return jax.vmap(one)(systems, points)


@dataclass(frozen=True, eq=False)
class _End:
    """A point to be judged, with all that the dynamics says of it."""

    objective: PointRisk
    system: Field
    coordinates: Coordinates
    p: np.ndarray
    force: np.ndarray
    jacobian: np.ndarray
    signed: np.ndarray
    scores: np.ndarray

    @property
    def keys(self) -> np.ndarray:
        """In the coordinates of the system."""
        return np.asarray(self.system.keys)

    @property
    def present(self) -> np.ndarray:
        """Which tokens there are."""
        return np.isfinite(np.asarray(self.system.log_multiplicity))

    @property
    def norm(self) -> float:
        """|p| in units of 1/longest key difference."""
        return float(np.linalg.norm(self.p)) * self.coordinates.kappa

    @property
    def speed(self) -> float:
        """|G|."""
        return float(np.linalg.norm(self.force))

    @property
    def most_spread(self) -> float:
        """The largest spread of gaps that is settled, rounding of the logits allowed for."""
        rounding = ROUNDING_FACTOR * float(np.finfo(self.keys.dtype).eps) * self.norm / max(self.speed, 1e-150) ** 2
        return max(SPREAD_TOLERANCE, min(rounding, LARGEST_SPREAD))


def _judge_one(end: _End) -> Limit:
    velocity = end.coordinates.velocity(end.force / end.speed) if end.speed > 0 else np.zeros(len(end.p))
    newton, top_eigenvalue = _stationarity(end.keys, end.present, end.force, end.jacobian, end.norm)
    along = _separation(end, end.force / end.speed if end.speed > 0 else end.force)
    pulling = end
    if along.adverse > WEIGHT_FLOOR:
        pulling = replace(end, signed=_netted(end))
        along = _separation(pulling, end.force / end.speed if end.speed > 0 else end.force)
    spread = along.spread
    is_far = end.norm >= LEAST_NORM and spread <= end.most_spread
    if is_far:
        settled = _settled_velocity(pulling)
        along, velocity = _separation(pulling, settled), end.coordinates.velocity(settled)
    kind, reason = _verdict(end, along, is_far, newton, top_eigenvalue)
    if kind is LimitKind.STALLED and (parts := _mixed(end)) is not None:
        return parts
    diverging = kind is LimitKind.DIVERGES
    chosen = along.chosen if diverging else _top(end.keys, end.present, end.coordinates.inward(end.p))
    length = float(np.linalg.norm(end.p))
    return Limit(
        kind,
        end.objective,
        end.p,
        end.p / length if length > 0 else end.p,
        velocity,
        _selection(end.objective, chosen),
        along.support if diverging else (),
        along.weights if diverging else np.zeros(0),
        spread,
        along.excess,
        along.adverse,
        newton,
        top_eigenvalue,
        reason,
    )


def _mixed(end: _End) -> Limit | None:
    """The limit if part of p stays where pairs of weight cancel and the rest diverges; None if it is not so."""
    if not isinstance(end.system, PairField) or not np.isfinite(end.signed).all():
        return None
    parts = split(end.system, end.coordinates.inward(end.p), end.signed)
    if parts is None or not parts.attracts:
        return None
    coordinates = end.coordinates.within(parts.free)
    inside = coordinates.inward(end.p)
    evaluated = jax.device_get(_evaluate(jax.tree.map(lambda x: np.asarray(x)[None], parts.rest), inside[None]))
    force, jacobian, signed, felt = (x[0] for x in evaluated)
    rest = _judge_one(_End(end.objective, parts.rest, coordinates, end.p, force, jacobian, signed, felt))
    if not (rest.diverges or rest.mixed):
        return None
    chosen = np.take_along_axis(rest.selection.chosen, parts.group, axis=1) & end.present
    finite = end.coordinates.velocity(parts.held @ parts.finite) / end.coordinates.kappa
    return replace(
        rest,
        kind=LimitKind.MIXED,
        selection=_selection(end.objective, chosen),
        newton_step=max(parts.newton_step, rest.newton_step if rest.mixed else 0.0),
        largest_eigenvalue=max(parts.largest_eigenvalue, rest.largest_eigenvalue if rest.mixed else -np.inf),
        finite_part=finite + (0.0 if rest.finite_part is None else rest.finite_part),
        reason="Pairs whose weights cancel hold part of p at a strict local minimum; along the rest the other weighted "
        "pairs separate at one common speed.",
    )


def _verdict(
    end: _End, along: _Separation, is_far: bool, newton: float, top_eigenvalue: float
) -> tuple[LimitKind, str]:
    """What the numbers say, with a sentence."""
    if not (np.isfinite(end.force).all() and np.isfinite(end.jacobian).all()):
        return LimitKind.STALLED, "The field is not finite at the last point: the loss or the head overflows there."
    if end.speed == 0.0 and not np.abs(end.signed).any():
        return LimitKind.FINITE, "No two tokens of an input differ in score and key, so no p moves at all."
    separates = along.spread <= SPREAD_TOLERANCE and along.excess >= -GAP_TOLERANCE and along.adverse <= WEIGHT_FLOOR
    if is_far and separates:
        return (
            LimitKind.DIVERGES,
            "The weighted pairs separate at one common speed and every other token falls behind faster.",
        )
    if newton <= NEWTON_TOLERANCE and top_eigenvalue < -CURVATURE_TOLERANCE:
        return LimitKind.FINITE, "The gradient vanishes at a strict local minimum."
    if newton <= NEWTON_TOLERANCE:
        return (
            LimitKind.STALLED,
            "The gradient vanishes, but not at a strict local minimum: a saddle, or a flat direction.",
        )
    return LimitKind.STALLED, "Neither a common separation speed nor a stationary point was reached yet."


@dataclass(frozen=True)
class _Separation:
    """Selected tokens along a velocity, the weighted pairs between them and the rest, and how well these certify it."""

    chosen: np.ndarray
    support: tuple[tuple[int, int, int], ...]
    weights: np.ndarray
    spread: float
    excess: float
    adverse: float


def _separation(end: _End, u: np.ndarray) -> _Separation:
    present, signed, gamma = end.present, end.signed, end.scores
    logits = np.where(present, end.keys @ u, -np.inf)
    gaps = logits.max(axis=1, keepdims=True) - logits  # masked: inf
    ahead = np.maximum(signed, 0.0)  # weight of (t, u), t of higher score
    weighted = ahead > 0
    with np.errstate(invalid="ignore"):
        between = np.where(weighted, gaps[:, None, :] - gaps[:, :, None], 0.0)
    unit = float((ahead * between).sum())  # the weights sum to 1, so this is their mean gap, and equals |G|
    chosen = present & (gaps <= GAP_TOLERANCE * max(unit, 0.0))
    held_back = ahead * (chosen[:, :, None] & ~chosen[:, None, :])
    adverse = float(max(0.0, ahead.sum() - held_back.sum()))
    per_token = held_back.sum(axis=1)  # weight by which each unselected token is held back
    if unit <= 0.0 or not per_token.any():
        return _Separation(chosen, (), np.zeros(0), float("inf"), float("-inf"), adverse)
    spread = float((ahead * np.abs(between / unit - 1.0))[weighted].sum())
    top = gaps.argmin(axis=1)
    feels = present & ~chosen & (gamma != gamma[np.arange(len(gamma)), top][:, None])
    excess = float((gaps[feels] / unit - 1.0).min()) if feels.any() else float("inf")
    held = per_token > WEIGHT_FLOOR
    i, t = np.nonzero(held)
    support = tuple((int(a), int(chosen[a].argmax()), int(b)) for a, b in zip(i, t, strict=True))
    return _Separation(chosen, support, per_token[held] / per_token[held].sum(), spread, excess, adverse)


def _netted(end: _End) -> np.ndarray:
    """Signed weights in which pairs of one key difference are taken together over all inputs, shape (n, T, T).

    Inputs that share tokens can pull one difference both ways for ever; what moves p is what is left of it.
    """
    i, t, u = np.nonzero(end.signed > 0)
    differences = np.round((end.keys[i, t] - end.keys[i, u]) / SAME_DIFFERENCE)
    first = differences[np.arange(len(i)), (differences != 0).argmax(axis=1)]
    sign = np.where(first < 0, -1.0, 1.0)
    _, place = np.unique(sign[:, None] * differences + 0.0, axis=0, return_inverse=True)
    weights = end.signed[i, t, u]
    pulls = [np.bincount(place.ravel(), weights * (sign == way)) for way in (1.0, -1.0)]
    left, of = np.abs(pulls[0] - pulls[1]), np.maximum(*pulls)
    kept = np.where(sign == np.where(pulls[0] >= pulls[1], 1.0, -1.0)[place.ravel()], (left / of)[place.ravel()], 0.0)
    netted = np.zeros_like(end.signed)
    netted[i, t, u] = weights * kept
    netted -= np.swapaxes(netted, 1, 2)
    total = netted.clip(0).sum()
    return netted / total if total > NET_WEIGHT else end.signed


def _settled_velocity(end: _End) -> np.ndarray:
    """The unit velocity with rounding taken out.

    Once weights are steady, log w_k - log w_l is constant, so the velocity is orthogonal to z_k - z_l for all weighted
    pairs. G satisfies this only up to the rounding of the logits; here what violates it is projected out of G.
    """
    force, keys = end.force, end.keys
    i, t, u = np.nonzero(end.signed > STEADY_WEIGHT)
    pairs = keys[i, t] - keys[i, u]
    _, values, right = np.linalg.svd(pairs[1:] - pairs[:1], full_matrices=False)
    across = right[values > SPAN_TOLERANCE * max(float(values.max(initial=0.0)), 1e-300)]
    along = force - across.T @ (across @ force)
    length = float(np.linalg.norm(along))
    return along / length if length > 0 else force / float(np.linalg.norm(force))


def _stationarity(
    keys: np.ndarray, present: np.ndarray, force: np.ndarray, jacobian: np.ndarray, norm: float
) -> tuple[float, float]:
    """Newton step relative to 1 + norm, and the largest eigenvalue of J relative to |J|, on the span of differences."""
    differences = keys[present]
    if not len(differences):
        return 0.0, -np.inf
    _, values, right = np.linalg.svd(differences, full_matrices=False)
    basis = right[values > SPAN_TOLERANCE * max(values.max(), 1e-300)].T
    if not basis.shape[1]:
        return 0.0, -np.inf
    inner = basis.T @ jacobian @ basis
    size = float(np.linalg.norm(inner))
    if size == 0.0:
        return (0.0, 0.0) if not force.any() else (np.inf, 0.0)
    step, *_ = np.linalg.lstsq(inner, basis.T @ force, rcond=None)
    return float(np.linalg.norm(step)) / (1.0 + norm), float(np.linalg.eigvalsh((inner + inner.T) / 2).max()) / size


def _top(keys: np.ndarray, present: np.ndarray, y: np.ndarray) -> np.ndarray:
    logits = np.where(present, keys @ y, -np.inf)
    return logits >= logits.max(axis=1, keepdims=True)


def _selection(objective: PointRisk, chosen: np.ndarray) -> Selection:
    """Selected tokens with every copy of a repeated token."""
    same = same_key(objective.sequences.keys, objective.sequences.mask)
    return Selection((same & chosen[:, :, None]).any(axis=1))
