"""Pictures of the first gradient step: what each token learnt beside what is predicted, and errors over the width."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Points beyond which a scatter is stored as pixels in the PDF; axes and text stay vectors.
RASTERIZED_FROM = 2000


def draw_tokens_against(ax: Any, x: np.ndarray, y: np.ndarray, *, colour: str, label: str) -> None:
    """One point a token.

    Args:
        ax: axes.
        x: a statistic of each token, shape (V,).
        y: quantity that was learnt about it, shape (V,).
        colour: colour of the points.
        label: for the legend.
    """
    ax.scatter(x, y, s=9.0, c=colour, alpha=0.75, lw=0, label=label, rasterized=len(x) >= RASTERIZED_FROM)


def draw_identity(ax: Any, values: np.ndarray, label: str) -> None:
    """The line y = x over the range of `values`."""
    ends = [float(values.min()), float(values.max())]
    ax.plot(ends, ends, color="black", lw=0.8, ls="--", label=label, zorder=0)


def draw_scaling(
    ax: Any, x: np.ndarray, values: np.ndarray, *, colour: str, label: str | None = None, marker: str = "o"
) -> None:
    """Geometric mean over repetitions against x, both logarithmic, with the range of the repetitions as a bar.

    Args:
        ax: axes; made logarithmic.
        x: shape (k,), positive.
        values: positive, shape (k, repetitions).
        colour: colour of points and bars.
        label: for the legend.
        marker: marker of the points.
    """
    centre = np.exp(np.log(values).mean(axis=1))
    low, high = values.min(axis=1), values.max(axis=1)
    bars = np.stack([np.maximum(centre - low, 0.0), np.maximum(high - centre, 0.0)])
    ax.errorbar(x, centre, yerr=bars, color=colour, fmt=marker, ms=4, lw=1.0, capsize=2, label=label)
    ax.set(xscale="log", yscale="log")


def draw_power_law(ax: Any, x: np.ndarray, factor: float, exponent: float, *, colour: str) -> None:
    """The line factor * x^exponent over the range of x, on logarithmic axes."""
    ends = np.array([x.min(), x.max()], dtype=float)
    ax.plot(ends, factor * ends**exponent, color=colour, lw=1.0, ls="-", zorder=0)
