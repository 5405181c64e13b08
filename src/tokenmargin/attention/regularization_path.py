"""Regularisation paths: the minimiser of the risk under a bound on |p|, as the bound grows [M, (2), (9)].

The landscape is not convex, so every radius is solved from many starts by the projected flow of `sphere`, then once
more from what was found at all other radii, and the best is kept. Risks that agree to rounding, as all do past
saturation, are compared by their excess over the loss of the selected tokens, which is summed in logarithms:

    L(p) - L(selected) = (1/n) sum_i |l'| sum_t s_it (gamma_selected - gamma_it).

The result is the best of what was found: `theory.path_optimality` certifies it where that can be done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from tokenmargin._checks import checked, positive, real_array, whole_number
from tokenmargin._notebook import Told
from tokenmargin._precision import keep_precision
from tokenmargin._types import ArrayLike, Path
from tokenmargin.attention._points import PathOfPoints, unit_rows
from tokenmargin.attention._projected import Region, Stationary, minimise, risks
from tokenmargin.attention.attention_risk import AttentionRisk, as_risk
from tokenmargin.attention.pair_field import PairField
from tokenmargin.data import EmbeddedSequences, scores
from tokenmargin.errors import InvalidInputError

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

#: Random directions followed at every radius when the caller does not say, besides as many of the screened ones.
DEFAULT_STARTS = 8

#: Random directions whose risk is looked at, at every radius, to find starts: the best selection may own so small a
#: part of the sphere that few random starts meet it, and a look costs a thousandth of a minimisation.
SCREENED = 4096

#: Norms at which each direction is tried, as shares of the way from the inner to the outer bound: minimisers lie on the
#: outer sphere, or at a norm that no one knows beforehand.
START_NORMS = (1.0, 0.1)

#: 1 - cos of the cone below which an axis and its cone cannot be told apart in float64.
NARROWEST_CONE = 1e-10

#: A cosine of no cone at all.
_NO_CONE = -2.0


@dataclass(frozen=True, eq=False, repr=False)
class RegularizationPath(PathOfPoints, Told):
    """p_bar(R) = argmin of L over |p| <= R (and a cone, for a local path), for increasing R."""

    risk: AttentionRisk = field(repr=False)
    radii: np.ndarray  #: R, shape (s,)
    points: Path = field(repr=False)  #: p_bar(R), shape (s, d)
    values: np.ndarray = field(repr=False)  #: L(p_bar(R)), shape (s,)
    excess_signs: np.ndarray = field(repr=False)  #: sign of L - (loss of the tokens of largest logit), shape (s,)
    log_excess: np.ndarray = field(repr=False)  #: log of its modulus to first order, shape (s,); -inf for none
    residuals: np.ndarray = field(repr=False)  #: |projected G|/|G| on a border, |G| in the interior, shape (s,)
    at_radius: np.ndarray = field(repr=False)  #: whether |p_bar| = R and the bound is felt, shape (s,)
    converged: np.ndarray = field(repr=False)  #: whether the residual is down to rounding, shape (s,)

    def plot(self, ax: Any = None) -> Figure:
        """Draw the minimisers: in the plane with its tokens where p has two coordinates, else their attention.

        Args:
            ax: matplotlib axes to draw on; a figure of its own when absent.
        """
        from tokenmargin.plots.answers import draw_attention, draw_plane  # matplotlib, an extra

        data = self.risk.sequences
        if data.width == 2:
            return draw_plane(data.keys, scores(data), ax, paths=[self.points])
        attention = np.stack([data.attention(point) for point in self.points])
        at_end = attention[:, np.arange(attention.shape[1]), attention[-1].argmax(axis=-1)]
        return draw_attention(self.norms, at_end, ax)

    @property
    def is_bounded(self) -> bool:
        """True if the bound is no longer felt at the largest radius: the minimiser then stays where it is."""
        return not bool(self.at_radius[-1])


@dataclass(frozen=True, eq=False, repr=False)
class LocalPath(RegularizationPath):
    """The path restricted to the cone C_{epsilon,R0}(axis) = {cos(p, axis) >= 1 - epsilon, |p| >= R0} [M, (9)]."""

    axis: np.ndarray  #: unit vector, shape (d,)
    epsilon: float
    inner_radius: float  #: R0
    on_mantle: np.ndarray  #: whether the cone's border is felt: the minimiser wants out of the cone, shape (s,)

    @property
    def distances(self) -> np.ndarray:
        """1 - cos(p_bar(R), axis), shape (s,), between 0 and epsilon."""
        return 0.5 * np.sum((self.directions - self.axis) ** 2, axis=1)


@checked
@keep_precision
def regularization_path(
    risk: AttentionRisk | EmbeddedSequences,
    starts: ArrayLike | None = None,
    radii: ArrayLike = (1.0, 10.0, 100.0, 1000.0),
    *,
    random_starts: int = DEFAULT_STARTS,
    seed: int = 0,
) -> RegularizationPath:
    """p_bar(R) = argmin over |p| <= R of L(p), for every R of `radii` [M, (2)].

    Args:
        risk: an `AttentionRisk`, or a data set, which stands for its risk with the logistic loss.
        starts: further directions to start from, shape (m, d), such as the last points of descents.
        radii: positive and strictly increasing, shape (s,).
        random_starts: how many random directions to start from besides.
        seed: seed of the random directions.
    """
    objective = as_risk(risk)
    assert isinstance(objective, AttentionRisk)
    sequences = objective.sequences
    bounds = _checked_radii(radii)
    system, coordinates = objective.field.in_span()
    width = system.keys.shape[2]
    pool = _random_directions(random_starts, width, seed)
    given = np.zeros((0, width)) if starts is None else coordinates.inward(_checked_starts(sequences, starts))
    tried = _Starts(np.concatenate([given, pool[:random_starts]]), pool, random_starts)
    region = Region(np.zeros(width), np.array(_NO_CONE), np.array(0.0), np.array(1.0))
    best = _best(system, region, bounds * coordinates.kappa, tried)
    points = coordinates.outward(best.point, np.zeros(sequences.width))
    return RegularizationPath(objective, bounds, points, *best.summary(), best.on_sphere, best.converged)


@checked
@keep_precision
def local_path(
    risk: AttentionRisk | EmbeddedSequences,
    axis: ArrayLike,
    epsilon: float,
    radii: ArrayLike,
    inner_radius: float = 1.0,
    *,
    random_starts: int = DEFAULT_STARTS,
    seed: int = 0,
) -> LocalPath:
    """p_bar(R) = argmin over C_{epsilon,R0}(axis) and |p| <= R of L(p), for every R of `radii` [M, (9), Thm 4].

    Args:
        risk: an `AttentionRisk`, or a data set, which stands for its risk with the logistic loss.
        axis: q, shape (d,), of any length but 0.
        epsilon: 1 - cos of the cone's half-angle, between 0 and 1.
        radii: strictly increasing and larger than `inner_radius`, shape (s,).
        inner_radius: R0.
        random_starts: how many random directions of the cone to start from, besides its axis.
        seed: seed of the random directions.
    """
    objective = as_risk(risk)
    assert isinstance(objective, AttentionRisk)
    sequences = objective.sequences
    q = sequences.direction(axis, "axis").astype(float)
    length = float(np.linalg.norm(q))
    if length == 0.0:
        raise InvalidInputError("axis is the zero vector, which has no direction: give a non-zero vector.")
    if not (np.isfinite(epsilon) and NARROWEST_CONE <= epsilon < 1):
        raise InvalidInputError(
            f"epsilon = {epsilon!r} gives no cone: 1 - cos of its half-angle must lie between {NARROWEST_CONE} and 1."
        )
    positive(inner_radius, "inner_radius")
    bounds = _checked_radii(radii)
    if bounds[0] <= inner_radius:
        raise InvalidInputError(
            f"the smallest radius {bounds[0]:g} does not exceed inner_radius = {inner_radius:g}: the region is empty."
        )
    q = q / length
    # The axis need not lie in the span of the differences, so the width is kept and only the unit is changed.
    system = objective.field
    kappa = system.in_span()[1].kappa
    system = eqx.tree_at(lambda f: f.keys, system, sequences.relative_keys / kappa)
    tried = _starts_in_cone(q, epsilon, random_starts, seed)
    region = Region(q, np.array(1 - epsilon), np.array(inner_radius * kappa), np.array(1.0))
    end = _best(system, region, bounds * kappa, tried)
    outer = end.on_sphere & (np.linalg.norm(end.point, axis=1) > 0.5 * (inner_radius + bounds) * kappa)
    return LocalPath(
        objective,
        bounds,
        end.point / kappa,
        *end.summary(),
        outer,
        end.converged,
        q,
        float(epsilon),
        float(inner_radius),
        end.on_mantle,
    )


@dataclass(frozen=True)
class _Starts:
    """Directions: those always followed, and a pool of which the `kept` of smallest risk are."""

    always: np.ndarray
    pool: np.ndarray
    kept: int


def _best(system: PairField, region: Region, outer: np.ndarray, tried: _Starts) -> Stationary:
    """Solve every radius from its starts, then from the best of all radii, and keep the best of each."""
    low = float(region.inner)
    pool = unit_rows(tried.pool)
    first = []
    for R in outer:
        promising = pool[np.argsort(risks(system, R * pool))[: tried.kept]]
        ways = np.concatenate([unit_rows(tried.always), promising])
        first.append(np.concatenate([(low + share * (R - low)) * ways for share in START_NORMS]))
    shared = _solve(system, region, outer, first).point
    return _solve(system, region, outer, [np.concatenate([shared, R * unit_rows(shared)]) for R in outer])


def _solve(system: PairField, region: Region, outer: np.ndarray, starts: list[np.ndarray]) -> Stationary:
    """Best lane of each radius, among those that start from the points of that radius."""
    owner = np.repeat(np.arange(len(outer)), [len(points) for points in starts])
    lanes = jax.tree.map(lambda x: np.broadcast_to(np.asarray(x), (len(owner), *np.shape(x))), (system, region))
    regions = eqx.tree_at(lambda r: r.outer, lanes[1], outer[owner])
    end = minimise(lanes[0], regions, np.concatenate(starts))
    best = []
    for j in range(len(outer)):
        members = np.flatnonzero(owner == j)
        settled = members[end.converged[members]]
        winner, *others = (settled if len(settled) else members).tolist()
        for lane in others:
            winner = lane if end.beats(lane, winner) else winner
        best.append(winner)
    kept: Stationary = jax.tree.map(lambda x: x[best], end)
    return kept


def _checked_radii(radii: ArrayLike) -> np.ndarray:
    bounds = real_array(radii, "radii", "(s,)", finite=False)
    if bounds.ndim != 1 or not len(bounds):
        raise InvalidInputError(f"radii have shape {bounds.shape}: give a list of numbers.")
    if not (np.isfinite(bounds).all() and bounds[0] > 0 and (np.diff(bounds) > 0).all()):
        raise InvalidInputError("radii must be finite, positive and strictly increasing: sort them and drop repeats.")
    return bounds


def _checked_starts(sequences: EmbeddedSequences, starts: ArrayLike) -> np.ndarray:
    given = real_array(starts, "starts", "(m, d)", finite=False)
    if given.ndim != 2 or given.shape[1] != sequences.width:
        raise InvalidInputError(f"starts have shape {given.shape}: give directions of shape (m, {sequences.width}).")
    if not np.isfinite(given).all() or not given.any(axis=1).all():
        raise InvalidInputError("starts hold NaN, infinity or a zero vector: give finite non-zero directions.")
    return given


def _random_directions(count: int, width: int, seed: int) -> np.ndarray:
    if not (isinstance(count, int | np.integer) and 0 < count <= SCREENED):
        raise InvalidInputError(f"random_starts must be an integer between 1 and {SCREENED}, got {count!r}.")
    whole_number(seed, "seed", 0)
    return np.random.default_rng(seed).normal(size=(SCREENED, width))


def _starts_in_cone(axis: np.ndarray, epsilon: float, count: int, seed: int) -> _Starts:
    """The axis, and directions at all angles up to the cone's."""
    aside = _random_directions(count, len(axis), seed)
    aside = unit_rows(aside - np.outer(aside @ axis, axis))
    angles = np.arccos(1 - epsilon) * np.linspace(1.0, 0.0, len(aside), endpoint=False)
    angles = np.random.default_rng(seed + 1).permutation(angles)[:, None]
    pool = unit_rows(np.cos(angles) * axis + np.sin(angles) * aside)  # on a line there is no aside
    return _Starts(np.concatenate([axis[None], pool[:count]]), pool, count)
