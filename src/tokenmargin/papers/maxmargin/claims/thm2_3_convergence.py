"""Convergence of descent in p to max-margin directions: [M, Thms 2 and 3] as claims.

Both speak of gradient descent with a step eta <= 1/L_p as t goes to infinity. |p| grows like ln t, so that descent
alone never shows a direction. It is followed until eta |Hessian| is so small that it is the flow, and the flow from
there to a certified limit: with eta = 1/L_p, with half of it, and without any descent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin.attention import AttentionRisk, Descent, Flow, Limit, Loss, follow, logistic
from tokenmargin.data import (
    EmbeddedSequences,
    Selection,
    selection_of,
)
from tokenmargin.margin import att_svm, global_margin, is_locally_optimal
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin._cones import OfSelection, cone_constants, in_cone
from tokenmargin.papers.maxmargin.claims._assumption_b import assumption_b
from tokenmargin.papers.maxmargin.claims.cone_radius import (
    FARTHEST,
    POINTS,
    WITHIN,
    DescentInCone,
    cone_radius,
    descent_in_cone,
    points_of_cone,
)
from tokenmargin.theory.agreement import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, largest, unless_slopes_known, unless_solved
from tokenmargin.theory.problem import Problem, given

SAME_DIRECTION_REASON = "the velocity of a certified limit is within 1e-12 of the max-margin direction"

#: eta |Hessian| at which descent is the flow: a step of one and the flow of the same time differ by half of it.
IS_THE_FLOW = 1e-3

#: Steps of descent between two looks at the Hessian, and looks after which descent is given up.
BLOCK, LOOKS = 512, 200

#: Shares of 1/L_p at which descent is followed; 0 is the flow from the start.
STEP_SHARES = (1.0, 0.5, 0.0)


@dataclass(frozen=True, eq=False)
class Run(OfSelection):
    """A data set, a loss, a start and, where a theorem speaks of one, a selection."""

    sequences: EmbeddedSequences
    start: tuple[float, ...]
    selection: Selection | None = None
    loss: Loss = logistic


def descent_limit(risk: AttentionRisk, start: np.ndarray, lr: float) -> Limit | None:
    """Limit of descent with step `lr`: steps until lr |Hessian| <= `IS_THE_FLOW`, then the flow; None if never."""
    p = start
    for _ in range(LOOKS):
        p = follow(risk, p, Descent(lr), steps=BLOCK).final
        if lr * hessian_norm(risk, p) <= IS_THE_FLOW:
            return follow(risk, p, Flow()).limit
    return None


@keep_precision
def hessian_norm(risk: AttentionRisk, p: np.ndarray) -> float:
    """Spectral norm of the Hessian of L at p."""
    return float(np.linalg.norm(np.asarray(_hessian(risk.field, risk.point(p))), ord=2))


_hessian = eqx.filter_jit(lambda field, p: jax.hessian(field.value)(p))


def descent_limits(run: Run) -> tuple[Limit | None, ...]:
    """Limits of descent at each of `STEP_SHARES` of 1/L_p, the flow among them."""
    risk, start = AttentionRisk(run.sequences, run.loss), np.array(run.start)
    return tuple(
        descent_limit(risk, start, share / risk.smoothness) if share else follow(risk, start, Flow()).limit
        for share in STEP_SHARES
    )


def _theorem_2_applies(run: Run) -> tuple[Applies, str]:
    if not assumption_b(run.sequences):
        return Applies.NO, "Assumption B fails: two non-optimal tokens of an input differ in score."
    missing = unless_solved(
        global_margin(run.sequences),
        "(ATT-SVM) for the optimal tokens has no solution, which the printed theorem overlooks.",
    )
    told = Applies.YES, "Assumption B holds and the optimal tokens can be separated."
    return missing or unless_slopes_known(run.sequences) or told


def _theorem_2_error(run: Run, limits: tuple[Limit | None, ...]) -> float:
    """The worst of the ways; with several inputs the theorem says that |p| grows, and no more."""
    if not all(limit is not None and limit.diverges for limit in limits):
        return float("inf")
    if run.sequences.n_inputs > 1:
        return 0.0
    target = global_margin(run.sequences).direction
    return largest(*(one_minus_cosine(limit.velocity, target) for limit in limits if limit is not None))


def _settled(limits: tuple[Limit | None, ...]) -> bool:
    return all(limit is not None and not limit.stalled for limit in limits)


def _turned_back(limits: tuple[Limit | None, ...]) -> tuple[Limit | None, ...]:
    """The same, were descent at the first step to go the other way."""
    first, *others = limits
    return (None if first is None else replace(first, velocity=-first.velocity), *others)


THEOREM_2: Claim[Run, tuple[Limit | None, ...]] = Claim(
    key="maxmargin-thm2",
    paper="M",
    label="Thm 2",
    statement="If all non-optimal tokens of an input share one score and the optimal ones can be separated, |p| grows "
    "without bound under descent with a step of at most 1/L_p from any start; with one input, p converges in direction "
    "to the globally optimal max-margin one.",
    tolerance=SAME_DIRECTION,
    tolerance_reason=SAME_DIRECTION_REASON,
    hypotheses=_theorem_2_applies,
    observe=descent_limits,
    error=_theorem_2_error,
    inside=lambda: Run(toys.fig1a(), (0.0, -1.5)),
    outside=lambda: Run(toys.theorem2_counterexample(), (3.0,)),
    mutate=_turned_back,
    correction="As printed the theorem does not ask that (ATT-SVM) be feasible; without it descent may go to 0.",
    settled=_settled,
    of_problem=lambda problem: Run(given(problem.sequences), problem.any_start),
    uses=("maxmargin-lemma5",),
)


def _theorem_3_applies(run: Run) -> tuple[Applies, str]:
    if run.selection is None:
        return Applies.NO, "No selection was given."
    solution = run.solution
    if not is_locally_optimal(solution):
        return Applies.NO, "The selected tokens are not locally optimal."
    if not cone_constants(solution).every_input_has_neighbors:
        return Applies.NOT_DECIDED, "Some input has no SVM-neighbour, where the constants of (32), (39) prove nothing."
    found = cone_radius(solution, run.loss)
    told = f"the cone with mu = {found.mu:.2e}, R = {found.theorem_3:.4g}"
    if not in_cone(run.start, solution.p, found.mu, found.theorem_3):
        return Applies.NO, f"The start lies outside {told}."
    return Applies.YES, f"The start lies in {told}."


@dataclass(frozen=True, eq=False)
class InCone:
    """Limit of the flow from the start, and the behaviour of descent at points of the cone."""

    limit: Limit
    descent: DescentInCone


def _in_the_cone(run: Run) -> InCone:
    """The flow, and (53) and (55) from R to 10^3 R: a step of descent changes no bit of p at such norms."""
    found, risk = cone_radius(run.solution, run.loss), AttentionRisk(run.sequences, run.loss)
    norms = found.theorem_3 * np.geomspace(1.0, FARTHEST, POINTS)
    points = points_of_cone(run.solution.direction, found.mu, norms)
    descent = descent_in_cone(run.solution, found.mu, points, run.loss)
    return InCone(follow(risk, run.start, Flow()).limit, descent)


def _theorem_3_error(run: Run, seen: InCone) -> float:
    if not seen.limit.diverges:
        return float("inf")
    error = one_minus_cosine(seen.limit.velocity, run.solution.direction)
    return largest(error, float(seen.descent.turn.max()), float(seen.descent.leave.max()))


def _in_the_local_cone(scale: float) -> Run:
    """Fig. 1(b), token 1: a start on the border of its cone, at `scale` times the radius asked for."""
    solution = att_svm(toys.fig1b(), Selection.from_indices([1], 3))
    found = cone_radius(solution)
    angle, radius = WITHIN * np.arccos(1 - found.mu), scale * found.theorem_3
    return Run(toys.fig1b(), (float(radius * np.cos(angle)), float(radius * np.sin(angle))), solution.selection)


def _from_the_start(problem: Problem) -> Run:
    """The start and the tokens asked about, which are those that it selects where no others are named."""
    sequences, start = given(problem.sequences), given(problem.start)
    chosen = problem.selection if problem.selection is not None else selection_of(sequences, start)
    return Run(sequences, start, chosen)


THEOREM_3: Claim[Run, InCone] = Claim(
    key="maxmargin-thm3",
    paper="M",
    label="Thm 3",
    statement="From any start in the cone C(mu, R) around a locally optimal max-margin direction, R the largest of "
    "(46), (49) with the term after it, and (58), descent with a step of at most 1/L_p stays in the cone, |p| grows "
    "without bound and p converges to that direction.",
    tolerance=SAME_DIRECTION,
    tolerance_reason=SAME_DIRECTION_REASON,
    hypotheses=_theorem_3_applies,
    observe=_in_the_cone,
    error=_theorem_3_error,
    inside=lambda: _in_the_local_cone(1.001),
    outside=lambda: _in_the_local_cone(0.999),
    mutate=lambda seen: replace(seen, limit=replace(seen.limit, velocity=np.array([0.0, 1.0]))),
    correction="(32) must take non-neighbours of every input into delta, and (39) needs a neighbour in every input. "
    "(57) at its smallest C_0 is (39), beyond which descent may go elsewhere; the closing display omits (49). 1/2 and "
    "(58) are in no unit, and are one condition in that of the keys.",
    settled=lambda seen: not seen.limit.stalled,
    needs=("tokens", "start"),
    of_problem=_from_the_start,
    size=("R", lambda run: cone_radius(run.solution, run.loss).theorem_3),
    uses=("maxmargin-lemma7", "maxmargin-lemma7-l3"),
)

CLAIMS: tuple[Claim, ...] = (THEOREM_2, THEOREM_3)
