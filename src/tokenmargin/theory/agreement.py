"""Do they agree? A limit found by the dynamics against the max-margin solution found without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._types import ArrayLike, Vector
from tokenmargin.attention import JointLimit, Limit
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import (
    LabelSolution,
    MarginSolution,
    Status,
    att_svm,
    att_svm_any,
    is_locally_optimal,
    rate_direction,
    selected_label_svm,
)

#: 1 - cos between velocity and max-margin direction below which the two are the same direction. At norm 1e6 the
#: velocity of a certified limit is within 1e-12; a wrong selection is off by 1e-4 and more.
SAME_DIRECTION = 1e-8


@dataclass(frozen=True, eq=False)
class Agreement:
    """A limit that diverges, or a part of it does, beside (ATT-SVM) for the tokens it selects."""

    limit: Limit
    solution: MarginSolution
    direction_error: float  #: 1 - cos(p, p_mm), of order 1/|p|^2
    velocity_error: float  #: 1 - cos(velocity, p_mm)
    weight_error: float  #: largest |support weight - normalised dual|; NaN with ties, whose rows are split
    is_lmm: bool  #: the selected tokens are locally optimal [M, Def. 2]
    is_gmm: bool  #: they are the tokens of highest score [M, Def. 1], or with ties a minimiser of [M, (ATT-SVM')]

    @property
    def agrees(self) -> bool:
        """Whether dynamics and max-margin problem name the same direction."""
        return self.velocity_error <= SAME_DIRECTION

    def explain(self) -> str:
        """One sentence."""
        kind = (
            "the globally optimal" if self.is_gmm else "a locally optimal" if self.is_lmm else "a not locally optimal"
        )
        if self.agrees and self.limit.mixed:
            return (
                f"Part of p converges, where tokens of {self.solution.selection} share their inputs' attention; the "
                f"rest goes to the max-margin direction that keeps them level (1 - cos = {self.velocity_error:.1e})."
            )
        if self.agrees:
            return (
                f"The flow goes to {kind} max-margin direction of {self.solution.selection} "
                f"(1 - cos = {self.velocity_error:.1e} for the velocity, {self.direction_error:.1e} for p/|p|)."
            )
        return (
            f"The flow selects {self.solution.selection} but does not go to its max-margin direction "
            f"(1 - cos = {self.velocity_error:.1e}). {self.solution.explain()}"
        )


@dataclass(frozen=True, eq=False)
class JointAgreement:
    """A diverging limit of v and p beside the max-margin problems of the tokens it selects [M, Sec. 3]."""

    limit: JointLimit
    head: LabelSolution  #: (SVM) of the selected tokens
    attention: MarginSolution  #: (ATT-SVM) of the selected tokens, all margins asked for
    predicted: Vector  #: where p should go at this ratio of speeds, shape (d,)
    head_error: float  #: 1 - cos(velocity of v, v_mm)
    attention_error: float  #: 1 - cos(velocity of p, predicted)

    @property
    def agrees(self) -> bool:
        """Whether dynamics and max-margin problems name the same two directions."""
        return self.head_error <= SAME_DIRECTION and self.attention_error <= SAME_DIRECTION

    def explain(self) -> str:
        """One sentence."""
        kind = (
            "its max-margin direction"
            if one_minus_cosine(self.predicted, self.attention.direction) <= SAME_DIRECTION
            else "the direction that inputs with label margin to spare leave it"
        )
        verb = "go" if self.agrees else "do not both go"
        return (
            f"On {self.limit.selection}, v and p {verb} to the max-margin classifier and to {kind} "
            f"(1 - cos = {self.head_error:.1e} and {self.attention_error:.1e})."
        )


@overload
def compare(limit: Limit) -> Agreement | None: ...
@overload
def compare(limit: JointLimit) -> JointAgreement | None: ...
def compare(limit: Any) -> Agreement | JointAgreement | None:
    """Solve the max-margin problem of what a limit selects and compare; None when the limit does not diverge.

    For p alone this is (ATT-SVM), with the scores that the flow feels in the limit behind a nonlinear head; tokens that
    keep sharing their input's attention, where part of p converges, are asked level. Where v is
    trained too it is (SVM) for v, and for p what the ratio of their speeds makes of (ATT-SVM); see `rate_direction`.

    An infeasible problem gives an agreement with errors NaN that does not agree: the limit then contradicts [M].
    """
    if not isinstance(limit, Limit | JointLimit):
        raise InvalidInputError(f"limit must be the limit of a run, follow(...).limit, got {type(limit).__name__}.")
    if not (limit.diverges or limit.mixed):
        return None
    if isinstance(limit, JointLimit):
        return _joint_agreement(limit)
    return compared_with(limit, att_svm(limit.sequences, limit.selection))


def _joint_agreement(limit: JointLimit) -> JointAgreement:
    head = selected_label_svm(limit.sequences, limit.selection)
    attention = att_svm(limit.sequences, limit.selection)
    if not (head.is_optimal() and attention.is_optimal()):
        return JointAgreement(limit, head, attention, np.full_like(limit.p, np.nan), float("nan"), float("nan"))
    predicted = rate_direction(limit.sequences, limit.selection, limit.rate)
    return JointAgreement(
        limit,
        head,
        attention,
        predicted,
        one_minus_cosine(limit.head_velocity, head.direction),
        one_minus_cosine(limit.velocity, predicted),
    )


@checked
def compared_with(limit: Limit, solution: MarginSolution) -> Agreement:
    """`compare` with the max-margin problem already solved."""
    solved = solution.status is Status.OPTIMAL
    return Agreement(
        limit,
        solution,
        one_minus_cosine(limit.direction, solution.direction) if solved else float("nan"),
        one_minus_cosine(limit.velocity, solution.direction) if solved else float("nan"),
        _weight_error(limit, solution) if solved else float("nan"),
        is_locally_optimal(solution),
        _is_global(limit),
    )


def _is_global(limit: Limit) -> bool:
    """Whether the limit is the globally optimal direction; any of the best tokens will do where several tie."""
    best = limit.risk.optimal
    if limit.selection == best:
        return True
    if best.is_single or (limit.selection.chosen & ~best.chosen).any():
        return False
    shortest = att_svm_any(limit.risk.felt(limit.p), best)
    return any(one_minus_cosine(limit.velocity, p) <= SAME_DIRECTION for p in shortest.minimisers)


def one_minus_cosine(a: ArrayLike, b: ArrayLike) -> float:
    """1 - cos(a, b) as |a/|a| - b/|b||^2 / 2, which keeps its digits when the two nearly coincide."""
    first, second = real_array(a, "a", "(d,)", finite=False), real_array(b, "b", "(d,)", finite=False)
    if first.shape != second.shape:
        raise InvalidInputError(f"a has shape {first.shape}, b {second.shape}: give two vectors of one length.")
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    if min(lengths) == 0.0:
        return float("nan")
    return 0.5 * float(np.sum((first / lengths[0] - second / lengths[1]) ** 2))


def _weight_error(limit: Limit, solution: MarginSolution) -> float:
    if len(solution.tie_triples):
        return float("nan")
    total = float(solution.duals.sum())
    duals = {tuple(row): dual / total for row, dual in zip(solution.triples.tolist(), solution.duals, strict=True)}
    weights = dict(zip(limit.support, limit.support_weights.tolist(), strict=True))
    return max(abs(weights.get(key, 0.0) - dual) for key, dual in duals.items())
