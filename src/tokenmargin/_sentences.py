"""Lists, shares and numbers as sentences and tables show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice

#: Shown where there is no number.
ABSENT = "–"  # noqa: RUF001

MINUS = "−"  # noqa: RUF001


def listed(names: Iterable[str], last: str = "and") -> str:
    """The names as one says them: "a, b and c"; "none" where there is no name."""
    given = [str(name) for name in names]
    return f" {last} ".join([", ".join(given[:-1]), given[-1]] if len(given) > 1 else given) or "none"


def some(items: Iterable[object], shown: int = 5) -> str:
    """The first of many, with commas, and dots where there are more."""
    given = list(items)
    return ", ".join(map(str, given[:shown])) + (", ..." if len(given) > shown else "")


def number_of(count: int, name: str) -> str:
    """A number of things, of one or of several: "1 tie", "1,200 ties"."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def sizes(counts: Mapping[str, int], shown: int = 8) -> str:
    """Classes with their sizes, at most so many by name: "3 a, 2 '1' and 75 more classes"."""
    names = (repr(name) if name[:1].isdigit() else name for name in counts)
    named = ", ".join(f"{size:,} {name}" for name, size in islice(zip(names, counts.values(), strict=True), shown))
    left = len(counts) - shown
    return f"{named} and {left} more classes" if left > 0 else named


def fixed(value: float, decimals: int, *, signed: bool = False) -> str:
    """A number with thousands apart and a true minus; a dash where there is none, no sign for what rounds to 0."""
    if not math.isfinite(value):
        return ABSENT
    shown = f"{abs(value):,.{decimals}f}"
    zero = not shown.strip("0.,")
    return ("" if zero else MINUS if value < 0 else "+" if signed else "") + shown


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as a percentage; a dash where there is none."""
    return ABSENT if share is None or not math.isfinite(share) else f"{fixed(100 * share, decimals)}%"
