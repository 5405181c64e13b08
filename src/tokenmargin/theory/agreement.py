"""Do they agree? A limit found by the dynamics against the max-margin solution found without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._types import ArrayLike
from tokenmargin.attention import Limit, Role
from tokenmargin.data import optimal_selection
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
class BlockAgreement:
    """One block of a limit beside the max-margin problem of its role."""

    solution: MarginSolution | LabelSolution  #: (ATT-SVM) of the selected tokens for p, (SVM) of them for v
    predicted: np.ndarray  #: the direction that theory names for the block; NaN where the problem has none
    velocity_error: float  #: 1 - cos(velocity, predicted)
    direction_error: float  #: 1 - cos(last point, predicted), of order 1/length^2


@dataclass(frozen=True, eq=False, repr=False)
class Agreement:
    """A limit beside the max-margin problems of the tokens that it selects; or why there is nothing to compare."""

    limit: Limit
    blocks: Mapping[str, BlockAgreement]  #: by the name of the block; empty where there is nothing to compare
    weight_error: float = float("nan")  #: largest |support weight - normalised dual|; NaN with ties, or where v moves
    is_lmm: bool = False  #: the selected tokens are locally optimal [M, Def. 2]
    is_gmm: bool = False  #: they score highest [M, Def. 1], or with ties are a minimiser of [M, (ATT-SVM')]
    missing: str = ""  #: why there is nothing to compare

    @property
    def is_compared(self) -> bool:
        """True if there was anything to compare: a limit that diverges, with a problem that theory names for it."""
        return bool(self.blocks)

    @property
    def agrees(self) -> bool:
        """True if dynamics and max-margin problems name the same direction for every block."""
        return self.is_compared and all(one.velocity_error <= SAME_DIRECTION for one in self.blocks.values())

    @property
    def solution(self) -> MarginSolution | None:
        """(ATT-SVM) of the selected tokens; None where there is nothing to compare."""
        found = [one.solution for one in self.blocks.values() if isinstance(one.solution, MarginSolution)]
        return found[0] if found else None

    @property
    def velocity_error(self) -> float:
        """Largest 1 - cos(velocity, predicted) over the blocks; NaN where there is nothing to compare."""
        return float(np.max([one.velocity_error for one in self.blocks.values()] or [np.nan]))

    @property
    def direction_error(self) -> float:
        """Largest 1 - cos(last point, predicted) over the blocks; NaN where there is nothing to compare."""
        return float(np.max([one.direction_error for one in self.blocks.values()] or [np.nan]))

    def explain(self) -> str:
        """One sentence, or two."""
        if not self.is_compared:
            return f"There is nothing to compare: {self.missing}"
        if len(self.blocks) > 1:
            return _of_both(self)
        assert self.solution is not None
        chosen, off = self.solution.selection, self.velocity_error
        if not self.agrees:
            return (
                f"The flow selects {chosen} but does not go to its max-margin direction (1 - cos = {off:.1e}). "
                f"{self.solution.explain()}"
            )
        if self.limit.mixed:
            return (
                f"Part of p converges, where tokens of {chosen} share their inputs' attention; the rest goes to the "
                f"max-margin direction that keeps them level (1 - cos = {off:.1e})."
            )
        kind = (
            "the globally optimal" if self.is_gmm else "a locally optimal" if self.is_lmm else "a not locally optimal"
        )
        return (
            f"The flow goes to {kind} max-margin direction of {chosen} "
            f"(1 - cos = {off:.1e} for the velocity, {self.direction_error:.1e} for p/|p|)."
        )

    def __repr__(self) -> str:
        """The sentence."""
        return f"Agreement({self.explain()})"


def _of_both(agreement: Agreement) -> str:
    (v, head), (p, query) = agreement.blocks.items()
    strict = one_minus_cosine(query.predicted, query.solution.direction) <= SAME_DIRECTION
    kind = "its max-margin direction" if strict else "the direction that inputs with label margin to spare leave it"
    verb = "go" if agreement.agrees else "do not both go"
    return (
        f"On {agreement.limit.selection}, {v} and {p} {verb} to the max-margin classifier and to {kind} "
        f"(1 - cos = {head.velocity_error:.1e} and {query.velocity_error:.1e})."
    )


def compare(limit: Any) -> Agreement:
    """Solve the max-margin problem of what a limit selects and compare the two.

    For p alone this is (ATT-SVM), with the scores that the flow feels in the limit behind a nonlinear head; tokens that
    keep sharing their input's attention, where part of p converges, are asked level. Where v is
    trained too it is (SVM) for v, and for p what the ratio of their speeds makes of (ATT-SVM); see `rate_direction`.

    A limit that does not diverge gives an agreement without blocks, which says why there is nothing to compare. An
    infeasible problem gives one with errors NaN that does not agree: the limit then contradicts [M].

    Args:
        limit: limit of a run, `follow(...).limit`.
    """
    if not isinstance(limit, Limit):
        raise InvalidInputError(f"limit must be the limit of a run, follow(...).limit, got {type(limit).__name__}.")
    if limit.finite:
        return Agreement(limit, {}, missing="p converges to a finite point, which has no max-margin direction.")
    if limit.stalled:
        return Agreement(limit, {}, missing=f"no limit was certified. {limit.reason}")
    roles = [block.role for block in limit.risk.blocks.values()]
    if roles == [Role.QUERY]:
        return compared_with(limit, att_svm(limit.sequences, limit.selection))
    if roles == [Role.HEAD, Role.QUERY]:
        return _with_head(limit)
    names = " and ".join(limit.risk.blocks)
    return Agreement(limit, {}, missing=f"no max-margin problem is known here for the blocks {names} together.")


def _with_head(limit: Limit) -> Agreement:
    """v beside (SVM) of the selected tokens, and p beside (ATT-SVM) as the ratio of their speeds makes it."""
    data, selection = limit.sequences, limit.selection
    (v, head), (p, query) = limit.risk.blocks.items()
    labels, attention = selected_label_svm(data, selection), att_svm(data, selection)
    predicted = np.full(head.shape, np.nan), np.full(query.shape, np.nan)
    if labels.is_optimal() and attention.is_optimal():
        predicted = labels.direction, rate_direction(data, selection, head.speed / query.speed)
    blocks = {v: _beside(limit, v, labels, predicted[0]), p: _beside(limit, p, attention, predicted[1])}
    best = optimal_selection(data)
    return Agreement(limit, blocks, is_lmm=is_locally_optimal(attention), is_gmm=selection == best)


def _beside(limit: Limit, name: str, solution: MarginSolution | LabelSolution, predicted: np.ndarray) -> BlockAgreement:
    own = limit.blocks[name]
    errors = [one_minus_cosine(one.reshape(-1), predicted.reshape(-1)) for one in (own.velocity, own.direction)]
    return BlockAgreement(solution, predicted, *errors)


@checked
def compared_with(limit: Limit, solution: MarginSolution) -> Agreement:
    """`compare` for a limit of p alone with the max-margin problem already solved."""
    ((name, block),) = limit.risk.blocks.items()
    solved = solution.status is Status.OPTIMAL
    predicted = solution.direction.reshape(block.shape) if solved else np.full(block.shape, np.nan)
    return Agreement(
        limit,
        {name: _beside(limit, name, solution, predicted)},
        _weight_error(limit, solution) if solved else float("nan"),
        is_locally_optimal(solution),
        _is_global(limit),
    )


def _is_global(limit: Limit) -> bool:
    """True if the limit is the globally optimal direction; any of the best tokens will do where several tie."""
    best = limit.risk.optimal
    if limit.selection == best:
        return True
    if best.is_single or (limit.selection.chosen & ~best.chosen).any():
        return False
    shortest = att_svm_any(limit.risk.felt(limit.point), best)
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
