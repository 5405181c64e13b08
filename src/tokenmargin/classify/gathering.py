"""Deeds of tokens in texts: each by itself, or a word with the runs of characters that stand in it.

Of a model that reads runs of characters, "too" is spread over "too", "…oo" and others: nobody reads a table of those. A
word and its runs act together as one token would. With c_t the count of token t in a text, a_t its attention there and
g_wt how often t stands in the word w (itself once), the word has the attention c_w sum_t g_wt a_t / c_t.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify.token_model import TokenModel, checked_counts
from tokenmargin.errors import InvalidInputError

#: Tokens of words that are looked up at once; a matter of memory alone.
BLOCK = 1 << 21


class Deeds(NamedTuple):
    """Deeds of each token, or of each word with its runs, in each text; one entry a stored count."""

    counts: sp.csr_array  #: (n, V)
    attention: np.ndarray  #: (nnz,), share of the text's attention
    factor: np.ndarray  #: (nnz,), what the value is multiplied by there
    towards: np.ndarray  #: (nnz,), pull towards the class that the model predicts for the text
    score: np.ndarray  #: (V,)
    value: np.ndarray  #: (V, K')


def deeds(model: TokenModel, counts: sp.csr_array, predicted: np.ndarray, within: sp.csr_array | None) -> Deeds:
    """Deeds of words with their runs where `within` says which, else of each token by itself."""
    if within is None:
        return deeds_of_tokens(model, counts, predicted)
    return deeds_of_words(model, counts, predicted, within)


def deeds_of_tokens(model: TokenModel, counts: sp.csr_array, predicted: np.ndarray) -> Deeds:
    """Each token by itself."""
    attention = model.weights(counts.indptr, counts.indices, counts.data)
    lengths = np.diff(counts.indptr)
    factor = attention * np.repeat(np.sqrt(lengths), lengths) if model.root_length else attention
    value = _centred(model.value)
    towards = factor * _to_predicted(value, counts.indices, np.repeat(predicted, lengths))
    return Deeds(counts, attention, factor, towards, model.score, value)


def deeds_of_words(model: TokenModel, counts: sp.csr_array, predicted: np.ndarray, within: sp.csr_array) -> Deeds:
    """Words with their runs, and phrases; a run by itself where it stands in words that are no tokens.

    Args:
        model: scores and values of V tokens.
        counts: shape (n, V), sorted rows.
        predicted: the number of the class predicted for each text, shape (n,).
        within: shape (V, V), how often each token stands in each word or phrase, itself included; empty rows for runs.
    """
    alone = deeds_of_tokens(model, counts, predicted)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    is_word = np.diff(within.indptr)[counts.indices] > 0
    attention, towards, given = _of_words(alone, within, rows, is_word)
    # What is left of a run: its places in words that have no row.
    inside = sp.csr_array(counts @ within)
    left = np.where(is_word, 0.0, counts.data - _looked_up(inside, rows, counts.indices))
    share = left / counts.data
    times = np.where(is_word, counts.data, left)
    attention = np.where(is_word, attention, share * alone.attention)
    towards = np.where(is_word, towards, share * alone.towards)
    kept = times > 0
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=counts.shape[0]))])
    own = sp.csr_array((times[kept], counts.indices[kept], indptr), shape=counts.shape)
    root = np.sqrt(np.diff(counts.indptr))[rows[kept]] if model.root_length else 1.0
    score, value = _as_one(model, within, given)
    return Deeds(own, attention[kept], attention[kept] * root, towards[kept], score, value)


def _of_words(
    alone: Deeds, within: sp.csr_array, rows: np.ndarray, is_word: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Attention and pull of words with their runs, 0 elsewhere, (nnz,) each; sum of factors for each part of a word."""
    counts = alone.counts
    keys = rows.astype(np.int64) * counts.shape[1] + counts.indices
    attention, towards, given = np.zeros(counts.nnz), np.zeros(counts.nnz), np.zeros(within.nnz)
    words = np.flatnonzero(is_word)
    ends = np.cumsum(np.diff(within.indptr)[counts.indices[words]])
    cuts = np.unique([0, *np.searchsorted(ends, np.arange(BLOCK, ends[-1] if len(ends) else 0, BLOCK)), len(words)])
    for low, high in pairwise(cuts):
        some = words[low:high]
        own = counts.indices[some]
        lengths = np.diff(within.indptr)[own]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(within.indptr[own] - starts[:-1], lengths) + np.arange(starts[-1])
        wanted = np.repeat(rows[some].astype(np.int64), lengths) * counts.shape[1] + within.indices[places]
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        if not (keys[found] == wanted).all():
            raise InvalidInputError("counts lack a run of a word that they count: count with the model's own counter.")
        share = np.repeat(counts.data[some], lengths) * within.data[places] / counts.data[found]
        attention[some] = np.add.reduceat(share * alone.attention[found], starts[:-1])
        towards[some] = np.add.reduceat(share * alone.towards[found], starts[:-1])
        given += np.bincount(places, share * alone.factor[found], within.nnz)
    return attention, towards, given


def _looked_up(matrix: sp.csr_array, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Entries of a sparse matrix, 0 where none is stored."""
    matrix.sort_indices()
    held = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)).astype(np.int64) * matrix.shape[1]
    keys, wanted = held + matrix.indices, rows.astype(np.int64) * matrix.shape[1] + columns
    if not len(keys):
        return np.zeros(len(wanted))
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[found] == wanted, matrix.data[found], 0.0)


def _as_one(model: TokenModel, within: sp.csr_array, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score and value with which a word would do alone what it does with its runs, on average over its texts."""
    weighted = sp.csr_array((given, within.indices, within.indptr), shape=within.shape)
    total = np.asarray(weighted.sum(axis=1))
    sums = np.asarray(weighted @ _centred(model.value))
    value = np.divide(sums, total[:, None], out=_centred(model.value).copy(), where=total[:, None] > 0)
    loudness = np.asarray(within @ np.exp(model.score - model.score.max(initial=0.0)))
    with np.errstate(divide="ignore"):
        return np.where(loudness > 0, np.log(loudness) + model.score.max(initial=0.0), model.score), value


def _centred(value: np.ndarray) -> np.ndarray:
    """Values beside their mean over classes: what is added to all classes alike changes no probability."""
    return value if value.shape[1] == 1 else value - value.mean(axis=1, keepdims=True)


def _to_predicted(value: np.ndarray, tokens: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Value of each token towards a class, for each entry."""
    if value.shape[1] == 1:
        return np.where(predicted == 1, 1.0, -1.0) * value[tokens, 0]
    return value[tokens, predicted]


def mean_pull(model: TokenModel, counts: sp.csr_array, within: sp.csr_array | None = None) -> np.ndarray:
    """Mean contribution of each token, or word with its runs, to the log-odds of the texts that hold it, (V, K')."""
    counts = checked_counts(counts)
    nobody = np.zeros(counts.shape[0], int)  # towards no class in particular
    done = deeds(model, counts, nobody, within)
    V, where = counts.shape[1], done.counts.indices
    documents = np.maximum(np.bincount(where, minlength=V), 1)
    return done.value * (np.bincount(where, weights=done.factor, minlength=V) / documents)[:, None]
