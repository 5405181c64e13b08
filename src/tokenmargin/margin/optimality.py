"""Local optimality of a selection: neighbours of a max-margin solution and their scores."""

from __future__ import annotations

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._types import TokenFlags
from tokenmargin.data.scores import scores_in_units
from tokenmargin.errors import NotDecidedError
from tokenmargin.margin.margin_solution import MarginSolution
from tokenmargin.margin.solution import Status


@checked
def neighbors(solution: MarginSolution) -> TokenFlags:
    """SVM-neighbours of the selected tokens, shape (n, T): those with p'(k_selected - k_t) = 1 [M, Def. 2].

    All False when the problem is trivial or infeasible.
    """
    near = np.zeros(solution.sequences.mask.shape, dtype=bool)
    i, _, t = solution.triples[solution.tight].T
    near[i, t] = True
    return near


@checked
def neighbor_score_gap(solution: MarginSolution) -> float:
    """Smallest score advantage of a selected token over its SVM-neighbours; inf when there are none.

    min over inputs i and neighbours t of gamma_i,alpha_i - gamma_it [M, App. E]. With ties the selected score is the
    mean over the selected tokens, which is the quantity of [E, Def. 16] divided by their number.
    """
    gaps, _, exponent = score_gaps(solution)
    return float(np.ldexp(gaps.min(initial=np.inf), exponent))


def score_gaps(solution: MarginSolution) -> tuple[np.ndarray, np.ndarray, int]:
    """Score advantages of selected tokens over their SVM-neighbours, what is a tie there, and the power of two of both.

    One number for each neighbour; the power is 0 unless scores over- or underflow.
    """
    gamma, widths, exponent = scores_in_units(solution.sequences)
    chosen = solution.selection.chosen
    selected = np.where(chosen, gamma, 0.0).sum(axis=1) / chosen.sum(axis=1)
    i, t = np.nonzero(neighbors(solution))
    return selected[i] - gamma[i, t], widths[i], exponent


@checked
def is_locally_optimal(solution: MarginSolution) -> bool:
    """True if the selected tokens score strictly more than all their SVM-neighbours [M, Def. 2; E, Def. 16].

    The solution's direction is then a locally-optimal max-margin (LMM) direction. False when infeasible or trivial:
    there is no direction then. Scores of an input within `SCORE_TIE_TOLERANCE` are ties, and a tie is not strictly
    more.
    """
    if solution.status is Status.UNDECIDED:
        raise NotDecidedError(solution.explain())
    if solution.status is not Status.OPTIMAL:
        return False
    gaps, widths, _ = score_gaps(solution)
    return bool((gaps > widths).all())
