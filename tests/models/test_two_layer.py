"""The two-layer model in Gram form against the model as it is written down, document by document."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import CustomLoss, exponential, logistic
from tokenmargin.models._two_layer_block import (
    AS_PRINTED,
    SoftmaxScales,
    forward_from_gram,
    read_by_product,
    read_by_sums,
)
from tokenmargin.models._two_layer_gradient import (
    LAYER_NORM_EPSILON,
    DocumentShelf,
    Settings,
    TwoLayerParameters,
    batch_row_order,
    two_layer_loss_and_gradients,
    two_layer_outputs,
)
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.two_layer import TwoLayer
from tokenmargin.training import document_batches

#: Both sides are float64 and differ in the order of a few thousand additions; relative to the largest entry.
ROUNDING = 1e-10

#: What rounding both operands of a product to 22 bits may do, times ten products in a row.
OPERANDS_IN_PAIRS = 10 * 2 * 2.0**-22

N_TOKENS, WIDTH = 19, 7


def direct_output(parameters, tokens, epsilon=LAYER_NORM_EPSILON, scales=AS_PRINTED):
    """f of one document, given as its token ids with repeats: every layer as it is written."""
    x = parameters.embeddings[tokens]
    h = jax.nn.softmax(scales.mixing * (x @ x.T), axis=-1) @ x + x
    centred = h - jnp.mean(h, axis=1, keepdims=True)
    normed = centred / jnp.sqrt(jnp.mean(centred**2, axis=1, keepdims=True) + epsilon)
    if parameters.gain is not None:
        normed = normed * parameters.gain[None, :]
    if parameters.bias is not None:
        normed = normed + parameters.bias[None, :]
    return jax.nn.softmax(scales.scores * (normed @ parameters.query)) @ (normed @ parameters.head)


def direct_loss(parameters, documents, labels, epsilon=LAYER_NORM_EPSILON, scales=AS_PRINTED, loss=logistic):
    outputs = jnp.stack([direct_output(parameters, tokens, epsilon, scales) for tokens in documents])
    return jnp.mean(loss.value(labels * outputs)), outputs


#: Compiled once for each set of lengths and each kind of LayerNorm.
direct_gradients = jax.jit(jax.value_and_grad(direct_loss, has_aux=True), static_argnames="loss")
our_gradients = jax.jit(two_layer_loss_and_gradients, static_argnames=("settings", "documents_at_once"))


def shelf_of(documents, labels, width, rows=None):
    """Documents padded to `width` distinct tokens and, with rows that are no documents, to `rows` rows."""
    rows = len(documents) if rows is None else rows
    ids, log_counts = np.full((rows, width), 3, np.int32), np.full((rows, width), -np.inf)
    log_counts[:, 0] = 0
    signs = np.zeros(rows)
    signs[: len(documents)] = labels
    for i, tokens in enumerate(documents):
        distinct, counts = np.unique(tokens, return_counts=True)
        ids[i, : len(distinct)], log_counts[i, : len(distinct)] = distinct, np.log(counts)
    return DocumentShelf(ids, log_counts, signs)


def parameters_of(rng, scale=1.0, gain=False, bias=False):
    def vector():
        return jnp.asarray(rng.normal(size=WIDTH))

    table = jnp.asarray(scale * rng.normal(size=(N_TOKENS, WIDTH)))
    return TwoLayerParameters(table, vector(), vector(), vector() if gain else None, vector() if bias else None)


def documents_of(rng, lengths=(1, 30, 2)):
    """The first has one token, the last one token twice; repeats are certain in the second."""
    documents = [rng.integers(0, N_TOKENS, size=n) for n in lengths]
    documents[2][:] = documents[2][0]
    return documents, np.where(rng.random(len(lengths)) < 0.5, -1.0, 1.0)


def assert_same(ours, direct):
    ours, direct = jax.tree.leaves(ours), jax.tree.leaves(direct)
    assert len(ours) == len(direct)
    for mine, other in zip(ours, direct, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=ROUNDING * max(1e-300, float(jnp.max(jnp.abs(other)))))


@pytest.mark.parametrize(("gain", "bias"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("scale", [0.02, 1.0, 30.0], ids=["soft", "usual", "saturated"])
def test_loss_and_every_gradient_are_those_of_the_model_as_written(rng, gain, bias, scale):
    parameters = parameters_of(rng, scale, gain, bias)
    documents, labels = documents_of(rng)
    (loss, outputs), gradients = direct_gradients(parameters, documents, labels)
    sums, ours = our_gradients(parameters, (shelf_of(documents, labels, N_TOKENS + 2),))
    assert_same(sums.mean_loss, loss)
    assert_same(ours, gradients)
    assert float(sums.correct) == float(jnp.sum(outputs * labels > 0))


def test_outputs_are_those_of_the_model_as_written(rng):
    parameters = parameters_of(rng, gain=True, bias=True)
    documents, labels = documents_of(rng)
    (_, outputs), _ = direct_gradients(parameters, documents, labels)
    assert_same(jax.jit(two_layer_outputs)(parameters, shelf_of(documents, labels, N_TOKENS)), outputs)


def test_saturated_case_is_saturated(rng):
    parameters = parameters_of(rng, 30.0)
    x = parameters.embeddings[jnp.arange(N_TOKENS)]
    assert float(jnp.median(jnp.max(jax.nn.softmax(x @ x.T, axis=-1), axis=-1))) == 1.0


@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(-2, 2))
def test_any_batch(seed, affine, magnitude):
    rng = np.random.default_rng(seed)
    parameters = parameters_of(rng, 10**magnitude, affine, affine)
    documents, labels = documents_of(rng)
    sums, ours = our_gradients(parameters, (shelf_of(documents, labels, N_TOKENS),))
    (loss, _), gradients = direct_gradients(parameters, documents, labels)
    assert_same((sums.mean_loss, ours), (loss, gradients))


#: 1/sqrt(d) in both softmaxes, in one alone, and a scale that sharpens.
SCALES = [SoftmaxScales(WIDTH**-0.5, WIDTH**-0.5), SoftmaxScales(WIDTH**-0.5, 1.0), SoftmaxScales(1.0, 0.25),
          SoftmaxScales(2.0, 3.0)]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("scales", SCALES, ids=["both", "first", "second", "sharper"])
@pytest.mark.parametrize("affine", [False, True])
def test_scales_of_the_scores_are_those_of_the_model_as_written(rng, scales, affine):
    """In cache blocks, in shelves, in a fixed order, and in the outputs; p is scaled and so is its gradient."""
    parameters = parameters_of(rng, 1.0, affine, affine)
    documents, labels = documents_of(rng)
    (loss, outputs), gradients = direct_gradients(parameters, documents, labels, LAYER_NORM_EPSILON, scales)
    shelves = (shelf_of(documents, labels, N_TOKENS),)
    for way in ({}, {"documents_at_once": 100}, {"order": batch_row_order(shelves, N_TOKENS)}):
        sums, ours = our_gradients(parameters, shelves, Settings(scales=scales), **way)
        assert_same((sums.mean_loss, ours), (loss, gradients))
    found = jax.jit(lambda x: two_layer_outputs(x, shelves[0], Settings(scales=scales)))(parameters)
    assert_same(found, outputs)
    _, printed = our_gradients(parameters, shelves)
    assert not np.allclose(printed.embeddings, ours.embeddings, rtol=1e-3)


@pytest.mark.parametrize("name", ["score_scale", "mixing_scale", "init_scale"])
def test_a_scale_is_a_positive_number(name):
    with pytest.raises(InvalidInputError, match=f"{name} must be a positive finite number"):
        TwoLayer(width=4, **{name: -1.0})


def test_scores_are_as_printed_unless_told_otherwise():
    assert TwoLayer(width=4)._settings().scales == AS_PRINTED == (1.0, 1.0)


def test_epsilon_is_that_of_the_layer_norm(rng):
    parameters = parameters_of(rng, gain=True, bias=True)
    documents, labels = documents_of(rng)
    sums, ours = our_gradients(parameters, (shelf_of(documents, labels, N_TOKENS),), Settings(0.5))
    (loss, _), gradients = direct_gradients(parameters, documents, labels, 0.5)
    assert_same((sums.mean_loss, ours), (loss, gradients))


def split_batch(rng):
    documents, labels = documents_of(rng)
    one = (shelf_of(documents, labels, N_TOKENS),)
    narrow = shelf_of(documents[::2], labels[::2], 4, rows=6)
    return one, (narrow, shelf_of(documents[1::2], labels[1::2], N_TOKENS, rows=4))


@pytest.mark.parametrize("loss", [exponential, CustomLoss(lambda u: -jnp.arctan(u))], ids=["exponential", "own"])
@pytest.mark.parametrize("at_once", [None, 2, 100], ids=["usual", "blocks", "shelves"])
def test_every_loss_has_the_gradients_of_autodiff(rng, loss, at_once):
    parameters = parameters_of(rng, gain=True, bias=True)
    documents, labels = documents_of(rng)
    (value, _), gradients = direct_gradients(parameters, documents, labels, loss=loss)
    shelves = (shelf_of(documents, labels, N_TOKENS, rows=4),)
    sums, ours = our_gradients(parameters, shelves, Settings(loss=loss), documents_at_once=at_once)
    assert_same((sums.mean_loss, ours), (value, gradients))


def test_the_loss_of_the_model_is_the_one_that_it_is_given(rng):
    parameters = parameters_of(rng, gain=True, bias=True)
    documents, _ = documents_of(rng)
    data = TokenDataset.from_token_ids(documents, [1, -1, 1], vocabulary=map(str, range(N_TOKENS)))
    batches = document_batches(data, 3, "float64")
    rows = batches.rows(np.arange(3))
    plan = jax.tree.map(lambda x: x[0], batches.plan(batches.on_device, rows, batches.layout(rows)))
    model = TwoLayer(width=WIDTH, loss=exponential)
    sums, ours = jax.jit(lambda p: model.loss_and_gradients(p, batches.batch(batches.on_device, plan)))(parameters)
    (value, _), gradients = direct_gradients(parameters, documents, data.labels, loss=exponential)
    assert_same((sums.mean_loss, ours), (value, gradients))
    assert model != TwoLayer(width=WIDTH)


def test_shelves_and_rows_without_documents_change_nothing(rng):
    parameters = parameters_of(rng, gain=True, bias=True)
    one, several = split_batch(rng)
    assert_same(our_gradients(parameters, several), our_gradients(parameters, one))


def test_one_pass_over_the_table_reads_what_products_read(rng):
    """What an accelerator does instead of a thin product."""
    parameters = parameters_of(rng, gain=True)
    E, readers = jnp.asarray(parameters.embeddings), jnp.asarray(rng.normal(size=(3, WIDTH)))
    assert_same(tuple(read_by_sums(E, readers)), tuple(read_by_product(E, readers)))
    assert read_by_sums(E, readers).bound == np.abs(E).max()


@pytest.mark.long
@pytest.mark.parametrize(
    ("scale", "scales"), [(1.0, AS_PRINTED), (10.0, AS_PRINTED), (10.0, SoftmaxScales(1 / 16, 1 / 16))]
)
def test_pairs_of_float16_give_the_gradients_of_float32(rng, scale, scales):
    """Both are compared with float64: what three products of halves lose is no more than float32 loses anyway."""
    d, documents = 256, [rng.integers(0, 60, 50) for _ in range(8)]
    exact = TwoLayerParameters(
        jnp.asarray(scale * rng.normal(size=(60, d)) / np.sqrt(d)),
        *(jnp.asarray(rng.normal(size=d) / np.sqrt(d)) for _ in range(2)),
    )
    shelf = shelf_of(documents, np.where(np.arange(8) % 2, 1.0, -1.0), 50)

    def gradients(dtype, precision):
        parameters, shelves = (
            jax.tree.map(lambda x: jnp.asarray(x, dtype if x.dtype.kind == "f" else x.dtype), tree)
            for tree in (exact, (shelf,))
        )
        return our_gradients(parameters, shelves, Settings(precision=precision, scales=scales), documents_at_once=100)[
            1
        ]

    truth = gradients(jnp.float64, MatmulPrecision.FULL)

    def errors(precision):
        pairs = zip(jax.tree.leaves(gradients(jnp.float32, precision)), jax.tree.leaves(truth), strict=True)
        return np.array([jnp.linalg.norm(ours - true) / jnp.linalg.norm(true) for ours, true in pairs])

    full, halves = errors(MatmulPrecision.FULL), errors(MatmulPrecision.FLOAT_16_PAIRS)
    assert (halves < 2 * full + OPERANDS_IN_PAIRS).all()


@pytest.mark.parametrize("size", [1e-6, 64.0])
def test_pairs_of_float16_hold_embeddings_of_any_size(rng, size):
    """The Gram block has the square of their size: taken for anything else, halves overflow or keep no digits."""
    x = rng.uniform(-size, size, (2, 5, 16))
    gram = jnp.asarray(x @ x.transpose(0, 2, 1), jnp.float32)
    overlaps, log_counts = jnp.ones((2, 5, 3), jnp.float32), jnp.zeros((2, 5), jnp.float32)
    settings = {"width": 16, "epsilon": LAYER_NORM_EPSILON, "precision": MatmulPrecision.FLOAT_16_PAIRS}
    found = jax.jit(partial(forward_from_gram, **settings))(gram, overlaps, log_counts, bound=jnp.float32(size))
    exact = np.asarray(found.mixing, np.float64) @ np.asarray(gram, np.float64)
    np.testing.assert_allclose(found.mixed_gram, exact, rtol=0, atol=OPERANDS_IN_PAIRS * np.abs(exact).max())


@pytest.mark.long
@pytest.mark.parametrize("documents_at_once", [1, 3, 100])
def test_blocks_change_nothing(rng, documents_at_once):
    parameters = parameters_of(rng, gain=True, bias=True)
    one, several = split_batch(rng)
    ours = our_gradients(parameters, several, documents_at_once=documents_at_once)
    assert_same(ours, our_gradients(parameters, one))


def test_a_shelf_of_several_blocks_is_traced(rng):
    """What `test_blocks_change_nothing` compiles and compares, in shapes alone."""
    parameters = parameters_of(rng)
    shelf = shelf_of([rng.integers(0, N_TOKENS, size=5) for _ in range(6)], np.ones(6), N_TOKENS)
    _, gradients = jax.eval_shape(lambda p: two_layer_loss_and_gradients(p, (shelf,), documents_at_once=2), parameters)
    assert jax.tree.map(jnp.shape, gradients) == jax.tree.map(jnp.shape, parameters)


def test_fixed_order_changes_nothing(rng):
    parameters = parameters_of(rng, gain=True, bias=True)
    one, several = split_batch(rng)
    order = batch_row_order(several, N_TOKENS)
    ours = our_gradients(parameters, several, order=order)
    assert_same(ours, our_gradients(parameters, one))


def test_a_token_and_its_copy_share_the_gradient(rng):
    """A document that names a token twice under two ids is the document that counts it two times."""
    parameters = parameters_of(rng)
    table = parameters.embeddings.at[1].set(parameters.embeddings[0])
    parameters = TwoLayerParameters(table, parameters.query, parameters.head)
    counted = (shelf_of([np.array([0, 0, 2, 5])], [1.0], 5),)
    named = (shelf_of([np.array([0, 1, 2, 5])], [1.0], 5),)
    (one, by_count), (two, by_name) = (our_gradients(parameters, s) for s in (counted, named))
    assert_same(one.mean_loss, two.mean_loss)
    assert_same(by_count.embeddings[0], by_name.embeddings[0] + by_name.embeddings[1])


def test_order_of_tokens_and_documents_does_not_matter(rng):
    parameters = parameters_of(rng, gain=True)
    documents, labels = documents_of(rng)
    shelf = shelf_of(documents, labels, N_TOKENS)
    tokens, rows = rng.permutation(N_TOKENS), rng.permutation(len(labels))
    moved = DocumentShelf(shelf.ids[rows][:, tokens], shelf.log_counts[rows][:, tokens], labels[rows])
    assert_same(our_gradients(parameters, (moved,)), our_gradients(parameters, (shelf,)))


def test_gradient_survives_a_saturated_second_softmax(rng):
    """Past a logit gap of 37 the usual s(y - f) is noise; differences to the top token keep the gradient of p."""
    parameters = parameters_of(rng)
    parameters = TwoLayerParameters(parameters.embeddings, 40 * parameters.query, parameters.head)
    tokens = np.array([0, 1, 2, 3])
    _, ours = our_gradients(parameters, (shelf_of([tokens], [1.0], 4),))
    x = np.asarray(parameters.embeddings)[tokens]
    h = softmax(x @ x.T, axis=-1) @ x + x
    centred = h - h.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + LAYER_NORM_EPSILON)
    logits, values = normed @ np.asarray(parameters.query), normed @ np.asarray(parameters.head)
    weights = softmax(logits)
    assert np.diff(np.sort(logits))[-1] > 37
    pairs = weights[:, None] * weights[None, :] * (values[:, None] - values[None, :])
    slope = -expit(-(weights * values).sum())
    expected = slope * 0.5 * np.einsum("tu,tud->d", pairs, normed[:, None, :] - normed[None, :, :])
    assert_same(ours.query, expected)


def test_embeddings_of_documents_enter_two_products_only(rng):
    """One for the Gram matrix, one for the gradient: what the Gram form is for, read off the traced program."""
    parameters = parameters_of(rng)
    documents, labels = documents_of(rng)
    shelf = shelf_of(documents, labels, N_TOKENS)

    def program(parameters, shelf):
        return two_layer_loss_and_gradients(parameters, (shelf,), documents_at_once=100)

    traced = jax.make_jaxpr(program)(parameters, shelf)
    dots = [e for e in _equations(traced.jaxpr) if e.primitive.name == "dot_general"]
    wide = [e for e in dots if any(v.aval.ndim == 3 and v.aval.shape[-1] == WIDTH for v in e.invars)]
    assert len(wide) == 2


def test_precision_is_a_choice_and_full_is_the_default(rng):
    parameters = jax.tree.map(lambda x: x.astype(jnp.float32), parameters_of(rng))
    shelf = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32 if x.dtype == float else x.dtype), split_batch(rng)[0][0])

    def precisions(**choice):
        traced = jax.make_jaxpr(lambda p, s: two_layer_loss_and_gradients(p, (s,), Settings(**choice)))(
            parameters, shelf
        )
        dots = [e for e in _equations(traced.jaxpr) if e.primitive.name == "dot_general"]
        # Those of a document with itself; the others, with p and v, are thin and always in full.
        found = {e.params["precision"] for e in dots if all(v.aval.ndim == 3 for v in (*e.invars, *e.outvars))}
        return {p if isinstance(p, jax.lax.Precision) or p is None else p[0] for p in found}

    assert precisions() == {jax.lax.Precision.HIGHEST}
    assert precisions(precision=MatmulPrecision.TENSOR_FLOAT_32) <= {jax.lax.Precision.DEFAULT, None}
    _, gradients = our_gradients(parameters, (shelf,))
    assert {leaf.dtype for leaf in jax.tree.leaves(gradients)} == {jnp.dtype("float32")}


def test_one_compilation_for_all_batches_of_a_shape(rng):
    compilations = 0

    def counted(parameters, shelves):
        nonlocal compilations
        compilations += 1
        return two_layer_loss_and_gradients(parameters, shelves)

    run = jax.jit(counted)
    for _ in range(3):
        run(parameters_of(rng), split_batch(rng)[1])
    assert compilations == 1


def _equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner)
