"""(SVM): the max-margin classifier of one feature per input, and what it leaves for attention to separate [M, Sec. 3].

Trained together with p, the head v becomes the max-margin classifier of the selected tokens. Inputs whose selected
token is not a support vector of it have label margin to spare, so attention need not enforce its own margin on them:
the relaxed problem [M, (10)]. How much is relaxed depends on how fast |v| grows beside |p|, see `rate_direction`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from tokenmargin._types import ArrayLike, HeadVector, InputFlags, Labels, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin.att_svm import att_svm, relaxed_svm
from tokenmargin.margin.least_norm import KKT_TOLERANCE, Residuals, Verdict, least_norm
from tokenmargin.margin.solution import MarginSolution, MarginStatus

#: An input is a support vector when its label margin Y_i v'r_i exceeds 1 by no more than this. An active-set solution
#: meets a tight constraint to 1e-15; a label margin this close to 1 is spare to no training run of |v| < 1e8.
SUPPORT_TOLERANCE = 1e-9

#: Halvings of the bracket in `rate_direction`: the level is then known to the last bit of float64.
_HALVINGS = 60


class LabelStatus(Enum):
    """What became of the label problem; the value of each member says it in words."""

    OPTIMAL = "the max-margin classifier was found and its optimality checked"
    INFEASIBLE = "no classifier through the origin separates the features by their labels"
    UNDECIDED = "neither a classifier nor a proof that there is none reached its tolerance"


_STATUS = {
    Verdict.OPTIMAL: LabelStatus.OPTIMAL,
    Verdict.INFEASIBLE: LabelStatus.INFEASIBLE,
    Verdict.UNDECIDED: LabelStatus.UNDECIDED,
}


@dataclass(frozen=True, eq=False)
class LabelSolution:
    """Solution of [M, (SVM)]: v of least norm with Y_i v'r_i >= 1, or weights that prove there is none.

    `duals` are one choice among several where more inputs than needed are support vectors: ask `support`, not them.
    """

    status: LabelStatus
    v: HeadVector  #: v_mm, shape (k,); NaN when infeasible
    margins: Labels = field(repr=False)  #: Y_i v'r_i, shape (n,)
    duals: Labels = field(repr=False)  #: v = sum_i duals_i Y_i r_i
    residuals: Residuals
    weights: Labels | None = field(default=None, repr=False)  #: infeasible: >= 0, sum_i weights_i Y_i r_i = 0

    @property
    def direction(self) -> HeadVector:
        """v/|v|, shape (k,)."""
        return self.v / float(np.linalg.norm(self.v))

    @property
    def label_margin(self) -> float:
        """Gamma = 1/|v|; 0 when infeasible."""
        return 0.0 if self.status is LabelStatus.INFEASIBLE else 1.0 / float(np.linalg.norm(self.v))

    @property
    def support(self) -> InputFlags:
        """Inputs whose label margin is 1 within `SUPPORT_TOLERANCE`, shape (n,): the set S of [M, Sec. 3.2]."""
        return np.asarray(self.margins <= 1.0 + SUPPORT_TOLERANCE)

    def is_optimal(self, tolerance: float = KKT_TOLERANCE) -> bool:
        """Whether all KKT residuals, computed by us on rows of unit norm, are within `tolerance`."""
        return self.status is LabelStatus.OPTIMAL and self.residuals.worst <= tolerance

    def explain(self) -> str:
        """One sentence."""
        if self.status is not LabelStatus.OPTIMAL:
            return f"{self.status.value[0].upper()}{self.status.value[1:]}."
        spare = np.flatnonzero(~self.support)
        rest = f"inputs {spare.tolist()} have margin to spare" if len(spare) else "every input is a support vector"
        return f"The features are separated by their labels with margin {self.label_margin:.6g}; {rest}."


def label_svm(features: ArrayLike, labels: ArrayLike) -> LabelSolution:
    """The shortest v with Y_i v'r_i >= 1 for every input: hard-margin SVM without bias [M, (SVM)].

    Args:
        features: r, shape (n, k), one feature per input.
        labels: Y, shape (n,), each -1 or +1 (0/1 and booleans are read as -1/+1).
    """
    rows, signs = np.asarray(features), np.asarray(labels)
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"features are {rows.dtype} of shape {rows.shape}: give real numbers of shape (n, k), one row per input."
        )
    # EmbeddedSequences holds the one reading of labels and of what is finite: one-token inputs with these features.
    checked = EmbeddedSequences(rows[:, None, :], signs, np.zeros(rows.shape[1]))
    signed = checked.labels[:, None] * checked.tokens[:, 0].astype(np.float64)
    answer = least_norm(signed, np.ones(len(signed)))
    return LabelSolution(
        _STATUS[answer.verdict], answer.p, signed @ answer.p, answer.duals, answer.residuals, answer.weights
    )


def selected_label_svm(sequences: EmbeddedSequences, selection: Selection) -> LabelSolution:
    """(SVM) on the selected tokens, r_i = x_{i alpha_i} [M, Sec. 3.1].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        selection: one token per input.
    """
    selection.check_fits(sequences)
    return label_svm(sequences.tokens[np.arange(sequences.n_inputs), selection.indices], sequences.labels)


def relaxed_inputs(sequences: EmbeddedSequences, selection: Selection) -> InputFlags:
    """Inputs whose selected token is no support vector of (SVM), shape (n,): the complement of S [M, Sec. 3.2].

    Raises:
        InvalidInputError: if no classifier separates the selected tokens, so that nothing is a support vector.
    """
    return ~_separated(sequences, selection).support


def relaxed_solution(sequences: EmbeddedSequences, selection: Selection) -> MarginSolution:
    """(ATT-SVM) with margin 1 on the support vectors of (SVM) and 0 elsewhere, found by solving (SVM) [M, (10)].

    Args:
        sequences: n inputs of T tokens with keys of width d; their head is not used.
        selection: one token per input.
    """
    return relaxed_svm(sequences, selection, relaxed_inputs(sequences, selection))


def relaxing_rate(sequences: EmbeddedSequences, selection: Selection) -> float:
    """The least c such that attention goes to the relaxed direction when |v| = c |p|: 0 if nothing is relaxed.

    With u = p_relax/|p_relax|, Xi = 1/|p_relax| and m_i >= 1 the margins of (SVM) it is the largest of
    (Xi - u'(k_alpha - k_t)) / (Gamma (m_i - 1)) over the relaxed inputs; see `rate_direction`. NaN if (10) is
    infeasible.
    """
    label, solution = _separated(sequences, selection), relaxed_solution(sequences, selection)
    if solution.status is not MarginStatus.OPTIMAL:
        return float("nan")
    inputs = solution.triples[:, 0]
    short = solution.margin * (1.0 - solution.slacks - solution.required)
    spare = label.label_margin * (label.margins[inputs] - 1.0)
    asking = ~label.support[inputs] & (short > SUPPORT_TOLERANCE)
    return float((short[asking] / spare[asking]).max()) if asking.any() else 0.0


def rate_direction(sequences: EmbeddedSequences, selection: Selection, rate: float) -> Vector:
    """Where p/|p| goes when |v| = rate * |p| and v/|v| is the classifier of the selected tokens, shape (d,).

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
    label, strict = _separated(sequences, selection), att_svm(sequences, selection)
    if strict.status is not MarginStatus.OPTIMAL:
        raise InvalidInputError(f"attention cannot separate the selected tokens. {strict.explain()}")
    inputs, chosen, others = strict.triples.T
    rows = (sequences.keys[inputs, chosen] - sequences.keys[inputs, others]).astype(np.float64)
    spare = rate * label.label_margin * np.where(label.support, 0.0, label.margins - 1.0)[inputs]

    def shortest(level: float) -> np.ndarray:
        return least_norm(rows, np.maximum(level - spare, 0.0)).p

    low, high = strict.margin, relaxed_solution(sequences, selection).margin
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.linalg.norm(shortest(middle)) <= 1.0 else (low, middle)
    best = shortest(low)
    return best / float(np.linalg.norm(best))


def _separated(sequences: EmbeddedSequences, selection: Selection) -> LabelSolution:
    solution = selected_label_svm(sequences, selection)
    if solution.status is not LabelStatus.OPTIMAL:
        raise InvalidInputError(
            f"the selected tokens have no support vectors: {solution.status.value}. Select tokens that a linear "
            "classifier separates by label, and see label_svm for the proof."
        )
    return solution
