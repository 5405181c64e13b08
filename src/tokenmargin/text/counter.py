"""New texts in a vocabulary that is known: what a saved model needs, and nothing of the corpus that it was made of.

NumPy is enough: nothing else is imported unless a sparse matrix is asked for, or words are cut to stems.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import _ngrams
from tokenmargin.text._clean import cleaned_and_aligned
from tokenmargin.text._columns import checked_names
from tokenmargin.text._lexicon import Spelling, ragged_take
from tokenmargin.text._ngrams import GAP, parted
from tokenmargin.text._words import number_words, word_pattern
from tokenmargin.text.recipe import Recipe

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Words remembered with their tokens; beyond that all are forgotten, so that a counter that runs for ever stays small.
REMEMBERED = 2**19

#: Texts counted together, and how few are counted one by one: arrays pay off from some on.
BATCH, FEW = 4096, 4


class Located(NamedTuple):
    """A word where it stands: `text[start:end]` of the text as it was given, markup and apostrophes included.

    Args:
        start: start of the word in the text.
        end: behind its last character.
        word: the word after cleaning, before stemming.
        tokens: columns of the tokens that it gave: its own, and those of the n-grams that it is a part of.
    """

    start: int
    end: int
    word: str
    tokens: tuple[int, ...]


class TextWords(NamedTuple):
    """The words of a text in their order, and the tokens that stand in it, one entry an occurrence.

    Args:
        starts: start of each word in the text as it was given.
        ends: end of each word there.
        words: the words after cleaning.
        tokens: columns of the tokens that each word gave, n-grams that it is a part of included.
        columns: the token of each occurrence.
        firsts: its first word.
        sizes: number of its words.
    """

    starts: list[int]
    ends: list[int]
    words: list[str]
    tokens: list[tuple[int, ...]]
    columns: list[int]
    firsts: list[int]
    sizes: list[int]


class Rows(NamedTuple):
    """Counts of each token in each text, as the three arrays of compressed rows, columns in their order."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class TokenCounter:
    """Counts the tokens of a vocabulary in texts, as `count_tokens` with the same recipe would.

    Args:
        recipe: the one that the vocabulary was made with.
        vocabulary: the names of the tokens, in the order of their columns.
    """

    @checked
    def __init__(self, recipe: Recipe, vocabulary: Sequence[Any]) -> None:
        """Check that the recipe makes these tokens."""
        self._set(recipe, checked_names(vocabulary, recipe))
        if self._pieces is not None:
            known = set(self._pieces.pieces)
            odd = [name for name in self.vocabulary if name not in known]
            if odd:
                raise InvalidInputError(f"{odd[0]!r} of the vocabulary is no WordPiece of the recipe's file.")

    @classmethod
    def trusted(cls, recipe: Recipe, vocabulary: tuple[str, ...]) -> TokenCounter:
        """A counter of a vocabulary that this recipe has made, which is not checked again."""
        counter = cls.__new__(cls)
        counter._set(recipe, vocabulary)
        return counter

    def _set(self, recipe: Recipe, vocabulary: tuple[str, ...]) -> None:
        self.recipe, self.vocabulary = recipe, vocabulary
        self._spelling = Spelling(recipe)
        self._pieces = self._spelling.pieces()
        self._known: dict[str, tuple[str | None, tuple[int, ...]]] = {}

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.vocabulary)}

    @cached_property
    def _column_of_piece(self) -> list[int]:
        return [] if self._pieces is None else [self._columns.get(piece, GAP) for piece in self._pieces.pieces]

    @cached_property
    def _runs(self) -> tuple[dict[str, int], _ngrams.NGrams, list[np.ndarray]]:
        """The words that n-grams are made of, with their numbers; the n-grams; and their columns."""
        long = [column for column, name in enumerate(self.vocabulary) if " " in name]
        names = [self.vocabulary[column].split(" ") for column in long]
        numbers = {stem: j for j, stem in enumerate(dict.fromkeys(chain.from_iterable(names)))}
        flat = np.fromiter(map(numbers.__getitem__, chain.from_iterable(names)), np.int64)
        grams, which = _ngrams.given(flat, np.fromiter(map(len, names), np.int64, len(names)), self.recipe.ngrams)
        return numbers, grams, [np.array([*long, GAP], np.int64)[own] for own in which]

    def counts(self, texts: Iterable[Any]) -> sp.csr_array:
        """Counts of each token in each text, shape (texts, tokens); unknown words are not counted."""
        import scipy.sparse as sp

        found = self.rows(texts)
        shape = (len(found.indptr) - 1, len(self.vocabulary))
        return sp.csr_array((found.data, found.indices, found.indptr), shape=shape)

    def rows(self, texts: Iterable[Any]) -> Rows:
        """The same as three arrays."""
        if isinstance(texts, str | bytes):
            raise InvalidInputError("give a sequence of texts, and not one string.")
        parts, left, place = [], iter(texts), 0
        while batch := tuple(islice(left, BATCH)):
            for row, text in enumerate(batch, start=place):
                _demand_text(text, f"text {row}")
            parts.append(self._few(batch) if len(batch) <= FEW else self._many(batch))
            place += len(batch)
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        starts = [part.indptr[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
        indptr = np.concatenate([*starts, ends[-1:]])
        return Rows(
            indptr.astype(np.int32) if ends[-1] <= np.iinfo(np.int32).max else indptr,
            np.concatenate([np.zeros(0, np.int32), *(part.indices for part in parts)]),
            np.concatenate([np.zeros(0, np.int32), *(part.data for part in parts)]),
        )

    def _few(self, texts: tuple[str, ...]) -> Rows:
        """Counts of a few texts, without the arrays that many need."""
        starts, columns, data = [0], [], []
        for text in texts:
            own, counts = np.unique(np.array(self.places(text).columns, np.int32), return_counts=True)
            columns.append(own)
            data.append(counts)
            starts.append(starts[-1] + len(own))
        return Rows(np.array(starts, np.int32), np.concatenate(columns), np.concatenate(data).astype(np.int32))

    def _many(self, texts: tuple[str, ...]) -> Rows:
        batch = number_words(texts, self.recipe)
        found = self._tokens([word.decode() for word in batch.words])
        tokens = np.fromiter(chain.from_iterable(own for _, own in found), np.int64)
        ends = np.cumsum([0, *(len(own) for _, own in found)])
        columns, starts = ragged_take(tokens, ends, batch.ids)
        rows = np.repeat(np.arange(len(texts)), np.diff(batch.starts))
        rows = np.repeat(rows, np.diff(starts))
        if self.recipe.ngrams > 1:
            numbers, grams, of_grams = self._runs
            own = (GAP if stem is None else numbers.get(stem, GAP) for stem, _ in found)
            stems = np.fromiter(own, np.int64, len(found))[batch.ids]
            places = _ngrams.runs_at(parted(stems, batch.starts), batch.starts, grams, of_grams)
            rows, columns = np.concatenate([rows, places[0]]), np.concatenate([columns, places[1]])
        V = len(self.vocabulary)
        keys, data = np.unique(rows * V + columns, return_counts=True)
        indptr = np.searchsorted(keys, np.arange(len(texts) + 1) * V)
        return Rows(indptr.astype(np.int32), (keys % V).astype(np.int32), data.astype(np.int32))

    @checked
    def located(self, text: str) -> list[Located]:
        """The words of a text in their order, each with its place in it and its tokens; () where it gave none.

        The tokens of all words together are those of `counts([text])`, a token of n words being told n times.
        """
        return list(map(Located._make, zip(*self.places(text)[:4], strict=True)))

    def places(self, text: str) -> TextWords:
        """Words of `located` as lists, with the position of each token: faster than objects for many texts."""
        _demand_text(text, "the text")
        clean = cleaned_and_aligned(text, self.recipe)
        matches = list(word_pattern(clean.text, self.recipe).finditer(clean.text))
        words = [match.group() for match in matches]
        if not clean.text.isascii():
            words = [word.encode("utf-8", errors="replace").decode() for word in words]
        found = self._tokens(words)
        tokens = [own for _, own in found]
        columns = list(chain.from_iterable(tokens))
        firsts = [place for place, own in enumerate(tokens) for _ in own]
        sizes = [1] * len(columns)
        if self.recipe.ngrams > 1:
            tokens = self._add_runs([stem for stem, _ in found], tokens, (columns, firsts, sizes))
        starts, ends = clean.starts, clean.ends
        begins = [starts[match.start()] for match in matches]
        return TextWords(begins, [ends[match.end() - 1] for match in matches], words, tokens, columns, firsts, sizes)

    def _add_runs(
        self, stems: list[str | None], tokens: list[tuple[int, ...]], into: tuple[list[int], list[int], list[int]]
    ) -> list[tuple[int, ...]]:
        """Add the n-grams of a text to the occurrences; gives the tokens of each word with those of its n-grams."""
        known, grown = self._columns, list(tokens)
        for size in range(2, self.recipe.ngrams + 1):
            for first in range(len(stems) - size + 1):
                run = stems[first : first + size]
                column = None if None in run else known.get(" ".join(run))  # type: ignore[arg-type]
                if column is not None:
                    for numbers, number in zip(into, (column, first, size), strict=True):
                        numbers.append(number)
                    for word in range(first, first + size):
                        grown[word] = (*grown[word], column)
        return grown

    def _tokens(self, words: list[str]) -> list[tuple[str | None, tuple[int, ...]]]:
        """The stem of each word (None for a stop word, and for pieces of words) and the columns of its own tokens."""
        known = self._known
        new = [word for word in dict.fromkeys(words) if word not in known]
        if len(known) + len(new) > REMEMBERED:
            self._known = known = {}
            new = list(dict.fromkeys(words))
        for word, stem in zip(new, self._spelling.stems(new), strict=True):
            known[word] = (None, ()) if word in self._spelling.stop_words else self._token(stem)
        return [known[word] for word in words]

    def _token(self, stem: str) -> tuple[str | None, tuple[int, ...]]:
        if self._pieces is not None:
            columns = (self._column_of_piece[piece] for piece in self._pieces.split(stem))
            return None, tuple(column for column in columns if column != GAP)
        runs = self._spelling.characters(stem) if self.recipe.characters else ()
        found = (self._columns.get(name) for name in (stem, *runs))
        return stem, tuple(column for column in found if column is not None)


def _demand_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is a {type(text).__name__}: give strings.")
