"""Token scores: how good it is to select a token, and which are best [M, Def. 1]."""

from __future__ import annotations

import numpy as np

from tokenmargin._types import TokenNumbers
from tokenmargin.data.selection import Selection
from tokenmargin.data.sequences import EmbeddedSequences

#: Scores closer than this, relative to the largest score in modulus, are one score: a score is a dot product
#: and carries a rounding error of a few ulp times the width.
SCORE_TIE_TOLERANCE = 1e-12


def scores(sequences: EmbeddedSequences) -> TokenNumbers:
    """Score of each token, shape (n, T): gamma_it = Y_i v'x_it [M, Def. 1]. Masked tokens score -inf."""
    gamma = sequences.labels[:, None] * (sequences.tokens @ sequences.head)
    return np.where(sequences.mask, gamma, -np.inf)


def score_tie_width(gamma: TokenNumbers) -> float:
    """Scores within this distance of each other are ties: `SCORE_TIE_TOLERANCE` times the largest modulus."""
    finite = np.abs(gamma[np.isfinite(gamma)])
    return float(SCORE_TIE_TOLERANCE * finite.max()) if finite.size else 0.0


def optimal_selection(sequences: EmbeddedSequences) -> Selection:
    """The tokens of highest score in each input, opt_i in argmax_t gamma_it [M, Def. 1].

    All of them where several tie: `Selection.tied_inputs` names those inputs. [M] leaves the choice among
    them open, so a caller who wants one token per input must look.
    """
    gamma = scores(sequences)
    return Selection(gamma >= gamma.max(axis=1, keepdims=True) - score_tie_width(gamma))
