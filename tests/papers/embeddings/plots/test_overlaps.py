"""Names of tokens beside the cloud of overlaps."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tokenmargin.papers.embeddings.plots.overlaps import name_extremes


def test_a_word_is_named_once_however_many_of_its_pieces_stand_out():
    ax = Figure().add_subplot()
    x, y = np.array([-0.9, -0.8, 0.7, 0.8, 0.9]), np.array([2.0, 1.0, 1.0, 2.0, 3.0])
    ax.set(xlim=(-1, 1), ylim=(0, 4))
    name_extremes(ax, x, y, ["worst", "bad", "good", "takoyaki", "takoyaki"])
    found = {text.get_text(): text.xy for text in ax.texts}
    assert sorted(text.get_text() for text in ax.texts) == ["bad", "good", "takoyaki", "worst"]
    assert found["takoyaki"] == (0.9, 3.0)
