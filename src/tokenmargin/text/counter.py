"""New texts in a vocabulary that is known: what a saved model needs, and nothing of the corpus that it was made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources.labelled import CHUNK
from tokenmargin.text import _ngrams
from tokenmargin.text._clean import cleaned_and_aligned
from tokenmargin.text._columns import checked_names
from tokenmargin.text._lexicon import Spelling
from tokenmargin.text._ngrams import GAP, count_runs, parted
from tokenmargin.text._words import number_words, word_pattern
from tokenmargin.text.recipe import Recipe

#: Words remembered with their tokens; beyond that all are forgotten, so that a counter that runs for ever stays small.
REMEMBERED = 2**19


class Located(NamedTuple):
    """A word where it stands: `text[start:end]` of the text as it was given, markup and apostrophes included.

    Args:
        start: of the word in the text.
        end: behind its last character.
        word: as it looks after cleaning, before stemming.
        tokens: columns of the tokens that it gave: its own, and those of the n-grams that it is a part of.
    """

    start: int
    end: int
    word: str
    tokens: tuple[int, ...]


class Places(NamedTuple):
    """The words of a text in their order, a list for each field of `Located`."""

    starts: list[int]
    ends: list[int]
    words: list[str]
    tokens: list[tuple[int, ...]]


class TokenCounter:
    """Counts the tokens of a vocabulary in texts, as `count_tokens` with the same recipe would.

    Args:
        recipe: the one that the vocabulary was made with.
        vocabulary: the names of the tokens, in the order of their columns.
    """

    @checked
    def __init__(self, recipe: Recipe, vocabulary: Sequence[Any]) -> None:
        """Number the words of the vocabulary, and of its n-grams."""
        self.recipe, self.vocabulary = recipe, checked_names(vocabulary, recipe)
        self._spelling = Spelling(recipe)
        self._pieces = self._spelling.pieces()
        columns = {name: column for column, name in enumerate(self.vocabulary)}
        if self._pieces is not None:
            known = set(self._pieces.pieces)
            odd = [name for name in self.vocabulary if name not in known]
            if odd:
                raise InvalidInputError(f"{odd[0]!r} of the vocabulary is no WordPiece of the recipe's file.")
            self._column_of_piece = [columns.get(piece, GAP) for piece in self._pieces.pieces]
        names = [name.split(" ") if recipe.ngrams > 1 else [name] for name in self.vocabulary]
        self._stems = {stem: j for j, stem in enumerate(dict.fromkeys(chain.from_iterable(names)))}
        self._columns = columns
        long = [column for column, words in enumerate(names) if len(words) > 1]
        runs = [[self._stems[word] for word in names[column]] for column in long]
        self._grams, which = _ngrams.given(runs, recipe.ngrams)
        self._of_grams = [np.array([*long, GAP], np.int64)[own] for own in which]
        self._known: dict[str, tuple[int, tuple[int, ...]]] = {}

    @checked
    def counts(self, texts: Iterable[Any]) -> sp.csr_array:
        """How often each token occurs in each text, shape (texts, tokens); words that are not known count nothing."""
        if isinstance(texts, str | bytes):
            raise InvalidInputError("give a sequence of texts, and not one string.")
        parts, left, place = [], iter(texts), 0
        while batch := tuple(islice(left, CHUNK)):
            for row, text in enumerate(batch, start=place):
                _demand_text(text, f"text {row}")
            parts.append(self._counted(batch))
            place += len(batch)
        if not parts:
            return sp.csr_array((0, len(self.vocabulary)), dtype=np.int32)
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def _counted(self, texts: tuple[str, ...]) -> sp.csr_array:
        batch = number_words(texts, self.recipe)
        found = self._tokens([word.decode() for word in batch.words])
        tokens = np.fromiter(chain.from_iterable(own for _, own in found), np.int32)
        ends = np.cumsum([0, *(len(own) for _, own in found)], dtype=np.int32)
        per_word = sp.csr_array(
            (np.ones(len(tokens), np.int32), tokens, ends), shape=(len(found), len(self.vocabulary))
        )
        words = sp.csr_array(
            (np.ones(len(batch.ids), np.int32), batch.ids, batch.starts), shape=(len(texts), len(found))
        )
        counts = words @ per_word
        counts.sort_indices()
        if self._grams.tables:
            stems = np.fromiter((stem for stem, _ in found), np.int64, len(found))[batch.ids]
            runs = parted(stems, batch.starts)
            counts = counts + count_runs(runs, batch.starts, self._grams, self._of_grams, len(self.vocabulary))
        return counts

    @checked
    def located(self, text: str) -> list[Located]:
        """The words of a text in their order, each with its place in it and its tokens; () where it gave none.

        The tokens of all words together are those of `counts([text])`, a token of n words being told n times.
        """
        return list(map(Located._make, zip(*self.places(text), strict=True)))

    @checked
    def places(self, text: str) -> Places:
        """What `located` tells, as four lists: for many texts, where making an object a word takes most of the time."""
        _demand_text(text, "the text")
        clean = cleaned_and_aligned(text, self.recipe)
        matches = list(word_pattern(clean.text, self.recipe).finditer(clean.text))
        words = [match.group() for match in matches]
        if not clean.text.isascii():
            words = [word.encode("utf-8", errors="replace").decode() for word in words]
        found = self._tokens(words)
        tokens = [own for _, own in found]
        if self._grams.tables:
            tokens = self._with_runs(found, tokens)
        starts, ends = clean.starts, clean.ends
        return Places(
            [starts[match.start()] for match in matches], [ends[match.end() - 1] for match in matches], words, tokens
        )

    def _with_runs(
        self, found: list[tuple[int, tuple[int, ...]]], tokens: list[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        """The tokens of each word with those of the n-grams that it is a part of."""
        grown = [list(own) for own in tokens]
        runs = np.fromiter((stem for stem, _ in found), np.int64, len(found))
        for size, numbers in enumerate(self._grams.numbers(runs), start=2):
            begins = np.flatnonzero(numbers != GAP)
            columns = self._of_grams[size - 2][numbers[begins]]
            for begin, column in zip(begins.tolist(), columns.tolist(), strict=True):
                for word in range(begin, begin + size) if column != GAP else ():
                    grown[word].append(column)
        return list(map(tuple, grown))

    def _tokens(self, words: list[str]) -> list[tuple[int, tuple[int, ...]]]:
        """Of each word the number of its stem for n-grams (or a gap) and the columns of its own tokens."""
        known = self._known
        new = [word for word in dict.fromkeys(words) if word not in known]
        if len(known) + len(new) > REMEMBERED:
            self._known = known = {}
            new = list(dict.fromkeys(words))
        for word, stem in zip(new, self._spelling.stems(new), strict=True):
            known[word] = (GAP, ()) if word in self._spelling.stop_words else self._token(stem)
        return [known[word] for word in words]

    def _token(self, stem: str) -> tuple[int, tuple[int, ...]]:
        if self._pieces is not None:
            columns = (self._column_of_piece[piece] for piece in self._pieces.split(stem))
            return GAP, tuple(column for column in columns if column != GAP)
        runs = self._spelling.characters(stem) if self.recipe.characters else ()
        columns = (self._columns.get(name) for name in (stem, *runs))
        return self._stems.get(stem, GAP), tuple(column for column in columns if column is not None)


def _demand_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is a {type(text).__name__}: give strings.")
