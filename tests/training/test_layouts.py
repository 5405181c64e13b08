"""Shelves: every document once, in a place that is wide enough, at little padding."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.errors import InvalidInputError
from tokenmargin.training._layouts import (
    EPOCHS_TO_SAVE_IT,
    FEWEST_IN_A_BLOCK,
    MOST_IN_A_BLOCK,
    SHARES,
    SHELF_TO_COMPILE,
    TOKENS_OF_A_BLOCK,
    BlockLayout,
    ShelfLayout,
    _cheapest_layout,
    _trial_batches,
    block_layout,
    holds,
    longest_first,
    shelf_layouts,
)
from tokenmargin.training.document_batches import DocumentBatches, DocumentCorpus, shelves_of

#: Padded over unpadded work at the lengths of IMDB: 2.3 were measured, one width a batch costs 12.7.
MOST_PADDING = 2.5
BATCH_SIZE, MODEL_WIDTH = 128, 2048


def work_of_blocks(layout, sorted_lengths, model_width):
    """What steps cost, block by block, given the lengths of their batches, shape (..., batch_size)."""
    longest = sorted_lengths[..., :: layout.block]
    ascending = np.array(layout.widths_of_blocks[::-1])
    U = ascending[np.searchsorted(ascending, longest)].astype(float)
    return layout.block * np.sum(2 * U**2 * model_width + 2 * U**3, axis=-1)


def imdb_like_lengths(rng, n=20_000, mean=115, deviation=70, largest=700):
    spread = np.log(1 + (deviation / mean) ** 2)
    lengths = rng.lognormal(np.log(mean) - spread / 2, np.sqrt(spread), n)
    return np.clip(np.rint(lengths), 1, largest).astype(int)


class Epoch(NamedTuple):
    """Rows of every batch, longest document first, and the number of the first layout that holds each."""

    rows: np.ndarray
    layouts: np.ndarray


def epoch_batches(lengths, layouts, rng):
    """What `DocumentBatches` plans for an epoch, by the host: shuffle, cut, and take the first layout that holds."""
    rows = longest_first(rng.permutation(len(lengths)), lengths, layouts[0].batch_size)
    own = np.where(rows >= 0, lengths[rows], 0)
    held = np.stack([holds(layout, own) for layout in layouts])
    assert held.any(axis=0).all()
    return Epoch(rows, np.argmax(held, axis=0))


def batches_of_lengths(lengths, layouts):
    """Documents of these lengths, of one token over and over, as `document_batches` would put them on the device."""
    edges = jnp.asarray(np.concatenate([[0], np.cumsum(lengths)]), jnp.int32)
    n, nonzeros = len(lengths), int(np.sum(lengths))
    corpus = DocumentCorpus(edges, jnp.zeros(nonzeros, jnp.int32), jnp.zeros(nonzeros), jnp.ones(n))
    return DocumentBatches(corpus, lengths, layouts)


def test_the_device_takes_the_first_layout_that_holds(rng):
    lengths = imdb_like_lengths(rng, n=3000)
    layouts = shelf_layouts(lengths, BATCH_SIZE)
    batches = batches_of_lengths(lengths, layouts)
    rows = batches.rows(np.random.default_rng(5).permutation(3000))
    plan = batches.plan(batches.on_device, rows, batches.layout(rows))
    expected = epoch_batches(lengths, layouts, np.random.default_rng(5))
    np.testing.assert_array_equal(plan.rows, expected.rows)
    np.testing.assert_array_equal(plan.layout, expected.layouts)
    assert len(set(expected.layouts.tolist())) > 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 40), st.integers(1, 5))
def test_every_document_once_and_wide_enough(seed, n, batch_size, most_shelves):
    rng = np.random.default_rng(seed)
    lengths = np.ceil(np.exp(rng.normal(3, 1, size=n))).astype(int)
    layouts = shelf_layouts(lengths, batch_size, most_shelves=most_shelves)
    epoch = epoch_batches(lengths, layouts, rng)
    assert np.array_equal(np.sort(epoch.rows[epoch.rows >= 0]), np.arange(n))
    assert epoch.rows.shape == (-(-n // batch_size), batch_size)
    assert all(len(layout.shelves) <= most_shelves and layout.batch_size == batch_size for layout in layouts)
    for rows, layout in zip(epoch.rows, epoch.layouts, strict=True):
        own = np.where(rows >= 0, lengths[rows], 0)
        assert np.all(own <= layouts[layout].widths)


def test_batches_are_those_of_plain_shuffling(rng):
    """The same permutation cut into the same sets: only the order inside a batch, which no mean sees, differs."""
    lengths = imdb_like_lengths(rng, n=1000)
    epoch = epoch_batches(lengths, shelf_layouts(lengths, BATCH_SIZE), np.random.default_rng(5))
    plain = np.random.default_rng(5).permutation(1000)
    for k, rows in enumerate(epoch.rows):
        assert set(rows[rows >= 0]) == set(plain[k * BATCH_SIZE : (k + 1) * BATCH_SIZE])


def test_padding_is_small_at_the_lengths_of_reviews(rng):
    lengths = imdb_like_lengths(rng)
    layouts = shelf_layouts(lengths, BATCH_SIZE, model_width=MODEL_WIDTH)
    epoch = epoch_batches(lengths, layouts, rng)
    padded = sum(layouts[k].work(MODEL_WIDTH) for k in epoch.layouts)
    unpadded = sum(ShelfLayout(((1, int(n)),)).work(MODEL_WIDTH) for n in lengths)
    assert padded <= MOST_PADDING * unpadded
    assert len(layouts) <= len(SHARES) + 1


def test_little_work_compiles_few_shelves(rng):
    """What a shelf saves grows with the documents and the width; what it takes to compile does not."""
    lengths = imdb_like_lengths(rng, mean=110, deviation=25, largest=190)
    asked = [(500, 16), (8_000, 16), (20_000, MODEL_WIDTH)]
    found = [shelf_layouts(lengths[:n], BATCH_SIZE, model_width=width) for n, width in asked]
    fewest, few, many = (sum(len(layout.shelves) for layout in layouts) for layouts in found)
    assert fewest < few <= 5
    assert many >= 2 * few


def test_batches_that_hardly_occur_are_taken_one_by_one(rng):
    """The last layout holds the longest documents of all side by side, and is one shelf to compile."""
    lengths = imdb_like_lengths(rng)
    *tight, last = shelf_layouts(lengths, BATCH_SIZE)
    assert last.one_by_one
    assert len(last.shelves) == 1
    assert not any(layout.one_by_one for layout in tight)
    longest = -np.sort(-lengths)[None, :BATCH_SIZE]
    assert holds(last, longest).all()
    assert not any(holds(layout, longest).any() for layout in tight)
    assert last.work(MODEL_WIDTH) > 10 * tight[-1].work(MODEL_WIDTH)


def test_layouts_depend_on_the_documents_alone(rng):
    lengths = imdb_like_lengths(rng, n=2000)
    assert shelf_layouts(lengths, BATCH_SIZE) == shelf_layouts(lengths, BATCH_SIZE)
    assert shelf_layouts(rng.permutation(lengths), BATCH_SIZE)[-1] == shelf_layouts(lengths, BATCH_SIZE)[-1]


def test_work_is_that_of_both_kinds_of_products():
    """In proportion to the sum of U^2 d + U^3 over all places, whether d or U is the larger."""
    layout = ShelfLayout(((3, 48), (2, 16)))
    U = layout.widths.astype(float)
    share = [layout.work(d) / np.sum(U**2 * d + U**3) for d in (1, 32, 2048)]
    assert share == pytest.approx([share[0]] * 3, rel=1e-12)


def test_cheapest_layout_is_the_cheapest_of_all(rng):
    """Against all ways to cut a small batch."""
    lengths = np.array([100, 90, 40, 38, 20, 5])
    layout = _cheapest_layout(lengths, 2048, most_shelves=2)
    options = [((k, 112), (6 - k, 16 * -(-int(lengths[k]) // 16))) for k in (1, 2, 4)] + [((6, 112),)]
    assert layout.work(2048) == min(ShelfLayout(o).work(2048) for o in options)


@pytest.mark.parametrize(("n", "model_width"), [(300, 16), (6000, 16), (6000, 512)])
def test_widths_of_blocks_are_the_cheapest_of_all(n, model_width):
    """Against every choice of widths, what they compile counted in: on the batches that it looks at."""
    rng = np.random.default_rng(3)
    lengths = np.clip(rng.geometric(0.03, n), 1, 112)
    (found,) = block_layout(lengths, 16, model_width=model_width, most_shelves=4)
    trials = _trial_batches(lengths, 16)
    steps = range(16, int(lengths.max()), 16)
    widest = 16 * -(-int(lengths.max()) // 16)

    def expense(layout):
        to_compile = SHELF_TO_COMPILE / (EPOCHS_TO_SAVE_IT * np.ceil(n / 16))
        return work_of_blocks(layout, trials, model_width).mean() + to_compile * len(layout.widths_of_blocks)

    choices = [few for k in range(4) for few in combinations(steps[::-1], k)]
    options = [BlockLayout(16, found.block, (widest, *few)) for few in choices]
    assert expense(found) == pytest.approx(min(map(expense, options)), rel=1e-12)
    assert holds(found, -np.sort(-lengths)[None, :16]).all()


def test_blocks_pad_less_than_shelves_and_compile_less(rng):
    lengths = imdb_like_lengths(rng)
    for model_width in (16, MODEL_WIDTH):
        layouts = shelf_layouts(lengths, BATCH_SIZE, model_width=model_width)
        (blocks,) = block_layout(lengths, BATCH_SIZE, model_width=model_width)
        epoch = epoch_batches(lengths, layouts, np.random.default_rng(1))
        own = np.where(epoch.rows >= 0, lengths[epoch.rows], 0)
        assert work_of_blocks(blocks, own, model_width).sum() < sum(layouts[k].work(model_width) for k in epoch.layouts)
        assert len(blocks.widths_of_blocks) < sum(len(layout.shelves) for layout in layouts)


def test_blocks_hold_about_as_many_tokens(rng):
    """Few long documents or many short ones, and never more than the batch has."""
    asked = [(300, 64), (60, 64), (10, 64), (10, 3)]
    found = [block_layout(rng.integers(length - 5, length + 5, 400), size)[0].block for length, size in asked]
    assert found == [FEWEST_IN_A_BLOCK, TOKENS_OF_A_BLOCK // 60, MOST_IN_A_BLOCK, 3]


def test_little_work_compiles_few_widths(rng):
    lengths = imdb_like_lengths(rng)
    asked = [(500, 16), (8_000, 16), (20_000, MODEL_WIDTH)]
    found = [block_layout(lengths[:n], BATCH_SIZE, model_width=width, most_shelves=12) for n, width in asked]
    fewest, few, many = (len(layout.widths_of_blocks) for (layout,) in found)
    assert fewest < few < many


def test_shelves_hold_the_documents(rng):
    dense = rng.integers(0, 4, size=(30, 12)) * (rng.random((30, 12)) < 0.4)
    dense[:, 0] = 1
    counts, labels = scipy.sparse.csr_array(dense), np.where(rng.random(30) < 0.5, -1.0, 1.0)
    lengths = np.diff(counts.indptr)
    layouts = shelf_layouts(lengths, 8, most_shelves=2)
    epoch = epoch_batches(lengths, layouts, rng)
    corpus = DocumentCorpus.from_counts(counts, labels, dtype=np.float64)
    seen = []
    for rows, layout in zip(epoch.rows, epoch.layouts, strict=True):
        shelves = shelves_of(corpus, rows, layouts[layout])
        found = [row for shelf in shelves for row in zip(shelf.ids, shelf.log_counts, shelf.labels, strict=True)]
        for row, (ids, log_counts, label) in zip(rows, found, strict=True):
            again = np.zeros(12)
            np.add.at(again, np.asarray(ids), np.exp(np.asarray(log_counts)))
            if row < 0:
                assert float(label) == 0
                assert np.isfinite(log_counts).sum() == 1
            else:
                assert float(label) == labels[row]
                np.testing.assert_allclose(again, dense[row], rtol=1e-14)
                seen.append(row)
    assert sorted(seen) == list(range(30))


@pytest.mark.parametrize("lengths", [[], [3, 0], [[1, 2]], [1.5, 2.0]])
def test_lengths_that_are_none(lengths):
    with pytest.raises(InvalidInputError, match="positive integers"):
        shelf_layouts(np.array(lengths), 4)
    with pytest.raises(InvalidInputError, match="positive integers"):
        block_layout(np.array(lengths), 4)


def test_layouts_of_other_documents_are_refused(rng):
    batches = batches_of_lengths(np.full(50, 100), shelf_layouts(np.full(50, 10), 8))
    with pytest.raises(InvalidInputError, match="same lengths"):
        batches.layout(batches.rows(rng.permutation(50)))


def test_empty_documents_are_refused():
    with pytest.raises(InvalidInputError, match="drop empty"):
        DocumentCorpus.from_counts(scipy.sparse.csr_array(np.array([[1, 0], [0, 0]])), [1, -1])
