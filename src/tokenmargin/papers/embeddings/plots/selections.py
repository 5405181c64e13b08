"""Pictures of the tokens that a query selects in a corpus: quantities over epochs, and the most selected tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREY, RED

#: Width of the step from epoch 0 to 1, in decades: logarithms begin at 1.
FIRST_STEP = 0.3


@dataclass(frozen=True)
class Look:
    """Style in which a quantity of a query is drawn: its points, and the line that joins them."""

    colour: str
    marker: str
    line: str
    alpha: float = 1.0


#: The trained query is one over epochs; random ones are drawn anew at each. A second quantity of either is lighter.
TRAINED, TRAINED_LIGHTER = Look(BLUE, "o", "-"), Look(BLUE, "o", ":", 0.6)
RANDOM, RANDOM_LIGHTER = Look(GREY, "x", "none"), Look(GREY, "x", "none", 0.6)


def draw_query(ax: Any, epoch: np.ndarray, values: np.ndarray, look: Look, label: str) -> None:
    """A quantity of one query over epochs, or of several at each epoch.

    Args:
        ax: axes.
        epoch: shape (points,).
        values: shape (points,), or (points, k) for k queries.
        look: look of points and line.
        label: for the legend.
    """
    table = values.reshape(len(epoch), -1)
    drawn = ax.plot(epoch, table, color=look.colour, marker=look.marker, ms=3.5, lw=1.0, ls=look.line, alpha=look.alpha)
    drawn[0].set_label(label)


def epoch_axis(ax: Any, epoch: np.ndarray) -> None:
    """Epochs on a logarithmic scale that has room for 0."""
    ax.set_xscale("symlog", linthresh=1, linscale=FIRST_STEP)
    shown = epoch[:: -(-len(epoch) // 6)]  # six labels do not touch
    ax.set_xticks(shown, [str(int(e)) for e in shown], fontsize=7)
    ax.set_xticks([], minor=True)
    ax.set_xlim(0.9 * epoch[0] - 0.3, 1.1 * epoch[-1] + 0.3)
    ax.set_xlabel("epoch")


def draw_table(ax: Any, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Numbers that have no axis to lie on, as a table of words and digits."""
    ax.set_axis_off()
    table = ax.table(
        cellText=list(rows.values()),
        rowLabels=list(rows),
        colLabels=list(columns),
        loc="center right",
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8.5)
    table.auto_set_column_width(list(range(len(columns))))
    table.scale(1.0, 1.6)


def draw_most_selected(ax: Any, names: Sequence[str], documents: np.ndarray, posterior_difference: np.ndarray) -> None:
    """A bar a token with the number of documents that select it, blue for positive tokens and red for negative ones.

    Args:
        ax: axes.
        names: k tokens, first on top.
        documents: how many documents select each, shape (k,).
        posterior_difference: its sign decides the colour, shape (k,).
    """
    places = np.arange(len(names))[::-1]
    ax.barh(places, documents, color=np.where(posterior_difference > 0, BLUE, RED), height=0.7)
    for place, count in zip(places, documents, strict=True):
        ax.annotate(
            f"{int(count):,}", (count, place), xytext=(2, 0), textcoords="offset points", va="center", fontsize=6.5
        )
    ax.set_yticks(places, list(names), fontsize=7)
    ax.margins(x=0.12)
