"""The tests of shape see a shape, and see its absence."""

import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.models.correlation import pearson
from tokenmargin.papers.embeddings.figures._overlap_shapes import (
    binned,
    quantile_curves,
    rises_at_equal_count,
    s_curve,
    v_curve,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, 2000)
NOISE = 0.3 * RNG.normal(size=X.size)


def test_an_s_and_a_v_are_seen():
    assert s_curve(X, np.tanh(3 * X) + NOISE).rises
    assert all(side.rises for side in v_curve(X, np.abs(X) + NOISE))


def test_no_shape_is_not_seen():
    assert not s_curve(X, NOISE).rises
    assert not s_curve(X, -X + NOISE).rises
    assert not s_curve(X, np.sin(4 * X) + NOISE).rises
    assert not all(side.rises for side in v_curve(X, X + NOISE))
    assert not all(side.rises for side in v_curve(X, -np.abs(X) + NOISE))


def test_means_and_errors_of_a_bin_are_those_of_its_points():
    curve = binned(X, NOISE, 2)
    low = np.median(X) > X
    assert curve.means[0] == pytest.approx(NOISE[low].mean())
    assert curve.errors[0] == pytest.approx(NOISE[low].std(ddof=1) / np.sqrt(low.sum()))


def test_repeated_values_stay_in_one_bin():
    curve = binned(np.repeat([0.0, 1.0], 100), np.repeat([0.0, 2.0], 100), 20)
    assert curve.means.tolist() == [0.0, 2.0]
    with pytest.raises(InvalidInputError, match="too few"):
        binned(X[:10], X[:10])


def test_quantiles_are_ordered_and_correlation_is_numpys():
    _, curves = quantile_curves(X, NOISE)
    assert (np.diff(curves, axis=0) > 0).all()
    assert pearson(X, X + NOISE) == pytest.approx(np.corrcoef(X, X + NOISE)[0, 1])
    # A constant has no correlation with anything: not 0, which would say that one was measured.
    assert np.isnan(pearson(X, np.ones_like(X)))


def test_a_v_that_rarity_draws_is_no_v_at_equal_count():
    """Rare tokens are far from 0 and have large overlaps, by chance: a V over all, none among tokens of one count."""
    count = RNG.integers(1, 200, X.size)
    away = X / np.sqrt(count)
    rare = 1 / np.sqrt(count) + 0.1 * NOISE
    assert all(side.rises for side in v_curve(away, rare))
    assert not rises_at_equal_count(away, rare, count)
    assert rises_at_equal_count(away, rare + 5 * np.abs(away), count)
    assert not rises_at_equal_count(away, rare - 5 * np.abs(away), count)
