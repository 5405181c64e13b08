"""What a command shows: tables, texts and progress. The only file that knows rich, which is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from tokenmargin._progress import Progress


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of plain text: square brackets in a citation are not markup."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        shown.add_column(Text(name), overflow="fold")
    for cells in rows:
        shown.add_row(*(Text(cell) for cell in cells))
    _console().print(shown)


def heading(words: str) -> None:
    """Print a line in bold."""
    _console().print(words, style="bold", markup=False)


def paragraph(words: str) -> None:
    """Print a text, wrapped to the width of the terminal."""
    _console().print(words, markup=False)


@contextmanager
def progress(name: str) -> Iterator[Progress]:
    """A bar with the time left, on a terminal; an empty line elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_console(), transient=True) as bars:
        tasks: dict[str, TaskID] = {"": bars.add_task(name, total=None)}

        def show(done: int, total: int | None, what: str) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(f"{name}: {what}", total=total)
            bars.update(tasks[what], completed=done)

        yield show


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)
