"""For people with labelled texts: a classifier that is its own explanation, and which tokens decide.

`AttentionClassifier` needs the extra `sklearn` and is imported on first use; so is all that reads texts, of the extra `fit`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tokenmargin.explain.deciding_tokens import DEFINITIONS, TokenTable, deciding_tokens
from tokenmargin.explain.fit_embeddings import fit_embeddings
from tokenmargin.explain.fit_tokens import Fitted, fit_tokens
from tokenmargin.explain.token_model import Contributions, TokenModel

if TYPE_CHECKING:
    from tokenmargin.explain.classifier import AttentionClassifier
    from tokenmargin.explain.fitting import FitSettings, FittedTexts, LabelledCorpus, fit_texts
    from tokenmargin.explain.saved_model import load, save
    from tokenmargin.explain.text_model import Explanation, TextModel

#: Where what is imported on first use stands.
_ON_FIRST_USE = {
    "AttentionClassifier": "classifier",
    "Explanation": "text_model",
    "FitSettings": "fitting",
    "FittedTexts": "fitting",
    "LabelledCorpus": "fitting",
    "TextModel": "text_model",
    "fit_texts": "fitting",
    "load": "saved_model",
    "save": "saved_model",
}

__all__ = [
    "DEFINITIONS",
    "AttentionClassifier",
    "Contributions",
    "Explanation",
    "FitSettings",
    "Fitted",
    "FittedTexts",
    "LabelledCorpus",
    "TextModel",
    "TokenModel",
    "TokenTable",
    "deciding_tokens",
    "fit_embeddings",
    "fit_texts",
    "fit_tokens",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    """What brings packages that the core does without."""
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'tokenmargin.explain' has no attribute {name!r}")
    return getattr(import_module(f"tokenmargin.explain.{_ON_FIRST_USE[name]}"), name)
