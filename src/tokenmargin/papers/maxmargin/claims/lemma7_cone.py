"""[M, Lemma 7]: the gradient in the cone of a locally-optimal direction, as claims with corrected constants.

"There exists R" is no hypothesis one can check; the proofs give an R, and where they leave a constant open it is
derived here. Risks and gradients are compared in log space, because that R may be in the hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tokenmargin._types import Vector
from tokenmargin.attention import AttentionRisk, Loss, logistic
from tokenmargin.data import EmbeddedSequences, Selection, scores
from tokenmargin.margin import MarginSolution, att_svm, is_locally_optimal, neighbors
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin._cones import OfSelection, cone_constants, in_cone
from tokenmargin.theory.claim import (
    DOT_ROUNDING,
    ROUNDING,
    ROUNDING_REASON,
    Applies,
    Claim,
    beyond_rounding,
    largest,
    least,
    unless_slopes_known,
)
from tokenmargin.theory.problem import given

InputNumbers = Float[np.ndarray, "n"]


@dataclass(frozen=True, eq=False)
class ConeCase(OfSelection):
    """A locally-optimal selection with p and q in its cone."""

    sequences: EmbeddedSequences
    selection: Selection
    p: tuple[float, ...]
    q: tuple[float, ...]
    loss: Loss = logistic


@dataclass(frozen=True, eq=False)
class ConeGradient:
    """-grad L(p) = exp(log_scale) direction, log|l'_i| and log q_i = log(1 - s_i,alpha_i)."""

    direction: Vector
    log_scale: float
    log_slope: InputNumbers
    log_missing: InputNumbers


def cone_gradient(case: ConeCase | ComparisonCase) -> ConeGradient:
    """The gradient at p and how much attention each input withholds from its selected token."""
    direction, log_scale = AttentionRisk(case.sequences, case.loss).descent_direction(case.p)
    near = case.sequences.relative_keys @ case.sequences.direction(case.p)  # softmax feels no shift
    logits = np.where(case.sequences.mask, near, -np.inf)
    log_s = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    chosen = case.selection.chosen
    output = (np.exp(log_s) * np.where(case.sequences.mask, scores(case.sequences), 0.0)).sum(axis=1)
    return ConeGradient(
        direction,
        log_scale,
        np.asarray(case.loss.log_slope(jnp.asarray(output))),
        np.logaddexp.reduce(np.where(chosen, -np.inf, log_s), axis=1),
    )


def _lemma_7_applies(case: ConeCase | ComparisonCase) -> tuple[Applies, str]:
    solution, points = case.solution, (case.p, case.q if isinstance(case, ConeCase) else case.p)
    if not is_locally_optimal(solution):
        return Applies.NO, "The selected tokens are not locally optimal."
    constants = cone_constants(solution)
    if not constants.every_input_has_neighbors:
        return Applies.NO, "Some input has no SVM-neighbour, where the constants c and C are not defined."
    if not all(map(in_cone, points, [solution.p] * 2, [constants.mu] * 2, [constants.radius, 0.0])):
        return Applies.NO, f"p or q lies outside the cone with mu = {constants.mu:.2e}, R = {constants.radius:.4g}."
    told = f"p and q lie in the cone with mu = {constants.mu:.2e}, R = {constants.radius:.4g}."
    return unless_slopes_known(case.sequences) or (Applies.YES, told)


def _lemma_7_error(case: ConeCase, seen: ConeGradient) -> float:
    """The worst miss of (40) and of the first half of (31b), relative to the bound."""
    solution = case.solution
    gamma, near = scores(case.sequences), neighbors(solution)
    selected = np.where(case.selection.chosen, gamma, -np.inf).max(axis=1)
    least = selected - np.where(near, gamma, -np.inf).max(axis=1)
    most = selected - np.where(near, gamma, np.inf).min(axis=1)
    pull = np.exp(seen.log_slope + seen.log_missing - np.log(len(gamma)) - seen.log_scale)
    q = np.array(case.q) * float(np.linalg.norm(solution.p)) / float(np.linalg.norm(case.q))
    gain = float(seen.direction @ q)
    lower, upper = float(pull @ least) / 8, 2 * float(pull @ most)
    keys = np.where(case.sequences.mask[:, :, None], case.sequences.keys, np.nan)
    spread = float(np.nanmax(np.linalg.norm(keys[:, :, None] - keys[:, None], axis=-1)))
    size = float(np.linalg.norm(seen.direction))
    missed = largest((lower - gain) / lower, gain / upper - 1, size / (spread * upper) - 1)
    return beyond_rounding(missed, DOT_ROUNDING * size * float(np.linalg.norm(q)) / lower)


def _across_the_cone(scale: float) -> ConeCase:
    """Fig. 1(b), token 1: p on one border of the cone at `scale` times the radius, q on the other."""
    selection = Selection.from_indices([1], 3)
    constants = cone_constants(att_svm(toys.fig1b(), selection))
    angle = 0.999 * float(np.arccos(1 - constants.mu))
    x, y, R = float(np.cos(angle)), float(np.sin(angle)), scale * constants.radius
    return ConeCase(toys.fig1b(), selection, (R * x, R * y), (x, -y))


LEMMA_7: Claim[ConeCase, ConeGradient] = Claim(
    key="maxmargin-lemma7",
    paper="M",
    label="Lemma 7",
    statement="If every input has an SVM-neighbour, then for p and q in the cone of a locally optimal direction the "
    "descent along q lies between 1/8 and 2 times the mean of |l'| (1 - s) times the score gaps, so that there is no "
    "stationary point there, and the gradient is at most the spread of the keys times the upper bound.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_7_applies,
    observe=cone_gradient,
    error=_lemma_7_error,
    inside=lambda: _across_the_cone(1.001),
    outside=lambda: _across_the_cone(0.999),
    mutate=lambda seen: replace(seen, direction=-seen.direction),
    correction="delta must be taken over the non-neighbours of every input (their margin minus 1), and every input "
    "needs an SVM-neighbour: with delta as printed the descent along p_mm can be negative at the printed R.",
    needs=("tokens", "selection", "p", "q"),
    of_problem=lambda problem: ConeCase(
        given(problem.sequences), given(problem.selection), given(problem.p), given(problem.q)
    ),
    uses=("maxmargin-lemma3",),
)


@dataclass(frozen=True, eq=False)
class ComparisonCase(OfSelection):
    """A locally-optimal selection, p in its cone, and the pi by which descent along p may exceed that along p_mm."""

    sequences: EmbeddedSequences
    selection: Selection
    p: tuple[float, ...]
    pi: float
    loss: Loss = logistic


def comparison_radius(solution: MarginSolution, pi: float, loss: Loss = logistic) -> float:
    """R_pi of [M, Lemma 7], part L3, the largest of its terms."""
    return largest(*comparison_terms(solution, pi, loss))


def comparison_terms(solution: MarginSolution, pi: float, loss: Loss = logistic) -> tuple[float, float, float]:
    """(46), (49) and the term after it, with the constants that the proof leaves open [M, Lemma 7].

    (46) with C_0 = 96. Directions farther than pi/(4 A Theta) from p_mm, which lie in the cone if
    pi < 2 min(1/2, delta), also need (49) and the comparison of (48) with (50), where nu = pi^2/(64 A^2): p_mm is the
    sum of the support differences weighted by their duals, so one of them has margin at most
    1 - Theta^2 |p - p_mm|^2 / 2 along p. The slope of the loss is taken to be monotone over the scores.
    """
    sequences, constants = solution.sequences, cone_constants(solution)
    T = int(sequences.mask.sum(axis=1).max())
    ratio = T * constants.score_spread * constants.key_norm / (pi * constants.score_gap)
    radius = largest(2.0, 1.0 / constants.delta) / constants.margin * np.log(96.0 * ratio)
    if pi >= 2 * least(0.5, constants.delta):
        return float(radius), 0.0, 0.0
    nu = pi**2 / (64.0 * constants.key_norm**2)
    gamma = scores(sequences)[sequences.mask]
    ends = np.asarray(loss.log_slope(jnp.asarray([gamma.min(), gamma.max()])))
    uneven = np.log(8.0 * sequences.n_inputs * T * ratio) + float(np.ptp(ends))
    return (
        float(radius),
        float(np.log(8.0 * ratio) / (nu * constants.margin)),
        float(uneven / ((pi / 2 + 2 * nu) * constants.margin)),
    )


def _comparison_applies(case: ComparisonCase) -> tuple[Applies, str]:
    if not 0 < case.pi <= 1:
        return Applies.NO, "The proof takes pi between 0 and 1."
    in_the_cone, because = _lemma_7_applies(case)
    if in_the_cone is not Applies.YES:
        return in_the_cone, because
    radius = comparison_radius(case.solution, case.pi, case.loss)
    if not float(np.linalg.norm(case.p)) >= radius:
        return Applies.NO, f"p is shorter than R_pi = {radius:.4g}."
    return Applies.YES, f"p lies in the cone, beyond R_pi = {radius:.4g}."


def _comparison_error(case: ComparisonCase, seen: ConeGradient) -> float:
    """Excess of the descent along p over 1 + pi times that along p_mm, relative to the latter."""
    axis, p = case.solution.direction, np.array(case.p)
    along_p, along_axis = float(seen.direction @ p) / float(np.linalg.norm(p)), float(seen.direction @ axis)
    rounding = DOT_ROUNDING * float(np.linalg.norm(seen.direction)) / abs(along_axis)
    return beyond_rounding((along_p - (1 + case.pi) * along_axis) / abs(along_axis), rounding)


def _on_the_border(scale: float) -> ComparisonCase:
    """Fig. 1(b), token 1: p on the border of the cone at `scale` times R_pi, pi small enough for both scenarios."""
    cone = _across_the_cone(1.0)
    case = ComparisonCase(cone.sequences, cone.selection, cone.p, 0.05)
    p = np.array(cone.p) * (scale * comparison_radius(case.solution, case.pi) / float(np.linalg.norm(cone.p)))
    return replace(case, p=tuple(p.tolist()))


LEMMA_7_COMPARISON: Claim[ComparisonCase, ConeGradient] = Claim(
    key="maxmargin-lemma7-l3",
    paper="M",
    label="Lemma 7",
    statement="If every input has an SVM-neighbour, then for every p of the cone of a locally optimal direction with "
    "|p| >= R_pi the descent along p/|p| is at most 1 + pi times the descent along the direction itself.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_comparison_applies,
    observe=cone_gradient,
    error=_comparison_error,
    inside=lambda: _on_the_border(1.001),
    outside=lambda: _on_the_border(0.999),
    mutate=lambda seen: replace(seen, direction=-seen.direction),
    correction="As for (L1) and (L2), delta is over the non-neighbours of every input and every input needs a "
    "neighbour; the proof leaves C_0 and nu open, and C_0 = 96, nu = pi^2/(64 A^2) do.",
    needs=("tokens", "selection", "p", "pi"),
    of_problem=lambda problem: ComparisonCase(
        given(problem.sequences), given(problem.selection), given(problem.p), given(problem.pi)
    ),
    uses=("maxmargin-lemma3",),
)

CLAIMS: tuple[Claim, ...] = (LEMMA_7, LEMMA_7_COMPARISON)
