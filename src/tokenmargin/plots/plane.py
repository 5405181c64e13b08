"""Pictures in the plane of the keys: tokens, max-margin directions, trajectories of p, and basins behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, GREEN, GREY, ORANGE, RED

#: Colours of directions that are locally and not globally optimal, in turn.
LOCAL_COLOURS = (BLUE, GREEN, ORANGE)


def direction_colours(is_global: Sequence[bool] | np.ndarray) -> list[str]:
    """A colour for each direction of a panel: red is the globally optimal one's alone."""
    others = cycle(LOCAL_COLOURS)
    return [RED if best else next(others) for best in is_global]


def draw_basins(
    ax: Any, basin: np.ndarray, window: tuple[float, float, float, float], colours: Sequence[str] = (RED, BLUE)
) -> None:
    """Tint the plane by where the flow from each point goes; finite limits grey, undecided ones black.

    Args:
        ax: axes.
        basin: index of the direction for each grid point, row = y; -1 finite, -2 undecided.
        window: (left, right, bottom, top), where the outermost grid points lie: each is the centre of its cell.
        colours: one a direction.
    """
    from matplotlib.colors import to_rgba

    picture = np.ones((*basin.shape, 4))
    for j, colour in enumerate(colours):
        picture[basin == j] = to_rgba(colour, 0.13)
    picture[basin == -1] = to_rgba(GREY, 0.25)
    picture[basin == -2] = to_rgba("black", 0.6)
    left, right, bottom, top = window
    half_width = 0.5 * (right - left) / max(basin.shape[1] - 1, 1)
    half_height = 0.5 * (top - bottom) / max(basin.shape[0] - 1, 1)
    extent = (left - half_width, right + half_width, bottom - half_height, top + half_height)
    ax.imshow(picture, origin="lower", extent=extent, aspect=ax.get_aspect(), interpolation="nearest", zorder=0)
    ax.set(xlim=(left, right), ylim=(bottom, top))


def draw_trajectories(ax: Any, paths: Iterable[np.ndarray], colours: list[str] | None = None) -> None:
    """Paths of p, each of shape (steps, 2), with an arrow along each and a dot at its start."""
    for j, path in enumerate(paths):
        colour = GREY if colours is None else colours[j]
        ax.plot(path[:, 0], path[:, 1], color=colour, lw=1.1, zorder=2)
        ax.plot(*path[0], "o", color=colour, ms=3, zorder=3)
        _arrow(ax, path, colour)


def refined(path: np.ndarray, between: int = 40) -> np.ndarray:
    """A path with points put on its chords, for views in which a straight line is curved (angle against norm)."""
    part = np.linspace(0.0, 1.0, between + 1)[1:, None]
    # Far out a flow is straight and its steps are long: most of a step's change of angle is near its beginning.
    pieces = [start + part**3 * (end - start) for start, end in pairwise(path)]
    return np.concatenate([path[:1], *pieces])


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


def draw_directions(ax: Any, directions: np.ndarray, labels: Sequence[str], colours: Sequence[str]) -> None:
    """Dashed rays from the origin, one per max-margin direction, shape (k, 2)."""
    reach = 2.0 * float(np.max(np.abs([*ax.get_xlim(), *ax.get_ylim()])))
    for direction, label, colour in zip(directions, labels, colours, strict=True):
        ax.plot([0, reach * direction[0]], [0, reach * direction[1]], "--", color=colour, lw=1.8, label=label, zorder=5)


def draw_tokens(ax: Any, keys: np.ndarray, scores: np.ndarray) -> None:
    """Tokens at their keys, shape (n, T, 2): a star for the best of each input, squares sized by score for the others.

    Where tokens of several inputs coincide, each is drawn larger than the next, so that all can be seen.
    """
    inputs = ("black", ORANGE, GREEN, BLUE)
    low, high = float(scores.min()), float(scores.max())
    for i, (points, values) in enumerate(zip(keys, scores, strict=True)):
        best = values >= values.max() - 1e-12
        size = 18 + 30 * (values - low) / max(high - low, 1e-12)
        size = np.where(best, 110.0, size) * (1.0 + 1.8 * _covered(keys, i))
        ax.scatter(*points[~best].T, s=size[~best], marker="s", color=inputs[i % 4], zorder=6, lw=0.6, ec="white")
        ax.scatter(*points[best].T, s=size[best], marker="*", color=inputs[i % 4], zorder=7, lw=0.6, ec="white")


def _covered(keys: np.ndarray, i: int) -> np.ndarray:
    """Number of inputs after the i-th that have a token at the same key, for each of its tokens."""
    later = keys[i + 1 :]
    return (np.abs(keys[i][:, None, None] - later[None]) < 1e-9).all(axis=-1).any(axis=-1).sum(axis=1)


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


def draw_angles(
    ax: Any, paths: Iterable[np.ndarray], targets: Iterable[np.ndarray], colours: Sequence[str], least: float = 1e-2
) -> None:
    """Angle between p and the direction that it goes to, in degrees, against its norm, both on logarithmic scales.

    Args:
        ax: axes.
        paths: of p, each of shape (steps, 2).
        targets: the direction of each path, shape (2,).
        colours: one a path.
        least: smallest angle shown.
    """
    for path, target, colour in zip(paths, targets, colours, strict=True):
        norms = np.linalg.norm(path, axis=1)
        moved = norms > 0  # the origin has no angle
        cross = path[:, 0] * target[1] - path[:, 1] * target[0]
        angle = np.degrees(np.abs(np.arctan2(cross, path @ target)))
        ax.plot(norms[moved], np.maximum(angle[moved], least / 10), color=colour, lw=1.1)
    ax.set(xscale="log", yscale="log", ylim=(least, 200.0), xlabel=r"$\|p\|$")
