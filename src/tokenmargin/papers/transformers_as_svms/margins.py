"""Margins of a matrix W over the tokens that it selects, in any norm, beside the largest one that a solver finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin.data import CrossSequences, Selection, score_tie_widths, scores
from tokenmargin.margin import MarginSolution, Status, att_svm
from tokenmargin.norms import Norm, as_norm


def most_attended(data: CrossSequences, W: np.ndarray) -> Selection:
    """The token of the largest logit in each input."""
    logits = np.where(data.mask, data.keys @ W.ravel(), -np.inf)
    return Selection.from_indices(logits.argmax(axis=1), data.n_places)


def least_gap(data: CrossSequences, selection: Selection, W: np.ndarray) -> float:
    """The least difference of logits between a selected token and another of its input."""
    logits = data.keys @ W.ravel()
    lowest = np.where(selection.chosen, logits, np.inf).min(axis=1)
    highest = np.where(data.mask & ~selection.chosen, logits, -np.inf).max(axis=1)
    return float((lowest - highest).min())


def has_tied_rival(data: CrossSequences, selection: Selection) -> bool:
    """True if another token of an input has the score of a selected one: the loss does not ask the two apart."""
    gamma = np.where(data.mask, scores(data), np.nan)
    chosen = np.where(selection.chosen, gamma, -np.inf).max(axis=1, keepdims=True)
    near = np.abs(gamma - chosen) <= score_tie_widths(data)[:, None]
    return bool((near & ~selection.chosen & data.mask).any())


@dataclass(frozen=True, eq=False)
class Beside:
    """A matrix beside the max-margin problem of the tokens that it attends to most."""

    solution: MarginSolution
    ratio: float  #: margin of W over the largest one; NaN where there is none
    cosine: float  #: between W and the solution; NaN where there is none, to be read where the solution is unique


def beside(data: CrossSequences, W: np.ndarray, norm: Norm | str, selection: Selection | None = None) -> Beside:
    """Compare W with the largest margin in a norm, of the tokens of its largest logits unless others are named."""
    chosen = most_attended(data, W) if selection is None else selection
    solution = att_svm(data, chosen, norm=norm)
    size = float(as_norm(norm).value(W))
    if solution.status is not Status.OPTIMAL or not size > 0:
        return Beside(solution, float("nan"), float("nan"))
    best = solution.matrix
    cosine = float((W * best).sum() / (np.linalg.norm(W) * np.linalg.norm(best)))
    return Beside(solution, least_gap(data, chosen, W) / size * solution.value, cosine)
