"""Texts to a TokenDataset, a chunk at a time [E, App. E]."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.data.tokens import TokenDataset, two_classes
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources.labelled import CHUNK, Label, LabelledTexts
from tokenmargin.sources.reading import ReadingReport
from tokenmargin.text._lexicon import Lexicon, ragged_take
from tokenmargin.text._words import number_words
from tokenmargin.text.corpus import SHOWN, TextReport, TokenizedCorpus
from tokenmargin.text.recipe import Recipe
from tokenmargin.text.word_map import PURGED, WordMap


def tokenize(
    texts: LabelledTexts | Iterable[Any],
    labels: ArrayLike | None = None,
    recipe: Recipe | None = None,
    *,
    drop_empty: bool = False,
    chunk_size: int = CHUNK,
    map: Callable[..., Iterable[Any]] = builtins.map,
    progress: Progress = silent,
) -> TokenizedCorpus:
    """Clean, split, drop stop words, stem, cut into WordPieces, purge rare tokens, count.

    Args:
        texts: a source, or any iterable of texts (a generator too) with `labels` beside it.
        labels: one for each text, two distinct values; absent for a source, which has its own.
        recipe: the steps; the paper's when absent.
        drop_empty: documents that hold no token in the end are an error, or with this are left out and listed.
        chunk_size: texts held at a time; the result does not depend on it.
        map: applied as `map(function, chunks)`, in order; the built-in one, or that of an executor or cluster. One that
            reads its input ahead (as executors do) holds the texts that it has read.
        progress: called as `progress(done, total, what)` after each chunk.
    """
    made_by = recipe or Recipe()
    if chunk_size < 1:
        raise InvalidInputError(f"chunk_size={chunk_size}: give at least 1.")
    lexicon = Lexicon(made_by)
    stream = _Source(texts) if isinstance(texts, LabelledTexts) and labels is None else _Given(texts, labels)
    parts: list[sp.csr_array] = []
    counted = 0
    for batch in map(partial(number_words, recipe=made_by), stream.batches(chunk_size)):
        part = lexicon.count(batch)
        parts.append(part)
        counted += part.shape[0]
        progress(stream.done(counted), stream.total, "counting words")
    return _finish(parts, stream, lexicon, drop_empty)


class _Source:
    """The texts of a source, whose labels, splits and reports are collected as they pass; its total counts rows."""

    def __init__(self, texts: LabelledTexts) -> None:
        self.texts, self.total = texts, texts.rows
        self.labels: list[Label] = []
        self.splits: list[str] | None = []
        self.reading = ReadingReport()

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
    """Texts given with their labels."""

    def __init__(self, texts: Any, labels: ArrayLike | None) -> None:
        if labels is None or isinstance(texts, str | bytes | LabelledTexts):
            raise InvalidInputError("give texts with one label each, or a source (which has its own labels) alone.")
        self.texts, self.labels = texts, np.asarray(labels)
        self.total: int | None = len(self.labels) if self.labels.ndim == 1 else None
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


def _finish(parts: list[sp.csr_array], stream: _Source | _Given, lexicon: Lexicon, drop_empty: bool) -> TokenizedCorpus:
    """Purge rare tokens over the whole corpus and put everything together."""
    n = sum(part.shape[0] for part in parts)
    if not n:
        raise InvalidInputError("there are no documents: give at least one of each class.")
    labels = np.asarray(stream.labels)
    two_classes(labels, n)  # its errors are about labels, and come before those about tokens
    counts, kept, totals = _purged(parts, lexicon)
    empty = np.flatnonzero(np.diff(counts.indptr) == 0)
    if empty.size and not drop_empty:
        rows = ", ".join(builtins.map(str, empty[:SHOWN].tolist())) + (", ..." if empty.size > SHOWN else "")
        raise InvalidInputError(
            f"{empty.size} of {n} documents hold no token that occurs {lexicon.recipe.minimum_count} times (rows "
            f"{rows}): pass drop_empty=True to leave them out and have them listed, or lower minimum_count."
        )
    is_stop = lexicon.is_stop_word()
    report = TextReport(
        documents=n,
        words=int(lexicon.totals.sum()),
        distinct_words=len(lexicon.words),
        stop_words=int(lexicon.totals[is_stop].sum()),
        distinct_stems=len(lexicon.stems),
        tokens=int(totals.sum()),
        distinct_tokens=int((totals > 0).sum()),
        tokens_purged=int(totals.sum() - totals[kept].sum()),
        tokens_kept=int(totals[kept].sum()),
        vocabulary=len(kept),
        distinct_kept=int(counts.nnz),
        empty_documents=tuple(empty.tolist()),
        dropped_documents=int(empty.size),
    )
    words = _word_map(lexicon, kept, is_stop)
    dataset = TokenDataset(counts, labels, words.vocabulary, drop_empty=drop_empty)
    return TokenizedCorpus(dataset, words, lexicon.recipe, report, stream.reading, _of_kept(stream.splits, dataset))


def _of_kept(splits: list[str] | None, dataset: TokenDataset) -> tuple[str, ...] | None:
    """The splits of the documents that are in the data set."""
    if splits is None:
        return None
    dropped = set(dataset.dropped.tolist())
    return tuple(split for row, split in enumerate(splits) if row not in dropped)


def _purged(parts: list[sp.csr_array], lexicon: Lexicon) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """The counts of all chunks over the tokens kept, which tokens those are, and how often each token occurs."""
    V = len(lexicon.names)
    for part in parts:
        part.resize((part.shape[0], V))  # later chunks may know more tokens
    counts = sp.csr_array(sp.vstack(parts, format="csr"))
    parts.clear()
    totals = np.bincount(counts.indices, weights=counts.data, minlength=V).astype(np.int64)
    order, minimum = lexicon.in_order(), lexicon.recipe.minimum_count
    kept = order[totals[order] >= minimum]
    if not kept.size:
        raise InvalidInputError(
            f"no token occurs {minimum} times in these {counts.shape[0]} documents: give more documents, "
            "or a lower minimum_count."
        )
    counts = sp.csr_array(counts[:, kept])
    counts.sort_indices()
    return counts, kept, totals


def _word_map(lexicon: Lexicon, kept: np.ndarray, is_stop: np.ndarray) -> WordMap:
    """The words that are not stop words, sorted, with their tokens as columns of the data set."""
    columns = np.full(len(lexicon.names), PURGED, np.int64)
    columns[kept] = np.arange(len(kept))
    rows = np.flatnonzero(~is_stop)
    rows = rows[np.argsort(np.array([lexicon.words[j] for j in rows.tolist()], dtype=object), kind="stable")]
    tokens, starts = ragged_take(np.array(lexicon.tokens, np.int64), np.array(lexicon.starts, np.int64), rows)
    words = tuple(lexicon.words[j] for j in rows.tolist())
    vocabulary = tuple(lexicon.names[j] for j in kept.tolist())
    return WordMap(words, lexicon.totals[rows], columns[tokens], starts, vocabulary)
