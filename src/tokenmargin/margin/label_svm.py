"""(SVM): the max-margin classifier of one feature per input [M, Sec. 3].

Trained together with p, the head v becomes the max-margin classifier of the selected tokens. What it leaves for
attention to separate is in `relaxed.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tokenmargin._checks import array_of, checked
from tokenmargin._types import ArrayLike, HeadVector, InputFlags, Labels
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.margin.least_norm_solution import LeastNormSolution, as_solution
from tokenmargin.margin.solution import Status

#: An input is a support vector when its label margin Y_i v'r_i exceeds 1 by no more than this. An active-set solution
#: meets a tight constraint to 1e-15; a label margin this close to 1 is spare to no training run of |v| < 1e8.
SUPPORT_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LabelSolution(LeastNormSolution):
    """Solution of [M, (SVM)]: v of least norm with Y_i v'r_i >= 1, or weights that prove there is none.

    Its rows are Y_i r_i. `duals` are one choice among several where more inputs than needed are support vectors: ask
    `support`, not them.
    """

    margins: Labels = field(repr=False)  #: Y_i v'r_i, shape (n,)

    @property
    def v(self) -> HeadVector:
        """v_mm, the vector of this problem by its letter, shape (k,); NaN when infeasible."""
        return self.p

    @property
    def label_margin(self) -> float:
        """Gamma = 1/|v|, the margin of this problem by its name; 0 when infeasible, NaN when undecided."""
        return self.margin

    @property
    def support(self) -> InputFlags:
        """Inputs whose label margin is 1 within `SUPPORT_TOLERANCE`, shape (n,): the set S of [M, Sec. 3.2]."""
        return np.asarray(self.margins <= 1.0 + SUPPORT_TOLERANCE)

    def explain(self) -> str:
        """One sentence."""
        if self.status is Status.INFEASIBLE:
            return "No classifier through the origin separates the features by their labels."
        if self.status is not Status.OPTIMAL:
            return self._explain_undecided()
        spare = np.flatnonzero(~self.support)
        rest = f"inputs {spare.tolist()} have margin to spare" if len(spare) else "every input is a support vector"
        return f"The features are separated by their labels with margin {self.label_margin:.6g}; {rest}."


def label_svm(features: ArrayLike, labels: ArrayLike) -> LabelSolution:
    """The shortest v with Y_i v'r_i >= 1 for every input: hard-margin SVM without bias [M, (SVM)].

    Args:
        features: r, shape (n, k), one feature per input.
        labels: Y, shape (n,), each -1 or +1 (0/1 and booleans are read as -1/+1).
    """
    rows, signs = array_of(features, "features", "numbers"), array_of(labels, "labels", "-1 and +1")
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"features are {rows.dtype} of shape {rows.shape}: give real numbers of shape (n, k), one row per input."
        )
    # EmbeddedSequences holds the one reading of labels and of what is finite: one-token inputs with these features.
    checked = EmbeddedSequences(rows[:, None, :], signs, np.zeros(rows.shape[1]))
    signed = checked.labels[:, None] * checked.tokens[:, 0].astype(np.float64)
    answer = least_norm(signed, np.ones(len(signed)))
    margins = signed @ answer.p if answer.known_slacks is None else 1.0 + answer.known_slacks
    return as_solution(LabelSolution, answer, margins=margins)


@checked
def selected_label_svm(sequences: EmbeddedSequences, selection: Selection | ArrayLike) -> LabelSolution:
    """(SVM) on the selected tokens, r_i = x_{i alpha_i} [M, Sec. 3.1].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        selection: one token per input.
    """
    chosen = Selection.of(selection, sequences)
    chosen.check_fits(sequences)
    return label_svm(sequences.tokens[np.arange(sequences.n_inputs), chosen.indices], sequences.labels)
