"""The share of negative gaps against the bound that the paper prints."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.papers.maxmargin.figures import fig09_10_trials as figures
from tokenmargin.papers.maxmargin.figures._negative_gaps import NegativeGaps, Share, over_seeds, wilson


def test_wilson_interval():
    low, high = wilson(510, 1000)
    assert low == pytest.approx(0.47904, abs=1e-4)
    assert high == pytest.approx(0.54088, abs=1e-4)
    assert wilson(0, 1000)[0] == 0.0
    assert wilson(1000, 1000)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def gaps(negative: int, saturated: int) -> np.ndarray:
    values = np.full(saturated, 0.1)
    values[:negative] = -0.001
    return values


def test_the_denominator_decides_about_sixty_seven():
    found = NegativeGaps.of(gaps(67, 5254), 6000)
    of_saturated, of_all = found.numbers("printed")
    assert of_saturated.interval == pytest.approx((0.01005, 0.01616), abs=1e-5)
    assert of_all.interval == pytest.approx((0.00880, 0.01415), abs=1e-5)
    assert of_saturated.verdict("paper") is Verdict.FINDING
    assert of_all.verdict("paper") is Verdict.NOT_DECIDED
    sentence = found.sentence("As printed")
    assert "67 of 5,254 (1.28%, 95% interval 1.01% to 1.62%), which is not below 1%" in sentence
    assert "67 of 6,000 (1.12%, 95% interval 0.88% to 1.42%), which may be below 1% or not" in sentence


def test_few_negative_gaps_hold_and_a_wrong_sign_fails():
    values = gaps(10, 5000)
    good, bad = NegativeGaps.of(values, 6000), NegativeGaps.of(-values, 6000)
    assert {number.verdict("paper") for number in good.numbers("x")} == {Verdict.HOLDS}
    assert {number.verdict("paper") for number in bad.numbers("x")} == {Verdict.FAILS}
    shifted = NegativeGaps.of(values - 0.2, 6000)
    assert {number.verdict("paper") for number in shifted.numbers("x")} == {Verdict.FAILS}
    rescaled = NegativeGaps.of(1e-6 * values, 6000)
    assert rescaled == good, "only the sign counts"


def test_nothing_saturated_is_no_success():
    found = NegativeGaps.of(np.empty(0), 100)
    of_saturated, _ = found.numbers("printed")
    assert of_saturated.verdict("paper") is Verdict.FAILS
    assert "no trial saturated" in found.sentence("As printed")


def test_seeds_are_pooled_by_their_counts():
    first, second = NegativeGaps.of(gaps(1, 10), 20), NegativeGaps.of(gaps(3, 30), 40)
    assert first + second == NegativeGaps(Share(4, 40), Share(4, 60))
    assert "10.00%, 10.00% of the saturated trials; 5.00%, 7.50% of all" in over_seeds([first, second])


SMALL = replace(figures.Settings.smoke(), trials=6, d=(2,), recheck=0)


def test_every_seed_has_a_row_of_its_own_trials():
    result = figures.compute_trials(replace(SMALL, seeds=3), jax.random.key(0), silent)
    rows = result.tables["negative gaps as printed, by seed"]
    assert len(rows) == 3
    assert f"seed {int(result.arrays['seed'])}" == next(iter(rows))
    assert all(row["trials"] == 6 for row in rows.values())
    assert [number.name for number in result.numbers if "3 seeds" in number.name] == [
        "printed, 3 seeds: share of negative gaps, of saturated trials",
        "printed, 3 seeds: share of negative gaps, of all trials",
    ]
    alone = figures.compute_trials(replace(SMALL, seeds=1), jax.random.key(0), silent)
    assert "negative gaps as printed, by seed" not in alone.tables
    np.testing.assert_array_equal(alone.arrays["printed"]["rows"]["2"], result.arrays["printed"]["rows"]["2"])


def test_an_untrained_p_meets_nothing_that_the_paper_prints():
    result = figures.compute_trials(replace(SMALL, steps=1, seeds=1), jax.random.key(0), silent)
    assert not result.arrays["printed"]["gaps"].size, "one step saturates nothing"
    printed = [number for number in result.numbers if number.paper is not None]
    assert {number.paper for number in printed} == {0.997, 0.99, 0.01}
    assert {n.verdict("paper") for n in printed} == {Verdict.FAILS}
