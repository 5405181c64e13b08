"""LIME on a text's tokens by the package lime (extra `compare`): a linear model of what leaving tokens out does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tokenmargin.errors import MissingExtraError


def lime_weights(f: Callable[[np.ndarray], np.ndarray], n_tokens: int, *, samples: int, seed: int) -> np.ndarray:
    """lime.LimeTextExplainer with its default kernel, shape (tokens,).

    LIME cuts strings into words by itself. It is given the numbers of the text's tokens for words, so that what it
    leaves out is exactly a token of the classifier, wherever stems, pieces or pairs of words came from.

    Args:
        f: function from masks (k, tokens) to probabilities of the predicted class, shape (k,).
        n_tokens: distinct tokens of the text.
        samples: perturbed texts.
        seed: seed of the perturbations.
    """
    package = _package()

    def probabilities(texts: list[str]) -> np.ndarray:
        masks = np.zeros((len(texts), n_tokens), dtype=bool)
        for row, text in enumerate(texts):
            masks[row, [int(word) for word in text.split()]] = True
        p = f(masks)
        return np.stack([1.0 - p, p], axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its regression, when a text has hardly a token
        explainer = package.LimeTextExplainer(split_expression=r"\s+", random_state=seed)
        told = explainer.explain_instance(
            " ".join(map(str, range(n_tokens))),
            probabilities,
            labels=(1,),
            num_features=n_tokens,
            num_samples=samples,
        )
    words = told.domain_mapper.indexed_string
    weights = np.zeros(n_tokens)
    for feature, weight in told.as_map()[1]:
        weights[int(words.word(feature))] = weight
    return weights


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import lime.lime_text as package
    except ImportError:
        raise MissingExtraError("LIME", "compare") from None
    return package
