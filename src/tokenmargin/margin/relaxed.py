"""Relaxed problem: the margins that the classifier leaves for attention to enforce [M, Sec. 3].

Inputs whose selected token is not a support vector of (SVM) have label margin to spare, so attention need not enforce
its own margin on them: the relaxed problem [M, (10)]. How much is relaxed depends on how fast |v| grows beside |p|,
see `rate_direction`.
"""

from __future__ import annotations

import numpy as np

from tokenmargin._checks import array_of, checked
from tokenmargin._isometry import length
from tokenmargin._types import ArrayLike, InputFlags, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin.att_svm import att_svm, att_svm_with_margins
from tokenmargin.margin.label_svm import SUPPORT_TOLERANCE, LabelSolution, selected_label_svm
from tokenmargin.margin.least_norm import least_norm_of
from tokenmargin.margin.margin_solution import MarginSolution
from tokenmargin.margin.solution import Status
from tokenmargin.norms import Norm, as_norm

#: Halvings of the bracket in `rate_direction`: the level is then known to the last bit of float64.
_HALVINGS = 60


@checked
def relaxed_inputs(sequences: EmbeddedSequences, selection: Selection | ArrayLike) -> InputFlags:
    """Inputs whose selected token is no support vector of (SVM), shape (n,): the complement of S [M, Sec. 3.2].

    Raises:
        InvalidInputError: if no classifier separates the selected tokens, so that nothing is a support vector.
    """
    return ~_separated(sequences, Selection.of(selection, sequences)).support


@checked
def relaxed_svm(
    sequences: EmbeddedSequences,
    selection: Selection | ArrayLike,
    relaxed: ArrayLike | None = None,
    norm: Norm | str = "l2",
) -> MarginSolution:
    """(ATT-SVM) with margin 1 on some inputs and only p'(k_s - k_t) >= 0 on the relaxed ones [M, (10)].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        selection: a `Selection`, or the number of one token for each input, or booleans of shape (n, T).
        relaxed: booleans of shape (n,), True for inputs whose margin constraint is relaxed to 0. If absent, those that
            are no support vectors of (SVM), found by solving it: `relaxed_inputs`, for one selected token per input.
        norm: in which p is shortest.
    """
    chosen = Selection.of(selection, sequences)
    flags = relaxed_inputs(sequences, chosen) if relaxed is None else array_of(relaxed, "relaxed", "booleans")
    if flags.shape != (sequences.n_inputs,) or flags.dtype != bool:
        raise InvalidInputError(
            f"relaxed must be booleans, one per input, shape ({sequences.n_inputs},); "
            f"got {flags.dtype} of shape {flags.shape}."
        )
    return att_svm_with_margins(sequences, chosen, np.where(flags, 0.0, 1.0), as_norm(norm))


@checked
def relaxing_rate(sequences: EmbeddedSequences, selection: Selection | ArrayLike) -> float:
    """The least c such that attention goes to the relaxed direction when |v| = c |p|: 0 if nothing is relaxed.

    With u = p_relax/|p_relax|, Xi = 1/|p_relax| and m_i >= 1 the margins of (SVM) it is the largest of
    (Xi - u'(k_alpha - k_t)) / (Gamma (m_i - 1)) over the relaxed inputs; see `rate_direction`. NaN if (10) is
    infeasible.
    """
    chosen = Selection.of(selection, sequences)
    label, solution = _separated(sequences, chosen), relaxed_svm(sequences, chosen)
    if solution.status is Status.TRIVIAL:
        return 0.0
    if solution.status is not Status.OPTIMAL:
        return float("nan")
    inputs = solution.triples[:, 0]
    short = 1.0 - solution.slacks - solution.required  # in units of Xi
    spare = label.label_margin * (label.margins[inputs] - 1.0)
    asking = ~label.support[inputs] & (short > SUPPORT_TOLERANCE)
    return solution.margin * float((short[asking] / spare[asking]).max()) if asking.any() else 0.0


@checked
def rate_direction(sequences: EmbeddedSequences, selection: Selection | ArrayLike, rate: float) -> Vector:
    """Limit of p/|p| when |v| = rate * |p| and v/|v| is the classifier of the selected tokens, shape (d,).

    An input of label margin m_i (in units of Gamma) pulls on p with weight exp(-Gamma |v| m_i - p'(k_alpha - k_t)), so
    the limit is the u on the unit sphere with the largest

        min over i, t of   u'(k_{i alpha} - k_it) + rate * Gamma * (m_i - 1),   with  u'(k_{i alpha} - k_it) >= 0.

    Rate 0 is (ATT-SVM), where v is fixed; from `relaxing_rate` on it is [M, (10)]; between them neither.

    Args:
        sequences: n inputs of T tokens with keys of width d.
        selection: one token per input, separable by (SVM) and by (ATT-SVM).
        rate: c >= 0, growth of |v| over growth of |p|.
    """
    if not (isinstance(rate, int | float | np.number) and np.isfinite(rate) and rate >= 0):
        raise InvalidInputError(f"rate must be a finite number >= 0, got {rate!r}.")
    selection = Selection.of(selection, sequences)
    label, strict = _separated(sequences, selection), att_svm(sequences, selection)
    if strict.status is Status.TRIVIAL:
        raise InvalidInputError(f"there is no direction to find. {strict.explain()} Give inputs of several tokens.")
    if strict.status is not Status.OPTIMAL:
        raise InvalidInputError(f"attention cannot separate the selected tokens. {strict.explain()}")
    inputs, chosen, others = strict.triples.T
    given = GivenRows(sequences.keys[inputs, chosen], sequences.keys[inputs, others])
    spare = rate * label.label_margin * np.where(label.support, 0.0, label.margins - 1.0)[inputs]

    def shortest(level: float) -> np.ndarray:
        return least_norm_of(given, np.maximum(level - spare, 0.0)).p

    low, high = strict.margin, relaxed_svm(sequences, selection).margin
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if length(shortest(middle)) <= 1.0 else (low, middle)
    best = shortest(low)
    return best / length(best)


def _separated(sequences: EmbeddedSequences, selection: Selection) -> LabelSolution:
    solution = selected_label_svm(sequences, selection)
    if solution.status is not Status.OPTIMAL:
        raise InvalidInputError(
            f"the selected tokens have no support vectors. {solution.explain()} Select tokens that a linear "
            "classifier separates by label, and see label_svm for the proof."
        )
    return solution
