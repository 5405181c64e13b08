"""Coordinates under ties: scores are kept, ties hold by themselves, and trapped pairs are found."""

import numpy as np
import pytest

from tokenmargin.margin._constraint_generation import TieFrame


@pytest.mark.parametrize("d", [4, 30])
def test_scores_are_those_of_the_points(rng, d):
    points, ties = 1e3 + rng.normal(size=(12, d)), np.array([[0, 3], [3, 5], [0, 5]])
    frame = TieFrame(points, ties)
    y = rng.normal(size=frame.points.shape[1])
    inner, outer = frame.points @ y, points @ frame.outside(y)
    np.testing.assert_allclose(inner - inner[0], outer - outer[0], atol=1e-9)
    assert frame.points.shape[1] == min(d, 12)
    again = frame.points @ frame.inside(frame.outside(y))
    np.testing.assert_allclose(again - again[0], inner - inner[0], atol=1e-12)
    np.testing.assert_allclose(inner[[3, 5]], inner[0], atol=1e-12)


def test_the_multipliers_of_ties_add_up_to_a_pull(rng):
    points, ties = rng.normal(size=(6, 8)), np.array([[0, 1], [1, 2], [0, 2], [4, 4]])
    pull = 3 * (points[0] - points[1]) - (points[1] - points[2])
    weights = TieFrame(points, ties).tie_multipliers(pull)
    np.testing.assert_allclose(weights @ (points[ties[:, 0]] - points[ties[:, 1]]), pull)


def test_trapped_pairs(rng):
    points = rng.normal(size=(5, 3))
    points[4] = points[3] + 0.5 * (points[0] - points[1])
    pairs = np.array([[0, 2], [3, 4], [2, 3]])
    assert TieFrame(points, np.array([[0, 1]])).trapped(pairs) == 1
    assert TieFrame(points, np.zeros((0, 2), dtype=int)).trapped(pairs) is None
    assert TieFrame(np.ones((5, 3)), np.zeros((0, 2), dtype=int)).trapped(pairs) is not None
