"""Bound on how far from max-margin a minimiser of L over |p| <= R can be; it does not assume [M, Thms 1 and 8].

Let q_i be the attention of input i outside its optimal tokens O_i, q the largest of them, and let

    C_- q(p)  <=  L(p) - L_*  <=  C_+ q(p)      for all p,                                                (sandwich)

let m and o be the most tokens that an input has outside and inside O_i, Xi = 1/|p_mm| the margin of (ATT-SVM') and
g_i(p) = max_{a in O_i} min_{b not in O_i} p'(k_a - k_b). Take any p with |p| <= R and L(p) <= L(R p_mm/|p_mm|), as a
minimiser has. All g_i of the competitor are Xi R or more, so its q is at most m e^(-Xi R), and by the sandwich

    q(p) <= (C_+/C_-) m e^(-Xi R) =: e^-x.     As q_i >= 1/(1 + o e^g_i):     g_i(p) >= log((e^x - 1)/o) =: Xi R - c

for all i, with c = log(m o C_+/C_-) up to e^-x. Let a(p) be the tokens of O_i of largest logit and Xi_a the margin of
(ATT-SVM) for them. p/(Xi R - c) satisfies its constraints, so Xi_a >= Xi - c/R: other choices cannot compete. By
duality p_mm(a) = sum_j lambda_j d_j over active differences d_j with lambda >= 0 and sum lambda = |p_mm(a)|^2, so
p'p_mm(a) >= (Xi R - c)/Xi_a^2, and therefore

    |p/(Xi R) - p_mm(a)|^2  <=  1/Xi^2 - 1/Xi_a^2 + 2 c/(Xi R Xi_a^2).

Half of it in units of 1/Xi^2 is 1 - cos where |p| = R and Xi_a = Xi, so with one choice 1 - cos <= c/(Xi R), for any d
and loss. The sandwich, the margin and duality are all that can fail; `look` tests them at random p and at minimisers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, Path
from tokenmargin.attention import Correlation, Exponential, Logistic
from tokenmargin.attention.head_risk import HeadField, HeadRisk, Numbers
from tokenmargin.data import Selection
from tokenmargin.errors import NotDecidedError
from tokenmargin.margin import AnyOfSolution, Status, att_svm_any, least_norm_batch
from tokenmargin.margin.any_of import SAME_MINIMISER
from tokenmargin.papers.maxmargin.claims._convex_heads import check_constants
from tokenmargin.theory.claim import largest

#: One number a probe.
ProbeNumbers = Float[np.ndarray, "m"]

#: Xi R at which paths are looked at: from saturation on, and log-weights carry 1e-10 at the last.
LEVELS = (1e2, 1e3, 1e4, 1e5)

#: Most that log(L - L_*) of two points may differ by rounding, at logits of `LEVELS`; it is added to c.
SAME_LOG_EXCESS = 1e-6

#: Least score gap in units of what is a tie, 1e-12 of the terms of a score. A gap carries a rounding error of 1e-16 of
#: those, so from here on its logarithm is known to a hundredth of `SAME_LOG_EXCESS`.
RESOLVED_GAP = 1e4

#: Choices of one optimal token per input that are solved to see which can compete.
MOST_CHOICES = 4096

#: Random directions at each level, and where points are placed besides: 1 - cos in units of its bound.
RANDOM_DIRECTIONS, BESIDE_THE_BOUND = 16, (0.3, 1.001, 1.5, 4.0)

#: Directions that the search for minimisers starts from, the first level, and the ratio of levels up to `LEVELS`.
_STARTS, _FIRST_LEVEL, _GROWTH = 8, 1.0, 2.0

#: Newton steps on a sphere, the shares of one that are tried, its largest length and the distance of differences, in
#: units of logits, and the least curvature, in units of one over their square.
_NEWTON_STEPS, _SHARES, _LONGEST_STEP, _DIFFERENCE, _LEAST_CURVATURE = 25, 4.0 ** -np.arange(4), 16.0, 1e-3, 1e-9

#: Points evaluated together.
_POINTS = 32


@dataclass(frozen=True, eq=False)
class BoundedPath:
    """A risk with a sandwich, and the minimisers of (ATT-SVM') that its path must approach."""

    risk: HeadRisk = field(repr=False)
    allowed: Selection  #: O_i
    lower: float  #: C_-
    upper: float  #: C_+

    @cached_property
    def unit(self) -> float:
        """The longest key difference to a first token of an input; 1 where all keys of an input are one."""
        return float(np.linalg.norm(self.risk.sequences.relative_keys, axis=2).max()) or 1.0

    @cached_property
    def solution(self) -> AnyOfSolution:
        """(ATT-SVM')."""
        return att_svm_any(self.risk.sequences, self.allowed)

    def shortfall(self, level: float) -> float:
        """c at Xi R = level: how much less than Xi R the margin of a p as good as the competitor can be."""
        if not self.lower > 0:  # slopes of the loss that underflow leave no sandwich
            return float("inf")
        inside = self.allowed.chosen.sum(axis=1).max()
        outside = (~self.allowed.chosen & self.risk.sequences.mask).sum(axis=1).max()
        x = level - np.log(self.upper / self.lower * outside) - SAME_LOG_EXCESS
        return float(level - x - np.log(-np.expm1(-x)) + np.log(inside)) if x > 0 else float("inf")

    @cached_property
    def choices(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(p_mm(a), Xi_a) of every choice of one optimal token per input; None if too many or one is undecided."""
        data, chosen = self.risk.sequences, self.allowed.chosen
        keys, outside = data.keys.astype(float), ~chosen & data.mask
        asking = np.flatnonzero(outside.any(axis=1))
        if np.prod(chosen[asking].sum(axis=1).astype(float)) > MOST_CHOICES:
            return None
        rows = np.array(
            [
                np.concatenate([keys[i, a] - keys[i, outside[i]] for i, a in zip(asking, choice, strict=True)])
                for choice in product(*(np.flatnonzero(chosen[i]) for i in asking))
            ]
        )
        answers = least_norm_batch(rows, np.ones(rows.shape[:2]))
        if any(answer.status is Status.UNDECIDED for answer in answers):
            return None
        points = np.array([answer.p for answer in answers if answer.status is Status.OPTIMAL])
        return points, 1 / np.linalg.norm(points, axis=1)

    def bound(self, level: float) -> float:
        """Half the squared distance of p/(Xi R) to the minimisers of (ATT-SVM'), in units of 1/Xi^2, at most.

        Over the choices that can compete at Xi R = level; infinite where nothing is said.
        """
        share = self.shortfall(level) / level
        if self.choices is None or not share < 1:
            return float("inf")
        points, margins = self.choices
        ratio = np.maximum(self.solution.margin / margins, 1.0)
        near = np.sqrt(np.maximum(1 - ratio**2 + 2 * share * ratio**2, 0.0))
        apart = np.array([self.solution.distance(p) for p in points]) * self.solution.margin
        competes = ~(ratio * (1 - share) > 1)
        return float(((near + np.where(apart > SAME_MINIMISER, apart, 0.0))[competes] ** 2).max() / 2)

    def off(self, points: np.ndarray, levels: np.ndarray) -> ProbeNumbers:
        """Half the squared distance of p/(Xi R) to the minimisers, in units of 1/Xi^2: 1 - cos where |p| = R."""
        margin = self.solution.margin
        scaled = zip(points, levels, strict=True)
        return np.array([(self.solution.distance(p / level) * margin) ** 2 / 2 for p, level in scaled])


def score_gap_sandwich(risk: HeadRisk, best: Selection) -> tuple[float, float] | None:
    """(C_-, C_+) for a linear head and one best token per input, from its score gaps; None for other losses than [M]'s.

    l(gamma_best - D) - l(gamma_best) with D = sum_t s_t (gamma_best - gamma_t) lies between q times the least gap times
    the least |l'| and q times the largest of both, |l'| between the lowest and the best score. No score need be
    positive, as the printed proof asks.
    """
    if not isinstance(risk.loss, Logistic | Exponential | Correlation):
        return None
    mask, gamma = risk.sequences.mask, np.where(risk.sequences.mask, risk.scores, np.nan)
    top, lowest = np.nanmax(gamma, axis=1), np.nanmin(gamma, axis=1)
    others = mask & ~best.chosen
    asks = others.any(axis=1)
    gaps = np.where(others, top[:, None] - gamma, np.nan)[asks]
    if not asks.any():
        return None
    slopes = np.exp(np.asarray(risk.loss.log_slope(np.stack([top, lowest])))).astype(float)[:, asks]
    n = risk.sequences.n_inputs
    least, most = slopes.min(axis=0) * np.nanmin(gaps, axis=1), slopes.max(axis=0) * np.nanmax(gaps, axis=1)
    return check_constants(float(least.min()) / n, float(most.sum()) / n)


# --- What can fail ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PathSeen:
    """Minimisers found and other points, at each level Xi R: how far off they are, and how good."""

    levels: Numbers  #: Xi R, shape (s,)
    points: Path  #: the best p found at each, shape (s, d)
    unaided: bool  #: whether the search, without the max-margin direction among its starts, found them
    bounds: Numbers  #: on `off`, at each level
    off: Numbers  #: of `points`
    excess: Numbers  #: log(L - L_*) of `points`
    competitor: Numbers  #: log(L - L_*) of R p_mm/|p_mm|
    probe_levels: ProbeNumbers  #: of the other points, competitors and `points` among them: Xi R, shape (m,)
    probe_off: ProbeNumbers
    probe_sign: ProbeNumbers  #: of L - L_*
    probe_excess: ProbeNumbers
    probe_q: ProbeNumbers  #: log q

    def twice_as_far(self) -> PathSeen:
        """The same, had the minimisers been found twice as far off as they can be."""
        return replace(self, off=2 * self.bounds)

    def miss(self, lower: float, upper: float) -> float:
        """Distance of a point outside the sandwich, in logs, or beyond its bound, as a share; 0 for none.

        NaN where a minimiser found is worse than the competitor, so that it is none.
        """
        if not (self.excess <= self.competitor + SAME_LOG_EXCESS).all() or np.isnan(self.probe_sign).any():
            return float("nan")
        if (self.probe_sign <= 0).any():
            return float("inf")
        share = self.probe_excess - self.probe_q
        sandwich = largest(float(np.log(lower) - share.min()), float(share.max() - np.log(upper)))
        rank = np.searchsorted(self.levels, self.probe_levels)
        as_good = ~(self.probe_excess > self.competitor[rank] + SAME_LOG_EXCESS)
        beyond = (self.probe_off / self.bounds[rank] - 1)[as_good].max()
        return largest(0.0, sandwich, float(beyond), float((self.off / self.bounds - 1).max()))


def known_levels(path: BoundedPath, levels: tuple[float, ...] = LEVELS) -> tuple[float, ...]:
    """Those levels Xi R at which logits, rounded by 1e-16 of |p| times a key, are known; NotDecidedError if none."""
    longest = path.unit / path.solution.margin
    known = tuple(one for one in levels if float(np.finfo(float).eps) * one * longest <= SAME_LOG_EXCESS / 10)
    if not known:
        raise NotDecidedError(
            f"keys are {longest:.1e} times as long as the margin: no logit is known where softmax is saturated."
        )
    return known


def look(path: BoundedPath, levels: tuple[float, ...] = LEVELS, seed: int = 0) -> PathSeen:
    """Search for minimisers at each level, and look at the competitor and at many other points."""
    levels = known_levels(path, levels)
    rng, margin, width = np.random.default_rng(seed), path.solution.margin, path.risk.sequences.width
    directions = rng.normal(size=(_STARTS, width))
    goals = np.array(levels)
    axes = path.solution.minimisers * margin
    competitors = goals[:, None] / margin * axes[0]
    rivals = _values(path, competitors).size
    found = _minimisers(path, goals, directions)
    unaided = bool((found[1] <= rivals + SAME_LOG_EXCESS).all())
    if not unaided:
        found = _each_from(path, goals, axes, found)
    bounds = np.array([path.bound(level) for level in levels])
    probes = [_probes(rng, axes, level / margin, bound) for level, bound in zip(levels, bounds, strict=True)]
    points = np.concatenate([found[0], competitors, *probes])
    at = np.concatenate(
        [goals, goals, *(np.full(len(some), level) for some, level in zip(probes, levels, strict=True))]
    )
    values = _values(path, points)
    return PathSeen(
        goals, found[0], unaided, bounds, path.off(found[0], goals), found[1], rivals, at, path.off(points, at),
        values.sign, values.size, values.log_q,
    )  # fmt: skip


def _each_from(
    path: BoundedPath, goals: np.ndarray, axes: np.ndarray, found: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The better of what was found and what is found from the max-margin directions, at each level."""
    points, values = found[0].copy(), found[1].copy()
    for j, level in enumerate(goals):
        there, reached = _on_sphere(path, axes, level / path.solution.margin)
        if reached.min() < values[j]:
            points[j], values[j] = there[reached.argmin()], reached.min()
    return points, values


def _probes(rng: np.random.Generator, axes: np.ndarray, R: float, bound: float) -> np.ndarray:
    """Random points of the ball, and points of the sphere at stated shares of the bound off each axis."""
    width = axes.shape[1]
    anywhere = rng.normal(size=(RANDOM_DIRECTIONS, width))
    anywhere *= (R * rng.random(RANDOM_DIRECTIONS) ** (1 / 4) / np.linalg.norm(anywhere, axis=1))[:, None]
    if width == 1:
        return np.asarray(anywhere)
    cosines = np.array([1 - np.fmin(share * bound, 2.0) for share in BESIDE_THE_BOUND])
    aside = rng.normal(size=(len(axes), len(cosines), 4, width))
    aside -= np.einsum("mcsd,md->mcs", aside, axes)[..., None] * axes[:, None, None]
    aside /= np.linalg.norm(aside, axis=-1, keepdims=True)
    turned = cosines[:, None, None] * axes[:, None, None] + np.sqrt(1 - cosines**2)[:, None, None] * aside
    return np.concatenate([anywhere, R * turned.reshape(-1, width)])


def _minimisers(path: BoundedPath, goals: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(points, log(L - L_*)) of the smallest risk found on the sphere of each level, from levels of order one on."""
    steps = np.arange(int(np.log(goals[0] / _FIRST_LEVEL) / np.log(_GROWTH)))
    levels = np.unique(np.concatenate([_FIRST_LEVEL * _GROWTH**steps, goals, np.sqrt(goals[1:] * goals[:-1])]))
    best, values, points = [], [], directions
    for level in levels:
        points, value = _on_sphere(path, points, level / path.solution.margin)
        if level in goals:
            best.append(points[value.argmin()])
            values.append(value.min())
    return np.array(best), np.array(values)


def _on_sphere(path: BoundedPath, points: np.ndarray, R: float) -> tuple[np.ndarray, np.ndarray]:
    """Minimisers of log(L - L_*) on |p| = R near each of the points, and its values, by Newton's method.

    Gradients are exact, in logarithms, and differenced for the Hessian over a thousandth of a unit of logits.
    """
    points = R * points / np.linalg.norm(points, axis=1, keepdims=True)
    now = _values(path, points)
    value, slope = now.size, now.slope
    if points.shape[1] == 1:
        return points, value
    for _ in range(_NEWTON_STEPS):
        unit = points / R
        # The other rows are at right angles to the first.
        basis = np.linalg.svd(unit[:, None], full_matrices=True)[2][:, 1:] / path.unit
        moved = points[:, None, None] + _DIFFERENCE * np.array([1.0, -1.0])[:, None, None] * basis[:, None]
        slopes = _values(path, moved.reshape(-1, points.shape[1])).slope.reshape(moved.shape)
        hessian = np.einsum("bid,bjd->bij", slopes[:, 0] - slopes[:, 1], basis) / (2 * _DIFFERENCE)
        radial = -np.einsum("bd,bd->b", slope, unit) / R / path.unit**2
        hessian = (hessian + hessian.swapaxes(1, 2)) / 2 + radial[:, None, None] * np.eye(basis.shape[1])
        sizes, frame = np.linalg.eigh(hessian)
        tangent = np.einsum("bid,bd->bi", basis, slope)
        step = np.einsum("bij,bkj,bk->bi", frame / np.maximum(np.abs(sizes), _LEAST_CURVATURE)[:, None], frame, tangent)
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(np.linalg.norm(step, axis=1), 1e-300))[:, None]
        trial = points[:, None] - _SHARES[:, None] * np.einsum("bi,bid->bd", step, basis)[:, None]
        trial *= R / np.linalg.norm(trial, axis=2, keepdims=True)
        tried = _values(path, trial.reshape(-1, points.shape[1]))
        values, slopes = tried.size.reshape(trial.shape[:2]), tried.slope.reshape(trial.shape)
        rows, pick = np.arange(len(points)), values.argmin(axis=1)
        better = values[rows, pick] < value
        points = np.where(better[:, None], trial[rows, pick], points)
        slope = np.where(better[:, None], slopes[rows, pick], slope)
        value = np.where(better, values[rows, pick], value)
        if not better.any():
            break
    return points, value


@dataclass(frozen=True, eq=False)
class _Values:
    """log(L - L_*) with its sign and gradient, and log q, at points of shape (m, d)."""

    sign: np.ndarray
    size: np.ndarray
    log_q: np.ndarray
    slope: np.ndarray


@keep_precision
def _values(path: BoundedPath, points: np.ndarray) -> _Values:
    """Evaluate `_POINTS` at a time, so that one compilation serves."""
    count = len(points)
    padded = np.concatenate([points, np.repeat(points[-1:], -count % _POINTS, axis=0)])
    parts = [
        _seen(path.risk.every_token, padded[first : first + _POINTS], path.allowed.chosen)
        for first in range(0, len(padded), _POINTS)
    ]
    sign, size, log_q, force, scale = (
        np.concatenate([np.asarray(x) for x in column])[:count] for column in zip(*parts, strict=True)
    )
    return _Values(sign, size, log_q, -np.exp(scale - size)[:, None] * force)


@eqx.filter_jit
def _seen(field: HeadField, points: AnyArray, allowed: AnyArray) -> tuple[AnyArray, ...]:
    return jax.vmap(lambda p: (*field.log_excess_over(p, allowed), *field.descent_direction(p)))(points)
