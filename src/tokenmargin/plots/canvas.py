"""Figures without a display, in one style, saved as PNG and PDF. Here and beside here is the only matplotlib import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenmargin.errors import MissingExtraError

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
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
    """Draw inside this block."""
    with mpl.rc_context(STYLE):
        yield


def panels(
    rows: int, columns: int, width: float, height: float, heights: tuple[float, ...] | None = None
) -> tuple[Figure, list[Any]]:
    """A figure of rows x columns axes, in inches, without pyplot's global state; `heights` of the rows are relative."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, height_ratios=heights)
    return figure, list(axes.flat)


def shades(count: int) -> list[Any]:
    """An ordered family of colours, dark to light."""
    return [mpl.colormaps["viridis"](0.9 * j / max(1, count - 1)) for j in range(count)]


def save_figure(figure: Figure, folder: Path) -> None:
    """Write figure.png and figure.pdf; the PDF carries no date, so the same figure gives the same bytes."""
    with mpl.rc_context(STYLE):
        figure.savefig(folder / "figure.png", dpi=160)
        figure.savefig(folder / "figure.pdf", metadata={"CreationDate": None})
