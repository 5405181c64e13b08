"""Pictures of answers: a path of training, its limit, a max-margin direction, basins, evidence, a training run.

Every function draws on the axes that it is given, or on a figure of its own, and returns the figure: save it with
`figure.savefig("path.pdf")`, whose text stays text in LaTeX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tokenmargin.errors import WrongTypeError
from tokenmargin.plots.canvas import BLUE, GREEN, GREY, ORANGE, RED, panels, shades, style
from tokenmargin.plots.plane import direction_colours, draw_directions, draw_tokens, draw_trajectories

#: Points of a path that are drawn: more than a screen shows.
MOST_POINTS = 400

#: Bars that a picture has room for; the longest are shown.
MOST_BARS = 20

#: Air around tokens, as a share of the widest extent; of a path so many of these extents are shown.
AIR, FARTHEST = 0.35, 2.0


#: Where a legend covers nothing.
_ABOVE: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}


def on_axes(ax: Any, width: float = 4.6, height: float = 3.6) -> tuple[Any, Any]:
    """(figure, axes): those given, or new ones of this size in inches."""
    if ax is not None and not isinstance(ax, Axes):
        raise WrongTypeError(f"ax must be axes of matplotlib, got a {type(ax).__name__}: plt.figure().add_subplot().")
    if ax is not None:
        return ax.figure, ax
    figure, (own,) = panels(1, 1, width, height)
    return figure, own


def draw_plane(
    keys: np.ndarray,
    scores: np.ndarray,
    ax: Any,
    *,
    paths: Sequence[np.ndarray] = (),
    directions: Sequence[np.ndarray] = (),
    labels: Sequence[str] = (),
    is_global: Sequence[bool] = (),
    starts: np.ndarray | None = None,
    basin: np.ndarray | None = None,
) -> Any:
    """Tokens in the plane of their keys, with paths of p, directions from the origin, and starts by where they go."""
    with style():
        figure, ax = on_axes(ax, 4.2, 4.2)
        fixed = [keys.reshape(-1, 2), np.zeros((1, 2)), *([] if starts is None else [starts]), *(p[:1] for p in paths)]
        reach = FARTHEST * np.abs(np.concatenate(fixed)).max()
        shown = np.concatenate([*fixed, *(p[np.abs(p).max(axis=1) <= reach] for p in paths)])
        low, high = shown.min(axis=0), shown.max(axis=0)
        air = AIR * max(float((high - low).max()), 1e-12)
        ax.set(xlim=(low[0] - air, high[0] + air), ylim=(low[1] - air, high[1] + air), aspect="equal")
        colours = direction_colours(is_global or [True] * len(directions))
        if starts is not None and basin is not None:
            tints = [colours[j] if j >= 0 else GREY if j == -1 else "black" for j in basin.tolist()]
            ax.scatter(*starts.T, s=14, color=tints, alpha=0.5, lw=0, zorder=1)
        draw_trajectories(ax, paths, [GREY] * len(paths))
        if len(directions):
            draw_directions(ax, np.stack([d / np.linalg.norm(d) for d in directions]), labels, colours)
            ax.legend(loc="best")
        draw_tokens(ax, keys, scores)
        ax.set(xlabel="$p_1$", ylabel="$p_2$")
    return figure


def draw_attention(sizes: np.ndarray, attention: np.ndarray, ax: Any) -> Any:
    """Attention on the token that each input ends with, shape (s, n), against the length of the point, shape (s,)."""
    with style():
        figure, ax = on_axes(ax)
        kept = np.unique(np.linspace(0, len(sizes) - 1, MOST_POINTS).astype(int))
        for i, colour in enumerate(shades(attention.shape[1])):
            ax.plot(sizes[kept], attention[kept, i], color=colour, lw=1.2, label=f"input {i}")
        ax.set(xlabel="length of the point", ylabel="attention on the token selected at the end", ylim=(-0.02, 1.02))
        if sizes.max() > 10 * max(sizes[sizes > 0].min(initial=np.inf), 1e-300):
            ax.set_xscale("symlog", linthresh=1.0)
            ax.set_xlim(left=0.0)
        if attention.shape[1] <= 8:
            ax.legend(loc="best")
    return figure


def draw_bars(names: Sequence[str], values: np.ndarray, what: str, ax: Any) -> Any:
    """Bars, the longest first and on top."""
    with style():
        order = np.argsort(-np.abs(values), kind="stable")[:MOST_BARS]
        figure, ax = on_axes(ax, 4.6, 0.8 + 0.22 * max(len(order), 3))
        places = np.arange(len(order))[::-1]
        ax.barh(places, values[order], color=[BLUE if v >= 0 else RED for v in values[order]], height=0.7)
        ax.set_yticks(places, [names[k] for k in order], fontsize=7.5)
        more = "" if len(order) == len(values) else f" ({len(order)} of {len(values)})"
        ax.set(xlabel=what + more)
    return figure


def draw_heat(share: np.ndarray, x: tuple[str, Sequence[Any]], y: tuple[str, Sequence[Any]], what: str, ax: Any) -> Any:
    """Shares as a heat map, with the values of y from the bottom up, and each number in its cell."""
    with style():
        figure, ax = on_axes(ax, 1.9 + 0.55 * len(x[1]), max(2.7, 1.0 + 0.42 * len(y[1])))
        image = ax.imshow(share, origin="lower", aspect="auto", vmin=0.0, vmax=1.0, cmap="viridis")
        for i, j in np.ndindex(share.shape):
            text = f"{share[i, j]:.2f}" if np.isfinite(share[i, j]) else "?"
            ax.text(j, i, text, ha="center", va="center", fontsize=7, color="black" if share[i, j] > 0.5 else "white")
        ax.set_xticks(range(len(x[1])), [str(value) for value in x[1]])
        ax.set_yticks(range(len(y[1])), [str(value) for value in y[1]])
        ax.set(xlabel=x[0], ylabel=y[0])
        figure.colorbar(image, ax=ax, label=what)
    return figure


def draw_epochs(curves: Mapping[str, np.ndarray], ax: Any) -> Any:
    """Loss of every epoch on a logarithmic scale and, on a second axis, the shares."""
    with style():
        figure, ax = on_axes(ax)
        epochs = np.arange(1, len(next(iter(curves.values()))) + 1)
        shares = {name: values for name, values in curves.items() if not name.endswith("loss")}
        second: Any = ax.twinx() if shares else ax
        for (name, values), colour in zip(curves.items(), (RED, BLUE, ORANGE, GREEN), strict=False):
            (second if name in shares else ax).plot(epochs, values, color=colour, lw=1.3, label=name)
        ax.set(xlabel="epoch", ylabel="loss", yscale="log" if min(map(np.min, curves.values())) > 0 else "linear")
        if shares:
            second.set(ylabel="accuracy", ylim=(-0.02, 1.02))
            second.spines["right"].set_visible(True)
        lines = [*ax.lines, *(second.lines if shares else ())]
        ax.legend(lines, [line.get_label() for line in lines], **_ABOVE, ncol=len(lines))
    return figure


def draw_shares(rows: Mapping[str, tuple[int, int, int]], ax: Any) -> Any:
    """Stacked bars: of the instances of each row, those that held, were refuted, and were not decided."""
    with style():
        figure, ax = on_axes(ax, 6.0, 0.9 + 0.22 * max(len(rows), 3))
        places = np.arange(len(rows))[::-1]
        left = np.zeros(len(rows))
        counts = np.array(list(rows.values()), dtype=float).reshape(-1, 3)
        for column, (name, colour) in enumerate((("held", GREEN), ("refuted", RED), ("not decided", GREY))):
            ax.barh(places, counts[:, column], left=left, color=colour, height=0.7, label=name)
            left += counts[:, column]
        ax.set_yticks(places, list(rows), fontsize=7)
        ax.set(xlabel="instances")
        ax.legend(**_ABOVE, ncol=3)
    return figure
