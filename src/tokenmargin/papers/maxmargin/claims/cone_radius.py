"""The radius of the cone of [M, Thm 3], term by term, what descent does beyond it, and how loose it is.

R of (39) is Lemma 7's: beyond it there is no stationary point, and no more is said. The theorem's own radius, R_{mu/2},
is the largest of 1/2, (46), (49) with the term after it, and (58), at epsilon = mu/2, that is pi = mu/(2 - mu). It may
be 1e10, where a step of descent changes no bit of p: (53) and (55), of which Step 3 of the proof is made, are compared
as logarithms instead, with exact differences of logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy.special import lambertw

from tokenmargin._precision import keep_precision
from tokenmargin._types import Path
from tokenmargin.attention import AttentionRisk, Loss, logistic
from tokenmargin.data import scores
from tokenmargin.margin import MarginSolution, neighbors
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims.lemma7_cone import comparison_terms
from tokenmargin.theory.claim import largest

#: Points of the cone at which (53) and (55) are compared, and how far out, in units of its radius.
POINTS, FARTHEST = 256, 1e3

#: Share of the half-angle at which the outermost points lie, so that rounding leaves them in the cone.
WITHIN = 0.999

#: Norms, and directions at each, at which one looks for the least norm that would do.
_NORMS, _DIRECTIONS = 240, 17


@dataclass(frozen=True)
class ConeRadius:
    """The radii that [M] gives the cone of a locally optimal direction, in the units of p.

    1/2 and (58) as printed are in no unit: 1/2 stands for 2|p| >= 1 in (54b). With 2|p| kept, (56) has a factor 2R and
    (58) becomes R e^(R Theta/2) >= Z/2, which keys in any unit satisfy alike; every cone as printed lies in this one.
    """

    mu: float  #: (32)
    lemma_7: float  #: (39): no stationary point beyond it
    perturbation: float  #: (46) with C_0 = 96
    aside: float  #: (49) with nu = pi^2/(64 A^2)
    uneven: float  #: the term after (49)
    step: float  #: (58) with 2|p| kept in (54b)
    step_as_printed: float  #: (58)

    @property
    def theorem_3(self) -> float:
        """R of [M, Thm 3]."""
        return largest(self.perturbation, self.aside, self.uneven, self.step)

    @property
    def theorem_3_as_printed(self) -> float:
        """The same with 1/2 and (58) as printed."""
        return largest(0.5, self.perturbation, self.aside, self.uneven, self.step_as_printed)


def cone_radius(solution: MarginSolution, loss: Loss = logistic) -> ConeRadius:
    """The radii for a locally optimal solution every input of which has a neighbour [M, Lemma 7, Thm 3].

    The slope of the loss is taken to be monotone over the scores, as it is for the losses of [M].
    """
    data, constants = solution.sequences, cone_constants(solution)
    mu, margin = constants.mu, constants.margin
    gamma, near = scores(data), neighbors(solution)
    selected = np.where(solution.selection.chosen, gamma, -np.inf).max(axis=1)
    most = float((selected[:, None] - gamma)[near].max())
    ends = np.exp(np.asarray(loss.log_slope(jnp.asarray([gamma[data.mask].min(), gamma[data.mask].max()]))))
    upper, lower = 2.0 * float(ends.max()) * most, float(ends.min()) * constants.score_gap / 8.0  # C and c of (41)
    keys = np.where(data.mask[:, :, None], data.relative_keys, np.nan)
    spread = float(np.nanmax(np.linalg.norm(keys[:, :, None] - keys[:, None], axis=-1)))
    T = int(data.mask.sum(axis=1).max())
    C_2 = (1 - mu) * spread**2 * upper**2 / (margin * lower)
    Z = (2 - mu) / mu * C_2 * T / AttentionRisk(data, loss).smoothness
    return ConeRadius(
        mu,
        constants.radius,
        *comparison_terms(solution, mu / (2 - mu), loss),
        step=float(2 / margin * lambertw(Z * margin / 4).real),
        step_as_printed=float(2 / margin * np.log(Z)),
    )


def points_of_cone(axis: np.ndarray, mu: float, norms: np.ndarray, seed: int = 0) -> Path:
    """Points of the given norms in C_mu(axis), shape (s, d): every third on the border, one in three on the axis."""
    rng, u = np.random.default_rng(seed), axis / np.linalg.norm(axis)
    aside = rng.normal(size=(len(norms), len(u)))
    aside -= np.outer(aside @ u, u)
    length = np.linalg.norm(aside, axis=1, keepdims=True)
    aside = np.divide(aside, length, out=np.zeros_like(aside), where=length > 1e-9)  # on a line there is no aside
    place = np.arange(len(norms))
    share = np.select([place % 3 == 0, place % 3 == 1], [1.0, 0.0], rng.random(len(norms)))
    angle = (WITHIN * np.arccos(1 - mu) * share)[:, None]
    return norms[:, None] * (np.cos(angle) * u + np.sin(angle) * aside)


#: Descent along the axis, in units of the whole of it, that is rounding: weights are exponentials of logarithms, whose
#: sums cancel to a few units of the last place.
NO_DESCENT = 16 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class DescentInCone:
    """Amounts by which descent at points of the cone misses what Step 3 of the proof needs, shape (s,); 0 for none.

    turn: in (53), relative to the descent along p_mm. leave: in the last line of (55) at eta = 1/L_p, in logarithms.
    stationary: True if descent along p_mm is not positive, which (39) is to exclude.
    """

    turn: np.ndarray
    leave: np.ndarray
    stationary: np.ndarray


@keep_precision
def descent_in_cone(solution: MarginSolution, mu: float, points: np.ndarray, loss: Loss = logistic) -> DescentInCone:
    """(53) and (55) at epsilon = mu/2 and eta = 1/L_p, with -grad L = exp(c) D and logarithms throughout.

    (55) keeps the cone if rho (mu - epsilon) >= eta (1 - mu) |grad L|^2 / 2|p|, rho (1 - epsilon) = <-grad L, p_mm>
    over |p_mm|.
    """
    risk = AttentionRisk(solution.sequences, loss)
    D, c = risk.descent_directions(points)
    norms, epsilon = np.linalg.norm(points, axis=1), mu / 2
    along_p, along_axis = np.einsum("sd,sd->s", D, points) / norms, D @ solution.direction
    uphill = along_axis <= NO_DESCENT * np.linalg.norm(D, axis=1)
    safe = np.where(uphill, 1.0, along_axis)
    turn = np.where(uphill, np.inf, np.maximum(0.0, ((1 - epsilon) * along_p - along_axis) / safe))
    gain = np.log((mu - epsilon) / ((1 - epsilon) * (1 - mu))) + np.log(safe) - c
    room = gain + np.log(2 * norms) - 2 * np.log(np.linalg.norm(D, axis=1)) + np.log(risk.smoothness)
    return DescentInCone(turn, np.where(uphill, np.inf, np.maximum(0.0, -room)), uphill)


@dataclass(frozen=True)
class NeededRadius:
    """The least norms, of those looked at, from which on the cone has what a radius is to ensure; a sample's answer."""

    lemma_7: float  #: no point at which descent along p_mm is not positive
    theorem_3: float  #: (53) and (55)


def needed_radius(solution: MarginSolution, radius: ConeRadius, loss: Loss = logistic) -> NeededRadius:
    """Look at the cone at norms from a hundredth of |p_mm| up to R, on its axis, its border and between."""
    lowest = 1e-2 / solution.margin
    norms = np.geomspace(lowest, radius.theorem_3, _NORMS)
    points = points_of_cone(solution.direction, radius.mu, np.repeat(norms, _DIRECTIONS))
    seen = descent_in_cone(solution, radius.mu, points, loss)

    def beyond(fails: np.ndarray) -> float:
        last = np.flatnonzero(fails.reshape(_NORMS, _DIRECTIONS).any(axis=1))
        return float(norms[min(last[-1] + 1, _NORMS - 1)]) if len(last) else lowest

    return NeededRadius(beyond(seen.stationary), beyond((seen.turn > 0) | (seen.leave > 0)))
