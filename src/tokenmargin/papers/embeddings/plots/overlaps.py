"""Scatter plots of overlaps <E_s, p> and <E_s, v> over the posterior difference, in the manner of [E, Fig. 1-4]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREY, RED

#: Heights of panels, as shares, that names of quantiles and of tokens keep apart.
QUANTILES_APART, TOKENS_APART = 0.05, 0.07


def draw_overlap(
    ax: Any, x: np.ndarray, y: np.ndarray, quantiles: tuple[np.ndarray, np.ndarray], centre: float = 0.0
) -> None:
    """One point a token, red for those below the centre and blue for those above.

    Args:
        ax: axes.
        x: posterior difference or signed frequency, shape (V,).
        y: overlap, shape (V,).
        quantiles: (centres, curves of shape (k, bins)) drawn over the points.
        centre: x of a token that says nothing.
    """
    colours = np.where(x > centre, BLUE, RED)
    ax.scatter(x, y, s=4, c=colours, alpha=0.3, linewidths=0, rasterized=True)
    centres, curves = quantiles
    for k, curve in enumerate(curves):
        ax.plot(centres, curve, color="black", lw=1.4 if k == len(curves) // 2 else 0.7)
    ax.axhline(0, color=GREY, lw=0.5)
    ax.axvline(centre, color="black", lw=0.8, ls=":")


def name_quantiles(ax: Any, curves: np.ndarray, called: Sequence[str]) -> None:
    """A name at the right end of every curve, lowest first, apart from each other; once the axes have their limits."""
    gap, below = QUANTILES_APART * float(np.ptp(ax.get_ylim())), -np.inf
    for curve, name in zip(curves, called, strict=True):
        below = max(float(curve[-1]), below + gap)
        ax.annotate(name, (1.01, below), xycoords=ax.get_yaxis_transform(), fontsize=6, va="center")


def posterior_axis(ax: Any) -> None:
    """The posterior difference, from -1 to 1, with ticks that do not touch."""
    ax.set(xlabel="posterior difference (37)", xlim=(-1.12, 1.12), xticks=(-1, -0.5, 0, 0.5, 1))


def frequency_axis(ax: Any, alpha: np.ndarray) -> None:
    """The signed frequency, logarithmic on both sides of 0: most tokens are rare and a few are not."""
    size = np.abs(alpha[alpha != 0])
    least, most = np.floor(np.log10(np.quantile(size, 0.2))), np.ceil(np.log10(size.max()))
    ax.set_xscale("symlog", linthresh=10.0**least, linscale=0.6)
    shown = 10.0 ** np.array([np.round((least + most) / 2), most])
    ax.set_xticks([*(-shown[::-1]), 0, *shown])
    ax.set_xticks([], minor=True)
    ax.set(xlabel=r"signed frequency $\alpha_s$ (3)")


def name_extremes(
    ax: Any, x: np.ndarray, y: np.ndarray, names: Sequence[str], centre: float = 0.0, each: int = 4
) -> None:
    """Name the tokens that stand out in both coordinates on either side; once the axes have their limits.

    Args:
        ax: axes.
        x: posterior difference, shape (V,).
        y: overlap, shape (V,).
        names: V names.
        centre: x of a token that says nothing.
        each: names on a side.
    """
    away, span, gap = x - centre, float(np.ptp(y)) or 1.0, TOKENS_APART * float(np.ptp(ax.get_ylim()))
    is_s = y[away < 0].mean() < y[away > 0].mean() - np.std(y) / 4  # an S has its extremes below on the left, a V above
    for side in (-1, 1):
        height = side * y if is_s else y
        candidates = np.flatnonzero(np.sign(away) == side)
        if not candidates.size:
            continue
        far = np.abs(away[candidates]) / np.abs(away).max() + (height[candidates] - height[candidates].min()) / span
        placed: dict[str, float] = {}  # two pieces may have come from one word, which is named once
        for s in candidates[np.argsort(-far)][:60]:
            if len(placed) == each:
                break
            name = names[int(s)]
            if name not in placed and all(abs(y[s] - other) > gap for other in placed.values()):
                placed[name] = float(y[s])
                ax.annotate(
                    name,
                    (x[s], y[s]),
                    xytext=(-3 if side > 0 else 3, 2),
                    textcoords="offset points",
                    ha="right" if side > 0 else "left",
                    fontsize=6.5,
                )


def draw_levels(ax: Any, x: np.ndarray, y: np.ndarray, level: np.ndarray, colours: Sequence[Any]) -> None:
    """One point a token, coloured by |level|; the irrelevant cloud (level 0) in grey behind.

    Args:
        ax: axes.
        x: posterior difference, shape (V,).
        y: overlap, shape (V,).
        level: 0 for irrelevant, +k and -k for level k, shape (V,).
        colours: one a level.
    """
    ax.scatter(
        x[level == 0], y[level == 0], s=4, color=GREY, alpha=0.4, linewidths=0, label="irrelevant", rasterized=True
    )
    for k, colour in enumerate(colours, start=1):
        rows = np.abs(level) == k
        ax.scatter(x[rows], y[rows], s=7, color=colour, alpha=0.8, linewidths=0, label=f"level {k}", rasterized=True)
    posterior_axis(ax)
