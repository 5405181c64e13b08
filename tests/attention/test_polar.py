"""The polar factor of sums whose terms spread over hundreds of orders of magnitude, against exact arithmetic."""

from fractions import Fraction

import jax
import numpy as np
import pytest

from tokenmargin.attention._polar import polar_factor
from tokenmargin.norms import Spectral

polar = jax.jit(polar_factor)


def greedy(rows, queries):
    """The limit of infinitely many orders between one term and the next: each projected off those before, exactly."""
    left, right, total = [], [], np.zeros((rows.shape[1], queries.shape[1]))
    for g, z in zip(rows, queries, strict=True):
        g, z = (off(one, before) for one, before in ((g, left), (z, right)))
        if not (any(g) and any(z)):
            continue
        left.append(g)
        right.append(z)
        total += np.outer(*(np.array([float(x) for x in v]) / np.sqrt(float(sum(x * x for x in v))) for v in (g, z)))
    return total


def off(vector, others):
    """The vector minus its projections on orthogonal others, in fractions."""
    v = [Fraction(x) for x in vector]
    for o in others:
        share = sum(a * b for a, b in zip(v, o, strict=True)) / sum(b * b for b in o)
        v = [a - share * b for a, b in zip(v, o, strict=True)]
    return v


@pytest.mark.parametrize("gap", [60.0, 300.0, 3000.0])
def test_terms_far_apart_are_projected_off_one_another(rng, gap):
    """Plain singular value decompositions know none of the later terms."""
    for n, d, e in ((2, 2, 2), (3, 4, 3), (5, 3, 4)):
        rows, queries = rng.integers(-4, 5, (n, d)).astype(float), rng.integers(-4, 5, (n, e)).astype(float)
        scales, shuffled = -gap * np.arange(n), rng.permutation(n)
        found = polar(rows[shuffled], scales[shuffled], queries[shuffled])
        np.testing.assert_allclose(found, greedy(rows, queries), atol=1e-12)


def test_terms_of_like_size_are_the_ordinary_polar_factor(rng):
    for n, d, e in ((1, 2, 3), (3, 4, 3), (6, 3, 4), (4, 5, 5)):
        rows, queries, scales = rng.normal(size=(n, d)), rng.normal(size=(n, e)), -3 * rng.random(n)
        G = np.einsum("n,nd,ne->de", np.exp(scales), rows, queries)
        np.testing.assert_allclose(polar(rows, scales, queries), Spectral().steepest(G), atol=1e-11)


def test_between_the_two_it_is_right_to_rounding():
    """[[1, 0], [h, h]] for every h: the polar factor of a 2 x 2 matrix G is (G + det sign cof G) over its length."""
    rows, queries = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    for power in range(0, 400, 7):
        h = np.exp(-float(power))
        G = np.array([[1.0, 0.0], [h, h]])
        cofactors = np.array([[h, -h], [0.0, 1.0]])
        exact = (G + cofactors) / np.linalg.norm(G + cofactors) * np.sqrt(2)
        np.testing.assert_allclose(polar(rows, np.array([0.0, -float(power)]), queries), exact, atol=1e-14)


def test_rounding_becomes_no_direction(rng):
    """Rows or queries that depend on others up to rounding add nothing; zeros give zeros."""
    rows, queries = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    rows[2] = 0.1 * rows[0] + 0.7 * rows[1]
    for scales in (np.zeros(3), np.array([0.0, -50.0, -400.0])):
        values = np.linalg.svd(polar(rows, scales, queries), compute_uv=False)
        np.testing.assert_allclose(values, [1, 1, 0, 0], atol=1e-11)
        values = np.linalg.svd(polar(queries, scales, rows), compute_uv=False)
        np.testing.assert_allclose(values, [1, 1, 0, 0], atol=1e-11)
    assert not np.asarray(polar(np.zeros((2, 3)), np.full(2, -np.inf), np.ones((2, 2)))).any()
