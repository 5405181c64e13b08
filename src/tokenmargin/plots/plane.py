"""Pictures in the plane of the keys: tokens, max-margin directions, trajectories of p, and basins behind them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREEN, GREY, ORANGE, RED

#: Colour of the j-th direction of a panel: the globally optimal one red, locally optimal ones after it.
DIRECTION_COLOURS = (RED, BLUE, GREEN, ORANGE)


def draw_basins(ax: Any, basin: np.ndarray, extent: tuple[float, float, float, float]) -> None:
    """Tint the plane by where the flow from each point goes; finite limits grey, undecided ones black.

    Args:
        ax: axes.
        basin: index of the direction for each pixel, row = y; -1 finite, -2 undecided.
        extent: (left, right, bottom, top).
    """
    from matplotlib.colors import to_rgba

    picture = np.ones((*basin.shape, 4))
    for j, colour in enumerate(DIRECTION_COLOURS):
        picture[basin == j] = to_rgba(colour, 0.13)
    picture[basin == -1] = to_rgba(GREY, 0.25)
    picture[basin == -2] = to_rgba("black", 0.6)
    ax.imshow(picture, origin="lower", extent=extent, aspect="auto", interpolation="nearest", zorder=0)


def draw_trajectories(ax: Any, paths: Iterable[np.ndarray], colours: list[str] | None = None) -> None:
    """Paths of p, each of shape (steps, 2), with an arrow along each and a dot at its start."""
    for j, path in enumerate(paths):
        colour = GREY if colours is None else colours[j]
        ax.plot(path[:, 0], path[:, 1], color=colour, lw=1.1, zorder=2)
        ax.plot(*path[0], "o", color=colour, ms=3, zorder=3)
        _arrow(ax, path, colour)


def _arrow(ax: Any, path: np.ndarray, colour: str) -> None:
    """An arrow head where the path is about to leave the window, or at its end."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    inside = (path[:, 0] > left) & (path[:, 0] < right) & (path[:, 1] > bottom) & (path[:, 1] < top)
    last = int(np.argmin(inside)) - 1 if not inside.all() else len(path) - 1
    if last < 1:
        return
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path[: last + 1], axis=0), axis=1))])
    tip = int(np.searchsorted(length, 0.85 * length[-1]))
    tip = min(max(tip, 1), last)
    ax.annotate(
        "", xy=path[tip], xytext=path[tip - 1], arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.1}, zorder=4
    )


def draw_directions(ax: Any, directions: np.ndarray, labels: list[str]) -> None:
    """Dashed rays from the origin, one per max-margin direction, shape (k, 2)."""
    reach = 2.0 * float(np.max(np.abs([*ax.get_xlim(), *ax.get_ylim()])))
    for direction, label, colour in zip(directions, labels, DIRECTION_COLOURS, strict=False):
        ax.plot([0, reach * direction[0]], [0, reach * direction[1]], "--", color=colour, lw=1.8, label=label, zorder=5)


def draw_tokens(ax: Any, keys: np.ndarray, scores: np.ndarray) -> None:
    """Tokens at their keys, shape (n, T, 2): a star for the best of each input, discs sized by score for the others."""
    inputs = ("black", ORANGE, GREEN, BLUE)
    low, high = float(scores.min()), float(scores.max())
    for i, (points, values) in enumerate(zip(keys, scores, strict=True)):
        best = values >= values.max() - 1e-12
        size = 18 + 30 * (values - low) / max(high - low, 1e-12)
        ax.scatter(*points[~best].T, s=size[~best], marker="s", color=inputs[i % 4], zorder=6, lw=0.6, ec="white")
        ax.scatter(*points[best].T, s=110, marker="*", color=inputs[i % 4], zorder=7, lw=0.6, ec="white")


def label_scores(ax: Any, keys: np.ndarray, scores: np.ndarray) -> None:
    """Write gamma beside each token (for few tokens)."""
    for points, values in zip(keys, scores, strict=True):
        for (x, y), value in zip(points, values, strict=True):
            ax.annotate(
                rf"$\gamma={value:g}$", (x, y), xytext=(5, 5), textcoords="offset points", fontsize=7.5, zorder=8
            )


def draw_separator(ax: Any, keys: np.ndarray, selected: np.ndarray, direction: np.ndarray) -> None:
    """The line across `direction` half-way between the selected tokens and the others, dotted."""
    reach = keys @ direction
    chosen = reach[np.arange(len(keys)), selected]
    others = np.where(np.arange(keys.shape[1]) == selected[:, None], -np.inf, reach)
    middle = 0.5 * (chosen.min() + others.max()) * direction
    along = np.array([-direction[1], direction[0]])
    ends = middle + np.outer([-10.0, 10.0], along)
    ax.plot(*ends.T, ":", color=GREY, lw=1.4, zorder=1, label="separating line")
