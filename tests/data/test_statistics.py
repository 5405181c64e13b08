"""Token statistics against a loop over documents, and the classes of [E, Def. 1]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.data.statistics import TokenClass, token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.models.correlation import pearson

documents = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=2, max_size=6)


@given(documents)
def test_statistics_against_a_loop(texts):
    labels = np.where(np.arange(len(texts)) % 2 == 0, 1, -1)
    dataset = TokenDataset.from_token_ids(texts, labels, list("abcde"))
    found = token_statistics(dataset)
    for s in range(5):
        alpha = sum(y * ids.count(s) / len(ids) for ids, y in zip(texts, labels, strict=True)) / len(texts)
        positive = sum(ids.count(s) for ids, y in zip(texts, labels, strict=True) if y > 0)
        negative = sum(ids.count(s) for ids, y in zip(texts, labels, strict=True) if y < 0)
        assert found.signed_frequency[s] == pytest.approx(alpha, abs=1e-15)
        assert (found.positive_count[s], found.negative_count[s]) == (positive, negative)
        assert found.document_count[s] == sum(s in ids for ids in texts)
        if positive + negative:
            assert found.posterior_difference[s] == (positive - negative) / (positive + negative)
        else:
            assert np.isnan(found.posterior_difference[s])


def test_equal_lengths_give_the_printed_formula_exactly():
    dataset = TokenDataset.from_token_ids([[0, 0, 1], [1, 1, 2], [0, 2, 3]], [1, -1, 1])
    total = 3 * 3
    expected = np.array([3, 1 - 2, 1 - 1, 1]) / total
    assert (token_statistics(dataset).signed_frequency == expected).all()


def test_classes_of_definition_1():
    texts = [[0, 1, 2, 2, 3], [0, 1, 3, 3, 4]]
    found = token_statistics(TokenDataset.from_token_ids(texts, [1, -1], list("abcdef")))
    kinds = [TokenClass(int(k)) for k in found.token_class]
    assert kinds == [
        TokenClass.IRRELEVANT,
        TokenClass.IRRELEVANT,
        TokenClass.COMPLETELY_POSITIVE,
        TokenClass.NEGATIVE,
        TokenClass.COMPLETELY_NEGATIVE,
        TokenClass.ABSENT,
    ]
    columns = found.columns()
    assert columns["token_class"].tolist()[2] == "completely positive"
    assert {len(column) for column in columns.values()} == {6}


@given(documents)
def test_flipping_the_labels_flips_the_signs(texts):
    labels = np.where(np.arange(len(texts)) % 2 == 0, 1, -1)
    one = token_statistics(TokenDataset.from_token_ids(texts, labels, list("abcde")))
    other = token_statistics(TokenDataset.from_token_ids(texts, -labels, list("abcde")))
    assert (one.signed_frequency == -other.signed_frequency).all()
    present = one.count > 0
    assert (one.token_class[present] == -other.token_class[present]).all()


def test_correlation_on_the_host_and_traced_is_numpys(rng):
    x, y, there = rng.normal(size=50), rng.normal(size=50), rng.random(50) < 0.7
    assert float(pearson(x, y)) == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-12)
    expected = pytest.approx(np.corrcoef(x[there], y[there])[0, 1], rel=1e-12)
    assert float(pearson(x, y, there)) == expected
    assert float(jax.jit(pearson)(jnp.asarray(x), jnp.asarray(y), jnp.asarray(there))) == expected


def test_a_constant_has_no_correlation(rng):
    x = rng.normal(size=8)
    for constant in (0.0, 0.1):  # the mean of eleven times 0.1 is not 0.1
        assert np.isnan(pearson(np.arange(11.0), np.full(11, constant)))
    assert np.isnan(pearson(x, x, np.arange(8) == 3))
    assert np.isnan(jax.jit(pearson)(jnp.zeros(8), jnp.asarray(x)))
