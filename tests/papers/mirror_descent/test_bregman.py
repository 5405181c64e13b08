"""Bregman distances, and the textbook's mirror descent that all but stops where ours goes on."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.attention import MirrorDescent
from tokenmargin.norms import Lp
from tokenmargin.papers.mirror_descent.figures.bregman_table import bregman, plain_growth
from tokenmargin.papers.transformers_as_svms.problems import visualization_2
from tokenmargin.papers.transformers_as_svms.runs import followed


@pytest.mark.parametrize("q", [1.75, 2.0, 3.0])
def test_a_distance_is_that_of_its_definition(q):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 3, 3))
    a, b = A / Lp(q).value(A), B / Lp(q).value(B)

    def potential(x):
        return (np.abs(x) ** q).sum() / q

    slope = np.sign(b) * np.abs(b) ** (q - 1)
    assert bregman(A, B, q) == pytest.approx(potential(a) - potential(b) - (slope * (a - b)).sum())
    assert bregman(A, 5.0 * A, q) == pytest.approx(0.0, abs=1e-15)


def test_plain_float64_is_nearly_frozen_where_logarithms_go_on():
    data, steps = visualization_2(), 1200
    (plain,) = plain_growth([data], np.zeros((1, 2, 2)), 1.75, 0.1, steps)
    assert 1.0 < plain < 1.1
    middle, end = followed([data], MirrorDescent(1.75, lr=0.1), steps)[0]
    assert np.linalg.norm(end) > 1.8 * np.linalg.norm(middle)
