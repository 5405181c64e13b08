"""Comparison of our method with others on the same corpus.

SHAP and LIME need the extra `compare`; a method that cannot run, or not in time, is a row that says so.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.comparison.comparing import compare_texts as compare_texts
    from tokenmargin.comparison.comparison import CompareSettings as CompareSettings
    from tokenmargin.comparison.comparison import Comparison as Comparison
    from tokenmargin.comparison.corpus_methods import CORPUS_METHODS as CORPUS_METHODS
    from tokenmargin.comparison.corpus_methods import Learnt as Learnt
    from tokenmargin.comparison.explained import Classifier as Classifier
    from tokenmargin.comparison.explained import ExplainedTexts as ExplainedTexts
    from tokenmargin.comparison.explained import explained_texts as explained_texts
    from tokenmargin.comparison.faithfulness import Faithfulness as Faithfulness
    from tokenmargin.comparison.faithfulness import faithfulness as faithfulness
    from tokenmargin.comparison.lime_explainer import lime_weights as lime_weights
    from tokenmargin.comparison.methods import METHODS as METHODS
    from tokenmargin.comparison.methods import Outcome as Outcome
    from tokenmargin.comparison.methods import run as run
    from tokenmargin.comparison.rank_overlap import over_a_corpus as over_a_corpus
    from tokenmargin.comparison.rank_overlap import rank_correlation as rank_correlation
    from tokenmargin.comparison.rank_overlap import top_overlap as top_overlap
    from tokenmargin.comparison.shap_explainers import kernel_values as kernel_values
    from tokenmargin.comparison.shap_explainers import linear_values as linear_values
    from tokenmargin.comparison.shap_explainers import permutation_values as permutation_values
    from tokenmargin.comparison.stability import over_resampled_texts as over_resampled_texts
    from tokenmargin.comparison.stability import over_seeds as over_seeds
    from tokenmargin.comparison.text_methods import TEXT_METHODS as TEXT_METHODS
    from tokenmargin.comparison.text_methods import Knowledge as Knowledge
    from tokenmargin.comparison.verdicts import not_run as not_run
    from tokenmargin.comparison.verdicts import where_it_is_a_tie as where_it_is_a_tie
    from tokenmargin.comparison.verdicts import where_ours_loses as where_ours_loses
    from tokenmargin.comparison.verdicts import where_ours_wins as where_ours_wins


found_on_demand(__name__, __file__)
