"""Do two methods say the same? Rank correlations and shared tops, over a corpus and text by text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.stats import rankdata

#: A text with fewer distinct tokens has no order to speak of.
FEWEST_TOKENS = 3


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN where one of them is the same everywhere."""
    if len(one) < 2:
        return float("nan")
    a, b = (rankdata(numbers) - (len(numbers) + 1) / 2 for numbers in (one, other))
    size = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / size) if size > 0 else float("nan")


def top_overlap(one: np.ndarray, other: np.ndarray, k: int) -> float:
    """The share of the k largest of one that are among the k largest of the other."""
    k = min(k, len(one))
    tops = [set(np.argsort(-numbers, kind="stable")[:k].tolist()) for numbers in (one, other)]
    return len(tops[0] & tops[1]) / k if k else float("nan")


def over_a_corpus(sizes: dict[str, np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rank correlations and overlaps of the top k, for all pairs of methods, on the tokens that both know.

    Args:
        sizes: importance of each token to each method, shape (V,) each; NaN where a method does not know.
        k: number of leading tokens.
    """
    return _pairs(sizes, rank_correlation), _pairs(sizes, lambda one, other: top_overlap(one, other, k))


def _pairs(sizes: dict[str, np.ndarray], compare: object) -> np.ndarray:
    assert callable(compare)
    found = np.full((len(sizes), len(sizes)), np.nan)
    for i, one in enumerate(sizes.values()):
        for j, other in enumerate(sizes.values()):
            both = np.isfinite(one) & np.isfinite(other)
            found[i, j] = compare(one[both], other[both]) if i <= j else found[j, i]
    return found


def on_single_texts(numbers: dict[str, np.ndarray], indptr: np.ndarray) -> np.ndarray:
    """The mean over texts of the rank correlation of two methods' numbers within a text, for all pairs.

    Args:
        numbers: one number for each stored count of the texts, by method.
        indptr: first entry of each text.
    """
    texts = [slice(a, b) for a, b in pairwise(indptr.tolist()) if b - a >= FEWEST_TOKENS]
    # Centred ranks of unit length: a correlation is then a product, text by text.
    ranked = np.zeros((len(numbers), int(indptr[-1])))
    is_told = np.zeros((len(numbers), len(texts)), dtype=bool)
    for i, own in enumerate(numbers.values()):
        for t, text in enumerate(texts):
            ranks = rankdata(own[text]) - (text.stop - text.start + 1) / 2
            size = np.sqrt((ranks**2).sum())
            is_told[i, t] = size > 0
            ranked[i, text] = ranks / size if size > 0 else 0.0
    both = is_told.astype(np.float64) @ is_told.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ranked @ ranked.T) / both


def mean_size(numbers: np.ndarray, indices: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """The mean size of a method's numbers over the texts that hold a token, shape (V,); NaN where no text does."""
    held = np.bincount(indices, minlength=vocabulary_size)
    total = np.bincount(indices, weights=np.abs(numbers), minlength=vocabulary_size)
    with np.errstate(invalid="ignore"):
        return np.where(held > 0, total / np.maximum(held, 1), np.nan)
