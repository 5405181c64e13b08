"""Exponents by regression, beside curves whose exponents are known."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.attention import NormalizedDescent
from tokenmargin.norms import L2
from tokenmargin.papers.rates.figures.exponents import FITTED, LOOKS, missing, slopes
from tokenmargin.papers.transformers_as_svms.problems import visualization_2
from tokenmargin.papers.transformers_as_svms.runs import followed


def test_the_slope_of_a_power_is_its_exponent_and_rounding_has_none():
    times = 10.0 * np.arange(1, LOOKS + 1)
    curves = np.stack([3.0 * times**-0.7, 1e-30 + 0 * times, 5.0 * times**-2.0])
    found = slopes(times, curves)
    assert found[[0, 2]] == pytest.approx([-0.7, -2.0])
    assert np.isnan(found[1])
    early = np.where(np.arange(LOOKS) < LOOKS - FITTED, 1.0, curves[0])
    assert slopes(times, early[None]) == pytest.approx([-0.7])


def test_normalised_descent_misses_one_over_t_of_the_margin():
    data, steps = visualization_2(), 6400
    seen = missing([data], followed([data], NormalizedDescent(0.1), steps, LOOKS), L2())
    times = steps / LOOKS * np.arange(1, LOOKS + 1)
    assert slopes(times, seen["margin"]) == pytest.approx([-1.0], abs=0.1)
    assert slopes(times, seen["cosine"]) == pytest.approx([-2.0], abs=0.2)
    assert np.isnan(missing([data], np.zeros((1, LOOKS, 2, 2)), L2())["margin"]).all()
