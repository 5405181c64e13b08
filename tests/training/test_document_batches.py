"""The two-layer model in `train`: the same steps as a loop over documents, whatever the shelves."""

import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.models.two_layer import TwoLayer
from tokenmargin.training._layouts import BlockLayout, ShelfLayout, shelf_layouts
from tokenmargin.training.document_batches import document_batches
from tokenmargin.training.evaluate import Evaluator
from tokenmargin.training.optimisers import AdamW
from tokenmargin.training.train import train

KEY = jax.random.key(0)


def corpus(n=37, V=30, seed=0):
    rng = np.random.default_rng(seed)
    documents = [rng.integers(0, V, size=rng.integers(1, 60)) for _ in range(n)]
    return TokenDataset.from_token_ids(documents, np.arange(n) % 2, map(str, range(V)))


def outputs_by_loop(dataset, model, parameters):
    """f of every document, each token gathered as often as it stands there; gain 1 and bias 0, as at the start."""
    E, p, v = (np.asarray(x) for x in (parameters.embeddings, parameters.query, parameters.head))
    outputs = []
    for i in range(dataset.n_documents):
        ids = np.repeat(np.arange(dataset.vocabulary_size), dataset.counts[[i]].toarray()[0])
        X = E[ids]
        if isinstance(model, TwoLayer):
            A = np.exp(model.mixing_scale * X @ X.T)
            H = A / A.sum(axis=1, keepdims=True) @ X + X
            X = (H - H.mean(axis=1, keepdims=True)) / np.sqrt(H.var(axis=1, keepdims=True) + model.epsilon)
        q = np.exp(model.score_scale * X @ p)
        outputs.append(q / q.sum() @ X @ v)
    return np.array(outputs)


def gradients_of_every_batch(model, parameters, batches, plans):
    """Compiled once: operation by operation it would be hundreds of programs."""
    step = jax.jit(lambda plan: model.loss_and_gradients(parameters, batches.batch(batches.on_device, plan)))
    return [step(jax.tree.map(lambda x, k=k: x[k], plans)) for k in range(len(jax.tree.leaves(plans)[0]))]


def test_every_document_is_in_one_batch_and_every_batch_fits_its_layout():
    batches = document_batches(corpus(), 8)
    rows = batches.rows(np.random.default_rng(1).permutation(37))
    assert sorted(rows[rows >= 0].tolist()) == list(range(37))
    plan = batches.plan(batches.on_device, rows, batches.layout(rows))
    for row, layout in zip(rows, np.asarray(plan.layout), strict=True):
        own = np.where(row >= 0, batches.lengths[row], 0)
        assert (own <= batches.layouts[layout].widths).all()


@pytest.mark.parametrize("affine", [False, True])
def test_a_step_is_the_mean_of_single_document_gradients(affine):
    dataset, model = corpus(), TwoLayer(width=6, affine=affine)
    parameters = model.initial(KEY, dataset.vocabulary_size, np.float64)
    batches = document_batches(dataset, 16, "float64")
    rows = batches.rows(np.arange(37))
    plans = batches.plan(batches.on_device, rows, batches.layouts)
    together = gradients_of_every_batch(model, parameters, batches, plans)
    alone = document_batches(dataset, 1, "float64")
    each = gradients_of_every_batch(
        model, parameters, alone, alone.plan(alone.on_device, alone.rows(np.arange(37)), alone.layouts)
    )
    for row, (sums, gradients) in zip(rows, together, strict=True):
        own = row[row >= 0]
        assert sums.documents == len(own)
        assert np.isclose(sums.mean_loss, np.mean([each[i][0].mean_loss for i in own]), rtol=1e-12)
        for ours, *theirs in zip(jax.tree.leaves(gradients), *(jax.tree.leaves(each[i][1]) for i in own), strict=True):
            assert np.allclose(ours, np.mean(theirs, axis=0), atol=1e-13)


def test_the_layouts_of_a_batch_change_nothing():
    """One batch in every layout that holds it: on shelves, one document after the other, and in blocks."""
    dataset, model = corpus(), TwoLayer(width=6)
    parameters = model.initial(KEY, dataset.vocabulary_size, np.float64)
    found = document_batches(dataset, 8, "float64")
    rows = found.rows(np.arange(37))
    longest = int(found.lengths.max())
    answers = []
    shelf, alone = ShelfLayout(((8, longest),)), ShelfLayout(((8, longest),), one_by_one=True)
    for layout in (shelf, alone, BlockLayout(8, 4, (longest,))):
        plan = jax.tree.map(lambda x: x[0], found.plan(found.on_device, rows, (layout,)))
        batch = found.batch(found.on_device, plan)
        answers.append(jax.jit(model.loss_and_gradients)(parameters, batch))
    for one, *others in zip(*map(jax.tree.leaves, answers), strict=True):
        for other in others:
            assert np.allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("batch_size", "block"), [(19, 8), (37, 4)])
def test_blocks_of_several_widths_are_the_shelves(batch_size, block):
    """Full blocks and one that is filled up, blocks of no document, widths that no block has, and the narrowest."""
    dataset, model = corpus(), TwoLayer(width=6)
    parameters = model.initial(KEY, dataset.vocabulary_size, np.float64)
    found = document_batches(dataset, batch_size, "float64")
    lengths = np.sort(found.lengths)[::-1]
    longest, middle, shortest = int(lengths[0]), int(np.median(lengths)), int(lengths[-1])
    rows = found.rows(np.arange(37))[-1:]
    answers = []
    widths = tuple(dict.fromkeys((longest + 16, longest, middle, shortest)))
    for layout in (ShelfLayout(((batch_size, longest),)), BlockLayout(batch_size, block, widths)):
        plan = jax.tree.map(lambda x: x[0], found.plan(found.on_device, rows, (layout,)))
        batch = found.batch(found.on_device, plan)
        answers.append(jax.jit(lambda x, y: (model.loss_and_gradients(x, y), model.outputs(x, y)))(parameters, batch))
    for one, other in zip(*map(jax.tree.leaves, answers), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_blocks_add_to_the_table_where_it_lies():
    """A copy of the table for every block would take longer than the block."""
    dataset, model = corpus(), TwoLayer(width=6)
    parameters = model.initial(KEY, dataset.vocabulary_size, np.float32)
    found = document_batches(dataset, 19)
    longest = int(found.lengths.max())
    layouts = (BlockLayout(19, 8, (longest, longest // 2, longest // 3)),)
    plan = jax.tree.map(lambda x: x[0], found.plan(found.on_device, found.rows(np.arange(37)), layouts))
    step = jax.jit(model.loss_and_gradients).lower(parameters, found.batch(found.on_device, plan)).compile()
    program = step.as_text()
    assert program.count(" while(") >= len(layouts[0].widths_of_blocks)
    assert f"f32[{dataset.vocabulary_size},6]" in program
    assert not re.search(rf"= f32\[{dataset.vocabulary_size},6\]\S* copy\(", program)


def test_the_outputs_of_a_batch_are_those_of_its_documents():
    """In every layout, and in the order of the shelves: longest first, 0 where there is no document."""
    dataset, model = corpus(), TwoLayer(width=6)
    parameters = model.initial(KEY, dataset.vocabulary_size, np.float64)
    found = document_batches(dataset, 8, "float64")
    row, longest = found.rows(np.arange(37))[-1], int(found.lengths.max())
    assert (row < 0).any()
    expected = np.where(row >= 0, outputs_by_loop(dataset, model, parameters)[row], 0)
    on_two = (ShelfLayout(((8, longest),)), ShelfLayout(((2, longest), (6, longest))))
    others = ((ShelfLayout(((8, longest),), one_by_one=True),), (BlockLayout(8, 3, (longest, longest - 1)),))
    for layouts in (on_two[:1], on_two, *others):
        plan = jax.tree.map(lambda x: x[0], found.plan(found.on_device, row[None, :], layouts))
        outputs = jax.jit(model.outputs)(parameters, found.batch(found.on_device, plan))
        np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-14)


def test_training_lowers_the_loss_and_gives_the_same_bytes():
    dataset, model = corpus(), TwoLayer(width=16)
    runs = [train(dataset, model, AdamW(lr=1e-2), epochs=15, key=KEY, batch_size=8) for _ in range(2)]
    assert runs[0].records.loss[-1] < 0.5 * runs[0].records.loss[0]
    for one, two in zip(*(jax.tree.leaves(run.parameters) for run in runs), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()


@pytest.mark.parametrize(
    "model",
    [
        TwoLayer(width=6),
        OneLayer(width=6),
        TwoLayer(width=6, score_scale=0.2, mixing_scale=3.0, init_scale=3.0),
        OneLayer(width=6, score_scale=0.2, init_scale=3.0),
    ],
    ids=["two layers", "one layer", "two layers, scaled", "one layer, scaled"],
)
def test_evaluation_is_the_mean_over_documents(model):
    dataset = corpus()
    parameters = model.initial(KEY, dataset.vocabulary_size, np.float64)
    measure = Evaluator(dataset, model, vocabulary=dataset.vocabulary, batch_size=8, dtype="float64")
    found = measure(parameters)
    signed = dataset.labels * outputs_by_loop(dataset, model, parameters)
    assert found.loss == pytest.approx(np.logaddexp(0, -signed).mean(), rel=1e-12)
    assert found.accuracy == pytest.approx((signed > 0).mean())


@pytest.mark.parametrize("fixed_order", [False, True])
def test_scales_reach_the_way_of_accelerators(monkeypatch, fixed_order):
    """One step there and one on a CPU, from the same start: the same model, outputs included."""
    dataset = corpus()
    model = TwoLayer(width=6, score_scale=0.3, mixing_scale=2.0, init_scale=2.0, fixed_order=fixed_order)
    parameters = model.initial(KEY, dataset.vocabulary_size, np.float64)
    found = document_batches(dataset, 8, "float64", most_shelves=1)
    rows = found.rows(np.arange(37))[:1]

    def step(layouts):
        plan = jax.tree.map(lambda x: x[0], found.plan(found.on_device, rows, layouts))
        batch = found.batch(found.on_device, plan)
        return jax.jit(lambda x: (model.loss_and_gradients(x, batch), model.outputs(x, batch)))(parameters)

    here = step(found.layouts)
    assert isinstance(found.layouts[0], BlockLayout)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arguments, default, **others: default(*arguments))
    there = step(shelf_layouts(found.lengths, 8, most_shelves=1))
    for one, two in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-12 * max(1.0, float(np.abs(one).max())))


def test_an_accelerator_gets_shelves(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    assert all(isinstance(layout, ShelfLayout) for layout in document_batches(corpus(), 8).layouts)


def test_bad_sizes_are_refused():
    with pytest.raises(InvalidInputError, match="batch_size"):
        document_batches(corpus(), 0)
    with pytest.raises(InvalidInputError, match="width"):
        TwoLayer(width=0)
    with pytest.raises(InvalidInputError, match="init_scale"):
        TwoLayer(width=2, init_scale=0.0)


def gpu(monkeypatch):
    """What a program is traced for where there is an H200."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(compute_capability="9.0")])


def test_a_whole_batch_is_one_shelf_for_kernels(monkeypatch):
    """As wide as the longest document of all, and told how long its k-th longest can be."""
    gpu(monkeypatch)
    dataset = corpus(40)
    batches = document_batches(dataset, 8, model_width=16)
    longest = np.sort(batches.lengths)[::-1][:8]
    assert batches.layouts[-1].most_lengths == tuple(longest)
    rows = batches.rows(np.random.default_rng(1).permutation(40))
    plan = batches.plan(batches.on_device, rows, batches.layouts)
    batch = batches.batch(batches.on_device, jax.tree.map(lambda x: x[0], plan))
    shelf = batch.whole()
    assert shelf.ids.shape == (8, longest[0])
    for row, ids, log_counts in zip(rows[0], shelf.ids, shelf.log_counts, strict=True):
        there = np.isfinite(log_counts)
        document = dataset.counts[[row]]
        assert np.asarray(ids)[there].tolist() == document.indices.tolist()
        np.testing.assert_allclose(np.exp(log_counts[there]), document.data, rtol=1e-6)


@pytest.mark.parametrize(("precision", "by_kernels"), [(TwoLayer(16).precision, True), (MatmulPrecision.FULL, False)])
def test_kernels_need_no_layouts(monkeypatch, precision, by_kernels):
    gpu(monkeypatch)
    dataset = corpus(200)
    batches = document_batches(dataset, 16, model_width=2048)
    model = TwoLayer(width=16, precision=precision)
    parameters = jax.tree.map(np.asarray, model.initial(jax.random.key(0), dataset.vocabulary_size))
    plan = batches.plan(batches.on_device, batches.rows(np.arange(200)), batches.layouts)
    one = jax.tree.map(lambda x: x[0], plan)

    def step(parameters, corpus):
        return model.loss_and_gradients(parameters, batches.batch(corpus, one))

    traced = str(jax.make_jaxpr(step)(parameters, batches.on_device))
    assert ("pallas_call" in traced) is by_kernels


def test_blocks_are_no_shelf():
    batches = document_batches(corpus(40), 8)
    plan = batches.plan(batches.on_device, batches.rows(np.arange(40)), batches.layouts)
    assert batches.batch(batches.on_device, jax.tree.map(lambda x: x[0], plan)).whole() is None
