"""Normalised descent and Polyak's steps come to the max-margin direction faster than descent does [R, Abstract].

The abstract says that these adaptive steps accelerate convergence of the parameters over gradient descent. The
statement is ours: after the same number of steps from W = 0, of the same learning rate, both are nearer in direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenmargin.attention import Descent, NormalizedDescent
from tokenmargin.data import CrossSequences, optimal_selection
from tokenmargin.margin import Status, att_svm
from tokenmargin.papers.rates._polyak import Polyak
from tokenmargin.papers.transformers_as_svms.margins import has_tied_rival, least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import visualization_2
from tokenmargin.papers.transformers_as_svms.runs import followed
from tokenmargin.theory.agreement import one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, largest
from tokenmargin.theory.problem import given

#: Steps, and the learning rate of descent and of normalised descent.
STEPS, LR = 4000, 0.1

#: Least difference of logits at which normalised descent has selected its tokens.
SELECTED_GAP = 10.0

#: Most by which 1 - cos of an adaptive method may exceed that of descent.
EXCESS = 1e-9


@dataclass(frozen=True, eq=False)
class Raced:
    """Sequences with queries, and the three methods from W = 0."""

    sequences: CrossSequences

    @cached_property
    def ends(self) -> np.ndarray:
        """W after descent, normalised descent and Polyak's steps, shape (3, d, e)."""
        methods = (Descent(LR), NormalizedDescent(LR), Polyak())
        return np.stack([followed([self.sequences], method, STEPS, 1)[0, -1] for method in methods])


def _applies(case: Raced) -> tuple[Applies, str]:
    data = case.sequences
    chosen = [most_attended(data, W) for W in case.ends]
    if not all(one == chosen[1] for one in chosen):
        return Applies.NO, "The three methods attend to different tokens."
    if chosen[1] != optimal_selection(data):
        return Applies.NO, "The tokens are not those of highest score, whose risk Polyak's step aims at."
    if has_tied_rival(data, chosen[1]):
        return Applies.NO, "Another token has the score of a selected one, from which nothing separates it."
    solution = att_svm(data, chosen[1])
    if solution.is_infeasible:
        return Applies.NO, f"What is attended to most cannot be separated. {solution.explain()}"
    gap = least_gap(data, chosen[1], case.ends[1])
    if solution.status is not Status.OPTIMAL or gap < SELECTED_GAP:
        return (
            Applies.NOT_DECIDED,
            f"One token of each input is not selected yet: the least gap of logits is {gap:.3g}.",
        )
    return Applies.YES, f"All three attend to {chosen[1]}, by {gap:.3g} in the logits of normalised descent."


def _error(case: Raced, ends: np.ndarray) -> float:
    """The most by which an adaptive method is farther from the max-margin direction than descent."""
    best = att_svm(case.sequences, most_attended(case.sequences, case.ends[1])).direction
    slow, *adaptive = (one_minus_cosine(W.ravel(), best) for W in ends)
    return largest(0.0, *(angle - slow for angle in adaptive))


def tied_scores() -> CrossSequences:
    """One input whose first two tokens have one score."""
    tokens = [[[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]]]
    return CrossSequences(tokens, queries=[[1.0, 0.5]], labels=[1], head=[1.0, 0.0])


ADAPTIVE: Claim[Raced, np.ndarray] = Claim(
    key="rates-adaptive",
    paper="R",
    label="Abstract",
    statement="Where descent, normalised descent and Polyak's steps attend to the tokens of highest score, one in "
    "each input, the two adaptive ones are nearer to the max-margin direction after 4000 steps from W = 0 (statement "
    "of ours, after the abstract).",
    tolerance=EXCESS,
    tolerance_reason="rounding of two angles of which one is near 0",
    hypotheses=_applies,
    observe=lambda case: case.ends,
    error=_error,
    inside=lambda: Raced(visualization_2()),
    outside=lambda: Raced(tied_scores()),
    mutate=lambda ends: ends[[1, 0, 2]],
    needs=("tokens", "queries"),
    of_problem=lambda problem: Raced(given(problem.cross)),
)

CLAIMS: tuple[Claim, ...] = (ADAPTIVE,)
