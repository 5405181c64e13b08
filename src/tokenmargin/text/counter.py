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
from tokenmargin.text._lexicon import CUT, Spelling, ragged_take
from tokenmargin.text._ngrams import GAP, parted
from tokenmargin.text._occurrences import COLUMN, Occurrences, Rows, TextWords
from tokenmargin.text._words import number_words, word_pattern
from tokenmargin.text.name_table import NameTable
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


class TokenCounter:
    """Counts the tokens of a vocabulary in texts, as `count_tokens` with the same recipe would.

    Args:
        recipe: the one that the vocabulary was made with.
        vocabulary: the names of the tokens, in the order of their columns.
    """

    @checked
    def __init__(self, recipe: Recipe, vocabulary: Sequence[Any]) -> None:
        """Check that the recipe makes these tokens."""
        self._set(recipe, NameTable(checked_names(vocabulary, recipe)))
        if self._pieces is not None:
            known = set(self._pieces.pieces)
            odd = [name for name in self.vocabulary if name not in known]
            if odd:
                raise InvalidInputError(f"{odd[0]!r} of the vocabulary is no WordPiece of the recipe's file.")

    @classmethod
    def trusted(cls, recipe: Recipe, names: NameTable) -> TokenCounter:
        """A counter of a vocabulary that this recipe has made, which is not checked again."""
        counter = cls.__new__(cls)
        counter._set(recipe, names)
        return counter

    def _set(self, recipe: Recipe, names: NameTable) -> None:
        self.recipe, self._names = recipe, names
        self._spelling = Spelling(recipe)
        self._pieces = self._spelling.pieces()
        self._known: dict[str, tuple[str | None, bytes]] = {}

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The names of the tokens, in the order of their columns."""
        return self._names.names

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self._names)

    def names_of(self, columns: list[int]) -> list[str]:
        """The names of some tokens, without those of all."""
        return self._names.of_columns(columns)

    @property
    def stop_words(self) -> frozenset[str]:
        """The words that are dropped, as they look after cleaning."""
        return self._spelling.stop_words

    @cached_property
    def _column_of_piece(self) -> list[int]:
        return [] if self._pieces is None else [self._names.table.get(piece, GAP) for piece in self._pieces.pieces]

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
        shape = (len(found.indptr) - 1, len(self))
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
        return Occurrences.of(list(map(self.places, texts))).rows(len(self))[0]

    def _many(self, texts: tuple[str, ...]) -> Rows:
        batch = number_words(texts, self.recipe)
        found = self._tokens([word.decode() for word in batch.words])
        tokens = np.frombuffer(b"".join([own for _, own in found]), COLUMN)
        ends = np.cumsum([0, *(len(own) // COLUMN.itemsize for _, own in found)])
        columns, starts = ragged_take(tokens, ends, batch.ids)
        rows = np.repeat(np.arange(len(texts)), np.diff(batch.starts))
        rows = np.repeat(rows, np.diff(starts))
        if self.recipe.ngrams > 1:
            numbers, grams, of_grams = self._runs
            own = (GAP if stem is None else numbers.get(stem, GAP) for stem, _ in found)
            stems = np.fromiter(own, np.int64, len(found))[batch.ids]
            places = _ngrams.runs_at(parted(stems, batch.starts), batch.starts, grams, of_grams)
            rows, columns = np.concatenate([rows, places[0]]), np.concatenate([columns, places[1]])
        V = len(self)
        keys, data = np.unique(rows * V + columns, return_counts=True)
        indptr = np.searchsorted(keys, np.arange(len(texts) + 1) * V)
        return Rows(indptr.astype(np.int32), (keys % V).astype(np.int32), data.astype(np.int32))

    @checked
    def located(self, text: str) -> list[Located]:
        """The words of a text in their order, each with its place in it and its tokens; () where it gave none.

        The tokens of all words together are those of `counts([text])`, a token of n words being told n times.
        """
        found = self.places(text)
        return list(map(Located._make, zip(found.starts, found.ends, found.words, found.tokens, strict=True)))

    def places(self, text: str) -> TextWords:
        """Words of `located` as lists, with the position of each token: faster than objects for many texts."""
        _demand_text(text, "the text")
        clean = cleaned_and_aligned(text, self.recipe)
        matches = list(word_pattern(clean.text, self.recipe).finditer(clean.text))
        words, spans = [match[0] for match in matches], [match.span() for match in matches]
        if not clean.text.isascii():
            words = [word.encode("utf-8", errors="replace").decode() for word in words]
        found = self._tokens(words)
        runs = self._runs_among([stem for stem, _ in found]) if self.recipe.ngrams > 1 else []
        begins, ends = [begin for begin, _ in spans], [end for _, end in spans]
        if not isinstance(clean.starts, range):  # cleaning moved characters
            begins, ends = [clean.starts[begin] for begin in begins], [clean.ends[end - 1] for end in ends]
        return TextWords(begins, ends, words, [own for _, own in found], runs)

    def _runs_among(self, stems: list[str | None]) -> list[tuple[int, int, int]]:
        """Each n-gram of a text: its column, its first word and number of its words."""
        get, found, runs = self._names.finder(), [], stems
        for size in range(2, self.recipe.ngrams + 1):
            # A run is the one that begins with it, and a word more; None where a word of it is no stem.
            runs = [
                None if before is None or last is None else f"{before} {last}"
                for before, last in zip(runs, stems[size - 1 :], strict=False)
            ]
            columns = [None if run is None else get(run) for run in runs]
            found += [(column, first, size) for first, column in enumerate(columns) if column is not None]
        return found

    def within_words(self) -> sp.csr_array | None:
        """Counts of each token in each word or phrase, itself included, shape (V, V); a run has an empty row.

        None where no token is a run of characters: then words and phrases are all that there is.
        """
        if not self.recipe.characters:
            return None
        import scipy.sparse as sp

        own = [
            [] if CUT in name else [j] if " " in name else np.frombuffer(self._token(name)[1], COLUMN).tolist()
            for j, name in enumerate(self.vocabulary)
        ]
        indptr = np.cumsum([0, *map(len, own)])
        columns = np.fromiter(chain.from_iterable(own), np.int64, indptr[-1])
        shape = (len(self), len(self))
        matrix = sp.csr_array((np.ones(indptr[-1]), columns, indptr), shape=shape)
        matrix.sum_duplicates()
        return matrix

    def _tokens(self, words: list[str]) -> list[tuple[str | None, bytes]]:
        """The stem of each word (None for a stop word, and for pieces of words) and the columns of its own tokens."""
        known = self._known
        new = [word for word in dict.fromkeys(words) if word not in known]
        if len(known) + len(new) > REMEMBERED:
            self._known = known = {}
            new = list(dict.fromkeys(words))
        for word, stem in zip(new, self._spelling.stems(new), strict=True):
            known[word] = (None, b"") if word in self._spelling.stop_words else self._token(stem)
        return [known[word] for word in words]

    def _token(self, stem: str) -> tuple[str | None, bytes]:
        if self._pieces is not None:
            columns = (self._column_of_piece[piece] for piece in self._pieces.split(stem))
            return None, np.array([column for column in columns if column != GAP], COLUMN).tobytes()
        runs = self._spelling.characters(stem) if self.recipe.characters else ()
        found = map(self._names.get, (stem, *runs))
        return stem, np.array([column for column in found if column is not None], COLUMN).tobytes()


def _demand_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is a {type(text).__name__}: give strings.")
