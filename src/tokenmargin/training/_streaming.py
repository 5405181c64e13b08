"""Training on documents that come piece by piece: the steps of in-memory training on the same order, in flat memory.

Pieces are cut anew into runs of a fixed number of whole batches, the rest of a piece going first into the next run, so
that one compilation serves all runs of all epochs but the last of each, and a second one those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.training._guards import check_numbers, check_parameters, coefficients
from tokenmargin.training._layouts import shelf_layouts
from tokenmargin.training._program import EpochData, TrainingState, epoch_function, initial_state, program_of
from tokenmargin.training.batches import batch_factory, batches_of
from tokenmargin.training.count_batches import count_batches, count_sizes, cut_counts
from tokenmargin.training.document_batches import DocumentBatches, DocumentCorpus, document_batches
from tokenmargin.training.document_stream import DocumentStream
from tokenmargin.training.evaluate import BestEpoch
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.records import records_of
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.trainable import Batches, BatchFactory, Trainable, Tree
from tokenmargin.training.training_run import TrainingRun
from tokenmargin.training.warm_up import WarmUp

#: Lengths that stand for those of all documents where sizes are derived from them.
MOST_LENGTHS = 100_000

#: Of the numbers of an epoch, those that are means over its documents: loss and accuracy.
MEANS = 2

#: Makes the batches of a run of documents.
Cut = Callable[[sp.csr_array, np.ndarray], Batches]


def train_stream(
    stream: DocumentStream,
    model: Trainable,
    optimiser: Optimiser,
    parameters: Tree,
    *,
    epochs: int,
    batch_size: int,
    schedule: StepSchedule | WarmUp,
    batches: BatchFactory | None = None,
    best: BestEpoch | None = None,
    progress: Progress = silent,
    on_epoch: Callable[[int, Tree], None] | None = None,
) -> TrainingRun:
    """`train` on a stream, from parameters that it may overwrite; what it is told means what it means there."""
    kind = parameters.embeddings.dtype.name
    size = _batch_size(stream, optimiser, batch_size)
    together = max(1, min(stream.documents_held, stream.n_documents) // size)  # steps of a run
    cut = cut_for(stream, model, size, together * size, kind, batches)
    posterior = jnp.asarray(stream.statistics().posterior_difference.astype(kind))
    state = TrainingState(parameters, ())
    measured: list[np.ndarray] = []
    rates: list[float] = []
    steps = 0
    for epoch in range(1, epochs + 1):
        rises = schedule.multipliers(epoch - 1, -(-stream.n_documents // size))
        table = coefficients(optimiser, steps, optimiser.lr * rises).astype(kind)
        done, means = 0, np.zeros(MEANS)
        for counts, labels in in_runs(stream.epoch(epoch - 1), together * size):
            source = cut(counts, labels)
            if not steps and not done:
                state = TrainingState(parameters, initial_state(optimiser, model, source, parameters))
            rows = source.rows(np.arange(len(labels)))
            data = EpochData(source.on_device, posterior, rows, table[done : done + len(rows)])
            state, numbers = epoch_function(model)(program_of(model, source, rows), type(optimiser), state, data)
            last, done = np.asarray(numbers, dtype=np.float64), done + len(rows)
            means += last[:MEANS] * (len(labels) / stream.n_documents)
        measured.append(np.concatenate([means, last[MEANS:]]))
        rates.append(float(optimiser.lr * rises[-1]))
        steps += done
        check_numbers(measured[-1], None if best is None else best.see(state.parameters), epoch, rates[-1])
        progress(epoch, epochs, "training")
        if on_epoch is not None:
            on_epoch(epoch, state.parameters)
        if best is not None and best.is_over:
            break
    kept = state.parameters if best is None or best.epoch == 0 else best.parameters
    check_parameters(kept, rates)
    return TrainingRun(
        parameters=kept,
        records=records_of(measured, rates),
        model=model,
        optimiser=optimiser,
        steps=steps,
        vocabulary=stream.vocabulary,
        class_names=stream.class_names,
        validation=None if best is None else best.records(),
        best_epoch=None if best is None else best.epoch,
        batches=batches,
    )


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
    stream: DocumentStream, model: Trainable, batch_size: int, documents: int, kind: str, batches: BatchFactory | None
) -> Cut:
    """What makes batches of runs of so many documents, in arrays of one size where the kind of batches is known here.

    Args:
        stream: whose lengths decide the sizes.
        model: whose batches are made.
        batch_size: documents of a step.
        documents: of a run.
        kind: float32 or float64.
        batches: how documents are cut into batches, where it is not to be the way of the model's type.
    """
    factory: Any = batches or batch_factory(model)
    plain, told = (factory.func, factory.keywords) if isinstance(factory, partial) else (factory, {})
    if plain is count_batches:
        sizes = count_sizes(lengths_of(stream, batch_size), batch_size, documents)
        return lambda counts, labels: cut_counts(counts, labels, sizes, kind)
    if plain is document_batches:
        lengths = lengths_of(stream, batch_size)
        layouts = shelf_layouts(lengths, batch_size, **told)
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
