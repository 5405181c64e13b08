"""Margin, neighbours and neighbour-optimality of any direction, max-margin or not [M, Def. 3]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._isometry import length, lengths, power_of_two
from tokenmargin._notebook import Told
from tokenmargin._types import ArrayLike, TokenFlags
from tokenmargin.data import (
    LOGIT_TIE_TOLERANCE,
    EmbeddedSequences,
    Selection,
    secondary_selection,
    selection_of,
)
from tokenmargin.data.scores import scores_in_units
from tokenmargin.data.selection import keys_behind_the_first
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin.margin_solution import TIGHT_ROUNDING


@dataclass(frozen=True, eq=False, repr=False)
class DirectionalMargin(Told):
    """Tokens that a direction q selects, their margin, and the tokens that come closest to them."""

    selection: Selection  #: tokens of largest k'q, ties included
    margin: float  #: Gamma_q, smallest k_selected'q - k_t'q over inputs and unselected tokens; inf if there are none
    neighbors: TokenFlags  #: M_q, the tokens that attain it, shape (n, T)
    is_neighbor_optimal: bool  #: every neighbour scores strictly less than the selected token of its input


@checked
def directional_margin(sequences: EmbeddedSequences, q: ArrayLike) -> DirectionalMargin:
    """Selected tokens (59), margin (60), directional neighbours (61) and neighbour-optimality of q [M, Def. 3].

    Tokens that tie for the highest logit are all selected (the definition allows any of them) and then compared with
    the mean of their scores; q need not be a unit vector, and the margin scales with it.
    """
    vector = sequences.direction(q, "q").astype(np.float64)
    if not vector.any():
        raise InvalidInputError("q is the zero vector, which has no direction: give a non-zero vector.")
    selection = selection_of(sequences, vector)
    # Differences in units of |q| and of a power of two near the longest: no product over- or underflows.
    behind, whole = keys_behind_the_first(sequences, vector)
    unit = float(power_of_two(np.abs(behind).max()))
    behind /= unit
    gaps = np.where(selection.chosen | ~sequences.mask, np.inf, behind @ (vector / length(vector)))
    narrowest = float(gaps.min())
    level = np.maximum(LOGIT_TIE_TOLERANCE * narrowest, TIGHT_ROUNDING * lengths(behind))
    near = (gaps <= narrowest + level) & np.isfinite(gaps)
    margin = narrowest * unit * whole * length(vector)
    gamma, widths, _ = scores_in_units(sequences)
    chosen = selection.chosen
    selected = np.where(chosen, gamma, 0.0).sum(axis=1) / chosen.sum(axis=1)
    i, t = np.nonzero(near)
    return DirectionalMargin(selection, margin, near, bool((selected[i] - gamma[i, t] > widths[i]).all()))


@checked
def is_locally_optimal_direction(sequences: EmbeddedSequences, p: ArrayLike) -> bool:
    """True if in every input the selected tokens outscore those that come second [E, Def. 16].

    sum over s in S_X(p) of (gamma_s - gamma_j) > 0 for all j in S2_X(p) and all X, with S_X of [E, (8)] and S2_X of
    [E, Def. 15]. Unlike `DirectionalMargin.is_neighbor_optimal` it looks at every input, not only the closest.
    """
    first, second = selection_of(sequences, p).chosen, secondary_selection(sequences, p)
    gamma, widths, _ = scores_in_units(sequences)
    selected = np.where(first, gamma, 0.0).sum(axis=1) / first.sum(axis=1)
    i, j = np.nonzero(second)
    return bool((selected[i] - gamma[i, j] > widths[i]).all())
