"""Pictures of random trials: bars by width, histogram and cumulative curve of score gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREEN, GREY, ORANGE, RED


def draw_bars(ax: Any, widths: np.ndarray, counts: np.ndarray, not_ended: str) -> None:
    """Shares of trials that select nothing (red), go to an LMM (blue), of these to the GMM (green); others orange.

    Args:
        ax: axes.
        widths: d, shape (k,).
        counts: trials, not ended, LMM, GMM, neither, undecided, shape (k, 6).
        not_ended: what those that select nothing are called.
    """
    place, total = np.arange(len(widths)), counts[:, 0]
    for shift, row, colour, label in (
        (-0.3, 1, RED, not_ended),
        (-0.1, 2, BLUE, "LMM"),
        (0.1, 3, GREEN, "of these GMM"),
        (0.3, 4, ORANGE, "selects, not LMM"),
    ):
        ax.bar(place + shift, counts[:, row] / total, width=0.19, color=colour, label=label)
    ax.set_xticks(place, [str(d) for d in widths])
    ax.set(xlabel="d", ylim=(0, 1.02))


def draw_gap_histogram(ax: Any, gaps: Mapping[str, np.ndarray]) -> None:
    """Histogram of the smallest score gap to an SVM-neighbour, one line per treatment."""
    edges = np.arange(-0.2, 1.01, 0.01)
    for (name, values), colour in zip(gaps.items(), (GREY, BLUE, RED), strict=True):
        finite = values[np.isfinite(values)]
        ax.hist(finite, bins=edges, density=True, histtype="step", color=colour, label=name)
    ax.axvline(0, color="black", lw=0.8, ls="--")
    ax.set(title="smallest score gap to a neighbour", xlabel=r"$\underline{\gamma}$", ylabel="density")
    ax.legend()


def draw_gap_curve(ax: Any, gaps: Mapping[str, np.ndarray]) -> None:
    """Cumulative share of trials with a gap below x, near zero in the inset of interest."""
    for (name, values), colour in zip(gaps.items(), (GREY, BLUE, RED), strict=True):
        finite = np.sort(values[np.isfinite(values)])
        ax.step(finite, np.arange(1, len(finite) + 1) / max(len(finite), 1), color=colour, label=name, where="post")
    ax.axvline(0, color="grey", lw=0.9, ls="--")
    ax.set(xlabel=r"$\underline{\gamma}$", ylabel="cumulative share of saturated trials")
    ax.legend()
