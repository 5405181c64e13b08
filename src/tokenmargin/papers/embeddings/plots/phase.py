"""Shares over a grid of two parameters on even logarithmic axes: a cell reaches halfway to its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import RED


def draw_phase(ax: Any, shares: np.ndarray, across: np.ndarray, upward: np.ndarray) -> Any:
    """A heat map of shares over logarithms; returns what a colour bar is made of.

    Args:
        ax: axes.
        shares: numbers in [0, 1], shape (len(upward), len(across)); row 0 at the bottom.
        across: log10 of the values along x.
        upward: log10 of the values along y.
    """
    picture = ax.pcolormesh(_edges(across), _edges(upward), shares, cmap="viridis", vmin=0.0, vmax=1.0, rasterized=True)
    for axis, values in ((ax.xaxis, across), (ax.yaxis, upward)):
        step = max(1, round(float(np.ptp(values)) / 8))
        ticks = step * np.arange(np.ceil(values[0] / step), values[-1] / step + 0.01)
        axis.set_ticks(ticks, [f"$10^{{{tick:.3g}}}$" for tick in ticks])
    for spine in ("top", "right"):
        ax.spines[spine].set_visible(True)
    return picture


def shade_region(
    ax: Any, across: np.ndarray, upward: np.ndarray, least: float, border: Callable[[float], float]
) -> Any:
    """The region x >= border(y), y >= least, hatched with a red edge; returns what a legend is made of.

    Args:
        ax: axes of `draw_phase`.
        across: log10 of the values along x.
        upward: log10 of the values along y.
        least: y from which on the region begins.
        border: y -> least x.
    """
    levels = np.linspace(least, upward[-1], 200)
    left = np.array([border(float(y)) for y in levels])
    right = _edges(across)[-1]
    inside = left <= right
    return ax.fill_betweenx(
        levels[inside],
        left[inside],
        right,
        facecolor="none",
        edgecolor=RED,
        hatch="///",
        lw=1.6,
        label="asked for by (10)",
    )


def _edges(values: np.ndarray) -> np.ndarray:
    """Borders of the cells of a row of values: halfway between neighbours, as far beyond the ends."""
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])
