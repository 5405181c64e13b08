"""For people with labelled texts: a classifier that says of every document which words decided, and how much.

`AttentionClassifier` needs the extra `sklearn` and is imported on first use; the rest stands on NumPy, SciPy and JAX.
"""

from typing import Any

from tokenmargin.explain.fit_embeddings import fit_embeddings
from tokenmargin.explain.fit_tokens import Fitted, fit_tokens
from tokenmargin.explain.token_model import Contributions, TokenModel

__all__ = ["AttentionClassifier", "Contributions", "Fitted", "TokenModel", "fit_embeddings", "fit_tokens"]


def __getattr__(name: str) -> Any:
    """`AttentionClassifier`, which brings scikit-learn."""
    if name != "AttentionClassifier":
        raise AttributeError(f"module 'tokenmargin.explain' has no attribute {name!r}")
    from tokenmargin.explain.classifier import AttentionClassifier

    return AttentionClassifier
