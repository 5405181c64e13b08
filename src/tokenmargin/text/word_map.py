"""Map from each token to the words that it came from, with counts: the way back from WordPieces to words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tokenmargin._arrays import read_arrays, write_arrays
from tokenmargin._checks import checked, real_array
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError

#: In place of a token that was purged.
PURGED = -1


@checked
@dataclass(frozen=True, eq=False, repr=False)
class WordMap:
    """The words of a corpus (stop words apart), each with its count and the tokens that it became, in their order.

    Args:
        words: W distinct words as they looked before stemming, sorted.
        counts: shape (W,), occurrences of each in the corpus.
        tokens: the tokens of all words, one word after another, as columns of the data set; -1 where purged.
        starts: shape (W + 1,); word w has tokens[starts[w]:starts[w + 1]].
        vocabulary: the data set's.
    """

    words: tuple[str, ...]
    counts: np.ndarray
    tokens: np.ndarray
    starts: np.ndarray
    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together: every word would be shown with the tokens of another."""
        W, V = len(self.words), len(self.vocabulary)
        is_whole = all(each.dtype.kind in "iu" and each.ndim == 1 for each in (self.counts, self.tokens, self.starts))
        if not is_whole or len(self.counts) != W or len(self.starts) != W + 1:
            raise InvalidInputError(
                f"counts, tokens and starts must be whole numbers, of shapes ({W},), (n,) and ({W + 1},) for {W} words."
            )
        if self.starts[0] != 0 or self.starts[-1] != len(self.tokens) or (np.diff(self.starts) < 0).any():
            raise InvalidInputError(f"starts must rise from 0 to the number of tokens, {len(self.tokens)}.")
        if self.tokens.size and not PURGED <= self.tokens.min() <= self.tokens.max() < V:
            raise InvalidInputError(f"tokens must be columns of the {V} of the vocabulary, or {PURGED}.")

    @checked
    def tokens_of(self, word: str) -> tuple[int, ...]:
        """The tokens of a word, -1 where purged; an error names a word that the corpus does not hold."""
        place = self._word_numbers.get(word)
        if place is None:
            raise InvalidInputError(f"the corpus does not hold the word {word!r} (stop words are not listed).")
        return tuple(self.tokens[self.starts[place] : self.starts[place + 1]].tolist())

    @checked
    def words_of(self, token: int | str) -> dict[str, int]:
        """The words that a token came from, with its occurrences in each, most frequent first."""
        column = self._token_numbers.get(token) if isinstance(token, str) else token
        if column is None or not 0 <= column < len(self.vocabulary):
            raise InvalidInputError(f"{token!r} is no token of the vocabulary.")
        row = self._sources[[column]]
        found = sorted(zip(row.data.tolist(), row.indices.tolist(), strict=True), key=lambda pair: (-pair[0], pair[1]))
        return {self.words[j]: count for count, j in found}

    @checked
    def most_frequent(self, column: int, most: int) -> list[str]:
        """The words that a token came from, the most frequent first, at most so many: faster than `words_of`."""
        if not 0 <= column < len(self.vocabulary):
            raise InvalidInputError(f"{column} is no token of the vocabulary.")
        own = slice(self._sources.indptr[column], self._sources.indptr[column + 1])
        order = np.argsort(-self._sources.data[own], kind="stable")[:most]
        return [self.words[j] for j in self._sources.indices[own][order].tolist()]

    @cached_property
    def incidence(self) -> sp.csr_array:
        """Counts of each token in each word, shape (W, V), purged tokens left out.

        With f of shape (V,), `incidence @ f` adds a number up over the pieces of every word.
        """
        is_kept = self.tokens != PURGED
        kept = np.concatenate([[0], np.cumsum(is_kept)])
        shape = (len(self.words), len(self.vocabulary))
        matrix = sp.csr_array((np.ones(kept[-1], np.int64), self.tokens[is_kept], kept[self.starts]), shape=shape)
        matrix.sum_duplicates()
        return matrix

    def mean_over_pieces(self, values: ArrayLike) -> np.ndarray:
        """A number for each word from one for each token: the mean over its pieces, NaN where all were purged."""
        numbers = real_array(values, "values", "(V,)", finite=False)
        if numbers.shape != (len(self.vocabulary),):
            raise InvalidInputError(f"values have shape {numbers.shape}: give one for each of {len(self.vocabulary)}.")
        pieces = np.asarray(self.incidence.sum(axis=1), dtype=np.float64)
        sums = np.asarray(self.incidence @ numbers)
        return np.divide(sums, pieces, out=np.full(len(self.words), np.nan), where=pieces > 0)

    @checked
    def save(self, path: str | Path) -> None:
        """Write an .npz that `WordMap.load` reads."""
        parts = {"counts": self.counts, "tokens": self.tokens, "starts": self.starts}
        names = {"words": np.array(self.words, dtype=str), "vocabulary": np.array(self.vocabulary, dtype=str)}
        write_arrays(path, **parts, **names)

    @classmethod
    @checked
    def load(cls, path: str | Path) -> WordMap:
        """Read what `save` wrote."""
        file = read_arrays(
            path, "a saved WordMap (WordMap.save)", ("words", "counts", "tokens", "starts", "vocabulary")
        )
        words, vocabulary = (tuple(np.atleast_1d(file[name]).tolist()) for name in ("words", "vocabulary"))
        counts, tokens, starts = file["counts"], file["tokens"], file["starts"]
        whole = all(array.ndim == 1 and array.dtype.kind in "iu" for array in (counts, tokens, starts))
        if (
            not (whole and len(counts) == len(words) == len(starts) - 1)
            or (starts[0], starts[-1]) != (0, len(tokens))
            or (np.diff(starts) < 0).any()
            or (tokens.size and (tokens.min() < PURGED or tokens.max() >= len(vocabulary)))
            or not all(isinstance(name, str) for name in words + vocabulary)
        ):
            raise InvalidInputError(f"{path} is a damaged WordMap: its arrays do not fit each other.")
        return cls(words, counts, tokens, starts, vocabulary)

    def __repr__(self) -> str:
        """Sizes, not numbers."""
        return f"WordMap({len(self.words)} words, {len(self.vocabulary)} tokens)"

    @cached_property
    def _word_numbers(self) -> dict[str, int]:
        return {word: j for j, word in enumerate(self.words)}

    @cached_property
    def _token_numbers(self) -> dict[str, int]:
        return {token: j for j, token in enumerate(self.vocabulary)}

    @cached_property
    def _sources(self) -> sp.csr_array:
        """Occurrences of each token by the word that it came from, shape (V, W)."""
        by_word = self.incidence.copy()
        by_word.data = by_word.data * np.repeat(self.counts, np.diff(by_word.indptr))
        return sp.csr_array(by_word.T)
