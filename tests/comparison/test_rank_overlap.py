"""Correlations and overlaps beside SciPy's and slow ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from tokenmargin.comparison.rank_overlap import mean_size, on_single_texts, over_a_corpus, rank_correlation, top_overlap


def test_rank_correlation_is_scipys_ties_included():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 6, 40).astype(float), rng.normal(size=40)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation(b, np.exp(b)) == pytest.approx(1.0)
    assert rank_correlation(b, -b) == pytest.approx(-1.0)
    assert np.isnan(rank_correlation(b, np.zeros(40)))


def test_overlap_counts_the_tops():
    assert top_overlap(np.array([5.0, 4, 1, 0]), np.array([9.0, 0, 8, 0]), 2) == 0.5
    assert top_overlap(np.array([1.0, 2.0]), np.array([3.0, 1.0]), 50) == 1.0


def test_only_tokens_that_both_know_are_compared():
    known = {"one": np.array([1.0, 2.0, 3.0, 4.0]), "other": np.array([2.0, np.nan, 4.0, 8.0])}
    correlation, overlap = over_a_corpus(known, 1)
    np.testing.assert_allclose(correlation, np.ones((2, 2)))
    np.testing.assert_allclose(overlap, np.ones((2, 2)))


def test_single_texts_one_by_one():
    rng = np.random.default_rng(1)
    indptr = np.array([0, 5, 7, 12, 20])  # the second text is too short to be asked
    numbers = {"a": rng.normal(size=20), "b": rng.normal(size=20), "flat": np.zeros(20)}
    found = on_single_texts(numbers, indptr)
    parts = [slice(0, 5), slice(7, 12), slice(12, 20)]
    slow = np.mean([spearmanr(numbers["a"][part], numbers["b"][part]).statistic for part in parts])
    assert found[0, 1] == pytest.approx(slow)
    assert found[0, 0] == pytest.approx(1.0)
    assert np.isnan(found[0, 2])


def test_the_mean_size_of_a_token_is_over_the_texts_that_hold_it():
    found = mean_size(np.array([1.0, -3.0, 2.0]), np.array([0, 0, 2]), 3)
    np.testing.assert_array_equal(found, [2.0, np.nan, 2.0])
