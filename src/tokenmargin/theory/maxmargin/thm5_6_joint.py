"""Joint training of v and p: [M, Thms 5 and 6] as claims, for the logistic loss.

The theorems speak of minimisers over |v| <= r, |p| <= R as both grow. They are checked on the joint normalised flow,
whose |v| and |p| grow at stated rates, because the ratio of these rates decides what Theorem 6 leaves open. (The
minimisers themselves, `joint_path`, go to the same limits, at the rate 1/R.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin._types import HeadVector, Vector
from tokenmargin.attention import Flow, JointRisk, JointTrajectory, Outcome, follow
from tokenmargin.data import EmbeddedSequences, Selection, toys
from tokenmargin.margin import Status, att_svm
from tokenmargin.margin.label_svm import SUPPORT_TOLERANCE, selected_label_svm
from tokenmargin.margin.relaxed import relaxed_svm, relaxing_rate
from tokenmargin.theory.agreement import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.maxmargin.assumption_c import AssumptionC, assumption_c, on_support
from tokenmargin.theory.problem import Problem, given

JOINT_TOLERANCE_REASON = (
    "at |v| = 1e6 the velocities of v and p are within 1e-12 of their max-margin directions; a neighbouring problem "
    "(strict for relaxed) is off by 1e-4 and more"
)

#: Attention on the selected tokens at the end of a run above which they count as asymptotically selected.
SELECTED = 1 - 1e-6


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
    def trajectory(self) -> JointTrajectory:
        """The joint normalised flow from the start, until |v| is 1e6."""
        return follow(
            JointRisk(self.sequences, speeds=(self.rate_v, self.rate_p)), (self.start_v, self.start_p), Flow()
        )

    @property
    def selects(self) -> bool:
        """Whether the run diverges with all attention on the selected tokens."""
        attention = self.trajectory.objective.attention(self.trajectory.points[-1])
        reached = self.trajectory.outcome is Outcome.NORM_REACHED
        return reached and bool(attention[self.selection.chosen].min() >= SELECTED)


@dataclass(frozen=True, eq=False)
class JointLimit:
    """Where v and p are going at the end of a joint run, as unit vectors."""

    head: HeadVector
    attention: Vector


def _observe(run: JointRun) -> JointLimit:
    return JointLimit(run.trajectory.velocity_v, run.trajectory.velocity_p)


def _common_hypotheses(run: JointRun) -> tuple[Applies, str] | None:
    """What both theorems ask before Assumption C; None when it is there."""
    if selected_label_svm(run.sequences, run.selection).status is not Status.OPTIMAL:
        return Applies.NO, "No classifier separates the selected tokens by label."
    if att_svm(run.sequences, run.selection).status is not Status.OPTIMAL:
        return Applies.NO, "(ATT-SVM) is infeasible: attention cannot select these tokens."
    return None


def _selected(run: JointRun, assumption: AssumptionC) -> tuple[Applies, str]:
    if assumption.applies is not Applies.YES:
        return assumption.applies, assumption.because
    if not run.selects:
        return Applies.NO, "This run does not end with all attention on the tokens of the theorem."
    return Applies.YES, f"Assumption C holds with nu = {assumption.nu:.4g} and the run selects these tokens."


def _theorem_5_applies(run: JointRun) -> tuple[Applies, str]:
    missing = _common_hypotheses(run)
    return missing if missing is not None else _selected(run, assumption_c(run.sequences, run.selection))


def _error(run: JointRun, limit: JointLimit, attention: Vector) -> float:
    head = selected_label_svm(run.sequences, run.selection).direction
    return max(one_minus_cosine(limit.head, head), one_minus_cosine(limit.attention, attention))


def _theorem_5_error(run: JointRun, limit: JointLimit) -> float:
    return _error(run, limit, att_svm(run.sequences, run.selection).direction)


def _fig3(third: tuple[float, float], rate_v: float = 1.0) -> JointRun:
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


THEOREM_5: Claim[JointRun, JointLimit] = Claim(
    key="maxmargin-thm5",
    paper="M",
    label="Thm 5",
    statement="If any mixing of other tokens shrinks the label margin (Assumption C) and the tokens can be selected, "
    "then on a joint run that selects them v goes to the max-margin classifier of these tokens and p to the max-margin "
    "direction that selects them.",
    tolerance=SAME_DIRECTION,
    tolerance_reason=JOINT_TOLERANCE_REASON,
    hypotheses=_theorem_5_applies,
    observe=_observe,
    error=_theorem_5_error,
    inside=lambda: _fig3((0.5, 1.0)),
    outside=lambda: _fig3((0.5, 1.0001)),
    mutate=lambda limit: replace(limit, attention=np.array([1.0, 0.0])),
    correction="The proof compares (74) and (75) without the factor 1/2n, so it needs |v| to grow exponentially in "
    "|p|; the conclusion is seen to hold without: for Fig. 3(a) at rates of |v| from 1/10 to 5 times that of |p|.",
    needs=("tokens", "selection", "start_v"),
    of_problem=_joint_run,
)


def _theorem_6_applies(run: JointRun) -> tuple[Applies, str]:
    missing = _common_hypotheses(run)
    if missing is not None:
        return missing
    needed, rate = relaxing_rate(run.sequences, run.selection), run.rate_v / run.rate_p
    if rate < needed * (1 - SUPPORT_TOLERANCE):
        return Applies.NO, f"|v| grows {rate:.4g} times as fast as |p|: too slow to relax, which takes {needed:.4g}."
    return _selected(run, assumption_c(*on_support(run.sequences, run.selection)))


def _theorem_6_error(run: JointRun, limit: JointLimit) -> float:
    return _error(run, limit, relaxed_svm(run.sequences, run.selection).direction)


THEOREM_6: Claim[JointRun, JointLimit] = Claim(
    key="maxmargin-thm6",
    paper="M",
    label="Thm 6",
    statement="If Assumption C holds over the support vectors of the classifier, a joint run selects its tokens, and "
    "the growth of |v| over that of |p| reaches the relaxing rate, which the spare label margins set, then v goes to "
    "the max-margin classifier and p to the relaxed direction, without margin on inputs that are no support vectors.",
    tolerance=SAME_DIRECTION,
    tolerance_reason=JOINT_TOLERANCE_REASON,
    hypotheses=_theorem_6_applies,
    observe=_observe,
    error=_theorem_6_error,
    inside=lambda: _fig3((0.5, 1.5)),
    outside=lambda: _fig3((0.5, 1.5), rate_v=0.5),
    mutate=lambda limit: replace(limit, attention=np.array([1.25, 0.25])),
    correction="As printed the theorem lets r and R grow in any order. Its proof drops a factor 1/2n 'for brevity' and "
    "so needs |v| to grow exponentially in |p|, which is more than the conclusion does. On the data of Fig. 3(b) the "
    "limit is the relaxed direction if and only if the growth of |v| over that of |p| reaches the relaxing rate, "
    "exactly 1 there. Below it, as with |v| = |p|/2, the limit lies between the relaxed and the strict direction, and "
    "with v fixed it is the strict one.",
    needs=("tokens", "selection", "start_v"),
    of_problem=_joint_run,
)

CLAIMS: tuple[Claim[JointRun, JointLimit], ...] = (THEOREM_5, THEOREM_6)
