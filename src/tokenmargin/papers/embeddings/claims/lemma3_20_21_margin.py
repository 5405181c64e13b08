"""The max-margin problem with ties (9): [E, Lemmas 3, 20 and 21] as claims."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tokenmargin.data import EmbeddedSequences, selection_of
from tokenmargin.margin import TIGHT_TOLERANCE, MarginSolution, Status, att_svm
from tokenmargin.papers.embeddings.case import CASE_NEEDS, EmbeddingCase, case_of, examine, least_step
from tokenmargin.papers.embeddings.claims.lemma2_12_first_step import JUST_BELOW
from tokenmargin.papers.embeddings.claims.thm5_lemma14_18_selection import on_the_border
from tokenmargin.theory.claim import (
    DOT_ROUNDING,
    ROUNDING,
    ROUNDING_REASON,
    Applies,
    Claim,
    beyond_rounding,
    largest,
    worst_of,
)
from tokenmargin.theory.problem import given

#: |E0_s|^2 must exceed this for the proof of [E, Lemma 21]: 2|E0_s|^2 less errors of at most 44/(44 + sqrt(2 log .))
#: must leave a margin of 1.
LEAST_SQUARED_NORM = 0.99


@dataclass(frozen=True, eq=False)
class Separation:
    """Sequences and a vector p that selects some of their tokens."""

    sequences: EmbeddedSequences
    p: tuple[float, ...]

    @property
    def solution(self) -> MarginSolution:
        """(9) for what p selects."""
        return att_svm(self.sequences, selection_of(self.sequences, self.p))


def constraint_matrix(solution: MarginSolution) -> np.ndarray:
    """M of [E, App. D.2]: one row E_s - E_s' for each selected s and unselected s' of a sequence, shape (m, d)."""
    keys, chosen, mask = solution.sequences.keys, solution.selection.chosen, solution.sequences.mask
    rows = [
        keys[i, s] - keys[i, t]
        for i in range(len(keys))
        for s in np.flatnonzero(chosen[i])
        for t in np.flatnonzero(mask[i] & ~chosen[i])
    ]
    return np.array(rows)


def printed_solution(solution: MarginSolution) -> np.ndarray:
    """M^+ 1, which the proof of [E, Lemma 3] prints as the solution of (9), shape (d,)."""
    M = constraint_matrix(solution)
    return np.asarray(np.linalg.pinv(M) @ np.ones(len(M)))


def two_rows() -> EmbeddedSequences:
    """One sequence whose differences are (1, 0) and (2, 1): the optimum of (9) is (1, 0), M^+ 1 is (1, -1)."""
    return EmbeddedSequences([[[0.0, 0.0], [-1.0, 0.0], [-2.0, -1.0]]], [1], [1.0, 0.0])


def _separates(case: Separation) -> tuple[Applies, str]:
    chosen = selection_of(case.sequences, case.p).chosen
    if not np.any(case.p):
        return Applies.NO, "p = 0 selects everything."
    if (chosen | ~case.sequences.mask).all():
        return Applies.NO, "p selects every token, so that (9) has no constraint and its solution 0 no direction."
    return Applies.YES, "p selects some tokens of some sequence over others."


def _lemma_3_error(case: Separation, seen: MarginSolution) -> float:
    """Worst of: constraints missed, p_hat'(q - p_hat) >= 0 missed at a feasible q, and longer than duality allows."""
    if seen.status is not Status.OPTIMAL:
        return float("inf")
    i, s, t = seen.triples.T
    rows = case.sequences.keys[i, s] - case.sequences.keys[i, t]
    given = np.array(case.p)
    feasible = given / float((rows @ given).min())  # p/tau, the proof's feasible point
    square = float(seen.p @ seen.p)
    least = float(seen.duals @ seen.required) / float(np.linalg.norm(_pull(seen)))  # of any feasible point, by duality
    longer = float(np.sqrt(square)) / least - 1.0
    sizes = DOT_ROUNDING * float(np.sqrt(square)) * np.linalg.norm(rows, axis=1)
    missed = [beyond_rounding(-slack, size) for slack, size in zip(seen.slacks.tolist(), sizes.tolist(), strict=True)]
    return worst_of([*missed, longer, _farther(seen, feasible)])


def _farther(seen: MarginSolution, feasible: np.ndarray) -> float:
    """Amount by which p_hat'(q - p_hat) >= 0 is missed, in units of |p_hat|^2; q ties its tokens to rounding only."""
    square, (j, a, b) = float(seen.p @ seen.p), seen.tie_triples.reshape(-1, 3).T
    untied = np.abs((seen.sequences.keys[j, a] - seen.sequences.keys[j, b]) @ feasible)
    product = float(np.linalg.norm(seen.p) * np.linalg.norm(feasible))
    rounding = (DOT_ROUNDING * product + float(np.abs(seen.tie_duals) @ untied)) / square
    return beyond_rounding(1.0 - float(seen.p @ feasible) / square, rounding)


def _pull(seen: MarginSolution) -> np.ndarray:
    """The sum of duals times differences, ties among them: p itself at the solution, shape (d,)."""
    keys = seen.sequences.keys
    (i, s, t), (j, a, b) = seen.triples.T, seen.tie_triples.reshape(-1, 3).T
    return np.asarray(seen.duals @ (keys[i, s] - keys[i, t]) + seen.tie_duals @ (keys[j, a] - keys[j, b]))


LEMMA_3: Claim[Separation, MarginSolution] = Claim(
    key="embeddings-lemma3",
    paper="E",
    label="Lemma 3",
    statement="If p selects some tokens over others, the max-margin problem (9) of its selection is feasible and has "
    "one solution, the feasible point nearest to 0.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_separates,
    observe=lambda case: case.solution,
    error=_lemma_3_error,
    inside=lambda: Separation(two_rows(), (1.0, 0.0)),
    outside=lambda: Separation(EmbeddedSequences([[[0.0, 1.0], [0.0, 2.0]]], [1], [1.0, 0.0]), (1.0, 0.0)),
    mutate=lambda seen: seen.moved_to(printed_solution(seen)),
    correction="The solution is not M^+ 1: the KKT conditions ask for complementarity, not for M p = 1. The proof's "
    "second feasible point, 1 on every token selected anywhere, fails when a token is selected in one sequence only. "
    "With every token selected the solution is 0 and has no direction.",
    settled=lambda seen: seen.status is not Status.UNDECIDED,
    needs=("tokens", "p"),
    of_problem=lambda problem: Separation(given(problem.sequences), given(problem.p)),
)


def _least_slack(_: Separation, seen: MarginSolution) -> float:
    """The smallest slack of a constraint, in units of what it requires."""
    return float(np.abs(seen.slacks).min()) if seen.status is Status.OPTIMAL else float("inf")


LEMMA_20: Claim[Separation, MarginSolution] = Claim(
    key="embeddings-lemma20",
    paper="E",
    label="Lemma 20",
    statement="In the solution of (9) at least one constraint p'(E_s - E_s') >= 1 holds with equality.",
    tolerance=TIGHT_TOLERANCE,
    tolerance_reason="an active-set solution meets its constraints to 1e-15",
    hypotheses=_separates,
    observe=lambda case: case.solution,
    error=_least_slack,
    inside=lambda: Separation(two_rows(), (1.0, 0.0)),
    outside=lambda: Separation(two_rows(), (0.0, 0.0)),
    mutate=lambda seen: seen.moved_to(1.5 * seen.p),
    correction="The earlier version claimed that all constraints are tight, which is false.",
    settled=lambda seen: seen.status is not Status.UNDECIDED,
    needs=("tokens", "p"),
    of_problem=lambda problem: Separation(given(problem.sequences), given(problem.p)),
)


def lemma_21_log10_d(case: EmbeddingCase) -> float:
    """log10 of (2 eta0 (n sqrt(2 log(V^2/delta)) + 44 n))^4, the second width of [E, Lemma 19]."""
    n, V = case.dataset.n_documents, case.dataset.vocabulary_size
    root = np.sqrt(2 * (2 * np.log(V) - np.log(case.delta)))
    return float(4 * np.log10(2 * case.eta0 * n * (root + 44)))


def _lemma_21_applies(case: EmbeddingCase) -> tuple[Applies, str]:
    found, because = examine(case, lemma_21_log10_d(case), single_relevant=True)
    if found is Applies.YES and float(case.step.initial.token_norms.min()) ** 2 < LEAST_SQUARED_NORM:
        return Applies.NO, "Some |E0_s| is short, which the proof overlooks: it writes 2 for 2|E0_s|^2."
    return found, because


def _lemma_21_error(case: EmbeddingCase, seen: MarginSolution) -> float:
    """Amount by which |p_hat| exceeds 4n, as a share of it; infinite where there is no p_hat."""
    if seen.status is not Status.OPTIMAL:
        return float("inf")
    return largest(0.0, float(np.linalg.norm(seen.p)) / (4 * case.dataset.n_documents) - 1.0)


def _at_lemma_21_width(shift: float) -> EmbeddingCase:
    case = replace(on_the_border(), eta0=least_step(on_the_border().dataset))
    return replace(case, log10_d=lemma_21_log10_d(case) + shift)


LEMMA_21: Claim[EmbeddingCase, MarginSolution] = Claim(
    key="embeddings-lemma21",
    paper="E",
    label="Lemma 21",
    statement="For d >= (2 eta0 (n sqrt(2 log(V^2/delta)) + 44 n))^4 the solution of (9) that selects the important "
    "tokens only has norm at most 4n.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_21_applies,
    observe=lambda case: att_svm(case.sequences, case.important),
    error=_lemma_21_error,
    inside=lambda: _at_lemma_21_width(0.0),
    outside=lambda: _at_lemma_21_width(-JUST_BELOW),
    mutate=lambda seen: seen.moved_to(seen.p * 4 * (len(seen.selection.chosen) + 1) / np.linalg.norm(seen.p)),
    correction="Its proof has 44 sqrt(2n) where Lemma 19 has 44 n (the larger, from n = 2 on), writes 2 for 2|E0_s|^2 "
    "and drops products of different embeddings, which (14) does not bound.",
    settled=lambda seen: seen.status is not Status.UNDECIDED,
    needs=CASE_NEEDS,
    of_problem=case_of,
    ratio=lambda case, seen: 4 * case.dataset.n_documents / float(np.linalg.norm(seen.p)),
    uses=("embeddings-lemma2",),
)

CLAIMS: tuple[Claim, ...] = (LEMMA_3, LEMMA_20, LEMMA_21)
