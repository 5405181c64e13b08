"""Normalised descent of linear classifiers goes to the largest margin in its own norm [O, Abstract].

[O] proves it for cross-entropy on separable data, with and without momentum (sign descent, spectral descent, Muon), and
for Adam with the max norm. The statements are ours, after its abstract, which is what could be read. A margin comes to
its limit like a power of the steps: a run that is still gaining when it ends decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin.data import CrossSequences, Selection
from tokenmargin.margin import LeastNormSolution, Status
from tokenmargin.norms import as_norm
from tokenmargin.papers.optimiser_geometry._multiclass import Descended, Multiclass, Rule, descended
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.problem import Problem, given

#: Largest share of the margin that may be missing at the end, of descent and of Adam, which is slower.
MISSING, ADAM_MISSING = 0.02, 0.05
_REASON = "what is missing falls like a power of the steps, and a foreign norm misses more"

#: Steps of a run: what is missing falls like one over their square root.
STEPS, ADAM_STEPS = 16_000, 128_000

#: What is missing falls at least so much from half of the steps to all of them, or the run has come to its end.
STILL_FALLING = 0.9

#: Logits that a first step moves by at most, and the length of Adam's, which is not measured by a gradient.
FIRST_MOVE, ADAM_LR = 4.0, 0.2


@dataclass(frozen=True, eq=False)
class Classified:
    """Points with classes as sequences whose tokens are the classes, and the norm and momentum of a method."""

    sequences: CrossSequences
    selection: Selection
    norm: str = "spectral"
    beta: float = 0.0

    @cached_property
    def problem(self) -> Multiclass | None:
        """The classification problem; None where the tokens of an input are not the classes e_c in their order."""
        data = self.sequences
        k = data.n_places
        if not (data.is_unmasked and self.selection.is_single and data.tokens.shape[2] == k):
            return None
        if not (data.tokens == np.eye(k)).all():
            return None
        return Multiclass(np.array(data.queries), self.selection.chosen.argmax(axis=1), k)

    @cached_property
    def solution(self) -> LeastNormSolution:
        """The largest margin in the norm."""
        return given(self.problem).solution(self.norm)

    @property
    def rule(self) -> Rule:
        """Steps in the norm, of which the first moves no logit difference by more than `FIRST_MOVE`."""
        problem = given(self.problem)
        dual = as_norm(self.norm).dual
        steepest = float(np.max([dual.value(pair.reshape(problem.shape)) for pair in problem.pairs]))
        return Rule(self.norm, FIRST_MOVE / steepest, beta=self.beta)


def classified(problem: Multiclass, norm: str = "spectral", beta: float = 0.0) -> Classified:
    """A classification problem as sequences with queries: the classes are the tokens, and the points ask."""
    n, k = len(problem.classes), problem.k
    tokens = np.broadcast_to(np.eye(k), (n, k, k))
    data = CrossSequences(tokens, queries=problem.features, labels=np.ones(n), head=np.eye(k)[0])
    return Classified(data, Selection.from_indices(problem.classes, k), norm, beta)


def _of_problem(problem: Problem) -> Classified:
    return Classified(given(problem.cross), given(problem.selection))


def _applies(case: Classified) -> tuple[Applies, str]:
    if case.problem is None:
        return Applies.NO, "This is no linear classifier: the tokens of every input must be the unit vectors e_c."
    if not case.problem.features.any(axis=1).all():
        return Applies.NO, "A point is 0, which no W classifies."
    solution = case.solution
    if solution.status is Status.OPTIMAL:
        return Applies.YES, f"The classes can be separated, with margin {solution.margin:.3g}."
    return (Applies.NO if solution.is_infeasible else Applies.NOT_DECIDED), solution.explain()


def _missing(case: Classified, seen: Descended, enough: float) -> float:
    """The share of the margin that is missing at the end; NaN where it is too much, and still falling."""
    problem = given(case.problem)
    half, end = (1.0 - problem.margin(W, case.norm) * case.solution.value for W in seen.path[-2:])
    return float("nan") if enough < end < STILL_FALLING * half else end


def _turned(seen: Descended) -> Descended:
    """The same run with the classes in another order."""
    return replace(seen, path=np.roll(seen.path, 1, axis=1))


def three_classes(beyond: float = 0.0) -> Multiclass:
    """Four points of three classes in the plane; with `beyond` = 1 the last lies on a point of another class."""
    first, last = np.array([1.0, 0.2]), np.array([-0.8, -0.9])
    features = np.array([first, [-0.4, 1.0], [-0.6, -1.1], (1 - beyond) * last + beyond * first])
    return Multiclass(features, np.array([0, 1, 2, 2]), 3)


STEEPEST: Claim[Classified, Descended] = Claim(
    key="optimiser_geometry-steepest",
    paper="O",
    label="Abstract",
    statement="On separable points of several classes, steepest descent of the cross-entropy in a norm, normalised, "
    "with steps like t^(-1/2) and with or without momentum, comes to the largest margin in that norm (statement "
    "of ours, after the abstract).",
    tolerance=MISSING,
    tolerance_reason=_REASON,
    hypotheses=_applies,
    observe=lambda case: descended(given(case.problem), case.rule, STEPS),
    error=lambda case, seen: _missing(case, seen, MISSING),
    inside=lambda: classified(three_classes()),
    outside=lambda: classified(three_classes(1.0)),
    mutate=_turned,
    needs=("tokens", "queries", "selection"),
    of_problem=_of_problem,
)

ADAM: Claim[Classified, Descended] = Claim(
    key="optimiser_geometry-adam",
    paper="O",
    label="Abstract",
    statement="On separable points of several classes, Adam without epsilon, with steps like t^(-1/2), comes to the "
    "largest margin in the max norm (statement of ours, after the abstract).",
    tolerance=ADAM_MISSING,
    tolerance_reason=_REASON,
    hypotheses=_applies,
    observe=lambda case: descended(given(case.problem), Rule("max", ADAM_LR, beta=0.9, second=0.99), ADAM_STEPS),
    error=lambda case, seen: _missing(case, seen, ADAM_MISSING),
    inside=lambda: classified(three_classes(), "max"),
    outside=lambda: classified(three_classes(1.0), "max"),
    mutate=_turned,
    needs=("tokens", "queries", "selection"),
    of_problem=lambda problem: replace(_of_problem(problem), norm="max"),
)

CLAIMS: tuple[Claim, ...] = (STEEPEST, ADAM)
