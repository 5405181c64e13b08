"""[M, Lemma 8]: when one direction dominates another, as a claim with an explicit radius.

"There exists R" is no hypothesis one can check; the proofs give an R, and where they leave a constant open it is
derived here. Risks and gradients are compared in log space, because that R may be in the hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from tokenmargin.attention import AttentionRisk, Correlation, Exponential, Logistic, Loss, logistic
from tokenmargin.data import EmbeddedSequences, score_tie_widths, scores
from tokenmargin.margin import directional_margin, global_margin
from tokenmargin.papers.maxmargin import toys
from tokenmargin.theory.claim import ROUNDING, Applies, Claim, largest, least, unless_slopes_known
from tokenmargin.theory.problem import Problem, given

#: Least difference of margins along unit directions, in units of the longest key difference: a margin carries a
#: rounding error of 1e-16 of that, and at R(.), which grows like one over the difference, it would be felt below this.
APART = 1e-11

#: Rounding of log(L - L_star) for each unit of R times the longest key difference, several units in the last place.
LOG_ROUNDING = 2e-15


@dataclass(frozen=True, eq=False)
class DominanceCase:
    """Two unit directions with the same selected tokens, and a norm R."""

    sequences: EmbeddedSequences
    q: tuple[float, ...]
    p: tuple[float, ...]
    norm: float
    loss: Loss = logistic


@dataclass(frozen=True)
class Excess:
    """sign * exp(size) = L - L_star."""

    sign: float
    size: float

    def above(self, other: Excess) -> float:
        """log of the ratio by which this exceeds `other`, +inf across signs; negative when it does not exceed it."""
        if self.sign != other.sign:
            return float("inf") if self.sign > other.sign else float("-inf")
        return self.sign * (self.size - other.size)


def dominance_radius(case: DominanceCase) -> float:
    """An R(.) for [M, Lemma 8]: log(4 n T K_plus M_plus / (M_minus kappa)) / min(delta_Gamma, delta_q).

    kappa is the smallest score gap of q's directional neighbours, delta_q the distance from q's margin to the next,
    K_plus the largest score gap to a selected token, M_plus and M_minus the bounds of |l'| over the scores. At least
    log(T)/margin, which (62) needs. inf when q has a neighbour of equal score.
    """
    data, (p, q) = case.sequences, (np.array(case.p), np.array(case.q))
    seen_q, seen_p = directional_margin(data, q), directional_margin(data, p)
    gamma, alpha, n = scores(data), seen_q.selection.indices, data.n_inputs
    margins = (data.keys[np.arange(n), alpha][:, None] - data.keys) @ q
    rest = np.where(seen_q.selection.chosen | seen_q.neighbors | ~data.mask, np.inf, margins)
    gaps = np.where(data.mask, gamma[np.arange(n), alpha][:, None] - gamma, 0.0)
    kappa = float(np.abs(gaps[seen_q.neighbors]).min(initial=np.inf))
    slopes = np.asarray(case.loss.log_slope(jnp.asarray([gamma[data.mask].min(), gamma[data.mask].max()])))
    ratio = 4 * n * data.n_places * float(np.abs(gaps).max()) * float(np.exp(np.ptp(slopes)))
    apart = least(seen_p.margin - seen_q.margin, float(rest.min()) - seen_q.margin)
    if kappa == 0:
        return float("inf")
    return largest(float(np.log(ratio / kappa)) / apart, float(np.log(data.n_places)) / seen_q.margin)


def _lemma_8_applies(case: DominanceCase) -> tuple[Applies, str]:
    if not isinstance(case.loss, Logistic | Exponential | Correlation):
        return Applies.NOT_DECIDED, "The bounds of |l'| are taken at the ends of the score range, for known losses."
    if not (np.any(case.q) and np.any(case.p)):
        return Applies.NO, "0 is no direction."
    seen_q, seen_p = (directional_margin(case.sequences, x) for x in (case.q, case.p))
    if not (seen_q.selection.is_single and seen_q.selection == seen_p.selection):
        return Applies.NO, "q and p do not select the same single tokens."
    if not np.isfinite(seen_q.margin):
        return Applies.NO, "q and p select every token: there is no margin."
    if abs(seen_p.margin - seen_q.margin) <= APART * _longest(case.sequences):
        return Applies.NOT_DECIDED, "The margins of q and p differ by no more than rounding."
    if not seen_q.margin < seen_p.margin:
        return Applies.NO, "The margin of q is not smaller than that of p."
    if not _gaps_known(case.sequences, seen_q.neighbors | seen_p.neighbors, seen_q.selection.indices):
        return Applies.NOT_DECIDED, "A neighbour scores as the selected token does, up to rounding."
    both = seen_q.is_neighbor_optimal and seen_p.is_neighbor_optimal
    unique = not seen_q.is_neighbor_optimal and int(seen_q.neighbors.sum()) == 1
    radius = dominance_radius(case)
    if not (both or unique):
        return Applies.NO, "q and p are not both neighbour-optimal, nor has q one neighbour of higher score."
    told = f"R = {case.norm:.4g}, and R(.) = {radius:.4g}."
    if not case.norm > radius:
        return Applies.NO, told
    return unless_slopes_known(case.sequences) or (Applies.YES, told)


def _longest(sequences: EmbeddedSequences) -> float:
    return float(np.linalg.norm(sequences.relative_keys, axis=-1).max())


def _gaps_known(sequences: EmbeddedSequences, near: np.ndarray, alpha: np.ndarray) -> bool:
    """True if each score gap of a neighbour is far from its rounding, and so has the sign that it seems to have."""
    gamma, (i, t) = scores(sequences), np.nonzero(near)
    return bool((np.abs(gamma[i, alpha[i]] - gamma[i, t]) > 10 * score_tie_widths(sequences)[i]).all())


def excess_risks(case: DominanceCase) -> tuple[Excess, Excess]:
    """L(Rq) - L_star and L(Rp) - L_star, in log space."""
    selection = directional_margin(case.sequences, case.q).selection
    points = case.norm * np.array([case.q, case.p])
    sign, size, _ = AttentionRisk(case.sequences, case.loss).log_excess(points, selection)
    return Excess(float(sign[0]), float(size[0])), Excess(float(sign[1]), float(size[1]))


def _lemma_8_error(case: DominanceCase, seen: tuple[Excess, Excess]) -> float:
    """0 when the right direction has the lower risk, else by how much (in log) it has not; NaN within rounding."""
    at_q, at_p = seen
    ahead = at_q.above(at_p) if directional_margin(case.sequences, case.q).is_neighbor_optimal else at_p.above(at_q)
    if abs(ahead) <= LOG_ROUNDING * case.norm * _longest(case.sequences):
        return float("nan")
    return 0.0 if ahead > 0 else 1.0 - ahead


def _two_directions(scale: float) -> DominanceCase:
    """Fig. 1(c): two directions that select the optimal tokens, at `scale` times R(.)."""
    best = global_margin(toys.fig1c()).direction
    angle = float(np.arctan2(best[1], best[0]))
    q, p = ((float(np.cos(angle + x)), float(np.sin(angle + x))) for x in (0.25, -0.1))
    return DominanceCase(toys.fig1c(), q, p, scale * dominance_radius(DominanceCase(toys.fig1c(), q, p, 1.0)))


def _at_the_norm_of_p(problem: Problem) -> DominanceCase:
    """The directions of p and q, both looked at where |p| is; 0 stays 0."""
    (p, norm), (q, _) = _unit(given(problem.p)), _unit(given(problem.q))
    return DominanceCase(given(problem.sequences), q, p, norm)


def _unit(vector: tuple[float, ...]) -> tuple[tuple[float, ...], float]:
    length = float(np.linalg.norm(vector))
    return tuple(x / length if length > 0 else 0.0 for x in vector), length


LEMMA_8: Claim[DominanceCase, tuple[Excess, Excess]] = Claim(
    key="maxmargin-lemma8",
    paper="M",
    label="Lemma 8",
    statement="Of two directions that select the same tokens, beyond an R set by the difference of their margins, the "
    "gap from q's margin to the next and the scores, the one of larger margin has the lower risk when both are "
    "neighbour-optimal; q of smaller margin has it when its only directional neighbour scores higher.",
    tolerance=ROUNDING,
    tolerance_reason="the risks are compared by the sign of their difference; a miss counts one or more",
    hypotheses=_lemma_8_applies,
    observe=excess_risks,
    error=_lemma_8_error,
    inside=lambda: _two_directions(1.001),
    outside=lambda: _two_directions(0.999),
    mutate=lambda seen: (seen[1], seen[0]),
    correction="In the first case too R depends on the gap between q's margin and the next (delta_q): the proof takes "
    "neighbour-optimality for optimality over all tokens, and the printed R(delta_Gamma) does not exist. The proof "
    "has exp(-R Gamma_q kappa), as transcribed, for kappa exp(-R Gamma_q), and loses a factor 1/2.",
    needs=("tokens", "p", "q"),
    of_problem=_at_the_norm_of_p,
)

CLAIMS: tuple[Claim, ...] = (LEMMA_8,)
