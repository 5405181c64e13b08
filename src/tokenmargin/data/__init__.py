"""Data sets: counted texts, sequences of embedded tokens, token scores, token graphs, and selections of tokens."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.data.cross_sequences import CrossSequences
    from tokenmargin.data.next_tokens import NextTokens, causal_rows
    from tokenmargin.data.scores import SCORE_TIE_TOLERANCE, optimal_selection, score_tie_widths, scores, tie_widths
    from tokenmargin.data.selection import LOGIT_TIE_TOLERANCE, Selection, secondary_selection, selection_of
    from tokenmargin.data.sequences import EmbeddedSequences
    from tokenmargin.data.statistics import TokenClass, TokenStatistics, signed_frequency, token_statistics
    from tokenmargin.data.synthetic import Assumption4, KLevel, assumption4, k_level, single_relevant
    from tokenmargin.data.token_graph import Relation, TokenGraph
    from tokenmargin.data.token_selection import CorpusSelection, corpus_selection
    from tokenmargin.data.tokens import TokenDataset

__all__ = [
    "LOGIT_TIE_TOLERANCE",
    "SCORE_TIE_TOLERANCE",
    "Assumption4",
    "CorpusSelection",
    "CrossSequences",
    "EmbeddedSequences",
    "KLevel",
    "NextTokens",
    "Relation",
    "Selection",
    "TokenClass",
    "TokenDataset",
    "TokenGraph",
    "TokenStatistics",
    "assumption4",
    "causal_rows",
    "corpus_selection",
    "k_level",
    "optimal_selection",
    "score_tie_widths",
    "scores",
    "secondary_selection",
    "selection_of",
    "signed_frequency",
    "single_relevant",
    "tie_widths",
    "token_statistics",
]

found_on_demand(__name__, __file__)
