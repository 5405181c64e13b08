"""Training on a stream: the steps of in-memory training on the same order, few compilations, memory that is flat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np
import pytest
import scipy.sparse as sp

from tokenmargin import AdamW, OneLayer, TokenDataset, TwoLayer, token_statistics, train
from tokenmargin.errors import InvalidInputError
from tokenmargin.training import (
    Checkpoint,
    DocumentStream,
    GradientDescent,
    StepSchedule,
    count_batches,
    document_batches,
)
from tokenmargin.training._program import epoch_function
from tokenmargin.training._streaming import in_runs, lengths_of

KEY = jax.random.key(3)

#: The same for all, so that few programs are compiled.
ONE = OneLayer(width=6)
COMMON = {"key": KEY, "batch_size": 4, "dtype": np.float64}


def corpus(n=45, V=12, seed=0) -> TokenDataset:
    rng = np.random.default_rng(seed)
    lengths = 1 + np.arange(n) % 8
    ids = [rng.integers(0, V, length) for length in lengths]
    ids[-1] = np.arange(V)  # so that every token occurs
    return TokenDataset.from_token_ids(ids, np.arange(n) % 2)


@dataclass(frozen=True)
class ListStream(DocumentStream):
    """A data set in pieces of uneven sizes, shuffled anew for each epoch."""

    data: TokenDataset
    sizes: tuple[int, ...] = (7, 20, 1, 17)
    held: int = 16

    @property
    def vocabulary(self):
        return self.data.vocabulary

    @property
    def class_names(self):
        return self.data.class_names

    @property
    def n_documents(self):
        return self.data.n_documents

    @property
    def documents_held(self):
        return self.held

    def order(self, number):
        return np.random.default_rng([9, number]).permutation(self.n_documents)

    def epoch(self, number):
        order = self.order(number)
        for end, size in zip(np.cumsum(self.sizes), self.sizes, strict=True):
            rows = order[end - size : end]
            yield sp.csr_array(self.data.counts[rows]), self.data.labels[rows]

    def distinct_tokens(self):
        return np.bincount(np.diff(self.data.counts.indptr))

    def statistics(self):
        return token_statistics(self.data)


def in_order(stream: ListStream, batches):
    """Batches of the data set in memory, in the order of the stream, epoch by epoch."""
    epochs = iter(range(100))

    def factory(dataset, batch_size, dtype):
        made = batches(dataset, batch_size, dtype)
        usual = type(made).rows

        class Ordered(type(made)):
            def rows(self, order):
                # The first question is about the sizes alone.
                is_asked = not np.array_equal(order, np.arange(len(order)))
                return usual(self, stream.order(next(epochs)) if is_asked else order)

        return Ordered(**{name: getattr(made, name) for name in made.__dataclass_fields__})

    return factory


@pytest.mark.parametrize(
    ("model", "batches"),
    [(ONE, count_batches), (TwoLayer(width=6), partial(document_batches, most_shelves=1))],
    ids=["one layer", "two layers"],
)
def test_the_parameters_have_the_bytes_of_in_memory_training_on_the_same_order(model, batches):
    data = corpus()
    stream = ListStream(data)
    schedule = StepSchedule((1,))
    there = train(stream, model, AdamW(lr=0.05), epochs=2, schedule=schedule, batches=batches, **COMMON)
    ordered = in_order(stream, batches)
    here = train(data, model, AdamW(lr=0.05), epochs=2, schedule=schedule, batches=ordered, **COMMON)
    for own, other in zip(jax.tree.leaves(there.parameters), jax.tree.leaves(here.parameters), strict=True):
        assert np.asarray(own).tobytes() == np.asarray(other).tobytes()
    assert there.steps == here.steps == 2 * 12
    for name, column in here.records.columns().items():
        np.testing.assert_allclose(there.records.columns()[name], column, rtol=1e-12, err_msg=name)
    assert there.vocabulary == data.vocabulary


def test_two_compilations_serve_every_piece_of_every_epoch():
    train(ListStream(corpus()), ONE, AdamW(lr=0.01), epochs=1, **COMMON)
    compiled = epoch_function(ONE)._cache_size()
    train(ListStream(corpus(seed=1), sizes=(1, 1, 30, 13)), ONE, AdamW(lr=0.01), epochs=3, **COMMON)
    assert epoch_function(ONE)._cache_size() == compiled


def test_a_validation_set_keeps_the_best_epoch():
    stream, held_out = ListStream(corpus()), corpus(20, seed=5)
    run = train(stream, ONE, AdamW(lr=0.5), epochs=6, validation=held_out, patience=2, **COMMON)
    assert run.best_epoch == int(np.argmin(run.validation.loss)) + 1
    assert len(run.validation) == len(run.records)


def test_batches_of_ones_own_come_as_data_sets():
    seen = []

    def own(dataset, batch_size, dtype):
        seen.append(dataset)
        return count_batches(dataset, batch_size, dtype)

    stream = ListStream(corpus(44), sizes=(20, 24), held=44)
    run = train(stream, ONE, AdamW(lr=0.01), epochs=1, batches=own, **COMMON)
    (dataset,) = seen
    assert (dataset.n_documents, dataset.class_names) == (44, stream.class_names)
    np.testing.assert_array_equal(dataset.labels, stream.data.labels[stream.order(0)])
    assert np.isfinite(run.records.loss).all()


def test_it_starts_from_a_run_over_the_same_vocabulary():
    stream = ListStream(corpus())
    first = train(stream, ONE, AdamW(lr=0.01), epochs=1, **COMMON)
    again = train(stream, ONE, AdamW(lr=0.01), epochs=0, start=first, **COMMON)
    np.testing.assert_array_equal(again.parameters.embeddings, first.parameters.embeddings)
    other = replace(stream, data=corpus(V=13))
    with pytest.raises(InvalidInputError, match="token"):
        train(other, ONE, AdamW(lr=0.01), epochs=1, start=first, **COMMON)


class Stop(Exception):
    """An interruption between two epochs."""


def trained(stream, epochs, **more):
    run = train(stream, ONE, AdamW(lr=0.05), epochs=epochs, schedule=StepSchedule((3,)), **COMMON, **more)
    arrays, notes = run.archived()
    del arrays["epoch_seconds"]
    return run, ({name: array.tobytes() for name, array in arrays.items()}, notes)


def test_an_interrupted_run_ends_in_the_same_bytes(tmp_path):
    stream, held_out = ListStream(corpus()), corpus(20, seed=5)
    _, whole = trained(stream, 5, validation=held_out)
    kept, seen = Checkpoint(tmp_path, every=1), []

    def stop(epoch, _):
        if epoch == 3:
            raise Stop

    with pytest.raises(Stop):
        trained(stream, 5, validation=held_out, checkpoint=kept, on_epoch=stop)
    assert kept.files()
    assert trained(stream, 5, validation=held_out, checkpoint=kept, on_epoch=lambda e, _: seen.append(e))[1] == whole
    assert seen == [3, 4, 5]
    for other in (replace(stream, data=corpus(seed=1)), replace(stream, sizes=(20, 7, 1, 17))):
        with pytest.raises(InvalidInputError, match="data: saved a stream of 45 documents"):
            trained(other, 5, validation=held_out, checkpoint=kept)


def test_a_run_goes_on_as_if_it_had_never_ended():
    stream = ListStream(corpus())
    _, whole = trained(stream, 4)
    assert trained(stream, 2, start=trained(stream, 2)[0])[1] == whole


def test_a_method_that_takes_everything_at_once_is_refused():
    with pytest.raises(InvalidInputError, match="a stream never holds them all"):
        train(ListStream(corpus()), ONE, GradientDescent(0.1), epochs=1, **COMMON)


@pytest.mark.parametrize("documents", [1, 8, 44, 45, 100])
def test_runs_hold_every_document_once_in_order(documents):
    stream = ListStream(corpus())
    runs = list(in_runs(stream.epoch(0), documents))
    assert [len(labels) for _, labels in runs[:-1]] == [documents] * (len(runs) - 1)
    whole = sp.vstack([counts for counts, _ in runs]).toarray()
    np.testing.assert_array_equal(whole, stream.data.counts[stream.order(0)].toarray())


def test_lengths_of_many_documents_are_picked_evenly_with_the_longest(monkeypatch):
    from tokenmargin.training import _streaming as streaming

    stream = ListStream(corpus())
    everything = np.sort(np.diff(stream.data.counts.indptr))
    np.testing.assert_array_equal(lengths_of(stream, 4), everything)
    monkeypatch.setattr(streaming, "MOST_LENGTHS", 10)
    picked = lengths_of(stream, 4)
    assert len(picked) == 14
    np.testing.assert_array_equal(picked[-4:], everything[-4:])
    assert {picked[0], picked[9]} == {everything[0], everything[-1]}
