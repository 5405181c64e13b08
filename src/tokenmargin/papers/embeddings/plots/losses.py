"""Losses over the epochs of trainings, beside the one that a paper reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREY, ORANGE, legend_entry


@dataclass(frozen=True, eq=False)
class LossRow:
    """A training in a dot plot: its losses by epoch, whether its overlaps draw V and S, and their raw scales."""

    words: str
    loss: np.ndarray
    shapes: int  #: how many of the V and the S there are
    scales: tuple[float, float]  #: standard deviations of <E_s, p> and of <E_s, v> over tokens

    @property
    def colour(self) -> str:
        """Colour that says which of the two shapes the overlaps draw."""
        return tuple(SHAPE_COLOURS.values())[self.shapes]


#: Places of the columns of both scales, as shares of the axes' width.
SCALE_COLUMNS = (1.07, 1.14)

#: Colours by the number of the two shapes that are there.
SHAPE_COLOURS = {"neither V nor S": GREY, "one of them": ORANGE, "V and S": BLUE}


def draw_loss_rows(ax: Any, rows: Sequence[LossRow], reported: float, decades: float) -> None:
    """A row for each training: a ring at its smallest loss, a dot at its last, and the scales of its overlaps.

    Args:
        ax: axes.
        rows: from top to bottom.
        reported: loss of the paper, a dotted line.
        decades: either side of it that count as its order, shaded.
    """
    least, across = np.finfo(np.float32).tiny, ax.get_yaxis_transform()
    for place, row in enumerate(rows):
        smallest, last = max(float(np.min(row.loss)), least), max(float(row.loss[-1]), least)
        ax.plot([smallest, last], [place, place], color=row.colour, lw=1.0)
        ax.plot(smallest, place, "o", color=row.colour, mfc="white", ms=7)
        ax.plot(last, place, "o", color=row.colour, ms=4)
        for column, scale in zip(SCALE_COLUMNS, row.scales, strict=True):
            digits = f"{float(f'{scale:.2g}'):g}"  # two of them, and no exponent, which would touch its neighbour
            ax.annotate(digits, (column, place), xycoords=across, va="center", ha="right", fontsize=7)
    for column, name in zip(SCALE_COLUMNS, ("p", "v"), strict=True):
        words = rf"$\langle E,{name}\rangle$"
        ax.annotate(words, (column, -0.6), xycoords=across, ha="right", fontsize=7, annotation_clip=False)
    ax.axvspan(reported * 10.0**-decades, reported * 10.0**decades, color=GREY, alpha=0.15, lw=0)
    ax.axvline(reported, color=GREY, lw=1.0, ls=":")
    ax.set(xscale="log", xlabel="mean logistic loss (dotted: the paper's order)", ylim=(len(rows) - 0.5, -0.5))
    ax.set_yticks(range(len(rows)), [row.words for row in rows])
    ax.grid(axis="y", lw=0.4, alpha=0.5)


def shape_legend(figure: Any) -> None:
    """Legend of the rings, dots, colours and numbers of a dot plot of losses, below its panels."""
    ring = legend_entry("smallest loss of an epoch", ls="", marker="o", mfc="white", ms=7, color="black")
    dot = legend_entry("loss of the last epoch", ls="", marker="o", ms=4, color="black")
    shapes = [legend_entry(name, color=colour, lw=3) for name, colour in SHAPE_COLOURS.items()]
    scales = legend_entry(r"right: standard deviations of $\langle E,p\rangle$, $\langle E,v\rangle$", ls="")
    figure.legend(handles=[ring, dot, *shapes, scales], loc="outside lower center", ncols=6, frameon=False)


def draw_training(ax: Any, loss: np.ndarray, reported: float, held_out: np.ndarray | None = None) -> None:
    """Loss over epochs, the paper's order dotted, and where there is one the held-out accuracy on a second scale."""
    ax.plot(np.arange(1, len(loss) + 1), loss, color=GREY, label="loss")
    ax.axhline(reported, color="black", lw=0.8, ls=":")
    ax.set(xlabel="epoch", yscale="log")
    ax.xaxis.get_major_locator().set_params(integer=True)
    if held_out is not None:
        beside = ax.twinx()
        beside.plot(np.arange(1, len(held_out) + 1), held_out, color=BLUE, lw=1)
        beside.set_ylabel("accuracy on the test split", color=BLUE)
        beside.spines["right"].set_visible(True)
        beside.set_ylim(0.5, 1.0)
