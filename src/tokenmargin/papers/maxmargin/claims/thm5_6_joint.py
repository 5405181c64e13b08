"""Joint training of v and p: [M, Thms 5 and 6] as claims, for the logistic loss.

The theorems speak of global minimisers over |v| <= r, |p| <= R as both grow. These are bracketed, see `_joint_bracket`:
the selection is read from the bracket, and the direction judged apart from it, with r = c R or r = exp(Xi R), as the
ratio c decides what Theorem 6 leaves open. The joint normalised flow, whose |v| and |p| grow at stated rates, goes to
the same limits: two claims of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin._types import HeadVector, Vector
from tokenmargin.attention import Flow, JointRisk, Trajectory, follow
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import att_svm
from tokenmargin.margin.label_svm import SUPPORT_TOLERANCE, selected_label_svm
from tokenmargin.margin.relaxed import rate_direction, relaxed_svm, relaxing_rate
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.claims._joint_bracket import JointBracket
from tokenmargin.papers.maxmargin.claims.assumption_c import assumption_c, on_support
from tokenmargin.papers.maxmargin.claims.joint_balls import (
    SELECTED,
    JointBalls,
)
from tokenmargin.theory.agreement import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, largest, unless_solved
from tokenmargin.theory.law import orthogonal
from tokenmargin.theory.problem import Problem, given

#: 1 - cos that every minimiser must be within at `joint_balls.LEVEL`. That of p and its limit falls like 1/R^2; where
#: r = exp(Xi R) the bracket is wider, and falls like 1/R.
BRACKET_TOLERANCE = 1e-5
BRACKET_TOLERANCE_REASON = (
    "for all minimisers at R times the margin of 1e6, where 1 - cos is of order 1e-10, and the bracket at "
    "r = exp(Xi R) of order 1e-6"
)

FLOW_TOLERANCE_REASON = (
    "at |v| = 1e6 the velocities of v and p are within 1e-12 of their max-margin directions; a neighbouring problem "
    "(strict for relaxed) is off by 1e-4 and more"
)


def _common_hypotheses(sequences: EmbeddedSequences, selection: Selection) -> tuple[Applies, str] | None:
    """Verdict on what both theorems ask before Assumption C; None when it holds."""
    return unless_solved(
        selected_label_svm(sequences, selection), "The selected tokens have no max-margin classifier."
    ) or unless_solved(att_svm(sequences, selection), "(ATT-SVM) has no direction that selects these tokens.")


def _too_slow(sequences: EmbeddedSequences, selection: Selection, rate: float) -> str | None:
    """Reason why |v| = rate |p| does not relax; None where it does."""
    needed = relaxing_rate(sequences, selection)
    if rate >= needed * (1 - SUPPORT_TOLERANCE):
        return None
    return f"|v| grows {rate:.4g} times as fast as |p|: too slow to relax, which takes {needed:.4g}."


# --- The global minimisers --------------------------------------------------------------------------------------------


def _theorem_5_applies(balls: JointBalls) -> tuple[Applies, str]:
    missing = _common_hypotheses(balls.sequences, balls.selection)
    if missing is not None:
        return missing
    found = assumption_c(balls.sequences, balls.selection)
    return found.applies, found.because


def _error(balls: JointBalls, bracket: JointBracket | None, limit: Callable[[JointBalls], Vector]) -> float:
    """The largest 1 - cos that a minimiser may have, of v or of p; infinite for other tokens, NaN without a bracket."""
    if bracket is None:
        return float("inf") if balls.selected[0] is Applies.NO else float("nan")
    if bracket.selection != balls.selection:
        return float("inf")
    head = selected_label_svm(balls.sequences, balls.selection).direction
    target = limit(balls)
    error = bracket.direction_error(target)
    if error > BRACKET_TOLERANCE >= bracket.least_direction_error(target):  # too wide to tell
        return float("nan")
    return largest(error, bracket.head_error(head))


def _strict(balls: JointBalls) -> Vector:
    return att_svm(balls.sequences, balls.selection).direction


def _relaxed(balls: JointBalls) -> Vector:
    return relaxed_svm(balls.sequences, balls.selection).direction


def _between(balls: JointBalls) -> Vector:
    return rate_direction(balls.sequences, balls.selection, balls.rate)


def _turned(bracket: JointBracket | None) -> JointBracket | None:
    """The same bracket a hundredth aside: 1 - cos of 5e-5."""
    return None if bracket is None else replace(bracket, point=_turned_by(0.01, bracket.point))


def _turned_by(share: float, vector: np.ndarray) -> np.ndarray:
    """The vector with a share of its length added at a right angle; on a line there is none, and it is turned back."""
    return -vector if len(vector) == 1 else vector + share * np.linalg.norm(vector) * orthogonal(vector)


def _balls(problem: Problem) -> JointBalls:
    return JointBalls(given(problem.sequences), given(problem.selection), problem.speeds[0] / problem.speeds[1])


def _fig3_balls(third: tuple[float, float], rate: float = 1.0) -> JointBalls:
    return JointBalls(toys.fig3(third), Selection.from_indices([1, 1, 1], 2), rate)


THEOREM_5: Claim[JointBalls, JointBracket | None] = Claim(
    key="maxmargin-thm5",
    paper="M",
    label="Thm 5",
    statement="If any mixing of other tokens shrinks the label margin (Assumption C) and the tokens can be selected, "
    "then every global minimiser over |v| <= r, |p| <= R selects them as r and R grow, v goes to the max-margin "
    "classifier of these tokens and p to the max-margin direction that selects them, whatever r/R is.",
    tolerance=BRACKET_TOLERANCE,
    tolerance_reason=BRACKET_TOLERANCE_REASON,
    hypotheses=_theorem_5_applies,
    observe=lambda balls: balls.bracket,
    error=lambda balls, seen: _error(balls, seen, _strict),
    inside=lambda: _fig3_balls((0.5, 1.0)),
    outside=lambda: _fig3_balls((0.5, 1.0001)),
    mutate=_turned,
    correction="The proof compares (74) and (75) without the factor 1/2n, so it needs |v| to grow exponentially in "
    "|p|; the conclusion holds without.",
    needs=("tokens", "selection"),
    of_problem=_balls,
)


def _theorem_6_common(balls: JointBalls) -> tuple[Applies, str]:
    missing = _common_hypotheses(balls.sequences, balls.selection)
    if missing is not None:
        return missing
    assumption = assumption_c(*on_support(balls.sequences, balls.selection))
    return balls.selected if assumption.applies is Applies.YES else (assumption.applies, assumption.because)


def _theorem_6_applies(balls: JointBalls) -> tuple[Applies, str]:
    missing = _common_hypotheses(balls.sequences, balls.selection)
    slow = None if missing is not None else _too_slow(balls.sequences, balls.selection, balls.rate)
    return (Applies.NO, slow) if slow is not None else _theorem_6_common(balls)


THEOREM_6: Claim[JointBalls, JointBracket | None] = Claim(
    key="maxmargin-thm6",
    paper="M",
    label="Thm 6",
    statement="If Assumption C holds over the support vectors of the classifier, the global minimisers over |v| <= r, "
    "|p| <= R select its tokens, and r/R reaches the relaxing rate, which the spare label margins set, then v goes to "
    "the max-margin classifier and p to the relaxed direction, without margin on inputs that are no support vectors.",
    tolerance=BRACKET_TOLERANCE,
    tolerance_reason=BRACKET_TOLERANCE_REASON,
    hypotheses=_theorem_6_applies,
    observe=lambda balls: balls.bracket,
    error=lambda balls, seen: _error(balls, seen, _relaxed),
    inside=lambda: _fig3_balls((0.5, 1.5)),
    outside=lambda: _fig3_balls((0.5, 1.5), 0.999),
    mutate=_turned,
    correction="As printed the theorem lets r and R grow in any order. The limit is the relaxed direction if and only "
    "if r/R reaches the relaxing rate, exactly 1 on the data of Fig. 3(b). Below it, as with r = R/2, the limit lies "
    "between the relaxed and the strict direction, and with v fixed it is the strict one.",
    needs=("tokens", "selection"),
    of_problem=_balls,
)


def _below_applies(balls: JointBalls) -> tuple[Applies, str]:
    missing = _common_hypotheses(balls.sequences, balls.selection)
    if missing is None and _too_slow(balls.sequences, balls.selection, balls.rate) is None:
        return Applies.NO, f"r/R = {balls.rate:.4g} reaches the relaxing rate."
    return _theorem_6_common(balls)


def _below_error(balls: JointBalls, bracket: JointBracket | None) -> float:
    error = _error(balls, bracket, _between)
    if bracket is None or not np.isfinite(error) or bracket.least_direction_error(_relaxed(balls)) > 0:
        return error
    # A bracket that holds both directions is too wide to tell.
    return float("inf") if bracket.least_direction_error(_between(balls)) > 0 else float("nan")


THEOREM_6_ONLY_IF: Claim[JointBalls, JointBracket | None] = replace(
    THEOREM_6,
    key="maxmargin-thm6-below",
    label="Thm 6",
    statement="Below the relaxing rate, with all else that Theorem 6 asks, no global minimiser goes to the relaxed "
    "direction: p goes to the direction whose least margin, with c Gamma (m_i - 1) added on inputs of label margin "
    "m_i, is largest, c = r/R.",
    hypotheses=_below_applies,
    error=_below_error,
    inside=lambda: _fig3_balls((0.5, 1.5), 0.999),
    outside=lambda: _fig3_balls((0.5, 1.5)),
    correction="Theorem 6 as printed says otherwise.",
)


# --- The joint flow ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JointRun:
    """A data set, the tokens a theorem speaks of, a start of v and of p, and how fast each grows."""

    sequences: EmbeddedSequences
    selection: Selection
    start_v: tuple[float, ...]
    start_p: tuple[float, ...]
    rate_v: float = 1.0
    rate_p: float = 1.0

    @cached_property
    def trajectory(self) -> Trajectory:
        """The joint normalised flow from the start, until |v| is 1e6."""
        return follow(
            JointRisk(self.sequences, speeds=(self.rate_v, self.rate_p)), (self.start_v, self.start_p), Flow()
        )

    @property
    def is_settled(self) -> bool:
        """True if v and p have found their velocities: all that carries weight loses it at one rate."""
        return self.trajectory.limit.diverges

    @property
    def selects(self) -> bool:
        """True if the run ends with all attention on the selected tokens."""
        attention = self.trajectory.risk.attention(self.trajectory.points[-1])
        return bool(attention[self.selection.chosen].min() >= SELECTED)


@dataclass(frozen=True, eq=False)
class JointLimit:
    """Directions of v and p at the end of a joint run, as unit vectors."""

    head: HeadVector
    attention: Vector


def _observe(run: JointRun) -> JointLimit:
    limits = run.trajectory.limit.blocks
    return JointLimit(limits["v"].velocity, limits["p"].velocity)


def _run_applies(run: JointRun, of_support: bool) -> tuple[Applies, str]:
    missing = _common_hypotheses(run.sequences, run.selection)
    if missing is not None:
        return missing
    slow = _too_slow(run.sequences, run.selection, run.rate_v / run.rate_p) if of_support else None
    if slow is not None:
        return Applies.NO, slow
    asked = on_support(run.sequences, run.selection) if of_support else (run.sequences, run.selection)
    assumption = assumption_c(*asked)
    if assumption.applies is not Applies.YES:
        return assumption.applies, assumption.because
    if not run.is_settled:
        return Applies.NOT_DECIDED, f"The run has not settled, and shows no limit. {run.trajectory.limit.reason}"
    if not run.selects:
        return Applies.NO, "This run does not end with all attention on the tokens of the theorem."
    return Applies.YES, f"Assumption C holds with nu = {assumption.nu:.4g} and the run selects these tokens."


def _run_error(run: JointRun, limit: JointLimit, attention: Vector) -> float:
    head = selected_label_svm(run.sequences, run.selection).direction
    return largest(one_minus_cosine(limit.head, head), one_minus_cosine(limit.attention, attention))


def _fig3_run(third: tuple[float, float], rate_v: float = 1.0) -> JointRun:
    """[M, Fig. 3] with its third optimal token, from the starts of the paper."""
    selection = Selection.from_indices([1, 1, 1], 2)
    return JointRun(toys.fig3(third), selection, (-1.0, 0.0), (0.0, -1.0), rate_v)


def _joint_run(problem: Problem) -> JointRun:
    return JointRun(
        given(problem.sequences),
        given(problem.selection),
        given(problem.start_v),
        problem.any_start,
        *problem.speeds,
    )


def random_run(rng: np.random.Generator, balls: JointBalls) -> JointRun:
    """A run on the problem of some balls at their rate, at most 10 and 1 where it is infinite, from Gaussian starts."""
    rate = float(np.minimum(balls.rate, 10.0)) if np.isfinite(balls.rate) else 1.0
    k, d = balls.sequences.tokens.shape[2], balls.sequences.width
    start_v, start_p = (tuple(rng.normal(size=width).tolist()) for width in (k, d))
    return JointRun(balls.sequences, balls.selection, start_v, start_p, rate)


FLOW_5: Claim[JointRun, JointLimit] = Claim(
    key="maxmargin-thm5-flow",
    paper="M",
    label="Thm 5",
    statement="Under the hypotheses of Theorem 5, on a joint normalised flow that selects the tokens v goes to their "
    "max-margin classifier and p to the max-margin direction that selects them.",
    tolerance=SAME_DIRECTION,
    tolerance_reason=FLOW_TOLERANCE_REASON,
    hypotheses=lambda run: _run_applies(run, of_support=False),
    observe=_observe,
    error=lambda run, limit: _run_error(run, limit, att_svm(run.sequences, run.selection).direction),
    inside=lambda: _fig3_run((0.5, 1.0)),
    outside=lambda: _fig3_run((0.5, 1.0001)),
    mutate=lambda limit: replace(limit, attention=_turned_by(0.001, limit.attention)),
    needs=("tokens", "selection", "start_v"),
    of_problem=_joint_run,
)

FLOW_6: Claim[JointRun, JointLimit] = replace(
    FLOW_5,
    key="maxmargin-thm6-flow",
    label="Thm 6",
    statement="Under the hypotheses of Theorem 6, on a joint normalised flow that selects the tokens, with |v| growing "
    "at the relaxing rate or faster beside |p|, v goes to the max-margin classifier and p to the relaxed direction.",
    hypotheses=lambda run: _run_applies(run, of_support=True),
    error=lambda run, limit: _run_error(run, limit, relaxed_svm(run.sequences, run.selection).direction),
    inside=lambda: _fig3_run((0.5, 1.5)),
    outside=lambda: _fig3_run((0.5, 1.5), rate_v=0.5),
)

CLAIMS: tuple[Claim, ...] = (THEOREM_5, FLOW_5, THEOREM_6, THEOREM_6_ONLY_IF, FLOW_6)
