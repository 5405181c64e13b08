"""Names of tokens, found by column and column found by name, without a string for each of a million of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

#: Lines between two places that are known: one name is looked for among so many.
SPACING = 64

#: Names that are looked for among the lines before a dictionary of all is made.
PATIENCE = 5000


class NameTable:
    """Names of tokens in the order of their columns, each once.

    Sorted names may be given as lines of UTF-8: a million strings, or a dictionary of them, take longer to make than a
    model to load, and one text asks for a hundred of them.
    """

    def __init__(
        self, names: tuple[str, ...] | None, lines: bytes = b"", ends: Sequence[int] = (), size: int = 0
    ) -> None:
        """Take names as they are, all of which go into a dictionary on first use; or what `of_lines` is given."""
        self._given, self._lines, self._edges = names, lines, [0, *ends]
        self._size, self._left = (size, PATIENCE) if names is None else (len(names), 0)

    @classmethod
    def of_lines(cls, lines: bytes, ends: np.ndarray, size: int) -> NameTable:
        """Names sorted as strings are, a line each, and their places as `line_ends` gives them."""
        return cls(None, lines, ends.tolist(), size)

    def __len__(self) -> int:
        """Number of names."""
        return self._size

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._lines.decode().split("\n")[:-1]) if self._given is None else self._given

    @cached_property
    def table(self) -> dict[str, int]:
        """The column of each name."""
        return {name: column for column, name in enumerate(self.names)}

    @cached_property
    def _firsts(self) -> list[bytes]:
        """The first of every `SPACING` names; UTF-8 sorts as code points do."""
        lines = self._lines
        return [lines[edge : lines.index(b"\n", edge)] for edge in self._edges[:-1]]

    def get(self, name: str) -> int | None:
        """The column of a name, or None."""
        if not self._left:
            return self.table.get(name)
        self._left -= 1
        line = name.encode("utf-8", "surrogatepass")
        block = bisect_right(self._firsts, line) - 1
        if block < 0:
            return None
        among = b"\n" + self._lines[self._edges[block] : self._edges[block + 1]]
        place = among.find(b"\n" + line + b"\n")
        return None if place < 0 else block * SPACING + among.count(b"\n", 0, place)

    def finder(self) -> Callable[[str], int | None]:
        """The fastest function that does the same now."""
        return self.get if self._left else self.table.get

    def of_columns(self, columns: list[int]) -> list[str]:
        """The names of some columns."""
        if not self._left or "names" in self.__dict__:
            names = self.names
            return [names[column] for column in columns]
        return [self._name(column) for column in columns]

    def _name(self, column: int) -> str:
        block, row = divmod(column, SPACING)
        return self._lines[self._edges[block] : self._edges[block + 1]].split(b"\n", row + 1)[row].decode()


def line_ends(names: Sequence[str]) -> np.ndarray:
    """Places in lines of UTF-8 behind every `SPACING` names, and behind the last."""
    sizes = np.fromiter((len(name.encode()) + 1 for name in names), np.int64, len(names))
    ends = np.cumsum(sizes)
    return np.append(ends[SPACING - 1 : -1 : SPACING], ends[-1:])
