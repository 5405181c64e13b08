"""Tokens drawn: bars of those that decide, with their intervals; and the graph of those that compete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmargin.plots.answers import on_axes
from tokenmargin.plots.canvas import BLUE, GREY, ORANGE, panels, style

#: Tokens that a box names before it says how many more there are, and boxes that a level shows.
NAMED, BOXES = 6, 8


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


def draw_graph(
    groups: Sequence[Sequence[str]],
    levels: Sequence[int],
    order: Sequence[tuple[int, int]],
    title: str,
    ax: Any = None,
) -> Any:
    """A figure with a box for each component and an arrow from each to those that it beats."""
    with style():
        rows = max(levels) + 1
        widest = max(min(BOXES, list(levels).count(level)) for level in range(rows))
        _, ax = on_axes(ax, max(3.5, 1.7 * widest), 0.9 + 0.8 * rows)
        places: dict[int, tuple[float, float]] = {}
        for level in range(rows):
            own = [j for j, at in enumerate(levels) if at == level]
            shown = own[:BOXES]
            for slot, j in enumerate(shown):
                places[j] = slot - (len(shown) - 1) / 2, -float(level)
            if len(own) > BOXES:
                ax.text((len(shown) + 1) / 2, -level, f"+{len(own) - BOXES}", color=GREY, ha="center", va="center")
        for a, b in order:
            if a in places and b in places:
                ax.annotate(
                    "",
                    places[b],
                    places[a],
                    arrowprops={"arrowstyle": "->", "color": GREY, "shrinkA": 12, "shrinkB": 12},
                    annotation_clip=False,
                )
        for j, (x, y) in places.items():
            names, colour = groups[j], ORANGE if len(groups[j]) > 1 else BLUE
            more = f" +{len(names) - NAMED}" if len(names) > NAMED else ""
            box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colour}
            ax.text(x, y, ", ".join(names[:NAMED]) + more, ha="center", va="center", bbox=box)
        ax.set_xlim(-widest / 2 - 0.6, widest / 2 + 0.6)
        ax.set_ylim(-rows + 0.4, 0.6)
        ax.set_title(title)
        ax.set_axis_off()
    return ax.figure
