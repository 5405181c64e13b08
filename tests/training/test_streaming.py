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
from tokenmargin.training import DocumentStream, GradientDescent, StepSchedule, batch_factory, count_batches
from tokenmargin.training._program import epoch_function
from tokenmargin.training.streaming import in_runs, lengths_of

KEY = jax.random.key(3)


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


def in_order(stream: ListStream, model):
    """Batches of the data set in memory, in the order of the stream, epoch by epoch."""
    epochs = iter(range(100))

    def factory(dataset, batch_size, dtype):
        made = batch_factory(model)(dataset, batch_size, dtype)
        usual = type(made).rows

        class Ordered(type(made)):
            def rows(self, order):
                # The first question is about the sizes alone.
                is_asked = not np.array_equal(order, np.arange(len(order)))
                return usual(self, stream.order(next(epochs)) if is_asked else order)

        return Ordered(**{name: getattr(made, name) for name in made.__dataclass_fields__})

    return factory


@pytest.mark.parametrize("model", [OneLayer(width=6), TwoLayer(width=6)], ids=lambda model: type(model).__name__)
def test_the_parameters_have_the_bytes_of_in_memory_training_on_the_same_order(model):
    data = corpus()
    stream = ListStream(data)
    common = {"epochs": 3, "key": KEY, "batch_size": 4, "dtype": np.float64, "schedule": StepSchedule((2,))}
    there = train(stream, model, AdamW(lr=0.05), **common)
    here = train(data, model, AdamW(lr=0.05), batches=in_order(stream, model), **common)
    for own, other in zip(jax.tree.leaves(there.parameters), jax.tree.leaves(here.parameters), strict=True):
        assert np.asarray(own).tobytes() == np.asarray(other).tobytes()
    assert there.steps == here.steps == 3 * 12
    for name, column in here.records.columns().items():
        np.testing.assert_allclose(there.records.columns()[name], column, rtol=1e-12, err_msg=name)
    assert there.vocabulary == data.vocabulary
    assert np.isclose(there.evaluate(data).loss, here.evaluate(data).loss, rtol=1e-12)


def test_two_compilations_serve_every_piece_of_every_epoch():
    model = OneLayer(width=5)
    train(ListStream(corpus()), model, AdamW(lr=0.01), epochs=1, key=KEY, batch_size=4)
    compiled = epoch_function(model)._cache_size()
    train(ListStream(corpus(seed=1)), model, AdamW(lr=0.01), epochs=4, key=KEY, batch_size=4)
    assert epoch_function(model)._cache_size() == compiled
    uneven = ListStream(corpus(), sizes=(1, 1, 30, 13))
    train(uneven, model, AdamW(lr=0.01), epochs=1, key=KEY, batch_size=4)
    assert epoch_function(model)._cache_size() == compiled


def test_a_validation_set_keeps_the_best_epoch():
    data = corpus()
    run = train(
        ListStream(data), OneLayer(width=5), AdamW(lr=0.5), epochs=6, key=KEY, validation=corpus(20, seed=5), patience=2
    )
    assert run.best_epoch == int(np.argmin(run.validation.loss)) + 1
    assert len(run.validation) == len(run.records)


def test_batches_of_ones_own_come_as_data_sets():
    seen = []

    def own(dataset, batch_size, dtype):
        seen.append(dataset)
        return count_batches(dataset, batch_size, dtype)

    stream = ListStream(corpus())
    run = train(stream, OneLayer(width=5), AdamW(lr=0.01), epochs=1, key=KEY, batch_size=4, batches=own)
    assert sum(dataset.n_documents for dataset in seen) == 45
    usual = train(stream, OneLayer(width=5), AdamW(lr=0.01), epochs=1, key=KEY, batch_size=4)
    np.testing.assert_allclose(run.parameters.query, usual.parameters.query, rtol=1e-5)


def test_it_starts_from_a_run_over_the_same_vocabulary():
    stream = ListStream(corpus())
    first = train(stream, OneLayer(width=5), AdamW(lr=0.01), epochs=1, key=KEY)
    again = train(stream, OneLayer(width=5), AdamW(lr=0.01), epochs=0, key=KEY, start=first)
    np.testing.assert_array_equal(again.parameters.embeddings, first.parameters.embeddings)
    other = replace(stream, data=corpus(V=13))
    with pytest.raises(InvalidInputError, match="token"):
        train(other, OneLayer(width=5), AdamW(lr=0.01), epochs=1, key=KEY, start=first)


def test_a_method_that_takes_everything_at_once_is_refused():
    with pytest.raises(InvalidInputError, match="a stream never holds them all"):
        train(ListStream(corpus()), OneLayer(width=5), GradientDescent(0.1), epochs=1, key=KEY)


@pytest.mark.parametrize("documents", [1, 8, 44, 45, 100])
def test_runs_hold_every_document_once_in_order(documents):
    stream = ListStream(corpus())
    runs = list(in_runs(stream.epoch(0), documents))
    assert [len(labels) for _, labels in runs[:-1]] == [documents] * (len(runs) - 1)
    whole = sp.vstack([counts for counts, _ in runs]).toarray()
    np.testing.assert_array_equal(whole, stream.data.counts[stream.order(0)].toarray())


def test_lengths_of_many_documents_are_picked_evenly_with_the_longest(monkeypatch):
    from tokenmargin.training import streaming

    stream = ListStream(corpus())
    everything = np.sort(np.diff(stream.data.counts.indptr))
    np.testing.assert_array_equal(lengths_of(stream, 4), everything)
    monkeypatch.setattr(streaming, "MOST_LENGTHS", 10)
    picked = lengths_of(stream, 4)
    assert len(picked) == 14
    np.testing.assert_array_equal(picked[-4:], everything[-4:])
    assert {picked[0], picked[9]} == {everything[0], everything[-1]}


def test_layouts_of_two_layers_take_their_options():
    from tokenmargin.training import document_batches

    stream = ListStream(corpus())
    narrow = partial(document_batches, most_shelves=1)
    run = train(stream, TwoLayer(width=4), AdamW(lr=0.01), epochs=1, key=KEY, batch_size=16, batches=narrow)
    assert np.isfinite(run.records.loss).all()
