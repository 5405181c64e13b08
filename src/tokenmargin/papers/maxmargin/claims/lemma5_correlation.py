"""[M, Lemma 5]: gradient correlation for one input, as a claim with an explicit radius.

"There exists R" is no hypothesis one can check; the proofs give an R, and where they leave a constant open it is
derived here. Risks and gradients are compared in log space, because that R may be in the hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._types import Vector
from tokenmargin.attention import AttentionRisk
from tokenmargin.data import EmbeddedSequences
from tokenmargin.margin import global_margin
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.claims._assumption_b import assumption_b
from tokenmargin.theory.claim import (
    ROUNDING,
    ROUNDING_REASON,
    Applies,
    Claim,
    largest,
    unless_slopes_known,
    unless_solved,
)
from tokenmargin.theory.problem import given


@dataclass(frozen=True, eq=False)
class CorrelationCase:
    """One input, pi and a point p."""

    sequences: EmbeddedSequences
    pi: float
    p: tuple[float, ...]


def correlation_radius(sequences: EmbeddedSequences, pi: float) -> float:
    """R_pi of [M, Lemma 5] with its open constant filled in: log(2 M T / (Theta pi)) / (nu Theta).

    The proof takes nu(eps) from compactness. The duals give one: p_mm = sum of duals times differences and the duals
    sum to |p_mm|^2, so a p of norm |p_mm| at distance eps has smallest margin at most p'p_mm/|p_mm|^2
    <= 1 - (eps Theta)^2/2, that is nu = (eps Theta)^2/4, with eps = pi/(2M).
    """
    solution = global_margin(sequences)
    longest = float(np.linalg.norm(sequences.keys, axis=-1).max())
    nu = (pi * solution.margin / longest) ** 2 / 16
    return float(np.log(2 * longest / solution.margin * sequences.n_places / pi) / (nu * solution.margin))


def _lemma_5_applies(case: CorrelationCase) -> tuple[Applies, str]:
    if case.sequences.n_inputs != 1 or not assumption_b(case.sequences):
        return Applies.NO, "The lemma is about one input under Assumption B."
    missing = unless_solved(global_margin(case.sequences), "(ATT-SVM) for the optimal token has no solution.")
    missing = missing or unless_slopes_known(case.sequences)
    if missing is not None:
        return missing
    radius, norm = correlation_radius(case.sequences, case.pi), float(np.linalg.norm(case.p))
    return (Applies.YES if norm >= radius else Applies.NO), f"|p| = {norm:.4g} and R_pi = {radius:.4g}."


def _gain_and_bound(case: CorrelationCase, field: Vector) -> tuple[float, float]:
    """<-grad, p/|p|> and (1 + pi) <-grad, p_mm/|p_mm|>, in units of |grad|."""
    unit, p = field / np.linalg.norm(field), np.array(case.p)
    best = float(unit @ global_margin(case.sequences).direction)
    return float(unit @ p / np.linalg.norm(p)), (1 + case.pi) * best


def _lemma_5_error(case: CorrelationCase, field: Vector) -> float:
    gain, bound = _gain_and_bound(case, field)
    return largest(0.0, gain - bound)


def _looseness(case: CorrelationCase, field: Vector) -> float:
    gain, bound = _gain_and_bound(case, field)
    return bound / gain if gain > 0 else float("inf")


def _beyond_the_radius(scale: float) -> CorrelationCase:
    """Fig. 1(a) at an angle of 0.3 from the max-margin direction, at `scale` times R_pi for pi = 1/2."""
    direction = global_margin(toys.fig1a()).direction
    angle = float(np.arctan2(direction[1], direction[0])) + 0.3
    radius = scale * correlation_radius(toys.fig1a(), 0.5)
    return CorrelationCase(toys.fig1a(), 0.5, (float(radius * np.cos(angle)), float(radius * np.sin(angle))))


LEMMA_5: Claim[CorrelationCase, Vector] = Claim(
    key="maxmargin-lemma5",
    paper="M",
    label="Lemma 5",
    statement="For one separable input under Assumption B and any pi > 0, every p longer than R_pi descends along its "
    "own direction at most 1 + pi times as fast as along the max-margin direction.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_5_applies,
    observe=lambda case: AttentionRisk(case.sequences).descent_direction(case.p)[0],
    error=_lemma_5_error,
    inside=lambda: _beyond_the_radius(1.001),
    outside=lambda: _beyond_the_radius(0.999),
    mutate=lambda field: -field,
    correction="R_pi is made explicit. The remark that pi = 0 is eventually allowed holds in the limit only: at every "
    "finite R some p beats the max-margin direction.",
    needs=("tokens", "p", "pi"),
    of_problem=lambda problem: CorrelationCase(given(problem.sequences), given(problem.pi), given(problem.p)),
    ratio=_looseness,
)

CLAIMS: tuple[Claim, ...] = (LEMMA_5,)
