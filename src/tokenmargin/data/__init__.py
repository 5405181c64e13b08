"""What we look at: sequences of tokens, their scores, and selections among them."""

from tokenmargin.data.scores import SCORE_TIE_TOLERANCE, optimal_selection, score_tie_width, scores
from tokenmargin.data.selection import LOGIT_TIE_TOLERANCE, Selection, secondary_selection, selection_of
from tokenmargin.data.sequences import EmbeddedSequences

__all__ = [
    "LOGIT_TIE_TOLERANCE",
    "SCORE_TIE_TOLERANCE",
    "EmbeddedSequences",
    "Selection",
    "optimal_selection",
    "score_tie_width",
    "scores",
    "secondary_selection",
    "selection_of",
]
