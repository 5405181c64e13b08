"""Margin, neighbours and neighbour-optimality of any direction, max-margin or not [M, Def. 3]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._types import ArrayLike, TokenFlags
from tokenmargin.data import (
    LOGIT_TIE_TOLERANCE,
    EmbeddedSequences,
    Selection,
    score_tie_width,
    scores,
    secondary_selection,
    selection_of,
)
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class DirectionalMargin:
    """What a direction q selects, by how much, and over whom."""

    selection: Selection  #: tokens of largest k'q, ties included
    margin: float  #: Gamma_q, smallest k_selected'q - k_t'q over inputs and unselected tokens; inf if there are none
    neighbors: TokenFlags  #: M_q, the tokens that attain it, shape (n, T)
    is_neighbor_optimal: bool  #: every neighbour scores strictly less than the selected token of its input


def directional_margin(sequences: EmbeddedSequences, q: ArrayLike) -> DirectionalMargin:
    """Selected tokens (59), margin (60), directional neighbours (61) and neighbour-optimality of q [M, Def. 3].

    Tokens that tie for the highest logit are all selected (the definition allows any of them) and then compared with
    the mean of their scores; q need not be a unit vector, and the margin scales with it.
    """
    vector = sequences.direction(q, "q")
    length = float(np.linalg.norm(vector))
    if length == 0.0:
        raise InvalidInputError("q is the zero vector, which has no direction: give a non-zero vector.")
    selection = selection_of(sequences, vector)
    logits = sequences.logits(vector)
    gaps = np.where(selection.chosen | ~sequences.mask, np.inf, logits.max(axis=1, keepdims=True) - logits)
    margin = float(gaps.min())
    width = LOGIT_TIE_TOLERANCE * length * float(np.linalg.norm(sequences.keys, axis=-1).max())
    near = (gaps <= margin + width) & np.isfinite(gaps)
    gamma, chosen = scores(sequences), selection.chosen
    selected = np.where(chosen, gamma, 0.0).sum(axis=1) / chosen.sum(axis=1)
    i, t = np.nonzero(near)
    return DirectionalMargin(selection, margin, near, bool((selected[i] - gamma[i, t] > score_tie_width(gamma)).all()))


def is_locally_optimal_direction(sequences: EmbeddedSequences, p: ArrayLike) -> bool:
    """Whether in every input the selected tokens outscore those that come second [E, Def. 16].

    sum over s in S_X(p) of (gamma_s - gamma_j) > 0 for all j in S2_X(p) and all X, with S_X of [E, (8)] and S2_X of
    [E, Def. 15]. Unlike `DirectionalMargin.is_neighbor_optimal` it looks at every input, not only the closest.
    """
    first, second = selection_of(sequences, p).chosen, secondary_selection(sequences, p)
    gamma = scores(sequences)
    selected = np.where(first, gamma, 0.0).sum(axis=1) / first.sum(axis=1)
    i, j = np.nonzero(second)
    return bool((selected[i] - gamma[i, j] > score_tie_width(gamma)).all())
