"""Mirror descent with the potential |W|_q^q / q goes to the largest margin in the l_q norm [L, Abstract].

The statement is ours, after the abstract, which is what could be read; [L] calls the exponent p. A margin comes to its
limit like a power of the steps: a run that is still gaining when it ends decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenmargin.attention import MirrorDescent
from tokenmargin.data import CrossSequences
from tokenmargin.margin import Status, att_svm
from tokenmargin.norms import Lp
from tokenmargin.papers.transformers_as_svms.margins import beside, has_tied_rival, least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import visualization_2
from tokenmargin.papers.transformers_as_svms.runs import followed
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.problem import given

#: Largest share of the margin that may be missing at the end.
MISSING = 0.02

#: Steps, the length of each in the dual norm, and the share of what is missing to which a run that still gains falls
#: in its second half.
STEPS, LR, STILL_FALLING = 8000, 0.5, 0.9

#: Least difference of logits at which a run has selected its tokens.
SELECTED_GAP = 10.0


@dataclass(frozen=True, eq=False)
class Mirrored:
    """Sequences with queries, and the exponent of mirror descent from W = 0."""

    sequences: CrossSequences
    q: float = 3.0

    @cached_property
    def path(self) -> np.ndarray:
        """W at the middle and at the end, shape (2, d, e)."""
        return np.asarray(followed([self.sequences], MirrorDescent(self.q, lr=LR), STEPS)[0])


def _applies(case: Mirrored) -> tuple[Applies, str]:
    chosen = most_attended(case.sequences, case.path[-1])
    if has_tied_rival(case.sequences, chosen):
        return Applies.NO, "Another token has the score of a selected one, from which nothing separates it."
    solution = att_svm(case.sequences, chosen, norm=Lp(case.q))
    if solution.is_infeasible:
        return Applies.NO, f"What is attended to most cannot be separated. {solution.explain()}"
    gap = least_gap(case.sequences, chosen, case.path[-1])
    if solution.status is not Status.OPTIMAL or gap < SELECTED_GAP:
        return (
            Applies.NOT_DECIDED,
            f"One token of each input is not selected yet: the least gap of logits is {gap:.3g}.",
        )
    return Applies.YES, f"One token of each input is selected, by {gap:.3g} in the logits."


def _missing(case: Mirrored, path: np.ndarray) -> float:
    """The share of the margin that is missing at the end; NaN where it is too much, and still falling."""
    chosen = most_attended(case.sequences, case.path[-1])
    half, end = (1.0 - beside(case.sequences, W, Lp(case.q), chosen).ratio for W in path)
    return float("nan") if MISSING < end < STILL_FALLING * half else end


def tied_scores() -> CrossSequences:
    """One input whose first two tokens have one score."""
    tokens = [[[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]]]
    return CrossSequences(tokens, queries=[[1.0, 0.5]], labels=[1], head=[1.0, 0.0])


MIRROR: Claim[Mirrored, np.ndarray] = Claim(
    key="mirror_descent-lp",
    paper="L",
    label="Abstract",
    statement="Where mirror descent of W with the potential |W|_q^q / q, normalised, selects one token of each input, "
    "none tied with another in score, W comes to the largest margin in the l_q norm (statement of ours, after the "
    "abstract).",
    tolerance=MISSING,
    tolerance_reason="what is missing falls like a power of the steps",
    hypotheses=_applies,
    observe=lambda case: case.path,
    error=_missing,
    inside=lambda: Mirrored(visualization_2()),
    outside=lambda: Mirrored(tied_scores()),
    mutate=lambda path: -path,
    needs=("tokens", "queries"),
    of_problem=lambda problem: Mirrored(given(problem.cross)),
)

CLAIMS: tuple[Claim, ...] = (MIRROR,)
