"""Texts to counts of tokens, a chunk at a time: any labels, any number of classes, empty texts too [E, App. E]."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import array_of, checked, whole_number
from tokenmargin._mapped import mapped
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.data.labels import check_not_missing
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources.labelled import CHUNK, Label, LabelledTexts
from tokenmargin.sources.rows_read import RowsRead
from tokenmargin.text import _columns
from tokenmargin.text._columns import Columns, checked_names
from tokenmargin.text._lexicon import Lexicon, ragged_take
from tokenmargin.text._ngrams import GAP, behind, count_runs, places, stems_of
from tokenmargin.text._words import NumberedWords, number_words
from tokenmargin.text.corpus import CountedTexts, CountingSteps, TokenizedCorpus
from tokenmargin.text.recipe import Recipe, plain_recipe
from tokenmargin.text.word_map import WordMap

#: A vocabulary to count in: the names of its tokens, or what was counted before.
Vocabulary = TokenizedCorpus | CountedTexts | Sequence[Any]


@checked
def count_tokens(
    texts: LabelledTexts | Iterable[Any],
    recipe: Recipe | None = None,
    *,
    labels: ArrayLike | None = None,
    vocabulary: Vocabulary | None = None,
    minimum_count: int | None = None,
    chunk_size: int = CHUNK,
    map: Callable[..., Iterable[Any]] = builtins.map,
    progress: Progress = silent,
) -> CountedTexts:
    """Count each token in each text.

    Args:
        texts: a source, or any iterable of texts (a generator too).
        recipe: the steps; that of `vocabulary` where it has one, else `plain_recipe()`.
        labels: one for each text, of any kind; a source has its own.
        vocabulary: count in these columns instead of learning which tokens are frequent.
        minimum_count: in place of the recipe's.
        chunk_size: texts held at a time; the result does not depend on it.
        map: applied as `map(function, chunks)`, in order; the built-in one, or that of an executor or cluster.
        progress: called as `progress(done, total, what)` after each chunk.
    """
    made_by = recipe_for(recipe, vocabulary, plain_recipe())
    if minimum_count is not None:
        made_by = replace(made_by, minimum_count=minimum_count)
    return Streamed(texts, labels, made_by, chunk_size, map, progress).counted(vocabulary)


def recipe_for(recipe: Recipe | None, vocabulary: Vocabulary | None, default: Recipe) -> Recipe:
    """The recipe to count by; one that would make other tokens than those of the vocabulary is refused."""
    if not isinstance(vocabulary, TokenizedCorpus | CountedTexts):
        return recipe or default
    differences = recipe.differences(vocabulary.recipe) if recipe is not None else ()
    if differences:
        raise InvalidInputError(
            f"the recipe is not the one that the vocabulary was made with ({'; '.join(differences)}): "
            "leave it out, and that one is taken."
        )
    return recipe or vocabulary.recipe


class Streamed:
    """A corpus whose words have all been met: parts of its counts, and what came with the texts."""

    def __init__(
        self,
        texts: LabelledTexts | Iterable[Any],
        labels: ArrayLike | None,
        recipe: Recipe,
        chunk_size: int,
        map: Callable[..., Iterable[Any]],
        progress: Progress,
    ) -> None:
        """Read everything, once."""
        whole_number(chunk_size, "chunk_size", 1)
        self.lexicon, self.progress = Lexicon(recipe), progress
        self.stream = _Source(texts) if isinstance(texts, LabelledTexts) and labels is None else _Given(texts, labels)
        self.parts: list[sp.csr_array] = []
        self.documents = 0
        for batch in mapped(map, partial(number_words, recipe=recipe), self.stream.batches(chunk_size), NumberedWords):
            part = self.lexicon.count(batch)
            self.parts.append(part)
            self.documents += part.shape[0]
            progress(self.stream.done(self.documents), self.stream.total, "counting words")
        if not self.documents:
            raise InvalidInputError("there are no documents: give at least one of each class.")
        given = self.stream.labels
        if given is not None and len(given) != self.documents:
            raise InvalidInputError(f"{self.documents} texts with {len(given)} labels: give one label a text.")

    def counted(self, vocabulary: Vocabulary | None = None) -> CountedTexts:
        """Purge rare tokens over the whole corpus, or keep those of a vocabulary, and put everything together."""
        lexicon = self.lexicon
        for part in self.parts:
            part.resize((part.shape[0], len(lexicon.names)))  # later chunks may know more tokens
        counts = sp.csr_array(sp.vstack(self.parts, format="csr"))
        self.parts.clear()
        totals = np.bincount(counts.indices, weights=counts.data, minlength=len(lexicon.names)).astype(np.int64)
        columns = self._columns(totals, vocabulary)
        counts = _in_columns(counts, columns.tokens, len(columns.vocabulary))
        if lexicon.recipe.ngrams > 1:
            counts = counts + self._runs(columns)
        report = self._report(counts, totals, columns)
        words = _word_map(lexicon, columns, counts)
        return CountedTexts(
            counts,
            columns.vocabulary,
            words,
            lexicon.recipe,
            report,
            _as_array(self.stream.labels),
            None if self.stream.splits is None else tuple(self.stream.splits),
            self.stream.reading,
        )

    def _columns(self, totals: np.ndarray, vocabulary: Vocabulary | None) -> Columns:
        if vocabulary is None:
            columns = _columns.frequent(self.lexicon, totals)
            if not columns.vocabulary:
                minimum = self.lexicon.recipe.minimum_count
                raise InvalidInputError(
                    f"no token occurs {minimum} times in these {self.documents} documents: "
                    + (self.about_the_alphabet() or "give more documents, or a lower minimum_count (--min-count).")
                )
            return columns
        if isinstance(vocabulary, TokenizedCorpus | CountedTexts):
            return _columns.of_vocabulary(self.lexicon, vocabulary.word_map.vocabulary)
        names = checked_names(vocabulary, self.lexicon.recipe)
        if self.lexicon.recipe.word_piece:
            odd = sorted(set(names) - set(self.lexicon.names))
            if odd:
                raise InvalidInputError(f"{odd[0]!r} of the vocabulary is no WordPiece: pass word_piece=False.")
        return _columns.of_vocabulary(self.lexicon, names)

    def about_the_alphabet(self) -> str:
        """Advice if the alphabet lacks the letters of many texts, else ""."""
        foreign = self.lexicon.foreign
        return (
            f"{foreign} of them are written in letters that the alphabet of the recipe, ASCII, lacks. "
            "Pass alphabet=Alphabet.UNICODE (and word_piece=False), or take plain_recipe()."
            if 2 * foreign >= self.documents
            else ""
        )

    def _runs(self, columns: Columns) -> sp.csr_array:
        """The counts of n-grams."""
        parts, done = [], 0
        for words, starts in self.lexicon.sequences():
            own = stems_of(words, columns.stems)
            parts.append(count_runs(own, starts, columns.grams, columns.of_grams, len(columns.vocabulary)))
            done += len(starts) - 1
            self.progress(done, self.documents, "counting n-grams")
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def _report(self, counts: sp.csr_array, totals: np.ndarray, columns: Columns) -> CountingSteps:
        lexicon, longest = self.lexicon, self.lexicon.recipe.ngrams
        is_stop = lexicon.is_stop_word()
        tokens, ngrams = int(totals.sum()), int(sum((own != GAP).sum() for own in columns.of_grams))
        if longest > 1:
            one = lexicon.token_of_word()
            tokens += sum(places(stems_of(words, one), longest) for words, _ in lexicon.sequences())
        kept = int(counts.data.sum(dtype=np.int64))
        notes = lexicon.recipe.notes
        if lexicon.foreign:
            notes += (f"{lexicon.foreign:,} documents are mostly of letters that the alphabet, ASCII, lacks",)
        return CountingSteps(
            documents=self.documents,
            words=int(lexicon.totals.sum()),
            distinct_words=len(lexicon.words),
            stop_words=int(lexicon.totals[is_stop].sum()),
            distinct_stems=len(lexicon.stems),
            tokens=tokens,
            distinct_tokens=int((totals > 0).sum()) + ngrams + columns.uncounted,
            tokens_purged=tokens - kept,
            tokens_kept=kept,
            vocabulary=len(columns.vocabulary),
            distinct_kept=int(counts.nnz),
            empty_documents=tuple(np.flatnonzero(np.diff(counts.indptr) == 0).tolist()),
            dropped_documents=0,
            ngrams=ngrams,
            notes=notes,
        )


class _Source:
    """The texts of a source, whose labels, splits and reports are collected as they pass; its total counts rows."""

    def __init__(self, texts: LabelledTexts) -> None:
        self.texts, self.total = texts, texts.rows
        self.labels: list[Label] = []
        self.splits: list[str] | None = []
        self.reading = RowsRead()

    def done(self, counted: int) -> int:
        return self.reading.rows_read

    def batches(self, size: int) -> Iterator[tuple[str, ...]]:
        for chunk in self.texts.chunks(size):
            self.labels += chunk.labels
            self.reading = self.reading + chunk.report
            if not chunk.texts:
                continue
            if chunk.splits is None:  # one chunk is enough: splits of some documents only are of no use
                self.splits = None
            elif self.splits is not None:
                self.splits += chunk.splits
            yield chunk.texts


class _Given:
    """Texts given, with labels or without."""

    def __init__(self, texts: Any, labels: ArrayLike | None) -> None:
        if isinstance(texts, str | bytes | LabelledTexts):
            raise InvalidInputError("give texts with one label each, or a source (which has its own labels) alone.")
        self.texts = texts
        if labels is not None:
            check_not_missing(labels)
        self.labels = None if labels is None else array_of(labels, "labels", "one for each text")
        known = len(texts) if hasattr(texts, "__len__") else None
        self.total: int | None = known if self.labels is None or self.labels.ndim != 1 else len(self.labels)
        self.splits: list[str] | None = None
        self.reading = None

    def done(self, counted: int) -> int:
        return counted

    def batches(self, size: int) -> Iterator[tuple[str, ...]]:
        place, left = 0, iter(self.texts)
        while batch := tuple(islice(left, size)):
            for row, text in enumerate(batch, start=place):
                if not isinstance(text, str):
                    raise InvalidInputError(f"text {row} is a {type(text).__name__}: give strings.")
            place += len(batch)
            yield batch


def _as_array(labels: list[Label] | np.ndarray | None) -> np.ndarray | None:
    """Whole numbers as such, everything else as strings."""
    if labels is None or isinstance(labels, np.ndarray):
        return labels
    are_numbers = all(isinstance(label, int) for label in labels)
    return np.array(labels, np.int64) if are_numbers else np.array([str(label) for label in labels])


def _in_columns(counts: sp.csr_array, columns: np.ndarray, width: int) -> sp.csr_array:
    """The counts with their columns numbered anew, those at a gap left out."""
    own = columns[counts.indices]
    is_kept = own != GAP
    starts = np.concatenate([[0], np.cumsum(is_kept)])[counts.indptr].astype(counts.indptr.dtype)
    parts = (counts.data[is_kept], own[is_kept].astype(counts.indices.dtype), starts)
    result = sp.csr_array(parts, shape=(counts.shape[0], width))
    result.sort_indices()
    return result


def _word_map(lexicon: Lexicon, columns: Columns, counts: sp.csr_array) -> WordMap:
    """The words that are not stop words, and the n-grams that are kept, sorted, with their tokens as columns."""
    names, totals = lexicon.words, lexicon.totals
    tokens, starts = np.array(lexicon.tokens, np.int64), np.array(lexicon.starts, np.int64)
    own, rows = columns.tokens[tokens], np.flatnonzero(~lexicon.is_stop_word())
    if columns.grams.tables:
        runs, of_runs, found = _runs_of_words(lexicon, columns, counts)
        names, totals = names + runs, np.concatenate([totals, of_runs])
        own, starts = np.concatenate([own, found]), np.concatenate([starts, starts[-1] + 1 + np.arange(len(found))])
        rows = np.concatenate([rows, len(lexicon.words) + np.flatnonzero(found != GAP)])
    rows = rows[np.argsort(np.array([names[j] for j in rows.tolist()], dtype=object), kind="stable")]
    taken, ends = ragged_take(own, starts, rows)
    return WordMap(tuple(names[j] for j in rows.tolist()), totals[rows], taken, ends, columns.vocabulary)


def _runs_of_words(
    lexicon: Lexicon, columns: Columns, counts: sp.csr_array
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The runs of words behind the n-grams: how they look, how often they occur, and the column of each."""
    if not lexicon.recipe.cuts_stems and all(map(lexicon.stems.__contains__, lexicon.words)):  # each is its own stem
        found = np.concatenate(columns.of_grams)
        found = found[found != GAP]
        sums = np.bincount(counts.indices, weights=counts.data, minlength=len(columns.vocabulary)).astype(np.int64)
        is_met = sums[found] > 0
        return [columns.vocabulary[j] for j in found[is_met].tolist()], sums[found[is_met]], found[is_met]
    read = lexicon.sequences
    spelled, totals, which = behind(lambda: (words for words, _ in read()), columns.stems, columns.grams)
    found = np.concatenate([columns.of_grams[j][gram] for j, gram in enumerate(which)])
    return [run for runs in spelled.spelled(lexicon.words) for run in runs], np.concatenate(totals), found
