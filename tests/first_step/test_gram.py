"""The first step and what follows in Gram space: those of explicit embeddings, and those of widths nobody can store."""

import jax
import numpy as np
import pytest
from scipy import stats

from tokenmargin.attention import AttentionRisk, Descent, Flow, LimitKind, follow
from tokenmargin.data.statistics import TokenClass, token_statistics
from tokenmargin.data.synthetic import KLevel, k_level, single_relevant
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step import gram_of, gram_step, step_from_gram
from tokenmargin.first_step.bounds import theorem_log10_d
from tokenmargin.first_step.step import one_step, step_from

D = 4096

#: One step: inner products of order one, each a sum of 4096 products of size 1/4096.
ONE_STEP = 1e-15

#: 3000 steps of p, relative.
MANY_STEPS = 1e-12

P_VALUE = 1e-4


@pytest.fixture
def dataset():
    """Six texts with repeats over 11 tokens."""
    return k_level(np.random.default_rng(5), 6, KLevel(irrelevant=5, sizes=(1, 2), levels=(0.3, 0.1), T=5))


@pytest.fixture
def both(dataset, rng):
    """The same step, explicit at d = 4096 and from the Gram matrix of the same draw."""
    E, p = rng.normal(size=(dataset.vocabulary_size, D)) / np.sqrt(D), rng.normal(size=D) / np.sqrt(D)
    v = rng.normal(size=D)
    v /= np.linalg.norm(v)
    explicit = step_from(dataset, 2.0, np.log10(D), E, p, v)
    return explicit, step_from_gram(dataset, 2.0, np.log10(D), gram_of(E, p, v))


def test_one_step_from_the_gram_matrix_is_the_explicit_one(both):
    explicit, gram = both
    assert gram.tokens.shape == (explicit.dataset.vocabulary_size, explicit.dataset.vocabulary_size + 2)
    for name in ("token_errors", "token_head_change", "token_head"):
        np.testing.assert_allclose(getattr(gram, name), getattr(explicit, name), atol=ONE_STEP, rtol=0)
    assert gram.query_error == pytest.approx(explicit.query_error, abs=ONE_STEP)
    np.testing.assert_allclose(gram.tokens @ gram.query, explicit.tokens @ explicit.query, atol=ONE_STEP, rtol=0)
    products = [gram_of(step.tokens, step.query, step.head) for step in both]
    np.testing.assert_allclose(products[1], products[0], atol=ONE_STEP, rtol=0)
    assert gram.loss == pytest.approx(explicit.loss, abs=ONE_STEP)
    assert gram.bound == explicit.bound


def descend_in_4096_dimensions(step, rate, steps):
    """p <- p - rate grad_p L with softmax weights, as plain as it gets."""
    counts = step.dataset.counts.toarray()
    p, score = step.query.copy(), step.tokens @ step.head
    for _ in range(steps):
        weights = counts * np.exp(step.tokens @ p)
        weights /= weights.sum(axis=1, keepdims=True)
        f = weights @ score
        slope = step.dataset.labels / (1 + np.exp(step.dataset.labels * f)) / len(counts)
        p += rate * ((slope[:, None] * weights * (score - f[:, None])).sum(axis=0) @ step.tokens)
    return p


def test_3000_steps_of_p_in_gram_space_are_those_in_4096_dimensions(both):
    explicit, gram = both
    p = descend_in_4096_dimensions(explicit, 0.5, 3000)
    q = follow(AttentionRisk(gram.sequences()), gram.query, Descent(0.5), steps=3000, every=3000).final
    logits = explicit.tokens @ p
    assert np.ptp(logits) > 2  # p moved, from logits of 0.05
    np.testing.assert_allclose(gram.tokens @ q, logits, rtol=0, atol=MANY_STEPS * np.abs(logits).max())
    assert np.linalg.norm(q) == pytest.approx(np.linalg.norm(p), rel=MANY_STEPS)
    assert q @ gram.head == pytest.approx(p @ explicit.head, rel=MANY_STEPS)


def test_sampled_steps_have_the_law_of_explicit_ones(dataset):
    d, rng = 64, np.random.default_rng(8)
    explicit = [one_step(dataset, 1.0, d, rng) for _ in range(300)]
    sampled = [gram_step(dataset, 1.0, np.log10(d), rng) for _ in range(300)]
    for what in (
        lambda step: step.largest_error,
        lambda step: step.query_error,
        lambda step: step.token_errors[3],
        lambda step: step.loss,
        lambda step: step.tokens[0] @ step.tokens[1],
        lambda step: step.tokens[2] @ step.query,
    ):
        p_value = stats.ks_2samp([what(s) for s in explicit], [what(s) for s in sampled]).pvalue
        assert p_value > P_VALUE


@pytest.mark.parametrize("seed", [0, 1])
def test_the_flow_at_the_width_that_theorem_5_asks_for(seed):
    n, T = 4, 4
    dataset = single_relevant(np.random.default_rng(seed), n, T)
    eta0 = 4.0 * n**2 * T**2
    log10_d = theorem_log10_d(dataset.vocabulary_size, 0.05, eta0)
    assert log10_d > 60
    step = gram_step(dataset, eta0, log10_d, jax.random.key(seed))
    limit = follow(AttentionRisk(step.sequences()), step.query, Flow()).limit
    assert limit.kind is LimitKind.DIVERGES
    kind = token_statistics(dataset).token_class
    important = np.abs(kind) == int(TokenClass.COMPLETELY_POSITIVE)
    ids = np.repeat(dataset.counts.indices, dataset.counts.data).reshape(n, T)
    np.testing.assert_array_equal(limit.selection.chosen, important[ids])


def test_the_flow_runs_at_d_of_10_to_the_80_and_300():
    dataset = single_relevant(np.random.default_rng(2), 2, 3)
    for log10_d in (80, 300):
        step = gram_step(dataset, 200, log10_d, jax.random.key(0))
        assert follow(AttentionRisk(step.sequences()), step.query, Flow()).limit.kind is LimitKind.DIVERGES


def test_a_key_decides_everything(dataset):
    first, again = (gram_step(dataset, 1.0, 80.0, jax.random.key(3)) for _ in range(2))
    np.testing.assert_array_equal(first.tokens, again.tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta0": 0.0}, "eta0"),
        ({"eta0": float("inf")}, "eta0"),
        ({"log10_d": 301.0}, "at most 300"),
        ({"log10_d": float("nan")}, "at most 300"),
        ({"log10_d": -1.0}, "d < 1"),
        ({"log10_d": 1.0}, "one_step"),
    ],
)
def test_bad_input_is_named(dataset, change, message):
    arguments = {"eta0": 1.0, "log10_d": 80.0, "key": jax.random.key(0)} | change
    with pytest.raises(InvalidInputError, match=message):
        gram_step(dataset, **arguments)


def test_a_gram_matrix_of_other_tokens_is_refused(dataset):
    with pytest.raises(InvalidInputError, match="order it as v, the tokens, p"):
        step_from_gram(dataset, 1.0, 2.0, np.eye(5))
