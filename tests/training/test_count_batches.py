"""Batches of counts hold exactly the documents of their rows, whatever their lengths."""

import jax
import numpy as np
import pytest

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.training.count_batches import CAPACITY_STEP, PIECE, CountBatches, count_batches


def dataset(rng, n=23, V=150):
    """Documents of 1 to V distinct tokens; a few are much longer than the rest."""
    density = np.where(np.arange(n) % 7 == 0, 0.9, 0.05)
    counts = rng.integers(1, 5, (n, V)) * (rng.random((n, V)) < density[:, None])
    counts[:, 0] += 1
    return TokenDataset(counts, np.where(np.arange(n) % 2 == 0, 1, -1))


def back_to_counts(batch, V):
    """The counts (B, V) that a batch stands for."""
    ids, log_counts, document = (np.asarray(x) for x in (batch.ids, batch.log_counts, batch.document))
    counts = np.zeros((len(batch.labels), V))
    for piece in range(len(ids)):
        for s, log_count in zip(ids[piece], log_counts[piece], strict=True):
            if log_count > -np.inf:
                counts[document[piece], s] += np.exp(log_count)
    return counts


def test_batches_hold_their_documents(rng):
    data = dataset(rng)
    batches = count_batches(data, 8, "float64")
    order = rng.permutation(23)
    rows = batches.rows(order)
    assert rows.shape == (3, 8)
    capacity, _ = layout = batches.layout(rows)
    plans = jax.jit(CountBatches.plan, static_argnums=2)(batches.on_device, rows, layout)
    dense = data.counts.toarray()
    for k in range(3):
        batch = CountBatches.batch(batches.on_device, jax.tree.map(lambda x, k=k: x[k], plans))
        assert batch.ids.shape == (capacity, PIECE)
        expected = order[8 * k : 8 * k + 8]
        np.testing.assert_allclose(back_to_counts(batch, 150)[: len(expected)], dense[expected], rtol=1e-12)
        np.testing.assert_array_equal(np.asarray(batch.labels)[: len(expected)], data.labels[expected])
        assert (np.asarray(batch.labels)[len(expected) :] == 0).all()
        # A document's pieces and a piece's document say the same.
        document, pieces = np.asarray(batch.document), np.asarray(batch.pieces)
        for b in range(8):
            np.testing.assert_array_equal(pieces[b][pieces[b] < capacity], np.flatnonzero(document == b))


def test_capacity_follows_the_usual_batch_and_gives_way_to_a_rare_one():
    """499 short documents and 16 long ones: room is kept for the short; a batch of long ones gets more."""
    n, V = 515, 2000
    counts = np.zeros((n, V), int)
    counts[:, :3] = 1
    counts[-16:] = 1
    data = TokenDataset(counts, np.where(np.arange(n) % 2 == 0, 1, -1))
    batches = count_batches(data, 16)
    longest = -(-V // PIECE)
    rare = batches.rows(np.concatenate([np.arange(499, 515), np.arange(499)]))
    assert batches.capacity < 16 * longest
    assert batches.layout(rare) == (-(-16 * longest // CAPACITY_STEP) * CAPACITY_STEP, longest)


def test_a_batch_is_never_larger_than_the_data_set(rng):
    batches = count_batches(dataset(rng), 1000)
    assert (batches.batch_size, len(batches.rows(np.arange(batches.n_documents)))) == (23, 1)


@pytest.mark.parametrize("size", [0, -3])
def test_bad_batch_size(rng, size):
    with pytest.raises(InvalidInputError, match="batch_size must be"):
        count_batches(dataset(rng), size)


def test_a_dtype_that_is_no_word_is_refused():
    data = TokenDataset(np.array([[1, 1], [1, 0]]), [1, -1])
    with pytest.raises(InvalidInputError, match="float32 or float64"):
        count_batches(data, 1, "\ud800")
