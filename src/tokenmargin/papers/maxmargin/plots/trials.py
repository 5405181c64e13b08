"""Pictures of random trials: bars by width, histogram and cumulative curve of score gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREEN, GREY, ORANGE, RED

#: Width of a bin of gaps; the paper's are narrower than 0.01.
BIN = 0.01

#: Gaps nearer to zero than this are not told apart in the signed logarithmic view.
NEAREST = 1e-4

#: Line of each treatment: colour, width and dashes, so that curves that coincide can all be seen.
LINES = ((GREY, 3.0, "-"), (BLUE, 1.6, "-"), (RED, 1.2, "--"))


def draw_bars(ax: Any, widths: np.ndarray, counts: np.ndarray, intervals: np.ndarray, not_ended: str) -> None:
    """Shares of trials that select nothing (red), go to an LMM (blue), of these to the GMM (green); others orange.

    Args:
        ax: axes.
        widths: d, shape (k,).
        counts: trials, not ended, LMM, GMM, neither, undecided, shape (k, 6).
        intervals: ends of an interval of each share, shape (k, 6, 2), drawn as an error bar.
        not_ended: name of the trials that select nothing.
    """
    place, total = np.arange(len(widths)), counts[:, 0]
    for shift, row, colour, label in (
        (-0.3, 1, RED, not_ended),
        (-0.1, 2, BLUE, "LMM"),
        (0.1, 3, GREEN, "of these GMM"),
        (0.3, 4, ORANGE, "selects, not LMM"),
    ):
        share = counts[:, row] / total
        # The interval of a share of 0 or 1 ends there, up to rounding.
        bars = np.maximum(np.abs(intervals[:, row].T - share), 0.0)
        whiskers = {"elinewidth": 0.8, "capsize": 1.5, "ecolor": "black"}
        ax.bar(place + shift, share, width=0.19, color=colour, label=label, yerr=bars, error_kw=whiskers)
    ax.set_xticks(place, [str(d) for d in widths])
    ax.set(xlabel="width d", ylim=(0, 1.05))


def draw_gap_histogram(ax: Any, gaps: Mapping[str, np.ndarray]) -> None:
    """Trials by smallest score gap to an SVM-neighbour, one line per treatment, on a scale that shows single trials."""
    finite = {name: values[np.isfinite(values)] for name, values in gaps.items()}
    pooled = np.concatenate(list(finite.values()))
    low, high = (pooled.min(), pooled.max()) if len(pooled) else (0.0, 1.0)
    edges = BIN * np.arange(min(np.floor(low / BIN), -5), max(np.ceil(high / BIN), 5) + 1)
    for (name, values), (colour, width, dashes) in zip(finite.items(), LINES, strict=True):
        ax.hist(values, bins=edges, histtype="step", color=colour, lw=width, ls=dashes, label=name)
    ax.axvline(0, color="black", lw=0.8, ls=":")
    if len(pooled):  # nothing has no logarithm
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7)  # a single trial has height
    ax.set(xlabel=r"smallest score gap to a neighbour, $\underline{\gamma}$", ylabel=f"trials in a bin of {BIN:g}")
    ax.legend()


def draw_gap_curve(ax: Any, gaps: Mapping[str, np.ndarray]) -> None:
    """Cumulative share of trials with a gap of at most x, a line per treatment."""
    for (name, values), (colour, width, dashes) in zip(gaps.items(), LINES, strict=True):
        finite = np.sort(values[np.isfinite(values)])
        share = np.arange(1, len(finite) + 1) / max(len(finite), 1)
        ax.step(finite, share, color=colour, lw=width, ls=dashes, label=name, where="post")
    ax.axvline(0, color=GREY, lw=0.9, ls=":")
    ax.set(xlabel=r"smallest score gap to a neighbour, $\underline{\gamma}$", ylabel="cumulative share of trials")
    ax.legend(loc="lower right")


def near_zero(ax: Any, bound: float, least: float) -> None:
    """Look at the step at zero: gaps on a signed logarithmic scale, shares on a logarithmic one, and a bound on them.

    Args:
        ax: axes with `draw_gap_curve` in them.
        bound: share that is marked.
        least: smallest share shown.
    """
    ax.set_xscale("symlog", linthresh=NEAREST)
    ax.set_xticks((-1e-1, -1e-3, 0, 1e-3, 1e-1), ["$-10^{-1}$", "$-10^{-3}$", "0", "$10^{-3}$", "$10^{-1}$"])
    ax.set_xticks([], minor=True)
    ax.set(yscale="log", xlim=(-0.7, 1.5), ylim=(least, 1.5), xlabel=f"{ax.get_xlabel()}, symmetric log")
    ax.axhline(bound, color="black", lw=0.9, ls="--", label=f"{bound:.0%}")
    ax.legend(loc="lower right")
