"""The rank of the nuclear-norm solution: bounded by its dual, and by the number of pairs that hold it [S, Abstract].

[S] says that (K, Q) goes to the solution of least nuclear norm, and draws its rank. Both bounds are ours. With the dual
G = sum of lambda_k A_k, |G| <= 1, a W of least nuclear norm has <G, W> = |W|_*, so that its singular vectors are those
of G with singular value 1. And W = U S V' on these is the only solution only if no symmetric H leaves every tight pair
alone, <U'A_kV, H> = 0: there are r(r+1)/2 dimensions of H, and one condition for each tight pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin.data import CrossSequences, Selection, optimal_selection
from tokenmargin.margin import MarginSolution, Unique, att_svm
from tokenmargin.papers.transformers_as_svms.problems import visualization_1
from tokenmargin.theory.claim import Applies, Claim, largest, unless_solved
from tokenmargin.theory.problem import Problem, given

#: Largest sum of singular values of W times what those of G miss to 1, relative to |W|_*: the relative gap to which
#: solutions are judged optimal bounds it.
GAP = 1e-8


@dataclass(frozen=True, eq=False)
class Selected:
    """Sequences with queries, and the tokens to separate."""

    sequences: CrossSequences
    selection: Selection

    @cached_property
    def nuclear(self) -> MarginSolution:
        """The W of least nuclear norm that separates the tokens."""
        return att_svm(self.sequences, self.selection, norm="nuclear")


def selected(problem: Problem) -> Selected:
    """The instance of a problem: the selection that it names, or the tokens of highest score."""
    data = given(problem.cross)
    return Selected(data, problem.selection if problem.selection is not None else optimal_selection(data))


def dual_matrix(solution: MarginSolution) -> np.ndarray:
    """G, the sum of the multipliers times the differences of keys, of the shape of W; |G| is 1 at the optimum."""
    keys, total = solution.sequences.keys, np.zeros(solution.sequences.width)
    for triples, weights in ((solution.triples, solution.duals), (solution.tie_triples, solution.tie_duals)):
        i, s, t = triples.T
        total += weights @ (keys[i, s] - keys[i, t])
    return total.reshape(solution.matrix.shape)


def largest_rank(n_pairs: int) -> int:
    """The largest r with r(r+1)/2 <= n_pairs: the rank of a unique solution that so many pairs hold."""
    return int((np.sqrt(8 * n_pairs + 1) - 1) // 2)


def _applies(case: Selected) -> tuple[Applies, str]:
    solution = case.nuclear
    missing = unless_solved(solution, "The tokens cannot be separated.")
    if missing is not None:
        return missing
    if solution.unique is Unique.YES:
        return Applies.YES, "The tokens can be separated, by one W of least nuclear norm alone."
    decided = Applies.NO if solution.unique is Unique.NO else Applies.NOT_DECIDED
    return decided, f"In the nuclear norm {solution.unique.value}."


def _error(case: Selected, solution: MarginSolution) -> float:
    del case
    if not (np.isfinite(solution.p).all() and np.isfinite(solution.duals).all()):
        return float("nan")
    of_dual = np.linalg.svd(dual_matrix(solution), compute_uv=False)
    outside = float(solution.spectrum @ np.abs(1.0 - np.minimum(of_dual, 1.0))) / solution.value
    held = int(solution.tight.sum()) + len(solution.tie_triples)
    beyond = 0.0 if solution.rank <= largest_rank(held) else float("inf")
    return largest(outside, abs(largest(of_dual[0], 1.0) - 1.0), beyond)


def _blurred(solution: MarginSolution) -> MarginSolution:
    """The solution with all its singular values a little larger, as a solver of few digits returns it."""
    left, values, right = np.linalg.svd(solution.matrix, full_matrices=False)
    blurred = (left * (values + 1e-5 * values[0])) @ right
    return replace(solution.moved_to(blurred.ravel()), duals=solution.duals)


def two_pairs() -> Selected:
    """Pairs e_1 e_1' and e_2 e_2': all [[1, a], [a, 1]] with |a| <= 1 are solutions, of ranks 1 and 2."""
    tokens = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
    data = CrossSequences(tokens, queries=np.eye(2), labels=[1, 1], head=[1.0, 1.0])
    return Selected(data, Selection.from_indices([0, 0], 2))


RANK: Claim[Selected, MarginSolution] = Claim(
    key="transformers_as_svms-rank",
    paper="S",
    label="Abstract",
    statement="Where one W alone separates the tokens with the least nuclear norm, its singular vectors are among "
    "those of the dual G with singular value 1, and its rank r has r(r+1)/2 at most the number of pairs that hold with "
    "equality (our bounds on the problem that [S] names).",
    tolerance=GAP,
    tolerance_reason="solutions are judged optimal to this relative gap, which bounds what is outside",
    hypotheses=_applies,
    observe=lambda case: case.nuclear,
    error=_error,
    inside=lambda: Selected(visualization_1(), optimal_selection(visualization_1())),
    outside=two_pairs,
    mutate=_blurred,
    correction="The official notebook draws a rank of about n, which r(r+1)/2 <= n(T - 1) forbids for n = 10 and 15 at "
    "T = 5: it counts the digits that its solver left.",
    needs=("tokens", "queries"),
    of_problem=selected,
    ratio=lambda _, seen: largest_rank(int(seen.tight.sum()) + len(seen.tie_triples)) / seen.rank,
)

CLAIMS: tuple[Claim, ...] = (RANK,)
