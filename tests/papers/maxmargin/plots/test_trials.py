"""Pictures of random trials: error bars, and negative gaps that can be seen."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from tokenmargin.papers.maxmargin.plots import trials
from tokenmargin.plots import canvas

GAPS = {
    "printed": np.array([-0.25, -0.001, 0.2, 0.3]),
    "stable": np.array([0.1, np.nan]),
    "decided": np.array([0.1, 1.2]),
}


def axes():
    return canvas.panels(1, 1, 4, 4)[1][0]


def test_error_bars_end_where_the_intervals_do():
    ax = axes()
    counts = np.array([[10, 2, 8, 4, 0, 0]])
    intervals = np.array([[(1.0, 1.0), (0.05, 0.5), (0.5, 0.95), (0.2, 0.7), (0.0, 0.3), (0.0, 0.3)]])
    trials.draw_bars(ax, np.array([2]), counts, intervals, "not saturated")
    ends = [bar.get_segments()[0][:, 1].tolist() for bar in ax.collections]
    np.testing.assert_allclose(ends, intervals[0, 1:5], atol=1e-12)


def test_every_gap_is_in_the_histogram_and_one_trial_has_height():
    ax = axes()
    trials.draw_gap_histogram(ax, GAPS)
    assert ax.get_yscale() == "log"
    left, right = ax.get_xlim()
    assert left <= -0.25
    assert right >= 1.2


def test_near_zero_shows_gaps_of_either_sign_and_the_bound():
    ax = axes()
    trials.draw_gap_curve(ax, GAPS)
    trials.near_zero(ax, 0.01, 1e-3)
    assert ax.get_xscale() == "symlog"
    assert ax.get_yscale() == "log"
    assert "1%" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_no_trial_that_selects_is_drawn_all_the_same():
    trials.draw_gap_histogram(axes(), dict.fromkeys(GAPS, np.empty(0)))
