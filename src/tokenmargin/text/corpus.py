"""A tokenized corpus: the data set, the way back to words, and what was dropped on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._sentences import some
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.sources.rows_read import RowsRead
from tokenmargin.text.recipe import Recipe
from tokenmargin.text.word_map import WordMap


@dataclass(frozen=True, repr=False)
class CountingSteps(Told):
    """Numbers of words and tokens after each step; occurrences are over the whole corpus, tokens include n-grams."""

    documents: int
    words: int  #: occurrences of words
    distinct_words: int
    stop_words: int  #: occurrences that were dropped as stop words
    distinct_stems: int
    tokens: int  #: occurrences of tokens, before the minimum count
    distinct_tokens: int  #: with the n-grams that were counted: none that holds a word too rare itself
    tokens_purged: int  #: occurrences that the minimum count purged
    tokens_kept: int  #: occurrences left
    vocabulary: int  #: distinct tokens left
    distinct_kept: int  #: sum over documents of the distinct tokens left in each
    empty_documents: tuple[int, ...]  #: rows (from 0) without a token left
    dropped_documents: int  #: number of those that are left out of the data set
    ngrams: int = 0  #: number of distinct tokens left that have two words or more
    notes: tuple[str, ...] = ()  #: steps that the recipe asked for and that could not be done

    @property
    def mean_tokens(self) -> float:
        """Tokens a document."""
        return self.tokens_kept / self.documents

    @property
    def mean_distinct(self) -> float:
        """Distinct tokens a document."""
        return self.distinct_kept / self.documents

    def __str__(self) -> str:
        """A line for each step."""
        count = len(self.empty_documents)
        rows = some(self.empty_documents)
        empty = f"{count:,} documents empty" + (f" (rows {rows})" if count else "")
        ngrams = f" ({self.ngrams:,} of two words or more)" if self.ngrams else ""
        return "\n".join(
            [
                f"{self.documents:,} documents of {self.words:,} words ({self.distinct_words:,} distinct)",
                f"  {self.stop_words:,} stop words dropped; {self.distinct_stems:,} distinct stems",
                f"  {self.tokens:,} tokens ({self.distinct_tokens:,} distinct); {self.tokens_purged:,} purged",
                f"  {self.vocabulary:,} distinct tokens kept{ngrams}: {self.mean_tokens:.1f} a document, "
                f"{self.mean_distinct:.1f} of them distinct",
                f"  {empty}, {self.dropped_documents:,} left out",
                *(f"  {note}" for note in self.notes),
            ]
        )


@checked
@dataclass(frozen=True, eq=False, repr=False)
class TokenizedCorpus(Told):
    """Result of `tokenize`.

    Args:
        dataset: counts, labels and the vocabulary as readable pieces.
        word_map: the words that each token came from.
        recipe: the steps that made it.
        report: numbers of words and tokens that each step found and dropped.
        reading: rows read and left out, if the texts came from a source.
        splits: the split of each document of `dataset`, such as "train"; None where the source has none.
    """

    dataset: TokenDataset
    word_map: WordMap
    recipe: Recipe
    report: CountingSteps
    reading: RowsRead | None = None
    splits: tuple[str, ...] | None = None


@checked
@dataclass(frozen=True, eq=False, repr=False)
class CountedTexts(Told):
    """Result of `count_tokens`: counts without any demand on labels.

    Args:
        counts: (n, V) int32, one row a text, those without a token too.
        vocabulary: V tokens as readable pieces.
        word_map: the words that each token came from.
        recipe: the steps that made it.
        report: numbers of words and tokens that each step found and dropped.
        labels: shape (n,), whole numbers or strings, where there are labels.
        splits: the split of each text, such as "train"; None where the source has none.
        reading: rows read and left out, if the texts came from a source.
    """

    counts: sp.csr_array
    vocabulary: tuple[str, ...]
    word_map: WordMap
    recipe: Recipe
    report: CountingSteps
    labels: np.ndarray | None = None
    splits: tuple[str, ...] | None = None
    reading: RowsRead | None = None
