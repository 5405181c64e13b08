"""Words of texts with the tokens that each gave, and every occurrence of a token in many texts as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

#: Columns of tokens are kept as the bytes of such numbers: joined for a text, they are an array at once.
COLUMN = np.dtype(np.int32)


@dataclass(frozen=True, eq=False, slots=True)
class TextWords:
    """The words of a text in their order, and the tokens that stand in it.

    Args:
        starts: start of each word in the text as it was given.
        ends: end of each word there.
        words: the words after cleaning.
        own: columns of the tokens that each word gave by itself, as bytes.
        runs: each n-gram that stands in the text: its column, its first word, and number of its words.
    """

    starts: list[int]
    ends: list[int]
    words: list[str]
    own: list[bytes]
    runs: list[tuple[int, int, int]]

    @property
    def tokens(self) -> list[tuple[int, ...]]:
        """Columns of the tokens that each word gave, n-grams that it is a part of included."""
        grown = [np.frombuffer(own, COLUMN).tolist() for own in self.own]
        for column, first, size in self.runs:
            for word in range(first, first + size):
                grown[word].append(column)
        return [tuple(own) for own in grown]


class Rows(NamedTuple):
    """Counts of each token in each text, as the three arrays of compressed rows, columns in their order."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class Occurrences(NamedTuple):
    """Every occurrence of a token in some texts: the tokens of words in their order, and n-grams behind them all.

    Args:
        n_texts: number of the texts.
        texts: the text of each occurrence.
        columns: its token.
        firsts: its first word, counted in its text.
        sizes: number of its words.
        begins: of those of words, the occurrences that are the first of their word.
    """

    n_texts: int
    texts: np.ndarray
    columns: np.ndarray
    firsts: np.ndarray
    sizes: np.ndarray
    begins: np.ndarray

    @classmethod
    def of(cls, found: Sequence[TextWords]) -> Occurrences:
        """Those of texts whose words are known; arrays for all of them at once are cheaper than for each."""
        own = [each for one in found for each in one.own]
        words = np.array([len(one.own) for one in found], np.int64)
        tokens = np.array(list(map(len, own)), np.int64) // COLUMN.itemsize
        place = np.arange(len(own)) - np.repeat(np.cumsum(words) - words, words)
        n_runs = [len(one.runs) for one in found]
        flat = chain.from_iterable(chain.from_iterable(one.runs for one in found))
        runs = np.fromiter(flat, np.int64, 3 * sum(n_runs)).reshape(-1, 3)
        here = np.arange(len(found))
        return cls(
            len(found),
            np.concatenate([np.repeat(np.repeat(here, words), tokens), np.repeat(here, n_runs)]),
            np.concatenate([np.frombuffer(b"".join(own), COLUMN), runs[:, 0]]),
            np.concatenate([np.repeat(place, tokens), runs[:, 1]]),
            np.concatenate([np.ones(tokens.sum(), np.int64), runs[:, 2]]),
            (np.cumsum(tokens) - tokens)[tokens > 0],
        )

    def rows(self, vocabulary_size: int) -> tuple[Rows, np.ndarray]:
        """The counts, and the place of each occurrence among those that are stored."""
        keys, stored, data = np.unique(
            self.texts * vocabulary_size + self.columns, return_inverse=True, return_counts=True
        )
        indptr = np.searchsorted(keys, np.arange(self.n_texts + 1) * vocabulary_size)
        if len(keys) <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        return Rows(indptr, (keys % vocabulary_size).astype(COLUMN), data.astype(np.int32)), stored
