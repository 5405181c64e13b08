"""Convergence of the flow of p to max-margin directions: [M, Thms 2 and 3] as claims.

Statements about t to infinity are checked on the gradient flow, which is followed to its certified limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tokenmargin.attention import AttentionRisk, Flow, Limit, Loss, follow, logistic
from tokenmargin.data import (
    EmbeddedSequences,
    Selection,
    optimal_selection,
    score_tie_widths,
    scores,
    selection_of,
    toys,
)
from tokenmargin.margin import Status, att_svm, cone_constants, global_margin, in_cone, is_locally_optimal
from tokenmargin.theory.agreement import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.problem import Problem, given

SAME_DIRECTION_REASON = "the velocity of a certified limit is within 1e-12 of the max-margin direction"


@dataclass(frozen=True, eq=False)
class Run:
    """A data set, a loss, a start and, where a theorem speaks of one, a selection."""

    sequences: EmbeddedSequences
    start: tuple[float, ...]
    selection: Selection | None = None
    loss: Loss = logistic


def assumption_b(sequences: EmbeddedSequences) -> bool:
    """All non-optimal tokens of an input share one score, strictly below the optimal token's [M, Assumption B]."""
    gamma, best = scores(sequences), optimal_selection(sequences)
    if not best.is_single:
        return False
    rest = np.where(best.chosen | ~sequences.mask, np.nan, gamma)
    several = ~np.isnan(rest).all(axis=1)
    kept, widths = rest[several], score_tie_widths(sequences)[several]
    return bool((np.nanmax(kept, axis=1) - np.nanmin(kept, axis=1) <= widths).all()) if len(kept) else True


def _limit(run: Run) -> Limit:
    return follow(AttentionRisk(run.sequences, run.loss), run.start, Flow()).limit


def _theorem_2_applies(run: Run) -> tuple[Applies, str]:
    if not assumption_b(run.sequences):
        return Applies.NO, "Assumption B fails: two non-optimal tokens of an input differ in score."
    if global_margin(run.sequences).status is not Status.OPTIMAL:
        return Applies.NO, "(ATT-SVM) for the optimal tokens is infeasible, which the printed theorem overlooks."
    return Applies.YES, "Assumption B holds and the optimal tokens can be separated."


def _theorem_2_error(run: Run, limit: Limit) -> float:
    if not limit.diverges:
        return float("inf")
    if run.sequences.n_inputs > 1:
        return 0.0
    return one_minus_cosine(limit.velocity, global_margin(run.sequences).direction)


THEOREM_2: Claim[Run, Limit] = Claim(
    key="maxmargin-thm2",
    paper="M",
    label="Thm 2",
    statement="If all non-optimal tokens of an input share one score and the optimal ones can be separated, |p| grows "
    "without bound from any start; with one input, p converges in direction to the globally optimal max-margin one.",
    tolerance=SAME_DIRECTION,
    tolerance_reason=SAME_DIRECTION_REASON,
    hypotheses=_theorem_2_applies,
    observe=_limit,
    error=_theorem_2_error,
    inside=lambda: Run(toys.fig1a(), (0.0, -1.5)),
    outside=lambda: Run(toys.theorem2_counterexample(), (3.0,)),
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    correction="As printed the theorem does not ask that (ATT-SVM) be feasible; without it descent may go to 0.",
    settled=lambda limit: not limit.stalled,
    of_problem=lambda problem: Run(given(problem.sequences), problem.any_start),
)


def _theorem_3_applies(run: Run) -> tuple[Applies, str]:
    if run.selection is None:
        return Applies.NO, "No selection was given."
    solution = att_svm(run.sequences, run.selection)
    if not is_locally_optimal(solution):
        return Applies.NO, "The selected tokens are not locally optimal."
    constants = cone_constants(solution)
    if not in_cone(run.start, solution.p, constants.mu, constants.radius):
        return Applies.NO, f"The start lies outside the cone with mu = {constants.mu:.2e}, R = {constants.radius:.4g}."
    if not constants.every_input_has_neighbors:
        return Applies.NOT_DECIDED, "Some input has no SVM-neighbour, where the constants of (32), (39) prove nothing."
    return Applies.YES, f"The start lies in the cone with mu = {constants.mu:.2e}, R = {constants.radius:.4g}."


def _theorem_3_error(run: Run, limit: Limit) -> float:
    if not limit.diverges or run.selection is None:
        return float("inf")
    return one_minus_cosine(limit.velocity, att_svm(run.sequences, run.selection).direction)


def _in_the_local_cone(scale: float) -> Run:
    """Fig. 1(b), token 1: a start on the border of its cone, at `scale` times the radius asked for."""
    selection = Selection.from_indices([1], 3)
    constants = cone_constants(att_svm(toys.fig1b(), selection))
    angle = 0.999 * np.arccos(1 - constants.mu)
    radius = scale * constants.radius
    return Run(toys.fig1b(), (float(radius * np.cos(angle)), float(radius * np.sin(angle))), selection)


def _from_the_start(problem: Problem) -> Run:
    """The start and the tokens asked about, which are those that it selects where no others are named."""
    sequences, start = given(problem.sequences), given(problem.start)
    chosen = problem.selection if problem.selection is not None else selection_of(sequences, start)
    return Run(sequences, start, chosen)


THEOREM_3: Claim[Run, Limit] = Claim(
    key="maxmargin-thm3",
    paper="M",
    label="Thm 3",
    statement="From any start in the cone C(mu, R) around a locally optimal max-margin direction, |p| grows without "
    "bound and p converges to that direction.",
    tolerance=SAME_DIRECTION,
    tolerance_reason=SAME_DIRECTION_REASON,
    hypotheses=_theorem_3_applies,
    observe=_limit,
    error=_theorem_3_error,
    inside=lambda: _in_the_local_cone(1.001),
    outside=lambda: _in_the_local_cone(0.999),
    mutate=lambda limit: replace(limit, velocity=np.array([0.0, 1.0])),
    correction="(32) must take non-neighbours of every input into delta, and (39) needs a neighbour in every input.",
    settled=lambda limit: not limit.stalled,
    needs=("tokens", "start"),
    of_problem=_from_the_start,
)

CLAIMS: tuple[Claim[Run, Limit], ...] = (THEOREM_2, THEOREM_3)
