"""Losses over the epochs of trainings, beside the one that a paper reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREY


def draw_losses(ax: Any, curves: Mapping[str, np.ndarray], reported: float) -> None:
    """One line a training on a logarithmic axis; a dotted line at the reported loss.

    Args:
        ax: axes.
        curves: the loss of every epoch, by name; the first is drawn black and thick.
        reported: by the paper.
    """
    for place, (name, loss) in enumerate(curves.items()):
        look = {"color": "black", "lw": 2.0} if place == 0 else {"color": f"C{(place - 1) % 10}", "lw": 1.0}
        ax.plot(np.arange(1, len(loss) + 1), np.maximum(loss, np.finfo(np.float32).tiny), label=name, **look)
    ax.axhline(reported, color=GREY, lw=1.0, ls=":")
    ax.set(xlabel="epoch", ylabel="loss (dotted: the paper's order)", yscale="log")


def draw_training(ax: Any, loss: np.ndarray, reported: float, held_out: np.ndarray | None = None) -> None:
    """Loss over epochs, the paper's order dotted, and where there is one the held-out accuracy on a second scale."""
    ax.plot(np.arange(1, len(loss) + 1), loss, color=GREY, label="loss")
    ax.axhline(reported, color="black", lw=0.8, ls=":")
    ax.set(xlabel="epoch", yscale="log")
    if held_out is not None:
        beside = ax.twinx()
        beside.plot(np.arange(1, len(held_out) + 1), held_out, color=BLUE, lw=1)
        beside.set_ylabel("accuracy on the test split", color=BLUE)
        beside.spines["right"].set_visible(True)
        beside.set_ylim(0.5, 1.0)
