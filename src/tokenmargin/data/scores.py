"""Token scores: how good it is to select a token, and which are best [M, Def. 1]."""

from __future__ import annotations

import numpy as np

from tokenmargin._types import InputNumbers, TokenNumbers
from tokenmargin.data.selection import Selection
from tokenmargin.data.sequences import EmbeddedSequences

#: Scores of an input closer than this, relative to the largest of its scores in modulus, are one score: a score is a
#: dot product and carries a rounding error of a few ulp times the width. Each input has a scale of its own: what the
#: scores of another are must not make ties here.
SCORE_TIE_TOLERANCE = 1e-12


def scores(sequences: EmbeddedSequences) -> TokenNumbers:
    """Score of each token, shape (n, T): gamma_it = Y_i v'x_it [M, Def. 1]. Masked tokens score -inf."""
    gamma = sequences.labels[:, None] * (sequences.tokens @ sequences.head)
    return np.where(sequences.mask, gamma, -np.inf)


def score_tie_widths(sequences: EmbeddedSequences) -> InputNumbers:
    """Scores of input i within this distance of each other are ties, shape (n,).

    `SCORE_TIE_TOLERANCE` times the largest sum_k |v_k x_itk|, which is |gamma_it| unless terms cancel: rounding is
    relative to the terms.
    """
    return tie_widths(np.abs(sequences.tokens) @ np.abs(sequences.head))


def tie_widths(gamma: np.ndarray) -> np.ndarray:
    """Scores along the last axis within this distance are ties, (..., T) -> (...), where they are no dot products.

    `SCORE_TIE_TOLERANCE` times the largest modulus; infinite scores, of masked tokens, do not count.
    """
    return np.asarray(SCORE_TIE_TOLERANCE * np.where(np.isfinite(gamma), np.abs(gamma), 0.0).max(axis=-1))


def optimal_selection(sequences: EmbeddedSequences) -> Selection:
    """The tokens of highest score in each input, opt_i in argmax_t gamma_it [M, Def. 1].

    All of them where several tie: `Selection.tied_inputs` names those inputs. [M] leaves the choice among
    them open, so a caller who wants one token per input must look.
    """
    gamma = scores(sequences)
    return Selection(gamma >= (gamma.max(axis=1) - score_tie_widths(sequences))[:, None])
