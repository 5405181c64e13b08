"""The figure of the first step: its numbers hold, and would not for another step."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.papers.embeddings.figures import lemma2_onestep as figure

SMALL = replace(figure.Settings.smoke(), n=40, irrelevant=30, sizes=(4, 6), levels=(0.3, 0.05), widths=(64, 512, 4096))


@pytest.fixture(scope="module")
def result():
    return figure.compute(SMALL, jax.random.key(0), silent)


def test_no_number_fails_and_the_bound_is_judged_at_smoke_size_too(result):
    verdicts = {number.name: number.verdict("smoke") for number in result.numbers}
    assert Verdict.FAILS not in verdicts.values()
    assert sum(verdict is Verdict.HOLDS for verdict in verdicts.values()) == 2


def test_the_exponent_of_a_power_law_is_found():
    log10_d = np.linspace(2, 6, 5)
    np.testing.assert_allclose(figure.exponents(log10_d, 10 ** (-0.5 * log10_d[:, None] + [1.0, 2.0])), -0.5)


def test_the_figure_draws(result):
    assert len(figure.draw(result).get_axes()) == 3
