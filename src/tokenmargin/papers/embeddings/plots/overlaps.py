"""Scatter plots of overlaps <E_s, p> and <E_s, v> over the posterior difference, in the manner of [E, Fig. 1-4]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREY, RED, halo

#: Height of a panel, as a share, that names of quantiles keep apart.
QUANTILES_APART = 0.05

#: Names of tokens: size in points, width of a letter and height in that size, distance from their point, and the
#: places beside it that are tried.
FONT, WIDE, TALL, NEAR = 6.5, 0.6, 1.15, 2.0
BESIDE = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (2, 1), (-2, 1), (2, -1), (-2, -1))

#: Share of the tokens of a row that may lie beyond its axes, so that a few do not flatten all others.
BEYOND = 1e-3


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


def in_sight(y: np.ndarray) -> tuple[float, float]:
    """Limits between which all but a share `BEYOND` of the heights lie, with a little room."""
    low, high = np.quantile(y, [BEYOND / 2, 1 - BEYOND / 2])
    room = 0.08 * float(high - low)
    return float(low) - room, float(high) + room


def keep_in_sight(ax: Any, x: np.ndarray, y: np.ndarray) -> None:
    """Mark the points beyond the axes by triangles at their border, and say how many; once the axes have limits."""
    low, high = ax.get_ylim()
    for border, beyond, marker in ((low, y < low, "v"), (high, y > high, "^")):
        if beyond.any():
            ax.scatter(
                x[beyond],
                np.full(beyond.sum(), border),
                s=9,
                marker=marker,
                color="black",
                lw=0,
                clip_on=False,
                zorder=3,
            )
    count = int(((y < low) | (y > high)).sum())
    if count:
        ax.annotate(
            f"{count} beyond", (0.99, 0.02), xycoords="axes fraction", ha="right", fontsize=6, path_effects=[halo()]
        )


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
    ax.set(xlabel=r"signed frequency $\alpha_s$ (3), symmetric log")


def name_extremes(
    ax: Any,
    x: np.ndarray,
    y: np.ndarray,
    names: Sequence[str],
    centre: float = 0.0,
    each: int = 4,
    curves: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Name the tokens that stand out in both coordinates on either side; once the axes have their limits.

    Args:
        ax: axes.
        x: posterior difference, shape (V,).
        y: overlap, shape (V,).
        names: V names.
        centre: x of a token that says nothing.
        each: names on a side.
        curves: (centres, curves of shape (k, bins)) that no name may cover.
    """
    away, span = x - centre, float(np.ptp(y)) or 1.0
    is_s = y[away < 0].mean() < y[away > 0].mean() - np.std(y) / 4  # an S has its extremes below on the left, a V above
    lines = [] if curves is None else [np.column_stack([curves[0], curve]) for curve in curves[1]]
    room = Room(ax, np.concatenate([np.column_stack([x, y]), *lines]))
    for side in (-1, 1):
        height = side * y if is_s else y
        candidates = np.flatnonzero((np.sign(away) == side) & room.shown(y))
        if not candidates.size:
            continue
        far = np.abs(away[candidates]) / np.abs(away).max() + (height[candidates] - height[candidates].min()) / span
        placed: set[str] = set()  # two pieces may have come from one word, which is named once
        for s in candidates[np.argsort(-far)][:60]:
            if len(placed) == each:
                break
            name = names[int(s)]
            if name not in placed and room.write(name, (float(x[s]), float(y[s]))):
                placed.add(name)


class Room:
    """Room for words in axes whose limits are set: beside their point, where they cover nothing that is drawn."""

    def __init__(self, ax: Any, drawn: np.ndarray) -> None:
        """Note what is drawn, shape (N, 2), in data."""
        self.ax, self.bounds = ax, ax.get_ylim()
        self.drawn = ax.transData.transform(drawn)
        self.unit = ax.figure.dpi / 72.0  # pixels of a point
        self.words: list[np.ndarray] = []

    def shown(self, y: np.ndarray) -> np.ndarray:
        """True for heights within the axes."""
        return (y >= self.bounds[0]) & (y <= self.bounds[1])

    def write(self, word: str, point: tuple[float, float]) -> bool:
        """Write a word beside its point where there is room for it; False where there is none."""
        at = self.ax.transData.transform(point)
        size = np.array([WIDE * len(word), TALL]) * FONT * self.unit
        for toward in BESIDE:
            middle = at + np.array(toward) * (size / 2 + NEAR * self.unit)
            box = np.array([middle - size / 2, middle + size / 2])
            if self._is_free(box):
                self.words.append(box)
                self.ax.annotate(
                    word,
                    point,
                    xytext=tuple((middle - at) / self.unit),
                    textcoords="offset points",
                    ha="center",
                    va="center",
                    fontsize=FONT,
                    path_effects=[halo()],
                )
                return True
        return False

    def _is_free(self, box: np.ndarray) -> bool:
        frame = self.ax.transAxes.transform([(0.0, 0.0), (1.0, 1.0)])
        inside = (box[0] >= frame[0]).all() and (box[1] <= frame[1]).all()
        covered = ((self.drawn > box[0]) & (self.drawn < box[1])).all(axis=1).any()
        return bool(inside) and not covered and all((box[1] < w[0]).any() or (w[1] < box[0]).any() for w in self.words)


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
