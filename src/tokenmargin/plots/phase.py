"""Pictures of shares over a grid of two parameters whose values are far from evenly spaced: one cell a pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenmargin.plots.canvas import RED


def draw_phase(ax: Any, shares: np.ndarray, across: np.ndarray, upward: np.ndarray) -> Any:
    """A heat map of shares, cells of one size whatever the values; returns what a colour bar is made of.

    Args:
        ax: axes.
        shares: numbers in [0, 1], shape (len(upward), len(across)); row 0 at the bottom.
        across: log10 of the values along x.
        upward: log10 of the values along y.
    """
    picture = ax.imshow(shares, origin="lower", aspect="auto", cmap="viridis", vmin=0.0, vmax=1.0)
    ax.set_xticks(np.arange(len(across)), [_power(x) for x in across], rotation=60)
    step = max(1, len(upward) // 8)
    ax.set_yticks(np.arange(len(upward))[::step], [_power(y) for y in upward[::step]])
    for spine in ("top", "right"):
        ax.spines[spine].set_visible(True)
    return picture


def draw_border(ax: Any, across: np.ndarray, upward: np.ndarray, corner: tuple[float, float], border: Any) -> None:
    """The region right of x = border(y), above y = corner[1], as a red line in the cells of `draw_phase`.

    Args:
        ax: axes.
        across: log10 of the values along x, as for `draw_phase`.
        upward: log10 of the values along y.
        corner: (x, y) where the region begins.
        border: y -> x for y from the corner on.
    """
    levels = np.linspace(corner[1], upward[-1], 200)
    x = np.array([border(y) for y in levels])
    inside = x <= across[-1]
    columns = np.interp(x[inside], across, np.arange(len(across)))
    rows = np.interp(levels[inside], upward, np.arange(len(upward)))
    ax.plot(columns, rows, color=RED, lw=1.6, label="asked for by (10)")
    ax.plot([columns[0], len(across) - 0.5], [rows[0], rows[0]], color=RED, lw=1.6)


def _power(exponent: float) -> str:
    return f"$10^{{{exponent:.3g}}}$"
