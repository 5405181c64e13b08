"""Comparison of our method with others on the same corpus.

SHAP and LIME need the extra `compare`; a method that cannot run, or not in time, is a row that says so.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.comparison.comparing import compare_texts
    from tokenmargin.comparison.comparison import CompareSettings, Comparison
    from tokenmargin.comparison.corpus_methods import CORPUS_METHODS, Learnt
    from tokenmargin.comparison.explained import Classifier, ExplainedTexts, explained_texts
    from tokenmargin.comparison.faithfulness import Faithfulness, faithfulness
    from tokenmargin.comparison.lime_explainer import lime_weights
    from tokenmargin.comparison.methods import METHODS, Outcome, run
    from tokenmargin.comparison.rank_overlap import over_a_corpus, rank_correlation, top_overlap
    from tokenmargin.comparison.shap_explainers import kernel_values, linear_values, permutation_values
    from tokenmargin.comparison.stability import over_resampled_texts, over_seeds
    from tokenmargin.comparison.text_methods import TEXT_METHODS, Knowledge
    from tokenmargin.comparison.verdicts import not_run, where_it_is_a_tie, where_ours_loses, where_ours_wins

__all__ = [
    "CORPUS_METHODS",
    "METHODS",
    "TEXT_METHODS",
    "Classifier",
    "CompareSettings",
    "Comparison",
    "ExplainedTexts",
    "Faithfulness",
    "Knowledge",
    "Learnt",
    "Outcome",
    "compare_texts",
    "explained_texts",
    "faithfulness",
    "kernel_values",
    "lime_weights",
    "linear_values",
    "not_run",
    "over_a_corpus",
    "over_resampled_texts",
    "over_seeds",
    "permutation_values",
    "rank_correlation",
    "run",
    "top_overlap",
    "where_it_is_a_tie",
    "where_ours_loses",
    "where_ours_wins",
]

found_on_demand(__name__, __file__)
