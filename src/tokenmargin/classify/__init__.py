"""For people with labelled texts: a classifier that is its own explanation, and which tokens decide.

`AttentionClassifier` needs the extra `sklearn` and is imported on first use; what reads texts needs the extra `fit`.
"""

from typing import TYPE_CHECKING, Any

from tokenmargin.classify.deciding_tokens import DEFINITIONS, TokenTable, deciding_tokens
from tokenmargin.classify.fit_embeddings import fit_embeddings
from tokenmargin.classify.fit_tokens import Fitted, fit_tokens
from tokenmargin.classify.token_model import Contributions, TokenModel

if TYPE_CHECKING:
    from tokenmargin.classify.classifier import AttentionClassifier
    from tokenmargin.classify.evaluation import Evaluation, evaluate
    from tokenmargin.classify.fit_folder import write_fit
    from tokenmargin.classify.fitting import FitSettings, FittedTexts, LabelledCorpus, fit_texts
    from tokenmargin.classify.fitting_parts import fit_parts
    from tokenmargin.classify.saved_model import load, save
    from tokenmargin.classify.text_model import Explanation, TextModel

__all__ = [
    "DEFINITIONS",
    "AttentionClassifier",
    "Contributions",
    "Evaluation",
    "Explanation",
    "FitSettings",
    "Fitted",
    "FittedTexts",
    "LabelledCorpus",
    "TextModel",
    "TokenModel",
    "TokenTable",
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


def __getattr__(name: str) -> Any:
    """What brings packages that the core does without, or takes long to import."""
    if name == "AttentionClassifier":
        from tokenmargin.classify.classifier import AttentionClassifier

        return AttentionClassifier
    if name not in __all__:
        raise AttributeError(f"module 'tokenmargin.classify' has no attribute {name!r}")
    from tokenmargin.classify import evaluation, fit_folder, fitting, fitting_parts, saved_model, text_model

    homes = (text_model, saved_model, fitting, fitting_parts, fit_folder, evaluation)
    return next(getattr(home, name) for home in homes if hasattr(home, name))
