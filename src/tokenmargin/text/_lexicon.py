"""Every distinct word of a corpus, met once: its tokens, its count. Grows while the corpus streams by.

Words are cut back to their stems by Snowball's stemmers; this is the only file that sees PyStemmer.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError, MissingExtraError
from tokenmargin.text._clean import without_accents, without_apostrophes
from tokenmargin.text._ngrams import GAP, parted
from tokenmargin.text._word_lists import stop_words_of
from tokenmargin.text._wordpiece import WordPieces, find_vocabulary, read_vocabulary
from tokenmargin.text._words import NumberedWords
from tokenmargin.text.recipe import Alphabet, Recipe

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Stands for the rest of a word in the name of a run of its characters; no word holds it.
CUT = "…"
#: The end of a word, in place of a character that no word holds; and what follows an emoji that is drawn in colour.
_END, _COLOURED = "\0", "\ufe0f"


class Spelling:
    """Stems of words, made by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        """Clean the stop words in the same way as texts."""
        self.recipe = recipe
        listed = stop_words_of(str(recipe.language)) if recipe.drops_listed else frozenset()
        clean = {without_apostrophes(word, recipe.apostrophes) for word in listed}
        self.stop_words = frozenset(
            ({without_accents(word) for word in clean} if recipe.fold_accents else clean) | set(recipe.also_drop)
        )

    def stems(self, words: Sequence[str]) -> list[str]:
        """The stem of each word; letters that can be written in two ways (é, or e and an accent) become one."""
        same = list(words)
        if self.recipe.alphabet is Alphabet.UNICODE:
            same = [word if word.isascii() else _one_way(word) for word in same]
        if not self.recipe.cuts_stems or not same:
            return same
        found = stem(same, str(self.recipe.language))
        return [root or word for root, word in zip(found, same, strict=True)]

    def characters(self, stem: str) -> list[str]:
        """The runs of 2 to `recipe.characters` characters of a stem, its ends counted, but for the stem itself."""
        if not stem[0].isalnum():  # an emoji has no beginning and no end
            return []
        whole, longest = f"{_END}{stem}{_END}", self.recipe.characters
        found = []
        for size in range(2, min(longest, len(whole) - 1) + 1):
            for begin in range(len(whole) - size + 1):
                run = whole[begin : begin + size]
                first = run[1:] if run[0] == _END else CUT + run
                found.append(first[:-1] if run[-1] == _END else first + CUT)
        return found

    def pieces(self) -> WordPieces | None:
        """The WordPieces that stems are cut into, where they are."""
        if not self.recipe.word_piece:
            return None
        path = find_vocabulary(self.recipe.vocabulary)
        return WordPieces(read_vocabulary(path, any_vocabulary=self.recipe.any_vocabulary))


def _one_way(word: str) -> str:
    """A word in composed letters, an emoji without the mark that asks for colour."""
    return unicodedata.normalize("NFC", word).replace(_COLOURED, "")


@checked
def word_pieces(recipe: Recipe) -> tuple[str, ...]:
    """The WordPieces that a recipe cuts words into, in the order of their file; none where it does not."""
    found = Spelling(recipe).pieces()
    return () if found is None else found.pieces


class Lexicon:
    """Words to tokens by a recipe; stop words have no tokens."""

    def __init__(self, recipe: Recipe) -> None:
        """Begin without a word."""
        self.recipe = recipe
        self.spelling = Spelling(recipe)
        self.stems: dict[str, list[int]] = {}  #: distinct stems with their tokens
        self.words: list[str] = []
        self.totals = np.zeros(0, np.int64)  #: occurrences of each word
        self.tokens = array("i")  #: tokens of all words, one word after another
        self.starts = array("i", [0])
        self.names: list[str] = []  #: names of the tokens
        self.foreign = 0  #: documents most of whose letters are none of the alphabet's
        self._numbers: defaultdict[bytes, int] = defaultdict(count().__next__)  #: a new word gets the next number
        self._runs: dict[str, int] = {}  #: runs of characters, with their tokens
        self._split = self._splitter()
        self._sequences: list[tuple[np.ndarray, np.ndarray]] = []  #: words in their order, where n-grams need it

    def count(self, batch: NumberedWords) -> sp.csr_array:
        """Counts of each token in each document of a batch, shape (documents, tokens known so far)."""
        import scipy.sparse as sp

        own = self._add(batch.words)
        self.totals[own] += np.bincount(batch.ids, minlength=len(own))
        self.foreign += batch.foreign
        if self.recipe.ngrams > 1:
            self._sequences.append((own[batch.ids], batch.starts))
        # Over the batch's own words: the product then works on tables that fit in cache.
        shape = (len(batch.starts) - 1, len(own))
        words = sp.csr_array((np.ones(len(batch.ids), np.int32), batch.ids, batch.starts), shape=shape)
        counts = words @ self._tokens_of_words()[own]
        counts.sort_indices()
        return counts

    def sequences(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The words of each batch in their order, with a gap after each document; and where documents began."""
        for words, starts in self._sequences:
            yield parted(words, starts), starts

    def token_of_word(self) -> np.ndarray:
        """The token that each word is, before those of its characters, or a gap for a stop word."""
        starts = np.array(self.starts, np.int64)
        has_one = np.diff(starts) > 0
        result = np.full(len(self.words), GAP, np.int64)
        result[has_one] = np.array(self.tokens, np.int64)[starts[:-1][has_one]]
        return result

    def is_stop_word(self) -> np.ndarray:
        """Mask of the words that were dropped as stop words."""
        dropped = self.spelling.stop_words
        return np.fromiter((word in dropped for word in self.words), bool, len(self.words))

    def _add(self, words: list[bytes]) -> np.ndarray:
        """The corpus-wide numbers of a batch's words; those that are new get the next ones, and their tokens."""
        numbers = np.fromiter(map(self._numbers.__getitem__, words), np.int32, len(words))
        spelled = [words[j].decode() for j in np.flatnonzero(numbers >= len(self.words)).tolist()]
        for word, root in zip(spelled, self.spelling.stems(spelled), strict=True):
            if word not in self.spelling.stop_words:
                tokens = self.stems.get(root)
                if tokens is None:
                    tokens = self.stems[root] = self._split(root)
                self.tokens.extend(tokens)
            self.starts.append(len(self.tokens))
        self.words += spelled
        self.totals = np.concatenate([self.totals, np.zeros(len(spelled), np.int64)])
        return numbers

    def _tokens_of_words(self) -> sp.csr_array:
        """Counts of each token in each word, shape (words, tokens)."""
        import scipy.sparse as sp

        tokens, starts = np.array(self.tokens, np.int32), np.array(self.starts, np.int32)
        shape = (len(self.words), len(self.names))
        return sp.csr_array((np.ones(len(tokens), np.int32), tokens, starts), shape=shape)

    def _splitter(self) -> Callable[[str], list[int]]:
        """A function that returns the numbers of a stem's tokens."""
        pieces = self.spelling.pieces()
        if pieces is None:
            return self._with_characters if self.recipe.characters else self._own_token
        self.names = list(pieces.pieces)
        return pieces.split

    def _own_token(self, root: str) -> list[int]:
        """A stem as a token of its own."""
        self.names.append(root)
        return [len(self.names) - 1]

    def _with_characters(self, root: str) -> list[int]:
        """A stem as a token of its own, and its runs of characters."""
        own = self._own_token(root)
        for run in self.spelling.characters(root):
            if run not in self._runs:
                self._runs[run] = self._own_token(run)[0]
            own.append(self._runs[run])
        return own


def ragged_take(values: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some rows of a ragged array, in this order: their values one after another, and where each row starts."""
    lengths = np.diff(starts)[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return values[np.repeat(starts[rows] - ends[:-1], lengths) + np.arange(ends[-1])], ends


def stem(words: Sequence[str], language: str = "english") -> list[str]:
    """The stem of each word; the English "movies" and "movie" share "movi"."""
    try:
        import Stemmer
    except ImportError:
        raise MissingExtraError("Stemming", "text") from None
    try:
        # Each word comes once, so the stemmer's own cache would only cost time.
        stemmer = Stemmer.Stemmer(language, 0)
    except KeyError:
        raise InvalidInputError(
            f"the PyStemmer that is installed ({Stemmer.version()}) has no {language} stemmer: "
            "pip install --upgrade PyStemmer, or pass stem=False."
        ) from None
    return list(stemmer.stemWords(list(words)))
