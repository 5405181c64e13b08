"""Tokens with queries: logits x'Wz, queries by place, and what is refused."""

import numpy as np
import pytest

import tokenmargin as tm
from tokenmargin.errors import InvalidInputError


def test_logits_are_those_of_the_matrix(rng):
    X, Z, W = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 5)), rng.normal(size=(2, 5))
    data = tm.CrossSequences(X, queries=Z, labels=[1, -1, 1], head=[1.0, 0.0])
    np.testing.assert_allclose(data.logits(W.ravel()), np.einsum("ntd,de,ne->nt", X, W, Z), atol=1e-12)
    assert data.shape == (2, 5)
    assert "d=2, e=5" in repr(data)


def test_a_query_may_be_the_place_of_a_token(rng):
    X, mask = rng.normal(size=(2, 3, 2)), np.array([[True, True, False], [True, True, True]])
    data = tm.CrossSequences(X, queries=-1, labels=[1, -1], head=[1.0, 0.0], mask=mask)
    np.testing.assert_array_equal(data.queries, [X[0, 1], X[1, 2]])
    first = tm.CrossSequences(X, queries=0, labels=[1, -1], head=[1.0, 0.0])
    np.testing.assert_array_equal(first.queries, X[:, 0])


@pytest.mark.parametrize(
    ("queries", "says"),
    [
        (5, "no such token"),
        (np.ones((3, 2)), "one for each input"),
        (np.ones(2), "one for each input"),
        ([["a"], ["b"]], "one for each input"),
        ([[np.nan], [1.0]], "finite"),
    ],
)
def test_queries_that_fit_nothing(rng, queries, says):
    with pytest.raises(InvalidInputError, match=says):
        tm.CrossSequences(rng.normal(size=(2, 3, 2)), queries=queries, labels=[1, -1], head=[1.0, 0.0])
