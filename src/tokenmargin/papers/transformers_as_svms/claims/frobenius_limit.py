"""W itself goes to the max-margin solution in the Frobenius norm, of the tokens that it comes to select [S, Abstract].

The abstract names the norm, and says that convergence may be to locally optimal directions; which tokens are selected
is then a matter of the start. The statement is ours, after the abstract, for gradient flow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin.attention import Flow, Limit, MatrixRisk, follow
from tokenmargin.data import CrossSequences
from tokenmargin.margin import Status, att_svm
from tokenmargin.papers.transformers_as_svms.margins import has_tied_rival
from tokenmargin.papers.transformers_as_svms.problems import visualization_1
from tokenmargin.theory.agreement import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.problem import Problem, given


@dataclass(frozen=True, eq=False)
class Started:
    """Sequences with queries, and the W from which the flow starts."""

    sequences: CrossSequences
    start: np.ndarray

    @cached_property
    def limit(self) -> Limit:
        """Limit of the flow, judged by the dynamics alone."""
        return follow(MatrixRisk(self.sequences), self.start, Flow()).limit


def started(problem: Problem) -> Started:
    """The instance of a problem: the flow from its start, or from 0."""
    data = given(problem.cross)
    return Started(data, np.array(problem.any_start).reshape(data.shape))


def _applies(case: Started) -> tuple[Applies, str]:
    limit = case.limit
    if limit.stalled:
        return Applies.NOT_DECIDED, "Whether the flow diverges was not decided."
    if not limit.diverges:
        return Applies.NO, "The flow goes to a finite W."
    if not limit.selection.is_single:
        return Applies.NO, "The flow keeps several tokens of an input."
    if has_tied_rival(case.sequences, limit.selection):
        return Applies.NO, "Another token has the score of a selected one, from which nothing separates it."
    return Applies.YES, f"The flow diverges, and selects {limit.selection}."


def _error(case: Started, limit: Limit) -> float:
    solution = att_svm(case.sequences, limit.selection)
    if solution.status is Status.OPTIMAL:
        return one_minus_cosine(np.ravel(limit.velocity), solution.direction)
    return float("inf") if solution.is_infeasible else float("nan")


def contradiction() -> Started:
    """Two inputs of the same two tokens with opposite labels: the flow goes to 0."""
    tokens = [[[1.0], [-1.0]], [[1.0], [-1.0]]]
    return Started(CrossSequences(tokens, queries=[[1.0], [1.0]], labels=[1, -1], head=[1.0]), np.array([[3.0]]))


FROBENIUS: Claim[Started, Limit] = Claim(
    key="transformers_as_svms-frobenius",
    paper="S",
    label="Abstract",
    statement="Where gradient flow in W diverges and selects one token of each input, none tied with another in score, "
    "it goes in the direction of the shortest W in the Frobenius norm that separates the selected tokens from the "
    "others (statement of ours, after the abstract).",
    tolerance=SAME_DIRECTION,
    tolerance_reason="the velocity of a certified limit is within 1e-12 of the max-margin direction",
    hypotheses=_applies,
    observe=lambda case: case.limit,
    error=_error,
    inside=lambda: Started(visualization_1(), np.zeros((2, 2))),
    outside=contradiction,
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    settled=lambda limit: not limit.stalled,
    needs=("tokens", "queries"),
    of_problem=started,
)

CLAIMS: tuple[Claim, ...] = (FROBENIUS,)
