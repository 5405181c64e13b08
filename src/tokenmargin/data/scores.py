"""Token scores: how good it is to select a token, and which are best [M, Def. 1]."""

from __future__ import annotations

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._types import InputNumbers, TokenNumbers
from tokenmargin.data.selection import Selection
from tokenmargin.data.sequences import EmbeddedSequences
from tokenmargin.errors import InvalidInputError

#: Scores of an input closer than this, relative to the largest of its scores in modulus, are one score: a score is a
#: dot product and carries a rounding error of a few ulp times the width. Each input has a scale of its own: what the
#: scores of another are must not make ties here.
SCORE_TIE_TOLERANCE = 1e-12


@checked
def scores(sequences: EmbeddedSequences) -> TokenNumbers:
    """Score of each token, shape (n, T): gamma_it = Y_i v'x_it [M, Def. 1]. Masked tokens score -inf."""
    gamma = sequences.labels[:, None] * (sequences.tokens @ sequences.head)
    return np.where(sequences.mask, gamma, -np.inf)


@checked
def score_tie_widths(sequences: EmbeddedSequences) -> InputNumbers:
    """Scores of input i within this distance of each other are ties, shape (n,).

    `SCORE_TIE_TOLERANCE` times the largest sum_k |v_k x_itk|, which is |gamma_it| unless terms cancel: rounding is
    relative to the terms.
    """
    return tie_widths(np.abs(sequences.tokens) @ np.abs(sequences.head))


@checked
def tie_widths(gamma: np.ndarray) -> np.ndarray:
    """Scores along the last axis within this distance are ties, (..., T) -> (...), where they are no dot products.

    `SCORE_TIE_TOLERANCE` times the largest modulus; infinite scores, of masked tokens, do not count.
    """
    if gamma.dtype.kind not in "fiub" or gamma.ndim == 0 or gamma.shape[-1] == 0:
        raise InvalidInputError(f"scores are {gamma.dtype} of shape {gamma.shape}: give numbers of shape (..., T).")
    return np.asarray(SCORE_TIE_TOLERANCE * np.where(np.isfinite(gamma), np.abs(gamma), 0.0).max(axis=-1))


@checked
def optimal_selection(sequences: EmbeddedSequences) -> Selection:
    """The tokens of highest score in each input, opt_i in argmax_t gamma_it [M, Def. 1].

    All of them where several tie: `Selection.tied_inputs` names those inputs. [M] leaves the choice among
    them open, so a caller who wants one token per input must look.
    """
    gamma = scores(sequences)
    return Selection(gamma >= (gamma.max(axis=1) - score_tie_widths(sequences))[:, None])
