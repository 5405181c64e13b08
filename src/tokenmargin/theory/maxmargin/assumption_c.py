"""Assumption C: mixing other tokens into the selected ones shrinks the label margin, at a rate nu > 0 [M, Sec. 3.1].

    for all p:   label margin of the attended tokens   <=   Gamma - nu max_i (1 - s_{i alpha_i})

It quantifies over every p, yet both answers have finite proofs.

*It holds with nu.* By weak duality the label margin of any features r is at most F(r) = |sum_i w_i Y_i r_i| for any
weights w >= 0 with sum 1, and for weights that are optimal for the selected tokens F(x_alpha) = Gamma. F is convex in
the attention. With q = 1 - s_{j alpha_j} the largest of its kind the attention is (1 - q) alpha + q s', where input j
of s' has no weight on its selected token, so F <= (1 - q) Gamma + q max F(s'), and the maximum is at a choice of one
token per input, another than alpha_j in input j. Hence nu = Gamma - (the largest over j of that maximum), if positive;
w may depend on j. (The paper's example, x_i1 = Y_i a and all other tokens shorter than a, is the case w = e_j.)

*It fails for every nu.* Either one p mixes other tokens and has a label margin of Gamma or more; or on a ray R u the
inputs that are no support vectors saturate slower than all others, so that the margin lost, at most of order
exp(-R min gap of support vectors), is ever smaller beside max_i (1 - s) of order exp(-R min gap of the rest).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._types import ArrayLike, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import LabelSolution, Status, label_svm, selected_label_svm
from tokenmargin.theory.claim import Applies

#: Most choices of one token per input that are compared; beyond it the triangle inequality bounds them all at once.
MAX_CHOICES = 1 << 16

#: A bound nu below this times Gamma is rounding, not a proof; neither is a margin that exceeds Gamma by less.
ROUNDING = 1e-9

#: Gap, in units of the smallest one of the support vectors, that a ray keeps for the other inputs: any number in (0, 1)
#: proves the same.
_SLOW_GAP = 0.25


@dataclass(frozen=True, eq=False)
class AssumptionC:
    """Whether Assumption C holds for a selection, with the proof."""

    applies: Applies
    because: str  #: one sentence
    label_margin: float  #: Gamma; 0 if the selected tokens cannot be separated by label
    nu: float  #: a valid nu when it holds, else NaN
    violation: Vector | None = None  #: a p, or the direction of a ray, that refutes it, shape (d,)


@checked
def assumption_c(sequences: EmbeddedSequences, selection: Selection, trial_points: ArrayLike = ()) -> AssumptionC:
    """Decide Assumption C for a selection, or say that it was not decided [M, Assumption C].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        selection: one token per input.
        trial_points: points p, shape (s, d), that are tried as counterexamples besides those found here.
    """
    label = selected_label_svm(sequences, selection)
    if label.status is Status.INFEASIBLE:
        return AssumptionC(Applies.NO, "No classifier separates the selected tokens by label.", 0.0, float("nan"))
    if label.status is Status.UNDECIDED:
        return AssumptionC(Applies.NOT_DECIDED, "(SVM) of the selected tokens is undecided.", 0.0, float("nan"))
    refuted = _refuted_at_points(sequences, selection, label, _points(sequences, trial_points))
    refuted = refuted or _refuted_on_a_ray(sequences, selection, label)
    if refuted is not None:
        return refuted
    return _proved(sequences, selection, label)


@checked
def on_support(sequences: EmbeddedSequences, selection: Selection) -> tuple[EmbeddedSequences, Selection]:
    """The inputs whose selected token is a support vector of (SVM), alone: where [M, Thm 6] asks Assumption C."""
    label = selected_label_svm(sequences, selection)
    if label.status is not Status.OPTIMAL:
        raise InvalidInputError(f"no support vectors. {label.explain()} Select tokens separable by label.")
    kept = label.support
    fewer = EmbeddedSequences(
        sequences.tokens[kept], sequences.labels[kept], sequences.head, sequences.keys[kept], sequences.mask[kept]
    )
    return fewer, Selection(selection.chosen[kept])


def _proved(sequences: EmbeddedSequences, selection: Selection, label: LabelSolution) -> AssumptionC:
    gamma, n = label.label_margin, sequences.n_inputs
    alpha = selection.indices
    signed = sequences.labels[:, None] * sequences.tokens[np.arange(n), alpha].astype(float)
    spread = _optimal_weights(signed, label, label.support)
    worst = -np.inf
    for j in np.flatnonzero(sequences.mask.sum(axis=1) > 1).tolist():
        candidates = [spread, _optimal_weights(signed, label, np.arange(n) == j)] if label.support[j] else [spread]
        worst = max(worst, min(_largest_mixture(sequences, alpha, j, weights) for weights in candidates))
    nu = gamma - worst
    if nu > ROUNDING * gamma:
        because = f"Every other choice of tokens has a label margin of at most Gamma - nu, nu = {nu:.4g}."
        return AssumptionC(Applies.YES, because, gamma, nu)
    because = "The bound by weak duality proves no nu > 0, and no counterexample was found."
    return AssumptionC(Applies.NOT_DECIDED, because, gamma, float("nan"))


def _optimal_weights(signed: np.ndarray, label: LabelSolution, favoured: np.ndarray) -> np.ndarray:
    """Optimal weights of (SVM), sum 1, whose smallest entry on the favoured inputs is as large as possible.

    A linear program: the weights are not unique where more inputs than needed are support vectors, and one that is
    zero on an input proves nothing about it.
    """
    from scipy.optimize import linprog

    n, known = len(signed), label.duals / label.duals.sum()
    floor = np.hstack([-np.eye(n)[favoured], np.ones((int(favoured.sum()), 1))])  # t - w_i <= 0
    equal = np.hstack([np.vstack([signed.T, np.ones(n)]), np.zeros((signed.shape[1] + 1, 1))])
    bounds = [(0.0, None if flag else 0.0) for flag in label.support] + [(0.0, None)]
    target = np.append(known @ signed, 1.0)
    found = linprog(np.append(np.zeros(n), -1.0), floor, np.zeros(len(floor)), equal, target, bounds)
    if found.x is None:
        return known
    weights = np.maximum(found.x[:n], 0.0)
    weights = weights / weights.sum()
    optimal = float(np.linalg.norm(weights @ signed)) <= label.label_margin * (1 + ROUNDING)
    return np.asarray(weights if optimal else known)


def _largest_mixture(sequences: EmbeddedSequences, alpha: np.ndarray, j: int, weights: np.ndarray) -> float:
    """The largest |sum_i w_i Y_i x_{i t_i}| over choices with t_j other than alpha_j; a bound of it if too many."""
    n = sequences.n_inputs
    pulls = (weights * sequences.labels)[:, None, None] * sequences.tokens
    allowed = sequences.mask.copy()
    allowed[j, alpha[j]] = False
    # Inputs without weight pull nothing: one of their tokens stands for all.
    present = [np.flatnonzero(row)[: None if weights[i] > 0 else 1].tolist() for i, row in enumerate(allowed)]
    if np.prod([float(len(tokens)) for tokens in present]) > MAX_CHOICES:
        return float(np.where(allowed, np.linalg.norm(pulls, axis=2), 0.0).max(axis=1).sum())
    choices = np.array(list(product(*present)))
    return float(np.linalg.norm(pulls[np.arange(n), choices].sum(axis=1), axis=1).max())


def _points(sequences: EmbeddedSequences, trial_points: ArrayLike) -> np.ndarray:
    """The caller's points and the keys themselves, short and long: each prefers other tokens."""
    none = isinstance(trial_points, tuple | list) and not trial_points
    given = np.zeros((0, sequences.width)) if none else real_array(trial_points, "trial_points", "(...,)")
    if given.size and (given.ndim != 2 or given.shape[1] != sequences.width):
        raise InvalidInputError(f"trial_points have shape {given.shape}: give shape (s, {sequences.width}).")
    keys = sequences.keys[sequences.mask].astype(float)
    keys = keys[:: max(1, len(keys) // 32)]
    return np.concatenate([given.reshape(-1, sequences.width), *(scale * keys for scale in (-3.0, 0.0, 1.0, 10.0))])


def _refuted_at_points(
    sequences: EmbeddedSequences, selection: Selection, label: LabelSolution, points: np.ndarray
) -> AssumptionC | None:
    for p in points:
        attention = sequences.attention(p)
        mixed = 1.0 - attention[selection.chosen].min()
        margin = label_svm(np.einsum("nt,ntk->nk", attention, sequences.tokens), sequences.labels).label_margin
        if mixed > ROUNDING and margin >= label.label_margin * (1 + ROUNDING):
            because = (
                f"At p = {np.round(p, 4)} other tokens are mixed in and the label margin is {margin:.6g} >= Gamma."
            )
            return AssumptionC(Applies.NO, because, label.label_margin, float("nan"), violation=p)
    return None


def _refuted_on_a_ray(sequences: EmbeddedSequences, selection: Selection, label: LabelSolution) -> AssumptionC | None:
    """A linear program for each token of an input that is no support vector: how slowly can it be left behind?"""
    from scipy.optimize import linprog

    inputs, others = np.nonzero(sequences.mask & ~selection.chosen)
    keys = sequences.keys.astype(float)
    differences = keys[inputs, selection.indices[inputs]] - keys[inputs, others]
    supporting = label.support[inputs]
    if supporting.all() or not supporting.any():
        return None
    asked = np.where(supporting, 1.0, _SLOW_GAP)
    for row in np.flatnonzero(~supporting).tolist():
        found = linprog(differences[row], -differences, -asked, bounds=(None, None))
        if found.x is None:
            continue
        gaps = differences @ found.x
        if gaps.min() > 0 and gaps[row] < (1 - ROUNDING) * gaps[supporting].min():
            because = (
                f"Input {inputs[row]} is no support vector of (SVM), and along p = R * {np.round(found.x, 4)} its "
                "mixing outlasts that of the support vectors, which alone costs margin."
            )
            return AssumptionC(Applies.NO, because, label.label_margin, float("nan"), violation=found.x)
    return None
