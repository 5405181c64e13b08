"""For people with labelled texts: a classifier that is its own explanation, and which tokens decide.

Names are found when they are asked for: `load`, and what it gives, need NumPy alone; `AttentionClassifier` needs the
extra `sklearn`, and what reads texts the extra `fit`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenmargin.classify.classifier import AttentionClassifier
    from tokenmargin.classify.embedding_fit import fit_embeddings
    from tokenmargin.classify.evaluation import Evaluation, evaluate
    from tokenmargin.classify.features import Candidates, Features
    from tokenmargin.classify.fit_folder import write_fit
    from tokenmargin.classify.fit_settings import FitSettings, LabelledCorpus, Origin
    from tokenmargin.classify.fitting import fit_texts
    from tokenmargin.classify.fitting_parts import fit_parts
    from tokenmargin.classify.judging import FittedTexts
    from tokenmargin.classify.prior import Prior
    from tokenmargin.classify.saved_model import load, save
    from tokenmargin.classify.text_model import Explanation, TextModel, Unit
    from tokenmargin.classify.token_fit import Fitted, fit_tokens
    from tokenmargin.classify.token_model import Contributions, TokenModel
    from tokenmargin.classify.token_table import DEFINITIONS, TokenTable, deciding_tokens

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
    "LabelledCorpus",
    "Origin",
    "Prior",
    "TextModel",
    "TokenModel",
    "TokenTable",
    "Unit",
    "deciding_tokens",
    "evaluate",
    "fit_embeddings",
    "fit_parts",
    "fit_texts",
    "fit_tokens",
    "load",
    "save",
    "write_fit",
]

#: The module of each name.
_HOMES = {
    "AttentionClassifier": "classifier",
    "DEFINITIONS": "token_table",
    "TokenTable": "token_table",
    "deciding_tokens": "token_table",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "Candidates": "features",
    "Features": "features",
    "fit_embeddings": "embedding_fit",
    "write_fit": "fit_folder",
    "FitSettings": "fit_settings",
    "LabelledCorpus": "fit_settings",
    "Origin": "fit_settings",
    "Fitted": "token_fit",
    "fit_tokens": "token_fit",
    "fit_texts": "fitting",
    "fit_parts": "fitting_parts",
    "FittedTexts": "judging",
    "Prior": "prior",
    "load": "saved_model",
    "save": "saved_model",
    "Explanation": "text_model",
    "TextModel": "text_model",
    "Unit": "text_model",
    "Contributions": "token_model",
    "TokenModel": "token_model",
}


def __getattr__(name: str) -> Any:
    """Find a name where it lives, on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
