"""Gram matrices drawn for a given d: the law of those of explicit embeddings."""

import numpy as np
import pytest
from scipy import stats

from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step import wishart as wishart_gram
from tokenmargin.first_step.wishart import coordinates_of, gram_of, sample_coordinates

#: A right sampler gives a p-value below this in one of 10,000 tests; the seeds are fixed, so a pass stays a pass.
P_VALUE = 1e-4

V, D, DRAWS = 9, 64, 2000


def explicit_grams(seed, draws=DRAWS, d=D):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(draws, V + 2, d)) / np.sqrt(d)
    rows[:, 0] /= np.linalg.norm(rows[:, 0], axis=1, keepdims=True)  # v, a unit vector
    return np.einsum("kid,kjd->kij", rows, rows)


def sampled_grams(seed, draws=DRAWS, log10_d=None):
    rng = np.random.default_rng(seed)
    log10_d = np.log10(D) if log10_d is None else log10_d
    return np.stack([_gram(sample_coordinates(rng, V, log10_d)) for _ in range(draws)])


def _gram(drawn):
    return gram_of(drawn.tokens, drawn.query, drawn.head)


def independent_entries(grams):
    """Entries pooled over draws; within a draw only such as are independent of one another (disjoint pairs)."""
    pairs = np.arange(1, V + 2, 2)  # tokens 1-2, 3-4, ..., the last token and p
    return {
        "norms": np.einsum("kii->ki", grams)[:, 1:].ravel(),
        "products": grams[:, pairs, pairs + 1].ravel(),
        "products with v": grams[:, 0, 1:].ravel(),
        "volume": np.linalg.slogdet(grams)[1],
        "largest eigenvalue": np.linalg.eigvalsh(grams)[:, -1],
    }


def p_values(one, other):
    first, second = independent_entries(one), independent_entries(other)
    return {name: stats.ks_2samp(first[name], second[name]).pvalue for name in first}


@pytest.fixture(scope="module")
def explicit():
    return explicit_grams(1)


def test_sampled_grams_have_the_law_of_explicit_ones(explicit):
    assert min(p_values(explicit, sampled_grams(2)).values()) > P_VALUE


def _wrong_degrees(shift, per_vector):
    def chi(rng, j, log10_d):
        d = 10.0**log10_d
        return np.sqrt(rng.chisquare(d - 1.0 - shift - per_vector * j) / d)

    return chi


@pytest.mark.parametrize(("shift", "per_vector"), [(1, 1), (-1, 1), (0, 0)], ids=["d-2-j", "d-j", "d-1"])
def test_wrong_degrees_of_freedom_are_noticed(explicit, monkeypatch, shift, per_vector):
    monkeypatch.setattr(wishart_gram, "_chi_over_root_d", _wrong_degrees(shift, per_vector))
    found = p_values(explicit, sampled_grams(2))
    assert min(found["norms"], found["volume"]) < P_VALUE


def test_the_gaussian_limit_is_the_limit(monkeypatch):
    exact = sampled_grams(3, log10_d=6.0)
    monkeypatch.setattr(wishart_gram, "GAUSSIAN_LOG10_D", 5.0)
    assert min(p_values(exact, sampled_grams(4, log10_d=6.0)).values()) > P_VALUE


def test_another_variance_of_the_gaussian_limit_is_noticed(monkeypatch):
    exact = sampled_grams(3, log10_d=6.0)

    def chi(rng, j, log10_d):
        return 1.0 + rng.normal(size=len(j)) * 10 ** (-log10_d / 2)  # variance 1 in place of 1/2

    monkeypatch.setattr(wishart_gram, "_chi_over_root_d", chi)
    assert p_values(exact, sampled_grams(4, log10_d=6.0))["norms"] < P_VALUE


@pytest.mark.parametrize("log10_d", [12.5, 80.0, 300.0])
def test_huge_widths_scale(log10_d):
    drawn = [sample_coordinates(np.random.default_rng(seed), V, log10_d) for seed in range(40)]
    with_v = np.concatenate([np.append(x.tokens[:, 0], x.query[0]) for x in drawn]) * 10 ** (log10_d / 2)
    with_p = np.concatenate([x.tokens @ x.query for x in drawn]) * 10 ** (log10_d / 2)
    for products in (with_v, with_p):
        assert stats.kstest(products, "norm").pvalue > P_VALUE
    for x in drawn:
        np.testing.assert_allclose(np.linalg.norm(x.tokens, axis=1), 1.0, atol=10 * 10 ** (-log10_d / 2) + 1e-15)


def test_at_the_least_width_the_last_diagonal_has_one_degree_of_freedom():
    last = [sample_coordinates(np.random.default_rng(s), V, np.log10(V + 2)).query[-1] for s in range(500)]
    assert stats.kstest(np.square(last) * (V + 2), "chi2", args=(1,)).pvalue > P_VALUE


def test_coordinates_have_the_products_of_the_gram_matrix(explicit):
    for gram in explicit[:5]:
        np.testing.assert_allclose(_gram(coordinates_of(gram)), gram, atol=1e-14)
        assert not coordinates_of(gram).head[1:].any()  # v is the first basis vector


def test_dependent_vectors_are_refused():
    with pytest.raises(InvalidInputError, match="one_step"):
        coordinates_of(explicit_grams(0, draws=1, d=4)[0])
    with pytest.raises(InvalidInputError, match="square"):
        coordinates_of(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("log10_d", "message"),
    [
        (300.5, "at most 300"),
        (float("inf"), "at most 300"),
        (float("nan"), "at most 300"),
        (-0.1, "d < 1"),
        (np.log10(V + 1), "one_step"),
    ],
)
def test_widths_that_cannot_be_are_named(log10_d, message):
    with pytest.raises(InvalidInputError, match=message):
        sample_coordinates(np.random.default_rng(0), V, float(log10_d))
