"""For people with labelled texts: a classifier that is its own explanation, and which tokens decide."""

from tokenmargin.explain.deciding_tokens import DEFINITIONS, TokenTable, deciding_tokens
from tokenmargin.explain.fit_tokens import Fitted, fit_tokens
from tokenmargin.explain.fitting import FitSettings, FittedTexts, LabelledCorpus, fit_texts
from tokenmargin.explain.saved_model import load, save
from tokenmargin.explain.text_model import Explanation, TextModel
from tokenmargin.explain.token_model import TokenModel

__all__ = [
    "DEFINITIONS",
    "Explanation",
    "FitSettings",
    "Fitted",
    "FittedTexts",
    "LabelledCorpus",
    "TextModel",
    "TokenModel",
    "TokenTable",
    "deciding_tokens",
    "fit_texts",
    "fit_tokens",
    "load",
    "save",
]
