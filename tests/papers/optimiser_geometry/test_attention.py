"""Counterexamples that were found for attention: steps of one length stay below the margin, shorter ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.attention import SteepestDescent
from tokenmargin.papers.transformers_as_svms.margins import beside, least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import uneven_problem, whole_problem
from tokenmargin.papers.transformers_as_svms.runs import followed


@pytest.mark.parametrize(
    ("law", "number", "norm", "stays"), [(uneven_problem, 30, "max", 0.64), (whole_problem, 38, "spectral", 0.716)]
)
def test_steps_of_one_length_stay_below_and_shorter_ones_do_not(law, number, norm, stays):
    data = law(np.random.default_rng([7, number]), 2, 3, 2)
    ends = {}
    for lr, decay in ((0.1, 0.0), (1.0, 0.5)):
        path = followed([data], SteepestDescent(norm, lr=lr, decay=decay), 8000)[0]
        chosen = most_attended(data, path[-1])
        assert least_gap(data, chosen, path[-1]) > 50
        ends[decay] = [beside(data, W, norm, chosen).ratio for W in path]
    assert ends[0.0] == pytest.approx([stays, stays], abs=5e-3)
    assert ends[0.5][1] > ends[0.5][0] > 0.9
