"""Figures without a display, in one style, saved as PNG and PDF; only this package imports matplotlib."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from tokenmargin._atomic import complete_file, write_text
from tokenmargin.errors import MissingExtraError

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import LogLocator, NullFormatter
    from matplotlib.transforms import Bbox
except ImportError as missing:
    raise MissingExtraError("Drawing figures", "figures") from missing

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "legend.fontsize": 7.5,
    "legend.framealpha": 0.9,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "tokenmargin",
}

#: Colours that stay apart for colour-blind readers; the first two are the papers' red (GMM) and blue (LMM).
RED, BLUE, GREEN, ORANGE, GREY = "#c0392b", "#2166ac", "#1b7837", "#d98200", "#8a8a8a"


@contextmanager
def style() -> Iterator[None]:
    """Use the house style for all drawing inside this block."""
    with mpl.rc_context(STYLE):
        yield


class _Figure(Figure):
    """A figure whose PDF has TrueType fonts: publishers refuse those of Type 3, Matplotlib's own choice."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Save as Matplotlib does."""
        with mpl.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
            super().savefig(*args, **kwargs)


def panels(
    rows: int, columns: int, width: float, height: float, heights: tuple[float, ...] | None = None
) -> tuple[Figure, list[Any]]:
    """A figure of rows x columns axes, in inches, without pyplot's global state; `heights` of the rows are relative."""
    figure = _Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, height_ratios=heights)
    return figure, list(axes.flat)


def lettered(figure: Figure) -> None:
    """Put (a), (b), ... before the titles of panels in reading order; pictures, twins and colour bars are none."""
    panels: list[Any] = []
    for ax in figure.axes:
        is_twin = any(ax in each.get_shared_x_axes().get_siblings(each) and _same_place(ax, each) for each in panels)
        if (ax.axison or ax.tables) and not _is_colour_bar(ax) and not is_twin:
            panels.append(ax)
    if 1 < len(panels) <= len(ascii_lowercase):
        for ax, which in zip(panels, ascii_lowercase, strict=False):
            title = (
                ax.get_title(loc="left").removeprefix(f"({which})").strip()
            )  # saved a second time, it has its letter
            ax.set_title(f"({which}) {title}".rstrip(), loc="left")


def _same_place(one: Any, other: Any) -> bool:
    return bool(one.get_subplotspec() == other.get_subplotspec())


def decimals(axis: Any) -> None:
    """Give a short logarithmic axis the ticks 0.1, 0.2, 0.5, 1, ..., where it would have 2 x 10^-1 and 3 x 10^-1."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def halo() -> Any:
    """A white border of letters, so that they are read on points and lines."""
    return withStroke(linewidth=1.6, foreground="white")


def legend_entry(name: str, **look: Any) -> Any:
    """A line of a legend that is in none of the panels, with the look of a plotted line."""
    return Line2D([], [], label=name, **look)


def shades(count: int) -> list[Any]:
    """An ordered family of colours, dark to light."""
    return [mpl.colormaps["viridis"](0.9 * j / max(1, count - 1)) for j in range(count)]


def save_figure(figure: Figure, folder: Path) -> None:
    """Letter the panels; write figure.png, figure.pdf (without a date: the same bytes every time) and panels.json."""
    with mpl.rc_context(STYLE):
        lettered(figure)
        with complete_file(folder / "figure.png") as file:
            figure.savefig(file, dpi=160)
        with complete_file(folder / "figure.pdf") as file:
            figure.savefig(file, metadata={"CreationDate": None})
        write_text(folder / "panels.json", json.dumps(panel_boxes(figure)) + "\n")


#: A figure of at most so many inches reads on a phone as it is.
NARROW = 5.0
#: Air around a panel, in inches.
AIR = 0.08


def panel_boxes(figure: Figure) -> list[list[float]]:
    """Boxes of the panels of a drawn figure: left, top, width, height as shares of the whole, in reading order.

    With them a page shows the panels one below the other where the screen is too narrow for the whole. A figure that is
    narrow itself has none.
    """
    size = figure.get_size_inches()
    if size[0] <= NARROW:
        return []
    places: list[Bbox] = []
    boxes: list[Bbox] = []
    # Axes that share a place (twins) are one panel, and a colour bar belongs to what is on its left.
    for ax in sorted(figure.axes, key=_is_colour_bar):
        drawn = ax.get_tightbbox()
        if drawn is None:  # hidden
            continue
        place, box = ax.get_position(), drawn.transformed(figure.transFigure.inverted())
        own = [k for k, other in enumerate(places) if other.overlaps(place)]
        if _is_colour_bar(ax):
            own = [
                k
                for k, other in enumerate(places)
                if other.x1 <= place.x0 and other.y0 < place.y1 and place.y0 < other.y1
            ]
        if own:
            nearest = max(own, key=lambda k: places[k].x1)
            boxes[nearest] = Bbox.union([boxes[nearest], box])
        else:
            places.append(place)
            boxes.append(box)
    boxes.sort(key=lambda box: (-round(box.y1, 1), box.x0))
    air = AIR / size
    low, high = [(box.min - air).clip(0, 1) for box in boxes], [(box.max + air).clip(0, 1) for box in boxes]
    return [[float(round(x, 4)) for x in (a[0], 1 - b[1], *(b - a))] for a, b in zip(low, high, strict=True)]


def _is_colour_bar(ax: Any) -> bool:
    return bool(ax.get_label() == "<colorbar>")
