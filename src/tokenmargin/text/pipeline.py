"""Texts to a TokenDataset: two classes, no empty documents [E, App. E]."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._progress import Progress, silent
from tokenmargin._sentences import some
from tokenmargin._types import ArrayLike
from tokenmargin.data.labels import two_classes
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources.labelled import CHUNK, LabelledTexts
from tokenmargin.text.corpus import TokenizedCorpus
from tokenmargin.text.counting import Streamed, Vocabulary, recipe_for
from tokenmargin.text.recipe import Recipe


@checked
def tokenize(
    texts: LabelledTexts | Iterable[Any],
    labels: ArrayLike | None = None,
    recipe: Recipe | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    drop_empty: bool = False,
    chunk_size: int = CHUNK,
    map: Callable[..., Iterable[Any]] = builtins.map,
    progress: Progress = silent,
) -> TokenizedCorpus:
    """Clean, split, drop stop words, stem, cut into WordPieces, purge rare tokens, count.

    Args:
        texts: a source, or any iterable of texts (a generator too) with `labels` beside it.
        labels: one for each text, two distinct values; absent for a source, which has its own.
        recipe: the steps; those of `vocabulary` where it was made by some, else the paper's.
        vocabulary: a corpus (or the names of tokens): nothing is purged, and the columns are exactly its columns, so
            that what was trained on it can be applied. A recipe that would make other tokens is refused.
        drop_empty: documents that hold no token in the end are an error, or with this are left out and listed.
        chunk_size: texts held at a time; the result does not depend on it.
        map: applied as `map(function, chunks)`, in order; the built-in one, or that of an executor or cluster. One that
            reads its input ahead (as executors do) holds the texts that it has read.
        progress: called as `progress(done, total, what)` after each chunk.
    """
    if labels is None and not isinstance(texts, LabelledTexts):
        raise InvalidInputError("give texts with one label each, or a source (which has its own labels) alone.")
    made_by = recipe_for(recipe, vocabulary, Recipe())
    stream = Streamed(texts, labels, made_by, chunk_size, map, progress)
    two_classes(np.asarray(stream.stream.labels), stream.documents)  # errors about labels before those about tokens
    counted = stream.counted(vocabulary)
    empty = counted.report.empty_documents
    if empty and not drop_empty:
        rows = some(empty)
        what = f"that occurs {made_by.minimum_count} times" if vocabulary is None else "of the vocabulary"
        raise InvalidInputError(
            f"{len(empty)} of {stream.documents} documents hold no token {what} (rows {rows}): "
            + (
                stream.about_the_alphabet()
                or "pass drop_empty=True to leave them out and have them listed"
                + (", or lower minimum_count." if vocabulary is None else ".")
            )
        )
    dataset = TokenDataset(counted.counts, np.asarray(stream.stream.labels), counted.vocabulary, drop_empty=drop_empty)
    report = replace(counted.report, dropped_documents=len(empty))
    splits = _of_kept(counted.splits, dataset)
    return TokenizedCorpus(dataset, counted.word_map, counted.recipe, report, counted.reading, splits)


def _of_kept(splits: tuple[str, ...] | None, dataset: TokenDataset) -> tuple[str, ...] | None:
    """The splits of the documents that are in the data set."""
    if splits is None:
        return None
    dropped = set(dataset.dropped.tolist())
    return tuple(split for row, split in enumerate(splits) if row not in dropped)
