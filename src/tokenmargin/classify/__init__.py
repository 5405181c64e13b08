"""A classifier of labelled texts that is its own explanation, and a table of the tokens that decide.

Names are found when they are asked for: `load`, and what it gives, need NumPy alone; `AttentionClassifier` needs the
extra `sklearn`, and what reads texts the extra `fit`.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.classify.classifier import AttentionClassifier
    from tokenmargin.classify.embedding_fit import fit_embeddings
    from tokenmargin.classify.evaluation import Evaluation, evaluate
    from tokenmargin.classify.export import Form, export
    from tokenmargin.classify.features import Candidates, Features
    from tokenmargin.classify.fit_folder import write_fit
    from tokenmargin.classify.fit_settings import FitSettings, LabelledCorpus, Origin
    from tokenmargin.classify.fitting import fit_texts
    from tokenmargin.classify.fitting_parts import fit_parts
    from tokenmargin.classify.judging import FittedTexts
    from tokenmargin.classify.prior import Prior
    from tokenmargin.classify.saved_model import load, save
    from tokenmargin.classify.text_model import Explanation, TextModel, Unit
    from tokenmargin.classify.token_definitions import DEFINITIONS
    from tokenmargin.classify.token_fit import Fitted, fit_tokens
    from tokenmargin.classify.token_model import Contributions, TokenModel
    from tokenmargin.classify.token_table import TokenTable, deciding_tokens

__all__ = [
    "DEFINITIONS",
    "AttentionClassifier",
    "Candidates",
    "Contributions",
    "Evaluation",
    "Explanation",
    "Features",
    "FitSettings",
    "Fitted",
    "FittedTexts",
    "Form",
    "LabelledCorpus",
    "Origin",
    "Prior",
    "TextModel",
    "TokenModel",
    "TokenTable",
    "Unit",
    "deciding_tokens",
    "evaluate",
    "export",
    "fit_embeddings",
    "fit_parts",
    "fit_texts",
    "fit_tokens",
    "load",
    "save",
    "write_fit",
]

found_on_demand(__name__, __file__)
