"""[E, Lemmas 2 and 12] over random data sets, step sizes and widths, and the inequality that the proof has wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.data import TokenDataset, k_level, single_relevant
from tokenmargin.data.synthetic import KLevel
from tokenmargin.first_step.bounds import loss_bound_log10_d
from tokenmargin.papers.embeddings.case import EmbeddingCase
from tokenmargin.papers.embeddings.claims.lemma2_12_first_step import (
    LEMMA_2,
    LEMMA_12,
    lemma_2_log10_d,
    stepped,
    telling_log10_d,
)
from tokenmargin.theory.claim import Applies

seeds = st.integers(0, 10**6)


def any_dataset(seed: int) -> TokenDataset:
    """Assumption 4 or not: Lemmas 2 and 12 hold for any data."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        return single_relevant(rng, 4, 3)
    law = KLevel(irrelevant=6, sizes=(2, 3), relevant_share=0.5, levels=(0.3, 0.1), T=int(rng.integers(2, 9)))
    return k_level(rng, 6, law)


@given(seeds, st.floats(-2, 6), st.floats(0, 60))
def test_lemma_2_holds_whenever_it_applies(seed, log10_eta0, further):
    case = EmbeddingCase(any_dataset(seed), 10.0**log10_eta0, 3.0, seed)
    case = EmbeddingCase(case.dataset, case.eta0, lemma_2_log10_d(case) + further, seed, explicit=further < 1)
    outcome = LEMMA_2.check(case)
    if outcome.applies is Applies.YES:
        assert outcome.holds is True
        assert case.step.largest_error < 0.2 * case.step.bound  # 11 is generous
    else:
        assert "events (14)" in outcome.because


@pytest.mark.parametrize("times", [0.0, -1.0, 10.0], ids=["no step", "wrong sign", "tenfold step"])
def test_lemma_2_has_teeth_from_a_telling_width_on(times):
    """At the least width of the lemma these pass: the bound is longer than every movement. At (220 nT)^4 none does."""
    data = single_relevant(np.random.default_rng(0), 2, 2)
    narrow = EmbeddingCase(data, 1.0, 3.0, explicit=True)
    narrow = replace(narrow, log10_d=lemma_2_log10_d(narrow))
    wide = replace(narrow, log10_d=telling_log10_d(data), explicit=False)
    assert LEMMA_2.check(narrow).holds
    assert LEMMA_2.check(wide).holds
    assert LEMMA_2.conclude(narrow, stepped(narrow.step, times)).holds is True
    assert LEMMA_2.conclude(wide, stepped(wide.step, times)).holds is False
    np.testing.assert_allclose(stepped(wide.step, 1.0).token_errors, wide.step.token_errors, atol=1e-15)


def test_the_inequality_in_the_proof_of_lemma_2_is_false():
    """exp(z) <= 1 + |z| on [-1, 1], at z = 1/2; what the proof needs of it, exp(z) <= 1 + 2|z| on [0, 1], is true."""
    assert np.exp(0.5) > 1 + 0.5
    z = np.linspace(0, 1, 1001)
    assert (np.exp(z) <= 1 + 2 * z).all()


@given(seeds, st.floats(-1, 4))
def test_lemma_12_holds_whenever_it_applies(seed, log10_eta0):
    data, eta0 = any_dataset(seed), 10.0**log10_eta0
    case = EmbeddingCase(data, eta0, loss_bound_log10_d(data.vocabulary_size, 0.1, eta0), seed)
    outcome = LEMMA_12.check(case)
    assert (outcome.holds is True) if outcome.applies is Applies.YES else ("events (14)" in outcome.because)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_events_fail_no_more_often_than_delta(seed):
    """The draws that the claims leave out are a share of at most delta."""
    data = any_dataset(seed)
    failed = sum(
        LEMMA_2.check(EmbeddingCase(data, 1.0, 20.0, number, delta=0.5)).applies is Applies.NO for number in range(100)
    )
    assert failed <= 50 + 3 * 5  # three standard deviations of a binomial above delta


def test_documents_of_different_lengths_are_outside():
    data = TokenDataset.from_token_ids([[0, 1], [2, 1, 1]], [1, -1])
    outcome = LEMMA_2.check(EmbeddingCase(data, 1.0, 20.0))
    assert outcome.applies is Applies.NO
    assert "length" in outcome.because


@pytest.mark.parametrize("claim", [LEMMA_2, LEMMA_12], ids=lambda c: c.key)
def test_a_draw_on_which_the_events_fail_is_outside(claim):
    data = single_relevant(np.random.default_rng(0), 2, 2)
    draws = [EmbeddingCase(data, 1.0, 40.0, seed, delta=0.9) for seed in range(40)]
    outcomes = [claim.check(case) for case in draws]
    assert any("events (14) fail" in outcome.because for outcome in outcomes)
    assert all(outcome.holds is True for outcome in outcomes if outcome.applies is Applies.YES)
