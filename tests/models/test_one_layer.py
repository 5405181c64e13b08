"""The one-layer model on counts: against the formulas of [E] written out token by token, and against autodiff."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import CustomLoss, correlation, exponential, logistic
from tokenmargin.models import _sums, one_layer
from tokenmargin.models._one_layer_kernels import PiecesOfDocuments, document_sums, kernels_apply
from tokenmargin.models.factored_gradient import FactoredGradient, gradient_entries
from tokenmargin.models.one_layer import OneLayer, OneLayerParameters, overlaps
from tokenmargin.training.count_batches import CountBatches, count_batches

#: Sums of fewer than a thousand float64 terms of order one.
ROUNDING = 1e-12

ALL = ("embeddings", "query", "head", "key_query")


def texts(rng, n=7, V=90, longest=160):
    """Documents of very different lengths, the longest of several pieces, with tokens that never occur."""
    documents = [rng.integers(0, V - 3, rng.integers(1, longest)) for _ in range(n)]
    return documents, np.where(np.arange(n) % 2 == 0, 1.0, -1.0)


def batch_of(documents, labels, V, batch_size=None):
    dataset = TokenDataset.from_token_ids(documents, labels, vocabulary=[str(s) for s in range(V)])
    batches = count_batches(dataset, batch_size or len(documents), "float64")
    rows = batches.rows(np.arange(len(documents)))
    plans = planned(batches.on_device, rows, batches.layout(rows))
    return [taken(batches.on_device, plans, k) for k in range(len(rows))]


planned = jax.jit(CountBatches.plan, static_argnums=2)
taken = jax.jit(lambda shelves, plans, k: CountBatches.batch(shelves, jax.tree.map(lambda x: x[k], plans)))


def random_parameters(rng, V, d, with_matrix=False, scale=1.0):
    W = rng.normal(size=(d, d)) if with_matrix else None
    return OneLayerParameters(*(scale * rng.normal(size=s) for s in ((V, d), d, d)), W)


@eqx.filter_jit
def evaluate(model, parameters, batch):
    """One compilation a shape, where op by op there would be fifty."""
    return model.loss_and_gradients(parameters, batch)


def positions(documents, width):
    """Token ids by position, shape (n, width), and which positions exist."""
    there = np.arange(width)[None, :] < np.array([len(document) for document in documents])[:, None]
    ids = np.zeros(there.shape, int)
    ids[there] = np.concatenate(documents)
    return ids, there


def naive_outputs(parameters, ids, there, score_scale=1.0):
    """[E, (1)], with a gather."""
    tokens = parameters.embeddings[ids]
    query = parameters.query if parameters.key_query is None else parameters.query @ parameters.key_query
    attention = jax.nn.softmax(jnp.where(there, score_scale * (tokens @ query), -jnp.inf), axis=1)
    return jnp.sum(attention[:, :, None] * tokens, axis=1) @ parameters.head


def naive_loss(parameters, ids, there, labels, score_scale=1.0, loss=lambda u: jax.nn.softplus(-u)):
    """[E, (2)]."""
    return jnp.mean(loss(labels * naive_outputs(parameters, ids, there, score_scale)))


by_autodiff, by_gathering = jax.jit(jax.value_and_grad(naive_loss), static_argnums=5), jax.jit(naive_outputs)

#: Each loss, and the same as a function of NumPy's kind.
LOSSES = {
    "exponential": (exponential, lambda u: jnp.exp(-u)),
    "correlation": (correlation, lambda u: -u),
    "arctangent": (CustomLoss(lambda u: -jnp.arctan(u)), lambda u: -jnp.arctan(u)),
    "logistic": (logistic, lambda u: jnp.log1p(jnp.exp(-u))),
}


def lemma_7(parameters, documents, labels):
    """Gradients in E and p as [E, Lemma 7] prints them: double sums over positions."""
    E, p, v = parameters.embeddings, parameters.query, parameters.head
    for_E, for_p = np.zeros_like(E), np.zeros_like(p)
    for document, y in zip(documents, labels, strict=True):
        tokens = E[document]
        q = np.exp(tokens @ p) / np.exp(tokens @ p).sum()
        g = 1 / (1 + np.exp(y * float(q @ tokens @ v)))
        for i in range(len(document)):
            for j in range(len(document)):
                if j != i:
                    score = tokens[i] @ v
                    for_E[document[i]] -= y * g * q[i] * q[j] * score * p / len(documents)
                    for_E[document[j]] += y * g * q[i] * q[j] * score * p / len(documents)
                    for_p -= y * g * q[i] * q[j] * (tokens[i] - tokens[j]) * score / len(documents)
            for_E[document[i]] -= y * g * q[i] * v / len(documents)
    return for_E, for_p


@pytest.mark.parametrize(
    ("with_matrix", "score_scale"),
    [(False, 1.0), (True, 1.0), (False, 5**-0.5), (True, 3.0)],
)
def test_loss_and_gradients_equal_autodiff_of_the_gathered_model(rng, with_matrix, score_scale):
    documents, labels = texts(rng)
    V, d = 90, 5
    parameters = random_parameters(rng, V, d, with_matrix)
    model = OneLayer(width=d, trainable=ALL if with_matrix else ALL[:3], score_scale=score_scale)
    (batch,) = batch_of(documents, labels, V)
    sums, gradients = evaluate(model, parameters, batch)
    loss, expected = by_autodiff(parameters, *positions(documents, 160), labels, score_scale)
    assert float(sums.mean_loss) == pytest.approx(float(loss), abs=ROUNDING)
    assert isinstance(gradients.embeddings, FactoredGradient)
    for name in model.trainable:
        np.testing.assert_allclose(
            gradient_entries(getattr(gradients, name)), getattr(expected, name), atol=ROUNDING, err_msg=name
        )
    outputs = np.asarray(by_gathering(parameters, *positions(documents, 160), score_scale))
    np.testing.assert_allclose(model.outputs(parameters, batch), outputs, atol=ROUNDING)
    assert float(sums.correct) == (outputs * labels > 0).sum()
    assert float(sums.documents) == len(documents)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_the_gradients_of_autodiff(rng, name):
    """One batch has rows that are no documents, which add nothing whatever the loss is at 0."""
    loss, function = LOSSES[name]
    documents, labels = texts(rng)
    V, d = 90, 5
    parameters = random_parameters(rng, V, d, with_matrix=True)
    model = OneLayer(width=d, trainable=ALL, loss=loss)
    value, expected = by_autodiff(parameters, *positions(documents, 160), labels, 1.0, function)
    found = [evaluate(model, parameters, batch) for batch in batch_of(documents, labels, V, len(documents) - 1)]
    total = sum(float(sums.mean_loss * sums.documents) for sums, _ in found)
    assert total / len(documents) == pytest.approx(float(value), abs=ROUNDING)
    for key in ALL:
        mean = sum(sums.documents * gradient_entries(getattr(own, key)) for sums, own in found) / len(documents)
        np.testing.assert_allclose(mean, getattr(expected, key), atol=ROUNDING, err_msg=key)


def test_kernels_serve_the_logistic_loss_alone(rng, monkeypatch):
    """Read off the traced program, which has the ways of all devices in it."""
    monkeypatch.setattr(one_layer, "kernels_apply", lambda *_: True)
    documents, labels = texts(rng)
    (batch,) = batch_of(documents, labels, 90)

    def kernels(loss):
        model = OneLayer(width=5, loss=loss)
        return str(jax.make_jaxpr(model.loss_and_gradients)(random_parameters(rng, 90, 5), batch))

    assert "document_pulls" in kernels(logistic)
    assert "document_pulls" not in kernels(exponential)


def test_gradients_equal_lemma_7(rng):
    documents, labels = texts(rng, n=4, V=12, longest=14)
    parameters = random_parameters(rng, 12, 3)
    (batch,) = batch_of(documents, labels, 12)
    _, gradients = evaluate(OneLayer(width=3), parameters, batch)
    for_E, for_p = lemma_7(parameters, documents, labels)
    np.testing.assert_allclose(gradients.embeddings.entries(), for_E, atol=ROUNDING)
    np.testing.assert_allclose(gradients.query, for_p, atol=ROUNDING)


@given(seed=st.integers(0, 10**6), longest=st.integers(2, 9))
def test_lemma_8_directional_derivative_is_a_sum_over_pairs(seed, longest):
    rng, n = np.random.default_rng(seed), 3
    documents, labels = texts(rng, n, 10, longest)
    parameters = random_parameters(rng, 10, 3)
    direction = rng.normal(size=3)
    total = 0.0
    for document, y in zip(documents, labels, strict=True):
        tokens = parameters.embeddings[document]
        q = np.exp(tokens @ parameters.query) / np.exp(tokens @ parameters.query).sum()
        gamma, a = y * (tokens @ parameters.head), tokens @ direction
        pairs = [(i, j) for i in range(len(document)) for j in range(i + 1, len(document))]
        inner = sum((a[i] - a[j]) * q[i] * q[j] * (gamma[i] - gamma[j]) for i, j in pairs)
        total += inner / (1 + np.exp(q @ gamma)) / n
    (batch,) = batch_of(documents, labels, 10)
    _, gradients = evaluate(OneLayer(width=3), parameters, batch)
    assert -direction @ np.asarray(gradients.query) == pytest.approx(total, abs=ROUNDING)


def test_training_the_matrix_is_training_the_query(rng):
    """W'u follows the path of p when the step is divided by |u|^2 [M, Lemma 1]: exact, step by step."""
    documents, labels = texts(rng, n=5, V=30, longest=40)
    (batch,) = batch_of(documents, labels, 30)
    start = random_parameters(rng, 30, 4, with_matrix=True)
    u = start.query
    in_p = OneLayerParameters(start.embeddings, u @ start.key_query, start.head)
    in_W, lr = start, 0.3
    for _ in range(25):
        pull_p = evaluate(OneLayer(width=4, trainable=("query",)), in_p, batch)[1].query
        pull_W = evaluate(OneLayer(width=4, trainable=("key_query",)), in_W, batch)[1].key_query.entries()
        in_p = eqx.tree_at(lambda x: x.query, in_p, in_p.query - lr * pull_p)
        in_W = eqx.tree_at(lambda x: x.key_query, in_W, in_W.key_query - lr / (u @ u) * pull_W)
        np.testing.assert_allclose(u @ in_W.key_query, in_p.query, atol=ROUNDING)
    assert np.linalg.norm(in_p.query - u @ start.key_query) > 0.01


def test_the_way_of_accelerators_gives_the_sums_of_a_cpu(rng, monkeypatch):
    documents, labels = texts(rng)
    (batch,) = batch_of(documents, labels, 90)
    weights, scores = rng.random(batch.ids.shape), rng.normal(size=90)
    weights = jnp.asarray(np.where(np.isfinite(batch.log_counts), weights, 0.0))
    places = batch.ids, batch.log_counts, batch.document
    arguments = (
        _sums.PieceTokens(*places, weights, jnp.asarray(scores)[batch.ids]),
        jnp.asarray(scores),
        _sums.DocumentSlopes(jnp.asarray(rng.normal(size=7)), jnp.asarray(rng.normal(size=7))),
    )
    expected = _sums.in_sequence(*arguments)
    assert float(jnp.abs(expected).max()) > 0.1
    for documents_a_table in (256, 7, 3, 1):
        monkeypatch.setattr(_sums, "TABLE_DOCUMENTS", documents_a_table)
        np.testing.assert_allclose(_sums.by_tables(*arguments), expected, atol=ROUNDING)


def test_a_step_on_the_way_of_accelerators_is_the_step_of_a_cpu(rng, monkeypatch):
    documents, labels = texts(rng)
    (batch,) = batch_of(documents, labels, 90)
    parameters = random_parameters(rng, 90, 5)
    model = OneLayer(width=5, score_scale=0.3)
    sums, gradients = evaluate(model, parameters, batch)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arguments, default, **_: default(*arguments))
    other_sums, other = jax.jit(lambda x, y: model.loss_and_gradients(x, y))(parameters, batch)
    assert float(other_sums.mean_loss) == pytest.approx(float(sums.mean_loss), abs=ROUNDING)
    for a, b in zip(jax.tree.leaves(other), jax.tree.leaves(gradients), strict=True):
        np.testing.assert_allclose(a, b, atol=ROUNDING)


def test_a_short_batch_counts_only_its_documents(rng):
    documents, labels = texts(rng, n=7)
    parameters = random_parameters(rng, 90, 5)
    model = OneLayer(width=5)
    last = batch_of(documents, labels, 90, batch_size=4)[1]
    assert (np.asarray(last.labels) == 0).sum() == 1
    sums, gradients = evaluate(model, parameters, last)
    loss, expected = by_autodiff(parameters, *positions(documents[4:], 160), labels[4:])
    assert float(sums.documents) == 3
    assert float(sums.mean_loss) == pytest.approx(float(loss), abs=ROUNDING)
    np.testing.assert_allclose(gradients.embeddings.entries(), expected.embeddings, atol=ROUNDING)
    np.testing.assert_allclose(gradients.query, expected.query, atol=ROUNDING)


def test_logits_beyond_the_range_of_exp_are_harmless(rng):
    documents, labels = texts(rng)
    (batch,) = batch_of(documents, labels, 90)
    parameters = random_parameters(rng, 90, 5, scale=100.0)
    sums, gradients = evaluate(OneLayer(width=5), parameters, batch)
    assert np.abs(overlaps(parameters)[:, 0]).max() > 1e4
    assert np.isfinite(sums.mean_loss)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradients))


@given(seed=st.integers(0, 10**6))
def test_renaming_tokens_and_repeating_documents_change_nothing(seed):
    rng = np.random.default_rng(seed)
    documents, labels = texts(rng, n=4, V=20, longest=50)
    parameters = random_parameters(rng, 20, 3)
    model, names = OneLayer(width=3), rng.permutation(20)
    renamed = eqx.tree_at(lambda x: x.embeddings, parameters, parameters.embeddings[np.argsort(names)])
    (batch,) = batch_of(documents, labels, 20)
    (other,) = batch_of([rng.permutation(names[x]) for x in documents] * 2, np.tile(labels, 2), 20)
    sums, gradients = evaluate(model, parameters, batch)
    again, renamed_gradients = evaluate(model, renamed, other)
    assert float(again.mean_loss) == pytest.approx(float(sums.mean_loss), abs=ROUNDING)
    np.testing.assert_allclose(
        renamed_gradients.embeddings.entries()[names], gradients.embeddings.entries(), atol=ROUNDING
    )
    np.testing.assert_allclose(renamed_gradients.head, gradients.head, atol=ROUNDING)


def test_initial_values():
    """Rows N(0, I/d) times the scale, none drawn twice; v on the sphere when it is fixed."""
    for V in (1, 300):
        model = OneLayer(width=400, init_scale=2.0)
        start = model.initial(jax.random.key(1), V, "float64")
        E = np.asarray(start.embeddings)
        assert E.shape == (V, 400)
        assert len(np.unique(E)) == E.size
        # Standard deviation of a sample variance of N numbers: sqrt(2/N); five of them.
        assert E.var() * 400 / 4 == pytest.approx(1.0, abs=5 * np.sqrt(2 / E.size))
        assert np.linalg.norm(start.query) == pytest.approx(2.0, rel=5 * np.sqrt(2 / 400))
    fixed = OneLayer(width=400, trainable=("embeddings", "query"), init_scale=2.0).initial(jax.random.key(1), 3)
    assert fixed.head.dtype == jnp.float32
    assert float(jnp.linalg.norm(fixed.head)) == pytest.approx(1.0, rel=1e-6)
    other = OneLayer(width=400).initial(jax.random.key(2), 3)
    assert not np.array_equal(fixed.query, other.query)


def test_what_is_fixed_gets_no_gradient(rng):
    documents, labels = texts(rng)
    (batch,) = batch_of(documents, labels, 90)
    parameters = random_parameters(rng, 90, 5)
    for trained in (("embeddings",), ("query",), ("embeddings", "head")):
        gradients = evaluate(OneLayer(width=5, trainable=trained), parameters, batch)[1]
        assert {name for name in ALL if getattr(gradients, name) is not None} == set(trained)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: OneLayer(width=0), "width"),
        (lambda: OneLayer(width=4, trainable=("E",)), "trainable must name"),
        (lambda: OneLayer(width=4, trainable=()), "trainable must name"),
        (lambda: OneLayer(width=4, init_scale=-1.0), "init_scale"),
        (lambda: OneLayer(width=4, score_scale=0.0), "score_scale"),
    ],
)
def test_bad_input(make, says):
    with pytest.raises(InvalidInputError, match=says):
        make()


def single(tree):
    """The same in float32."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32) if jnp.asarray(x).dtype == jnp.float64 else x, tree)


@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["usual", "saturated"])
@pytest.mark.parametrize("batch_size", [7, 5], ids=["whole", "with rows that are no documents"])
def test_two_kernels_are_all_between_the_readings_and_the_gradients(rng, scale, batch_size):
    """Interpreted in float64, against the slow twin; a token that is in no document gets exactly nothing."""
    documents, labels = texts(rng)
    parameters = random_parameters(rng, 90, 2)
    parameters = eqx.tree_at(lambda p: p.embeddings, parameters, scale * parameters.embeddings)
    model = OneLayer(2)
    for batch in batch_of(documents, labels, 90, batch_size):
        pieces = PiecesOfDocuments(batch.ids, batch.log_counts, batch.pieces, batch.labels)
        ours = jax.jit(partial(document_sums, interpret=True))(overlaps(parameters), pieces, batch.documents)
        _, gradients = jax.jit(model.loss_and_gradients)(parameters, batch)
        np.testing.assert_allclose(ours.outputs, jax.jit(model.outputs)(parameters, batch), atol=ROUNDING * scale)
        np.testing.assert_allclose(ours.flow, gradients.embeddings.left, atol=ROUNDING * scale)
        assert not np.any(ours.flow[-3:])


def test_kernels_are_for_batches_of_the_usual_size_on_one_gpu(monkeypatch):
    ids, pieces = np.zeros((40, 32), np.int32), np.zeros((128, 8), np.int32)
    assert kernels_apply(ids, pieces, jnp.float32)
    assert not kernels_apply(ids, pieces, jnp.float64)
    assert not kernels_apply(ids, np.zeros((257, 8), np.int32), jnp.float32)
    assert not kernels_apply(ids, np.zeros((128, 129), np.int32), jnp.float32)
    with monkeypatch.context() as patched:
        patched.setattr(jax, "default_backend", lambda: "gpu")
        patched.setattr("tokenmargin.models._one_layer_kernels.is_tried_gpu", lambda: True)
        for devices, applies in ((1, True), (2, False)):
            patched.setattr(jax, "device_count", lambda devices=devices: devices)
            assert kernels_apply(ids, pieces, jnp.float32) is applies


def test_kernels_are_lowered_for_a_gpu(rng):
    """As far as is possible where there is none: to Triton's language, three of them in a step that has all else."""
    documents, labels = texts(rng)
    (batch,) = single(batch_of(documents, labels, 90))
    parameters = single(random_parameters(rng, 90, 16))
    checks = [jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")]
    step = jax.jit(OneLayer(16).loss_and_gradients)
    found = jax.export.export(step, platforms=["cuda"], disabled_checks=checks)(parameters, batch)
    assert found.mlir_module().count("__gpu$xla.gpu.triton") == 3
