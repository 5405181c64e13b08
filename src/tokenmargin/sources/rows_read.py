"""Counts of the rows read: every row that was odd or unusable is counted and named, none is lost silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._sentences import sizes, some

#: Places (line numbers or file names) remembered for each kind of problem; the count goes on beyond them.
MAX_PLACES = 100

#: Address of a row: a line number (from 1, the header being line 1), a row number of a table (from 1), or a file.
RowAddress = int | str


class Oddity(Enum):
    """Oddity of a row, as a sentence; `is_kept` is True if the row was kept all the same."""

    INVALID_UTF8 = "bytes that are not UTF-8; kept, each bad byte replaced by U+FFFD"
    MARKUP = "markup other than <br />; kept in the text"
    EMPTY_TEXT = "an empty text; kept"
    DUPLICATE_ID = "an id that an earlier row has; kept"
    DUPLICATE_TEXT = "a text that an earlier row has; kept"
    NUL = "a NUL character in the text; kept"
    NO_TEXT = "no text; left out"
    NO_LABEL = "no label, or one that is not known; left out"
    UNNAMED_LABEL = "a label that the label map does not name; left out"
    BAD_ROW = "not the fields that the header or the format asks for; left out"

    @property
    def is_kept(self) -> bool:
        """True if a row with this oddity was kept."""
        return self not in (Oddity.NO_TEXT, Oddity.NO_LABEL, Oddity.UNNAMED_LABEL, Oddity.BAD_ROW)


@checked
@dataclass(frozen=True, repr=False)
class RowsRead(Told):
    """Rows read and kept, documents per class, and each problem with its count and its places.

    Reports of consecutive chunks add up to the report of the whole.
    """

    rows_read: int = 0
    rows_kept: int = 0
    classes: dict[str, int] = field(default_factory=dict)
    problems: dict[Oddity, int] = field(default_factory=dict)
    places: dict[Oddity, tuple[RowAddress, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  #: what was verified, what was selected

    def __add__(self, other: RowsRead) -> RowsRead:
        """The report of both stretches of rows, in this order."""
        places = {
            kind: (self.places.get(kind, ()) + other.places.get(kind, ()))[:MAX_PLACES]
            for kind in Oddity
            if kind in self.places or kind in other.places
        }
        return RowsRead(
            self.rows_read + other.rows_read,
            self.rows_kept + other.rows_kept,
            dict(sorted((Counter(self.classes) + Counter(other.classes)).items())),
            {kind: self.count(kind) + other.count(kind) for kind in places},
            places,
            self.notes + other.notes,
        )

    def count(self, kind: Oddity) -> int:
        """Rows with this problem."""
        return self.problems.get(kind, 0)

    @property
    def rows_left_out(self) -> int:
        """Rows that could not be used."""
        return sum(count for kind, count in self.problems.items() if not kind.is_kept)

    def __str__(self) -> str:
        """One line for the sizes, one for each problem, one for each note."""
        return "\n".join(self.lines())

    def lines(self, said: Iterable[str] = (), *, several_labels: bool = False) -> list[str]:
        """The same as a list; classes are not counted again where what was said before ends in their counts.

        Args:
            said: sentences said before.
            several_labels: True if a row has several labels, so that no class is that of a row.
        """
        classes = sizes(self.classes)
        lines = [f"{self.rows_read:,} rows read, {self.rows_kept:,} kept"]
        if not several_labels and not any(sentence.endswith(f": {classes}") for sentence in said):
            lines[0] += f" ({classes or 'none'})"
        for kind, count in self.problems.items():
            lines.append(f"  {count:,} with {kind.value}: {some(self.places[kind])}")
        return [*lines, *(f"  {note}" for note in self.notes)]


def total(reports: Iterable[RowsRead]) -> RowsRead:
    """The report of a sequence of chunks."""
    return sum(reports, RowsRead())
