"""The panels of planar figures: which direction is called globally optimal, and what the caption says."""

import numpy as np

from tokenmargin._progress import silent
from tokenmargin.data import EmbeddedSequences
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.figures._planar_panel import certificates, direction_labels, is_global, planar_panel


def panel_of(data, starts):
    return planar_panel(data, starts, (-1.0, 1.0, -1.0, 1.0), 2, 0.1, 5, silent, "basins").arrays


def test_the_globally_optimal_direction_is_called_so_and_certificates_are_in_the_caption():
    panel = panel_of(toys.fig1b(), toys.FIG1_STARTS)
    assert direction_labels(panel) == ["GMM, margin 1.0050", "LMM, margin 1.0000"]
    assert "1 - cos" not in "".join(direction_labels(panel))
    assert "4 starts, largest 1 - cos of the velocity" in certificates(panel)
    assert "spread of the gaps" in certificates(panel)


def test_without_a_feasible_global_selection_no_direction_is_called_global():
    # The best token is the midpoint of two others: no direction selects it.
    keys = np.array([[(0.0, 0.0), (1.0, 0.0), (0.9, 0.0), (-1.0, 0.0)]])
    data = EmbeddedSequences.from_scores(keys, np.array([[1.0, 0.5, 0.2, 0.2]]))
    panel = panel_of(data, ((2.0, 0.0),))
    assert not is_global(panel).any()
    assert direction_labels(panel) == ["LMM, margin 0.1000"]


def test_a_lower_score_is_not_global_and_a_tie_is():
    panel = {"scores": np.array([[1.0, 1.0, 0.5]]), "selections": np.array([[0], [1], [2]]), "margins": np.ones(3)}
    assert is_global(panel).tolist() == [True, True, False]
