"""Losses of several trainings over the epochs, beside the one that a paper reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import GREY


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
