"""Numbers of an attention map: their bounds, their order, and what they must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.measures import (
    distribution,
    entropy,
    key_query_norm,
    logit_margin,
    soft_sparsity,
    top_mass,
)

ROUNDING = 1e-9


@st.composite
def maps(draw):
    logits = draw(st.lists(st.floats(-30, 30), min_size=1, max_size=40))
    weights = np.exp(np.array(logits) - max(logits))
    return weights / weights.sum()


@given(maps())
def test_the_measures_stand_in_their_order(s):
    effective = soft_sparsity(s)
    assert 1 - ROUNDING <= 1 / top_mass(s) <= effective * (1 + ROUNDING)
    assert effective <= np.exp(entropy(s)) * (1 + ROUNDING)
    assert np.exp(entropy(s)) <= len(s) * (1 + ROUNDING)


@given(maps(), st.randoms())
def test_the_order_of_tokens_changes_nothing(s, random):
    order = list(range(len(s)))
    random.shuffle(order)
    for measure in (soft_sparsity, entropy, top_mass):
        assert measure(s[order]) == pytest.approx(float(measure(s)), rel=ROUNDING)


@pytest.mark.parametrize("attended", [1, 3, 256])
def test_a_map_that_is_uniform_over_some_tokens_counts_them(attended):
    s = np.zeros(256)
    s[:attended] = 1 / attended
    assert soft_sparsity(s) == pytest.approx(attended)
    assert np.exp(entropy(s)) == pytest.approx(attended)
    assert top_mass(s, attended) == pytest.approx(1)
    assert top_mass(s) == pytest.approx(1 / attended)


@given(maps())
def test_mixing_two_maps_is_never_sparser_than_the_sparser_one(s):
    # 1/|s|^2 is quasi-concave: why the map that is the mean over heads looks denser than the heads.
    other = np.roll(s, 1)
    assert soft_sparsity((s + other) / 2) >= soft_sparsity(s) * (1 - ROUNDING)


def test_the_formula_is_the_papers(rng):
    s = rng.dirichlet(np.ones(256), size=(2, 5))
    assert soft_sparsity(s).shape == (2, 5)
    np.testing.assert_allclose(soft_sparsity(s), np.abs(s).sum(-1) / (s**2).sum(-1), rtol=1e-12)


def test_logit_margin_is_best_minus_next(rng):
    z = rng.normal(size=(4, 9))
    ordered = np.sort(z, axis=1)
    np.testing.assert_allclose(logit_margin(z), ordered[:, -1] - ordered[:, -2])
    np.testing.assert_allclose(logit_margin(z + 5.0), logit_margin(z), atol=1e-12)
    assert logit_margin([1.0, 1.0, 0.0]) == 0
    assert logit_margin([3.0, -np.inf, 1.0]) == 2
    with pytest.raises(InvalidInputError, match="two tokens"):
        logit_margin([3.0, -np.inf])


def test_key_query_norm_is_that_of_the_product(rng):
    q, k = rng.normal(size=(2, 3, 4, 7))
    np.testing.assert_allclose(key_query_norm(q, k), np.linalg.norm(np.swapaxes(q, 1, 2) @ k, axis=(1, 2)))
    with pytest.raises(InvalidInputError, match="of one shape"):
        key_query_norm(q, k[:, :2])


def test_a_distribution_in_words():
    found = distribution(np.arange(101.0))
    assert (found.count, found.mean, found.median) == (101, 50, 50)
    assert found.quantiles == (5, 25, 50, 75, 95)
    assert "median 50" in str(found)
    assert "[5, 95]" in str(found)
    with pytest.raises(InvalidInputError, match="at least one"):
        distribution([])


@pytest.mark.parametrize("bad", [[-0.5, 1.5], [0.2, 0.2], [np.nan, 1.0], [], [[0.5, 0.5], [1.0, 1.0]]])
def test_what_is_no_attention_is_refused(bad):
    for measure in (soft_sparsity, entropy, top_mass):
        with pytest.raises(InvalidInputError):
            measure(bad)


def test_more_tokens_than_there_are():
    with pytest.raises(InvalidInputError, match="between 1 and 2"):
        top_mass([0.5, 0.5], 3)
