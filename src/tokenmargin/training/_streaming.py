"""Training on documents that come piece by piece: the steps of in-memory training on the same order, in flat memory.

Pieces are cut anew into runs of a fixed number of whole batches, the rest of a piece going first into the next run, so
that one compilation serves all runs of all epochs but the last of each, and a second one those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import whole_number
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.model import Model, Tree
from tokenmargin.training._program import (
    EpochData,
    TrainingState,
    epoch_function,
    initial_state,
    program_of,
    recorded_names,
)
from tokenmargin.training._under_way import Passed, Rule, Training, coefficients
from tokenmargin.training.batches import batch_factory, batches_of
from tokenmargin.training.count_batches import count_batches, count_sizes, cut_counts
from tokenmargin.training.document_batches import DocumentBatches, DocumentCorpus, document_batches, layouts_here
from tokenmargin.training.document_stream import DocumentStream
from tokenmargin.training.examples import Batches, BatchFactory
from tokenmargin.training.optimisers import Optimiser

#: Lengths that stand for those of all documents where sizes are derived from them.
MOST_LENGTHS = 100_000

#: Of the numbers of an epoch, those that are means over its documents: loss and accuracy.
MEANS = 2

#: Makes the batches of a run of documents.
Cut = Callable[[sp.csr_array, np.ndarray], Batches]


@dataclass(frozen=True)
class Runs:
    """Runs of whole batches that the documents of a stream are cut into, each run in arrays of one size."""

    batch_size: int
    steps: int  #: of a run
    cut: Cut

    def of(self, pieces: Iterator[tuple[sp.csr_array, np.ndarray]]) -> Iterator[tuple[Batches, int]]:
        """The batches of one run after the other, and how many documents each has."""
        for counts, labels in in_runs(pieces, self.steps * self.batch_size):
            yield self.cut(counts, labels), len(labels)


def runs_of(
    stream: DocumentStream,
    model: Model,
    optimiser: Optimiser,
    batch_size: int,
    kind: str,
    batches: BatchFactory | None,
) -> Runs:
    """The runs of a stream, of about as many documents as it holds in memory itself."""
    size = _batch_size(stream, optimiser, batch_size)
    steps = max(1, min(stream.documents_held, stream.n_documents) // size)
    return Runs(size, steps, cut_for(stream, model, size, steps * size, kind, batches))


class OnStream(Training):
    """A training on a stream; the order of an epoch is the stream's own, by the epoch's number."""

    def __init__(self, runs: Runs, rule: Rule, parameters: Tree) -> None:
        """The optimiser's state has the shapes of gradients, which are asked of the first run of documents."""
        assert isinstance(rule.dataset, DocumentStream)
        self._stream, self._runs = rule.dataset, runs
        pieces = runs.of(self._stream.epoch(0))
        first = next(pieces)
        self._first: tuple[tuple[Batches, int], Iterator[tuple[Batches, int]]] | None = (first, pieces)
        state = TrainingState(parameters, initial_state(rule.optimiser, rule.model, first[0], parameters))
        self._posterior = jnp.asarray(self._stream.statistics().posterior_difference.astype(rule.dtype))
        super().__init__(rule, state, recorded_names(rule.model, parameters, self._posterior))

    def one_pass(self) -> Passed:
        """One run of documents after the other."""
        model, optimiser, n = self.rule.model, self.rule.optimiser, self._stream.n_documents
        rises = self.rule.schedule.multipliers(self.epochs, -(-n // self._runs.batch_size))
        table = coefficients(optimiser, self.steps, optimiser.lr * rises).astype(self.rule.dtype)
        state, done, means = self.state, 0, np.zeros(MEANS)
        for source, documents in self._documents():
            rows = source.rows(np.arange(documents))
            data = EpochData(source.on_device, self._posterior, rows, table[done : done + len(rows)])
            state, numbers = epoch_function(model)(program_of(model, source, rows), type(optimiser), state, data)
            last, done = np.asarray(numbers, dtype=np.float64), done + len(rows)
            means += last[:MEANS] * (documents / n)
        return Passed(state, np.concatenate([means, last[MEANS:]]), float(optimiser.lr * rises[-1]), done)

    def _documents(self) -> Iterator[tuple[Batches, int]]:
        """The runs of the next epoch; the first one of all was cut already."""
        began, self._first = self._first, None
        if began is None or self.epochs > 0:
            return self._runs.of(self._stream.epoch(self.epochs))
        return chain([began[0]], began[1])


def _batch_size(stream: DocumentStream, optimiser: Optimiser, batch_size: int) -> int:
    whole_number(batch_size, "batch_size", 1)
    if optimiser.full_batch:
        raise InvalidInputError(
            f"{type(optimiser).__name__} takes all documents as one batch, and a stream never holds them all: take "
            "AdamW or SGD, or load the corpus into memory where it fits."
        )
    return min(int(batch_size), stream.n_documents)


def in_runs(
    pieces: Iterator[tuple[sp.csr_array, np.ndarray]], documents: int
) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
    """The same documents in the same order, so many at a time; the last run holds what is left."""
    counts: sp.csr_array | None = None
    labels = np.zeros(0)
    for more, signs in pieces:
        counts = more if counts is None else sp.csr_array(sp.vstack([counts, more], format="csr"))
        labels = np.concatenate([labels, signs])
        del more
        while len(labels) >= documents:
            yield sp.csr_array(counts[:documents]), labels[:documents]
            counts, labels = sp.csr_array(counts[documents:]), labels[documents:]
    if counts is not None and len(labels):
        yield counts, labels


def cut_for(
    stream: DocumentStream, model: Model, batch_size: int, documents: int, kind: str, batches: BatchFactory | None
) -> Cut:
    """Return a function that makes batches of a run of so many documents, in arrays of one size where that is known.

    The lengths of the stream decide the sizes; `batches` is as in `train`.
    """
    factory: Any = batches or batch_factory(model)
    plain, told = (factory.func, factory.keywords) if isinstance(factory, partial) else (factory, {})
    if plain is count_batches:
        sizes = count_sizes(lengths_of(stream, batch_size), batch_size, documents)
        return lambda counts, labels: cut_counts(counts, labels, sizes, kind)
    if plain is document_batches:
        lengths = lengths_of(stream, batch_size)
        layouts = layouts_here(lengths, batch_size, **told)
        room = int(np.ceil(documents * lengths.mean() + 6 * np.sqrt(documents) * lengths.std()))

        def cut(counts: sp.csr_array, labels: np.ndarray) -> Batches:
            corpus = DocumentCorpus.from_counts(counts, labels, np.dtype(kind).type, room=room)
            return DocumentBatches(corpus, np.diff(counts.indptr).astype(np.int64), layouts)

        return cut
    return lambda counts, labels: batches_of(
        TokenDataset(counts, np.where(labels > 0, *stream.class_names[::-1]), stream.vocabulary),
        model,
        batch_size,
        kind,
        batches,
    )


def lengths_of(stream: DocumentStream, batch_size: int) -> np.ndarray:
    """Distinct tokens of every document, sorted; of many documents evenly picked ones, and the longest."""
    held_by = stream.distinct_tokens()
    ends = np.cumsum(held_by)
    n = int(ends[-1])
    places = np.arange(n) if n <= MOST_LENGTHS else np.linspace(0, n - 1, MOST_LENGTHS).astype(np.int64)
    if n > MOST_LENGTHS:
        places = np.concatenate([places, np.arange(n - batch_size, n)])
    return np.searchsorted(ends, places, side="right").astype(np.int64)
