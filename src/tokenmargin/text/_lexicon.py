"""Every distinct word of a corpus, met once: its tokens, its count. Grows while the corpus streams by."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable
from itertools import count

import numpy as np
import scipy.sparse as sp

from tokenmargin.text._clean import without_apostrophes
from tokenmargin.text._stem import stem
from tokenmargin.text._stopwords import ENGLISH_STOP_WORDS
from tokenmargin.text._wordpiece import WordPieces, find_vocabulary, read_vocabulary
from tokenmargin.text._words import NumberedWords
from tokenmargin.text.recipe import Recipe


class Lexicon:
    """Words to tokens by a recipe; stop words have no tokens."""

    def __init__(self, recipe: Recipe) -> None:
        """Without a word yet."""
        self.recipe = recipe
        listed = ENGLISH_STOP_WORDS if recipe.stop_words else frozenset()
        without = {without_apostrophes(word, recipe.apostrophes) for word in listed}
        self.stop_words = frozenset(without | set(recipe.also_drop))
        self.stems: dict[str, list[int]] = {}  #: distinct stems with their tokens
        self.words: list[str] = []
        self.totals = np.zeros(0, np.int64)  #: occurrences of each word
        self.tokens = array("i")  #: of all words, one word after another
        self.starts = array("i", [0])
        self.names: list[str] = []  #: of tokens
        self._numbers: defaultdict[bytes, int] = defaultdict(count().__next__)  #: a new word gets the next number
        self._split = self._splitter()

    def count(self, batch: NumberedWords) -> sp.csr_array:
        """How often each token occurs in each document of a batch, shape (documents, tokens known so far)."""
        own = self._add(batch.words)
        self.totals[own] += np.bincount(batch.ids, minlength=len(own))
        # Over the batch's own words: the product then works on tables that fit in cache.
        shape = (len(batch.starts) - 1, len(own))
        words = sp.csr_array((np.ones(len(batch.ids), np.int32), batch.ids, batch.starts), shape=shape)
        counts = words @ self._tokens_of_words()[own]
        counts.sort_indices()
        return counts

    def is_stop_word(self) -> np.ndarray:
        """Which words were dropped as stop words."""
        return np.fromiter((word in self.stop_words for word in self.words), bool, len(self.words))

    def _add(self, words: list[bytes]) -> np.ndarray:
        """The corpus-wide numbers of a batch's words; those that are new get the next ones, and their tokens."""
        numbers = np.fromiter(map(self._numbers.__getitem__, words), np.int32, len(words))
        spelled = [words[j].decode() for j in np.flatnonzero(numbers >= len(self.words)).tolist()]
        stems = stem(spelled) if self.recipe.stem and spelled else spelled
        for word, root in zip(spelled, stems, strict=True):
            if word not in self.stop_words:
                tokens = self.stems.get(root)
                if tokens is None:
                    tokens = self.stems[root] = self._split(root)
                self.tokens.extend(tokens)
            self.starts.append(len(self.tokens))
        self.words += spelled
        self.totals = np.concatenate([self.totals, np.zeros(len(spelled), np.int64)])
        return numbers

    def _tokens_of_words(self) -> sp.csr_array:
        """How often each token stands in each word, shape (words, tokens)."""
        tokens, starts = np.array(self.tokens, np.int32), np.array(self.starts, np.int32)
        shape = (len(self.words), len(self.names))
        return sp.csr_array((np.ones(len(tokens), np.int32), tokens, starts), shape=shape)

    def _splitter(self) -> Callable[[str], list[int]]:
        """From a stem to the numbers of its tokens."""
        if not self.recipe.word_piece:
            return self._own_token
        path = find_vocabulary(self.recipe.vocabulary)
        pieces = WordPieces(read_vocabulary(path, any_vocabulary=self.recipe.any_vocabulary))
        self.names = list(pieces.pieces)
        return pieces.split

    def _own_token(self, root: str) -> list[int]:
        """A stem as a token of its own."""
        self.names.append(root)
        return [len(self.names) - 1]

    def in_order(self) -> np.ndarray:
        """Token numbers in the order of the vocabulary: that of the WordPieces, or the alphabet."""
        if self.recipe.word_piece:
            return np.arange(len(self.names))
        return np.array(sorted(range(len(self.names)), key=self.names.__getitem__), dtype=np.int64)


def ragged_take(values: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some rows of a ragged array, in this order: their values one after another, and where each row starts."""
    lengths = np.diff(starts)[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return values[np.repeat(starts[rows] - ends[:-1], lengths) + np.arange(ends[-1])], ends
