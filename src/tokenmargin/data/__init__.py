"""Data sets: counted texts, sequences of embedded tokens, token scores, token graphs, and selections of tokens."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.data.cross_sequences import CrossSequences as CrossSequences
    from tokenmargin.data.next_tokens import NextTokens as NextTokens
    from tokenmargin.data.next_tokens import causal_rows as causal_rows
    from tokenmargin.data.scores import SCORE_TIE_TOLERANCE as SCORE_TIE_TOLERANCE
    from tokenmargin.data.scores import optimal_selection as optimal_selection
    from tokenmargin.data.scores import score_tie_widths as score_tie_widths
    from tokenmargin.data.scores import scores as scores
    from tokenmargin.data.scores import tie_widths as tie_widths
    from tokenmargin.data.selection import LOGIT_TIE_TOLERANCE as LOGIT_TIE_TOLERANCE
    from tokenmargin.data.selection import Selection as Selection
    from tokenmargin.data.selection import secondary_selection as secondary_selection
    from tokenmargin.data.selection import selection_of as selection_of
    from tokenmargin.data.sequences import EmbeddedSequences as EmbeddedSequences
    from tokenmargin.data.statistics import TokenClass as TokenClass
    from tokenmargin.data.statistics import TokenStatistics as TokenStatistics
    from tokenmargin.data.statistics import signed_frequency as signed_frequency
    from tokenmargin.data.statistics import token_statistics as token_statistics
    from tokenmargin.data.synthetic import Assumption4 as Assumption4
    from tokenmargin.data.synthetic import KLevel as KLevel
    from tokenmargin.data.synthetic import assumption4 as assumption4
    from tokenmargin.data.synthetic import k_level as k_level
    from tokenmargin.data.synthetic import single_relevant as single_relevant
    from tokenmargin.data.token_graph import Relation as Relation
    from tokenmargin.data.token_graph import TokenGraph as TokenGraph
    from tokenmargin.data.token_selection import CorpusSelection as CorpusSelection
    from tokenmargin.data.token_selection import corpus_selection as corpus_selection
    from tokenmargin.data.tokens import TokenDataset as TokenDataset


found_on_demand(__name__, __file__)
