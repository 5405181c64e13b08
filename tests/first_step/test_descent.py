"""Descent on all embeddings in Gram space is descent in d dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.data.synthetic import KLevel, k_level, single_relevant
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step import gram_of, gram_step
from tokenmargin.first_step.descent import descend_embeddings
from tokenmargin.first_step.wishart import SpanCoordinates, coordinates_of, sample_coordinates

#: 40 steps, each a few roundings of numbers of order one.
ROUNDING = 1e-12


@pytest.fixture
def dataset():
    return k_level(np.random.default_rng(5), 6, KLevel(irrelevant=5, sizes=(1, 2), levels=(0.3, 0.1), T=5))


def explicit_descent(dataset, E, p, v, rate, steps):
    """The same by autodiff in d dimensions."""
    counts = jnp.asarray(dataset.counts.toarray(), float)

    def loss(both):
        E, p = both
        weights = counts * jnp.exp(E @ p)[None]
        f = (weights @ (E @ v)) / weights.sum(axis=1)
        return jnp.logaddexp(jnp.zeros(len(f)), -dataset.labels * f).mean()

    gradient = jax.jit(jax.grad(loss))
    both = jnp.asarray(E), jnp.asarray(p)
    for _ in range(steps):
        both = jax.tree.map(lambda x, g: x - rate * g, both, gradient(both))
    return np.asarray(both[0]), np.asarray(both[1]), float(loss(both))


def test_descent_in_the_span_is_descent_in_512_dimensions(dataset, rng):
    d, rate, steps = 512, 2.0, 40
    E, p = rng.normal(size=(dataset.vocabulary_size, d)) / np.sqrt(d), rng.normal(size=d) / np.sqrt(d)
    v = np.eye(d)[3]
    E_end, p_end, loss = explicit_descent(dataset, E, p, v, rate, steps)
    for start in (coordinates_of(gram_of(E, p, v)), SpanCoordinates(v, E, p)):
        run = descend_embeddings(dataset, start, rate, steps, every=7)
        assert run.steps.tolist() == [0, 7, 14, 21, 28, 35, 40]
        np.testing.assert_allclose(run.token_head[-1], E_end @ v, atol=ROUNDING)
        np.testing.assert_allclose(run.token_query[-1], E_end @ p_end, atol=ROUNDING)
        np.testing.assert_allclose(run.tokens @ run.tokens.T, E_end @ E_end.T, atol=ROUNDING)
        assert run.loss[-1] == pytest.approx(loss, abs=ROUNDING)
    assert run.loss[-1] < run.loss[0] - 0.1


def test_the_first_of_many_steps_is_the_first_step():
    dataset = single_relevant(np.random.default_rng(0), 4, 3)
    step = gram_step(dataset, 7.0, 60.0, np.random.default_rng(1))
    start = sample_coordinates(np.random.default_rng(1), dataset.vocabulary_size, 60.0)
    run = descend_embeddings(dataset, start, 7.0, 1)
    np.testing.assert_array_equal(run.query, step.query)
    np.testing.assert_allclose(run.tokens, step.tokens, atol=1e-15)


def test_training_everything_at_d_of_10_to_the_60_selects_the_relevant_tokens():
    dataset = single_relevant(np.random.default_rng(0), 6, 3)
    run = descend_embeddings(
        dataset, sample_coordinates(np.random.default_rng(1), dataset.vocabulary_size, 60.0), 20.0, 400
    )
    relevant = np.array([not name.startswith("0.") for name in dataset.vocabulary])
    assert run.loss[-1] < 1e-2
    assert run.token_query[-1][relevant].min() > run.token_query[-1][~relevant].max()


def test_bad_input_is_named(dataset):
    start = sample_coordinates(np.random.default_rng(1), dataset.vocabulary_size, 60.0)
    with pytest.raises(InvalidInputError, match="rate"):
        descend_embeddings(dataset, start, 0.0, 1)
    with pytest.raises(InvalidInputError, match="steps"):
        descend_embeddings(dataset, start, 1.0, -1)
