"""Output of a command: tables, texts and progress. The only file that knows rich, which is imported on first use."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tokenmargin._atomic import HALVES
from tokenmargin.errors import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID
    from rich.text import Text

    from tokenmargin._progress import Progress


#: Parts of the strongest word of a text below which a word is not marked, and below which it is marked faintly.
FAINTEST, FAINT = 0.1, 0.35

#: A column of a table whose cells are cut has so many characters at least, or its longest cell, and at most.
LEAST_WIDTH, MOST_WIDTH = 12, 28
#: Characters between two columns, and those that numbers begin with.
BETWEEN, NUMERALS = 3, "+-0123456789"

#: Seconds between two lines of progress if no bar can be drawn.
SECONDS_BETWEEN_LINES = 60.0


def lines_of(words: str) -> int:
    """Number of lines that a paragraph takes in the terminal."""
    from rich.text import Text

    console = _console()
    return len(Text(visible(words)).wrap(console, console.width))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, fold: bool = True) -> None:
    """Print a table of plain text: square brackets in a citation are not markup; long cells are folded or cut."""
    from rich.table import Table
    from rich.text import Text

    console, shown = _console(), Table(show_edge=False, pad_edge=False, header_style="bold")
    given = [tuple(Text(visible(cell)) for cell in cells) for cells in (columns, *rows)]
    widths = [] if fold else _narrowed(given, console.width - BETWEEN * (len(columns) - 1))
    for place, name in enumerate(given[0]):
        how: Any = {"overflow": "fold"} if fold else {"overflow": "ellipsis", "no_wrap": True, "width": widths[place]}
        shown.add_column(name, **how)
    for cells in given[1:]:
        shown.add_row(*cells)
    console.print(shown)


def _narrowed(rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    """Widths of columns that share a room: of those that hold words the widest gives first, and a number is whole."""
    columns = list(zip(*rows, strict=True))
    widths = [max(cell.cell_len for cell in cells) for cells in columns]
    words = [j for j, cells in enumerate(columns) if not all(cell.plain[:1] in NUMERALS for cell in cells[1:])]
    for j in words:
        widths[j] = min(widths[j], MOST_WIDTH)
    while words and sum(widths) > room and max(widths[j] for j in words) > LEAST_WIDTH:
        widths[max(words, key=widths.__getitem__)] -= 1
    return widths


def heading(words: str) -> None:
    """Print a line in bold."""
    _console().print(visible(words), style="bold", markup=False)


def paragraph(words: str) -> None:
    """Print a text, wrapped to the width of the terminal."""
    _console().print(visible(words), markup=False)


def line(words: str) -> None:
    """Print a line as it is, but for what a terminal would obey."""
    print(visible(words))


def complaint(words: str) -> None:
    """Print a line to standard error, where errors and remarks go."""
    print(visible(words), file=sys.stderr)


def data(text: str) -> None:
    """Print what a program may read, byte for byte; on a terminal what it would obey is made visible."""
    whole = text.encode(errors=HALVES).decode()
    sys.stdout.write(visible(whole) if sys.stdout.isatty() else whole)


def highlighted(parts: Iterable[tuple[str, float]]) -> None:
    """Print a text whose words are marked by how strongly they speak: from -1, against, to 1, for.

    Colour never stands alone: what speaks for is bold, what speaks against is underlined.
    """
    from rich.text import Text

    shown = Text()
    for words, strength in parts:
        look = "" if abs(strength) < FAINTEST else "bold green" if strength > 0 else "underline red"
        shown.append(visible(words), style=f"dim {look}" if look and abs(strength) < FAINT else look)
    _console().print(shown)


@contextmanager
def progress(name: str) -> Iterator[Progress]:
    """A bar with the time left, on a terminal; where output is redirected, a line a minute."""
    if not _console().is_terminal:
        yield _LineAMinute(name)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_console(), transient=True) as bars:
        yield _Bars(name, bars)


class _Bars:
    """Progress as bars, one for each kind of work; before the first has come anywhere, what it may be waiting for."""

    def __init__(self, name: str, bars: Any) -> None:
        self.name, self.bars = name, bars
        self.tasks: dict[str, TaskID] = {"": bars.add_task(f"{name}: reading and compiling", total=None)}

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Show how far the work has come."""
        if len(self.tasks) == 1:
            self.bars.update(self.tasks[""], description=self.name)
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(visible(f"{self.name}: {what}"), total=total)
        self.bars.update(self.tasks[what], completed=done)

    def say(self, sentence: str) -> None:
        """Print a line above the bars."""
        self.bars.console.print(visible(f"{self.name}: {sentence}"), markup=False)


class _LineAMinute:
    """Progress as lines in a log: the first after a minute, so that what is quick stays silent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said = self.heard = time.monotonic()
        self.marks: dict[str, list[tuple[float, int]]] = {}  # (when, done) of each kind of work, a second apart

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Say how far the work has come, if a minute has passed."""
        now = time.monotonic()
        # Work that is first heard of when some of it is done began when something was last heard of.
        marks = self.marks.setdefault(what, [(self.heard if done else now, 0)])
        self.heard = now
        if now - marks[-1][0] >= 1.0:
            marks.append((now, done))
        if now - self.said < SECONDS_BETWEEN_LINES:
            return
        self.said = now
        far = f"{done:,}" if total is None else f"{done / max(total, 1):.0%}"
        left = "" if total is None else seconds_left(marks, (now, done), total)
        self.say(f"{what}: {far}{left}")

    def say(self, sentence: str) -> None:
        """Print a line in the log."""
        print(visible(f"{self.name}: {sentence}"), file=sys.stderr, flush=True)


def seconds_left(marks: Sequence[tuple[float, int]], now: tuple[float, int], total: int) -> str:
    """Time left, at the speed of the later half of the time so far: work kept from an earlier run came at once."""
    middle = (marks[0][0] + now[0]) / 2
    later = max((mark for mark in marks if mark[0] <= middle), default=marks[0])
    when, done = marks[0] if later[1] == now[1] else later
    if now[1] == done:
        return ""
    return f", about {(now[0] - when) * (total - now[1]) / (now[1] - done):.0f} s left"


def _console() -> Console:
    from rich.console import Console

    class Told(Console):
        def on_broken_pipe(self) -> None:
            """A reader that has seen enough is no failure, which rich would exit with: `main` is told."""
            raise BrokenPipeError

    return Told(highlight=False)
