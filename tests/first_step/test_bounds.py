"""The paper's bounds on the first step: they hold where they are claimed, and say so when they do not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tokenmargin.data.synthetic import KLevel, k_level, single_relevant
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step import gram_step
from tokenmargin.first_step.bounds import (
    embedding_bounds,
    embedding_bounds_log10_d,
    error_bound,
    initial_events,
    loss_bound,
    loss_bound_log10_d,
    theorem_log10_d,
)
from tokenmargin.first_step.step import one_step, step_from

#: Draws in an estimate of a probability, and how many standard deviations it may be off.
DRAWS, DEVIATIONS = 10_000, 5


def random_dataset(rng):
    if rng.random() < 0.5:
        return single_relevant(rng, 2 * int(rng.integers(1, 5)), int(rng.integers(2, 6)))
    law = KLevel(int(rng.integers(1, 30)), (2, 3), float(rng.uniform(0.05, 0.95)), (0.3, 0.02), int(rng.integers(1, 9)))
    return k_level(rng, 2 * int(rng.integers(1, 10)), law)


@given(seed=st.integers(0, 2**20), log_eta=st.floats(-3, 3), beyond=st.floats(0, 40), delta=st.floats(1e-6, 0.9))
def test_lemma_11_and_the_bound_6_follow_from_the_events(seed, log_eta, beyond, delta):
    rng = np.random.default_rng(seed)
    dataset = random_dataset(rng)
    V = dataset.vocabulary_size
    log10_d = max(embedding_bounds_log10_d(V, delta), np.log10(V + 2)) + beyond
    step = gram_step(dataset, 10**log_eta, float(log10_d), rng)
    assume(all(event.holds for event in initial_events(step, delta)))
    assert error_bound(step).holds
    assert all(bound.holds for bound in embedding_bounds(step))


@given(seed=st.integers(0, 2**20), log_eta=st.floats(-2, 4), delta=st.floats(1e-6, 0.9))
def test_lemma_12_follows_from_the_events(seed, log_eta, delta):
    rng = np.random.default_rng(seed)
    dataset = random_dataset(rng)
    eta0 = 10**log_eta
    log10_d = max(
        loss_bound_log10_d(dataset.vocabulary_size, delta, eta0), float(np.log10(dataset.vocabulary_size + 2))
    )
    step = gram_step(dataset, eta0, log10_d, rng)
    assume(all(event.holds for event in initial_events(step, delta)))
    assert loss_bound(step).holds


def share_of_events(V, d, delta, seed):
    """How often both lines of (14) hold, over many initialisations at once, v the first basis vector."""
    rng = np.random.default_rng(seed)
    dataset = TokenDataset(np.ones((2, V), dtype=int), [1, -1])
    products, norms = (event.right for event in initial_events(one_step(dataset, 1.0, d, rng), delta))
    E, p = rng.normal(size=(DRAWS, V, d)) / np.sqrt(d), rng.normal(size=(DRAWS, d)) / np.sqrt(d)
    small = np.concatenate([E[:, :, 0], np.einsum("ksd,kd->ks", E, p), p[:, :1]], axis=1)
    long = np.concatenate([np.linalg.norm(E, axis=2), np.linalg.norm(p, axis=1)[:, None]], axis=1)
    return np.mean((np.abs(small) <= products).all(axis=1) & (long <= norms).all(axis=1))


def test_the_events_are_those_of_the_arrays(rng):
    dataset = TokenDataset(np.ones((2, 5), dtype=int), [1, -1])
    E, p, v = rng.normal(size=(5, 7)), rng.normal(size=7), np.eye(7)[2]
    products, norms = initial_events(step_from(dataset, 1.0, np.log10(7), E, p, v), 0.1)
    assert products.left == max(np.abs(E[:, 2]).max(), np.abs(E @ p).max(), abs(p[2]))
    assert products.right == pytest.approx(np.sqrt(2 * np.log(25 / 0.1) / 7))
    assert norms.left == pytest.approx(np.sqrt(max((E**2).sum(axis=1).max(), (p**2).sum())))
    assert norms.right == 2


@pytest.mark.parametrize(("V", "delta"), [(2, 0.9), (2, 0.5), (3, 0.5), (8, 0.1)])
def test_the_events_have_the_probability_claimed(V, delta):
    allowed = DEVIATIONS * np.sqrt(delta * (1 - delta) / DRAWS)
    assert share_of_events(V, 64, delta, seed=V) >= 1 - delta - allowed


def test_with_one_token_the_events_are_less_likely_than_claimed():
    # Three products, each below sqrt(2 log 2) deviations with probability .761: .44 in all, where 1/2 is claimed.
    share = share_of_events(1, 64, 0.5, seed=1)
    assert share < 0.5 - DEVIATIONS * 0.5 / np.sqrt(DRAWS)
    assert share == pytest.approx(0.4405, abs=DEVIATIONS * 0.5 / np.sqrt(DRAWS))


def test_at_width_one_norms_exceed_two(rng):
    dataset = TokenDataset(np.ones((2, 40), dtype=int), [1, -1])
    assert not initial_events(one_step(dataset, 1.0, 1, np.random.default_rng(3)), 1e-9)[1].holds


def test_the_bounds_can_fail(rng):
    # Each with a side made wrong by more than its slack.
    step = one_step(single_relevant(rng, 4, 4), 1.0, 4096, rng)
    assert not error_bound(replace(step, query_error=1.01 * step.bound)).holds
    assert not embedding_bounds(replace(step, tokens=10 * step.tokens))[0].holds
    assert not embedding_bounds(replace(step, query=10 * step.query))[1].holds
    # Labels against what was learnt: the loss is then above the bound of the labels themselves.
    flipped = replace(step, dataset=TokenDataset(step.dataset.counts, -step.dataset.labels), alpha=-step.alpha)
    large = replace(flipped, eta0=100.0, token_head_change=100 * step.token_head_change)
    assert not loss_bound(large).holds
    assert loss_bound(large).slack < 0


def test_the_widths_are_those_of_the_paper():
    assert 10 ** embedding_bounds_log10_d(4, 0.5) == pytest.approx(256)
    assert 10 ** embedding_bounds_log10_d(320, 0.05) == pytest.approx((2 * np.log(320**2 / 0.05)) ** 2)
    assert 10 ** loss_bound_log10_d(4, 0.5, 1.0) == pytest.approx(201.0**8)
    assert 10 ** theorem_log10_d(10**18, 0.5, 0.01) == pytest.approx(1e18)
    # (n, T) = (2, 2) and (8, 4): eta0 = 4 n^2 T^2
    assert theorem_log10_d(6, 0.05, 64.0) == pytest.approx(44.5, abs=0.1)
    assert theorem_log10_d(20, 0.05, 4096.0) == pytest.approx(73.4, abs=0.1)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, float("nan")])
def test_delta_is_a_probability(delta):
    with pytest.raises(InvalidInputError, match="delta"):
        embedding_bounds_log10_d(4, delta)
