"""Do they agree? A limit found by the dynamics against the max-margin solution found without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._notebook import Told
from tokenmargin._types import ArrayLike
from tokenmargin.attention import FactoredRisk, LabelLog, Limit, NextTokenRisk, Role, stationarity
from tokenmargin.data import optimal_selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import (
    GraphSolution,
    LabelSolution,
    MarginSolution,
    Status,
    att_svm,
    att_svm_any,
    graph_svm,
    is_locally_optimal,
    rate_direction,
    selected_label_svm,
)
from tokenmargin.margin.att_svm import att_svm_with_margins
from tokenmargin.norms import L2, NAMES, Lp, Norm, as_norm
from tokenmargin.theory.finite_part import FinitePart, finite_part
from tokenmargin.theory.margin_agreement import MarginRatio, RunVerdict, is_unique, margin_ratio

#: 1 - cos between velocity and max-margin direction below which the two are the same direction. At norm 1e6 the
#: velocity of a certified limit is within 1e-12; a wrong selection is off by 1e-4 and more.
SAME_DIRECTION = 1e-8

#: Distance between the part that converges and the minimiser, in units of its length and a W of logit 1, below which
#: they are one: a limit is stationary to 1e-7, and a wrong one is off by the log-odds of a single sequence.
SAME_POINT = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class BlockAgreement(Told):
    """One block of a limit beside the max-margin problem of its role."""

    solution: MarginSolution | LabelSolution | GraphSolution  #: (ATT-SVM) of the selected tokens, (SVM) of them for v
    predicted: np.ndarray  #: the direction that theory names for the block; NaN where the problem has none
    velocity_error: float  #: 1 - cos(velocity, predicted)
    direction_error: float  #: 1 - cos(last point, predicted), of order 1/length^2


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Told):
    """A limit beside the max-margin problems of the tokens that it selects; or why there is nothing to compare."""

    limit: Limit
    blocks: Mapping[str, BlockAgreement]  #: by the name of the block; empty where there is nothing to compare
    weight_error: float = float("nan")  #: largest |support weight - normalised dual|; NaN with ties, or where v moves
    is_lmm: bool = False  #: the selected tokens are locally optimal [M, Def. 2]
    is_gmm: bool = False  #: they score highest [M, Def. 1], or with ties are a minimiser of [M, (ATT-SVM')]
    missing: str = ""  #: why there is nothing to compare
    margins: MarginRatio | None = None  #: the margin of the run over the solver's, where one query is trained

    @property
    def margin_ratio(self) -> float:
        """Margin of the last point over the largest one in the norm, by the solver; NaN where there is none."""
        return float("nan") if self.margins is None else self.margins.ratio

    @property
    def verdict(self) -> RunVerdict:
        """Agreement, *not yet* or contradiction: by direction where a limit was certified, else by the margin ratio."""
        if self.by_margin and self.margins is not None:
            return self.margins.verdict
        if not self.is_compared:
            return RunVerdict.NOTHING
        return RunVerdict.AGREES if self.agrees else RunVerdict.CONTRADICTS

    @property
    def by_margin(self) -> bool:
        """True if what is compared is the margin that a run has reached: in a norm of its own, or not yet a limit."""
        return self.margins is not None and (self.margins.norm != L2() or self.limit.stalled)

    finite_part: FinitePart | None = None  #: where competing tokens keep finite log-odds, solved without the dynamics
    finite_error: float = float("nan")  #: distance of the limit's part that converges from it; see SAME_POINT
    projection_error: float = float("nan")  #: the same for the last point, projected on the span of competing tokens

    @property
    def is_compared(self) -> bool:
        """True if there was anything to compare: a limit that diverges, with a problem that theory names for it."""
        return bool(self.blocks) or self.finite_part is not None

    @property
    def agrees(self) -> bool:
        """True if dynamics and max-margin problems name one direction, or margin, and one finite part."""
        if self.by_margin and self.margins is not None:
            return self.margins.verdict is RunVerdict.AGREES
        directions = all(one.velocity_error <= SAME_DIRECTION for one in self.blocks.values())
        return self.is_compared and directions and (self.finite_part is None or self.finite_error <= SAME_POINT)

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
        if self.by_margin and self.margins is not None:
            return _of_margins(self, self.margins)
        if self.finite_part is not None:
            return _of_parts(self)
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


def _of_margins(agreement: Agreement, margins: MarginRatio) -> str:
    solution, name = agreement.solution, margins.norm.name
    assert solution is not None
    if margins.reason:
        return f"There is no margin to compare in the norm {name}. {margins.reason}"
    reached = f"{margins.ratio:.4f} of the largest margin of {solution.selection} in the norm {name}"
    told = {
        RunVerdict.AGREES: f"The run has {reached}.",
        RunVerdict.NOT_YET: f"The run has {reached} and gains on it: not yet, follow it further.",
        RunVerdict.CONTRADICTS: f"The run stays at {reached}: it does not go there.",
    }[margins.verdict]
    if margins.verdict is RunVerdict.CONTRADICTS and agreement.limit.weights is not None:
        told += " Shorter steps, or decay=0.5, tell whether their length keeps it there."
    factors = isinstance(agreement.limit.risk, FactoredRisk) and not agreement.agrees
    if factors and (found := stationarity(agreement.limit)).is_saddle:
        told += (
            f" It sits at a saddle: K = G Q and Q = G'K hold to {found.residual:.0e}, but the largest singular value "
            f"of G is {found.largest:.3f}, above 1."
        )
    if is_unique(solution):
        return f"{told} The optimum is the only one, 1 - cos = {agreement.direction_error:.1e} from the last point."
    return f"{told} No direction is compared: {solution.unique.value}."


def _of_parts(agreement: Agreement) -> str:
    part, word = agreement.finite_part, "converge" if agreement.finite_error <= SAME_POINT else "do not converge"
    assert part is not None
    stays = (
        f"Log-odds between tokens that compete {word} to those of W_fin (off by {agreement.finite_error:.1e}), and the "
        f"loss to its floor {part.floor:.6g}"
        if len(part.basis)
        else "No two tokens compete, so the loss goes to 0"
    )
    if not agreement.blocks:
        return f"{stays}; nothing diverges."
    goes = "goes" if agreement.velocity_error <= SAME_DIRECTION else "does not go"
    off = agreement.velocity_error
    return f"{stays}; the rest of W {goes} to the max-margin direction of the token graph (1 - cos = {off:.1e})."


def compare(limit: Any, norm: Norm | str | None = None) -> Agreement:
    """Solve the max-margin problem of what a limit selects and compare the two.

    For next tokens it is (Graph-SVM) of their token graph and, for the part that stays, the minimiser among tokens that
    compete. For p alone this is (ATT-SVM), with the scores that the flow feels in the limit behind a nonlinear head;
    tokens that keep sharing their input's attention, where part of p converges, are asked level, and an input at whose
    selected score the loss is flat for half the margin (`Limit.asked`). Where v is trained too
    it is (SVM) for v, and for p what the ratio of their speeds makes of (ATT-SVM); see `rate_direction`.

    A limit that the dynamics certify in the Euclidean norm is compared by its direction. A run by steps that is not so
    far, and one in another norm, whose optima need not be unique, are compared by their margin: `margin_ratio`.

    A limit that does not diverge gives an agreement without blocks, which says why there is nothing to compare. An
    infeasible problem gives one with errors NaN that does not agree: the limit then contradicts [M].

    Args:
        limit: limit of a run, `follow(...).limit`.
        norm: the norm of the max-margin problem; that of risk and method when absent.
    """
    if not isinstance(limit, Limit):
        raise InvalidInputError(f"limit must be the limit of a run, follow(...).limit, got {type(limit).__name__}.")
    asked = limit.norm if norm is None else as_norm(norm)
    predicts = limit.risk if isinstance(limit.risk, NextTokenRisk) and isinstance(limit.risk.loss, LabelLog) else None
    if predicts is not None and not limit.stalled and asked in (None, L2()):
        return _of_next_tokens(limit, predicts)
    if limit.finite:
        return Agreement(limit, {}, missing="p converges to a finite point, which has no max-margin direction.")
    roles = [block.role for block in limit.risk.blocks.values()]
    only_queries = Role.HEAD not in roles and (predicts is None or predicts.graph.is_acyclic)
    by_steps = only_queries and (limit.weights is not None or limit.onward is not None)
    if asked is None or (limit.stalled and not by_steps):
        return Agreement(limit, {}, missing=f"no limit was certified. {limit.reason}")
    if roles == [Role.QUERY] or limit.onward is not None:
        if type(asked) not in map(type, (*NAMES.values(), Lp(2))):
            return Agreement(limit, {}, missing=f"no solver here knows the norm {asked.name}. {limit.reason}")
        return compared_with(limit, att_svm_with_margins(limit.sequences, limit.selection, limit.asked, asked))
    if roles == [Role.HEAD, Role.QUERY]:
        return _with_head(limit)
    names = " and ".join(limit.risk.blocks)
    return Agreement(limit, {}, missing=f"no max-margin problem is known here for the blocks {names} together.")


def _of_next_tokens(limit: Limit, risk: NextTokenRisk) -> Agreement:
    """W beside (Graph-SVM) of the token graph and the finite part, both found from the sequences alone."""
    solution = graph_svm(risk.graph, risk.embeddings, queries=risk.token_queries)
    if solution.is_infeasible:
        return Agreement(limit, {}, missing=f"theory names no limit of W here. {solution.explain()}")
    part = finite_part(risk, prove=False)
    own = np.zeros_like(limit.point) if limit.diverges else limit.point if limit.finite else limit.finite_part
    assert own is not None
    apart = risk.embeddings - risk.embeddings.mean(axis=0), risk.token_queries
    unit = float(np.linalg.norm(part.matrix) + 1 / np.prod([np.linalg.norm(x, axis=1).max() for x in apart]))
    errors = [float(np.linalg.norm(part.projected(x) - part.matrix.ravel())) / unit for x in (own, limit.point)]
    outside = float(np.linalg.norm(own - part.projected(own))) / unit if limit.mixed else 0.0
    blocks = {}
    if not limit.finite or solution.status is not Status.TRIVIAL:
        ((name, block),) = risk.blocks.items()
        solved = solution.status is Status.OPTIMAL
        predicted = (solution.direction if solved else np.full(block.size, np.nan)).reshape(block.shape)
        blocks = {name: _beside(limit, name, solution, predicted)}
    best = limit.selection == risk.optimal
    return Agreement(
        limit,
        blocks,
        is_lmm=best,
        is_gmm=best,
        finite_part=part,
        finite_error=max(errors[0], outside),
        projection_error=errors[1],
    )


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


def _beside(
    limit: Limit, name: str, solution: MarginSolution | LabelSolution | GraphSolution, predicted: np.ndarray
) -> BlockAgreement:
    own = limit.blocks[name]
    errors = [one_minus_cosine(one.reshape(-1), predicted.reshape(-1)) for one in (own.velocity, own.direction)]
    return BlockAgreement(solution, predicted, *errors)


@checked
def compared_with(limit: Limit, solution: MarginSolution) -> Agreement:
    """`compare` for a limit of p alone with the max-margin problem already solved."""
    solved = solution.status is Status.OPTIMAL
    margins = margin_ratio(limit, solution)
    of_blocks = solution.p.size != limit.velocity.size  # factors, or the matrices of several heads
    if of_blocks or solution.norm != L2() or limit.stalled:
        array = limit.risk.logit_point(limit.point)
        onward = limit.risk.logit_point(limit.velocity) if limit.onward is None else limit.onward
        predicted = solution.matrix if is_unique(solution) else np.full(array.shape, np.nan)
        errors = [one_minus_cosine(one.reshape(-1), predicted.reshape(-1)) for one in (onward, array)]
        name = next(iter(limit.risk.blocks)) if len(limit.risk.blocks) == 1 else "W"
        blocks = {name: BlockAgreement(solution, predicted, *errors)}
        return Agreement(limit, blocks, is_gmm=limit.selection == limit.risk.optimal, margins=margins)
    ((name, block),) = limit.risk.blocks.items()
    predicted = solution.direction.reshape(block.shape) if solved else np.full(block.shape, np.nan)
    return Agreement(
        limit,
        {name: _beside(limit, name, solution, predicted)},
        _weight_error(limit, solution) if solved else float("nan"),
        is_locally_optimal(solution),
        _is_global(limit),
        margins=margins,
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
