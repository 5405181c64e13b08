"""Bars of the tokens that decide, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, ORANGE, panels, style


def draw_pulls(names: Sequence[str], pull: np.ndarray, low: np.ndarray, high: np.ndarray, towards: str) -> Any:
    """A figure with one bar for each token, the first on top, and its interval as a line."""
    with style():
        figure, (ax,) = panels(1, 1, 5.0, 0.8 + 0.25 * len(names))
        places = np.arange(len(names))[::-1]
        ax.barh(places, pull, color=[BLUE if own > 0 else ORANGE for own in pull])
        finite = np.isfinite(low) & np.isfinite(high)
        ax.hlines(places[finite], low[finite], high[finite], color="0.2", linewidth=1)
        ax.set_yticks(places, list(names))
        ax.axvline(0.0, color="0.2", linewidth=0.8)
        ax.set_xlabel(f"pull towards {towards} (log-odds)")
    return figure
