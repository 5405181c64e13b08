"""The first gradient step: equal to autodiff and to Lemma 7 as printed, its errors resolved far below rounding of 1."""

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.attention import AttentionRisk
from tokenmargin.data.synthetic import KLevel, k_level, single_relevant
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError, TooLargeError
from tokenmargin.first_step.step import mean_loss, one_step, step_coefficients, step_from
from tokenmargin.first_step.wishart import sample_coordinates

#: A few dozen operations on numbers of order one.
ROUNDING = 1e-14

#: Relative: sums of signed terms of one size, which cancel by a digit or two.
RELATIVE_ROUNDING = 1e-12

DIGITS = 700


@pytest.fixture
def ragged():
    """Repeated tokens, different lengths, a token in both classes, one that never occurs."""
    documents = [[0, 0, 1, 2], [3, 1, 1, 1, 4, 2], [2], [0, 3, 3], [4, 4, 4, 4, 4], [1, 2, 3, 4, 0, 0, 0]]
    return TokenDataset.from_token_ids(documents, [1, -1, 1, -1, 1, -1], list("abcdef"))


def ids_of(dataset):
    counts = dataset.counts.toarray()
    return [np.repeat(np.arange(counts.shape[1]), row) for row in counts]


def loss(dataset, E, p, v):
    """[E, (2)] as printed, with a softmax over written-out tokens, differentiable by JAX."""
    T = int(dataset.lengths.max())
    ids = np.stack([np.pad(x, (0, T - len(x))) for x in ids_of(dataset)])
    X = E[ids]
    q = jax.nn.softmax(X @ p, axis=1, where=np.arange(T)[None] < dataset.lengths[:, None])
    return jnp.logaddexp(jnp.zeros(len(X)), -dataset.labels * (q * (X @ v)).sum(axis=1)).mean()


def lemma_7(dataset, E, p, v):
    """Both gradients by the double sums of [E, Lemma 7]."""
    grad_E, grad_p = np.zeros_like(E), np.zeros_like(p)
    for x, y in zip(ids_of(dataset), dataset.labels, strict=True):
        q = np.exp(E[x] @ p) / np.exp(E[x] @ p).sum()
        g = 1 / (1 + np.exp(y * (q @ E[x] @ v)))
        for i in range(len(x)):
            grad_E[x[i]] -= y * g * q[i] * v
            for j in range(len(x)):
                if j != i:
                    weight = y * g * q[i] * q[j] * (E[x[i]] @ v)
                    grad_E[x[i]] -= weight * p
                    grad_E[x[j]] += weight * p
                    grad_p -= weight * (E[x[i]] - E[x[j]])
    return grad_E / dataset.n_documents, grad_p / dataset.n_documents


def start(rng, V, d, scale=1.0):
    v = rng.normal(size=d)
    return scale * rng.normal(size=(V, d)) / np.sqrt(d), scale * rng.normal(size=d) / np.sqrt(d), v / np.linalg.norm(v)


@pytest.mark.parametrize("d", [1, 3, 24])
def test_the_step_is_the_gradient_of_autodiff_and_of_lemma_7(ragged, rng, d):
    E, p, v = start(rng, ragged.vocabulary_size, d)
    eta0 = 1.7
    step = step_from(ragged, eta0, np.log10(d), E, p, v)
    auto = jax.jit(jax.grad(lambda both: loss(ragged, *both, v)))((jnp.asarray(E), jnp.asarray(p)))
    for grad_E, grad_p in (auto, lemma_7(ragged, E, p, v)):
        np.testing.assert_allclose(step.tokens, E - eta0 * np.asarray(grad_E), atol=ROUNDING, rtol=0)
        np.testing.assert_allclose(step.query, p - eta0 * np.asarray(grad_p), atol=ROUNDING, rtol=0)
    np.testing.assert_allclose(step.token_head_change, (step.tokens - E) @ v, atol=ROUNDING)
    err = step.tokens - E - eta0 / 2 * step.alpha[:, None] * v
    np.testing.assert_allclose(step.token_errors, np.linalg.norm(err, axis=1), atol=ROUNDING)
    assert step.query_error == pytest.approx(np.linalg.norm(step.query - p), abs=ROUNDING)
    assert step.loss == pytest.approx(float(loss(ragged, step.tokens, step.query, v)), abs=ROUNDING)
    assert step.token_errors[-1] == step.token_head_change[-1] == 0  # the token that never occurs stays


def test_the_coefficients_are_right_at_large_logits_too(ragged, rng):
    # Logits of hundreds and thousands: exp overflows unless taken relative to the largest.
    E, p, v = start(rng, ragged.vocabulary_size, 8)
    for scale in (1e2, 1e4):
        A, B = step_coefficients(ragged, E @ v, E @ (scale * p))
        auto = jax.jit(jax.grad(lambda both: loss(ragged, *both, v)))((jnp.asarray(E), jnp.asarray(scale * p)))
        alpha = step_from(ragged, 1.0, 1.0, E, p, v).alpha
        ours = (alpha / 2 + A)[:, None] * v + B[:, None] * scale * p
        np.testing.assert_allclose(ours, -np.asarray(auto[0]), atol=ROUNDING * scale)
        np.testing.assert_allclose(B @ E, -np.asarray(auto[1]), atol=ROUNDING)
        assert mean_loss(ragged, E @ v, E @ (scale * p)) == pytest.approx(float(loss(ragged, E, scale * p, v)))


def exact_errors(dataset, eta0, E, p, v):
    """|err_s| and |err_p| in long decimals from the floats given, by subtracting alpha_s v/2 from the gradient."""
    D = lambda x: [Decimal(float(z)) for z in x]  # noqa: E731
    dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))  # noqa: E731
    with localcontext() as context:
        context.prec = DIGITS
        tokens, query, head = [D(row) for row in E], D(p), D(v)
        eta, n = Decimal(float(eta0)), Decimal(dataset.n_documents)
        step_E = [[Decimal(0)] * len(query) for _ in tokens]
        step_p = [Decimal(0)] * len(query)
        for x, y in zip(ids_of(dataset), dataset.labels, strict=True):
            weights = [dot(tokens[s], query).exp() for s in x]
            q = [w / sum(weights) for w in weights]
            h = [dot(tokens[s], head) for s in x]
            f, y = dot(q, h), Decimal(float(y))
            g = 1 / (1 + (y * f).exp())
            for s, q_i, h_i in zip(x, q, h, strict=True):
                along, across = y * (g * q_i - Decimal(1) / (2 * len(x))), y * g * q_i * (h_i - f)
                step_E[s] = [z + along * a + across * b for z, a, b in zip(step_E[s], head, query, strict=True)]
                step_p = [z + across * a for z, a in zip(step_p, tokens[s], strict=True)]
        norms = [float(eta / n * dot(row, row).sqrt()) for row in (*step_E, step_p)]
    return np.array(norms[:-1]), norms[-1]


@pytest.mark.parametrize("log10_d", [6.0, 44.5, 80.0, 300.0])
def test_errors_have_all_their_digits_however_small(ragged, rng, log10_d):
    drawn = sample_coordinates(rng, ragged.vocabulary_size, log10_d)
    eta0 = 1024.0
    step = step_from(ragged, eta0, log10_d, drawn.tokens, drawn.query, drawn.head)
    token_errors, query_error = exact_errors(ragged, eta0, drawn.tokens, drawn.query, drawn.head)
    np.testing.assert_allclose(step.token_errors, token_errors, rtol=RELATIVE_ROUNDING)
    assert step.query_error == pytest.approx(query_error, rel=RELATIVE_ROUNDING)
    assert 0 < step.largest_error < eta0 * 10 ** (-log10_d / 2)


def test_the_difference_of_embeddings_would_not_resolve_them(ragged, rng):
    drawn = sample_coordinates(rng, ragged.vocabulary_size, 80.0)
    step = step_from(ragged, 1.0, 80.0, drawn.tokens, drawn.query, drawn.head)
    subtracted = step.tokens - drawn.tokens - 0.5 * step.alpha[:, None] * drawn.head
    seen = step.token_errors > 0
    naive = np.linalg.norm(subtracted, axis=1)[seen]
    assert (np.abs(naive - step.token_errors[seen]) > 0.01 * step.token_errors[seen]).all()


def test_sequences_give_the_same_model(ragged, rng):
    step = one_step(ragged, 2.0, 32, rng)
    sequences = step.sequences()
    assert sequences.mask.sum(axis=1).tolist() == ragged.lengths.tolist()
    risk = AttentionRisk(sequences)
    assert risk.value(step.query) == pytest.approx(step.loss, rel=RELATIVE_ROUNDING)
    truth = jax.grad(lambda p: loss(ragged, step.tokens, p, step.head))(jnp.asarray(step.query))
    np.testing.assert_allclose(risk.gradient(step.query), truth, atol=ROUNDING)


def test_documents_of_one_length_have_no_mask(rng):
    assert one_step(single_relevant(rng, 4, 3), 1.0, 8, rng).sequences().is_unmasked


def test_too_many_numbers_are_refused(rng, monkeypatch):
    monkeypatch.setattr("tokenmargin.first_step.step.MOST_NUMBERS", 100)
    with pytest.raises(TooLargeError, match=r"gram_step"):
        one_step(single_relevant(rng, 4, 3), 1.0, 64, rng).sequences()


@given(flip=st.booleans(), seed=st.integers(0, 2**16), repeats=st.integers(1, 3))
def test_duplicated_documents_and_flipped_labels(flip, seed, repeats):
    # The risk is a mean: repeating every document changes nothing. Flipping labels and v changes nothing but v.
    rng = np.random.default_rng(seed)
    dataset = k_level(rng, 6, KLevel(irrelevant=5, sizes=(2, 3), levels=(0.3, 0.1), T=4))
    E, p, v = start(rng, dataset.vocabulary_size, 12)
    before = step_from(dataset, 1.0, 2.0, E, p, v)
    sign = -1 if flip else 1
    rows = np.tile(np.arange(6), repeats)
    other = TokenDataset(dataset.counts[rows], sign * dataset.labels[rows])
    after = step_from(other, 1.0, 2.0, E, p, sign * v)
    np.testing.assert_allclose(after.tokens, before.tokens, atol=ROUNDING)
    np.testing.assert_allclose(after.query, before.query, atol=ROUNDING)
    np.testing.assert_allclose(after.token_errors, before.token_errors, atol=ROUNDING)


def test_a_key_decides_everything(ragged):
    first, again = (one_step(ragged, 1.0, 50, jax.random.key(3)) for _ in range(2))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert np.linalg.norm(first.head) == pytest.approx(1.0)
    assert not np.array_equal(first.tokens, one_step(ragged, 1.0, 50, jax.random.key(4)).tokens)


def test_a_head_of_ones_own(ragged):
    v = np.zeros(50)
    v[7] = 1.0
    step = one_step(ragged, 1.0, 50, jax.random.key(3), head=v)
    np.testing.assert_array_equal(step.head, v)
    np.testing.assert_allclose(step.tokens[:, 7], step.token_head, atol=ROUNDING)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta0": 0.0}, "eta0"),
        ({"eta0": -1.0}, "eta0"),
        ({"eta0": float("nan")}, "eta0"),
        ({"eta0": float("inf")}, "eta0"),
        ({"d": 0}, "whole number from 1"),
        ({"d": -3}, "whole number from 1"),
        ({"key": np.random.default_rng(0), "head": np.ones(3)}, "width 10"),
        ({"head": np.ones(10)}, "unit vector"),
        ({"head": np.full(10, np.nan)}, "NaN or infinity"),
    ],
)
def test_bad_input_is_named(ragged, change, message):
    arguments = {"eta0": 1.0, "d": 10, "key": jax.random.key(0)} | change
    with pytest.raises(InvalidInputError, match=message):
        one_step(ragged, **arguments)
