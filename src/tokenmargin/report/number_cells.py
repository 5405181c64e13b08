"""A number of a summary in words: one text a column, the same on the page and in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenmargin._sentences import ABSENT

#: Heads of the columns: what the paper prints is never mixed with what we expect.
COLUMNS = ("number", "ours", "the paper's", "expected", "allowed difference", "verdict")


@dataclass(frozen=True)
class NumberCells:
    """The row of a number, in the order of `COLUMNS`."""

    name: str
    ours: str
    paper: str
    expected: str
    allowed: str
    verdict: str


def number_cells(row: Mapping[str, Any]) -> NumberCells:
    """The texts of a row of `summary.json`; places and sources stand in brackets."""
    ours, interval = short(row["value"]), row["interval"]
    if interval is not None:
        ours += f" ({short(interval[0])} to {short(interval[1])})"
    paper = ABSENT
    if row["paper"] is not None:
        bound = "" if row["relation"] == "=" else f"{row['relation']} "
        paper = f"{bound}{short(row['paper'])} ({row['place']})"
    elif row.get("says"):  # which older summaries lack
        paper = f"{row['says']} ({row['place']})"
    expected = [] if row["expected"] is None else [short(row["expected"])]
    if row["at_most"] is not None:
        expected.append(f"at most {short(row['at_most'])}")
    if row["source"]:
        expected.append(f"({row['source']})")
    return NumberCells(row["name"], ours, paper, " ".join(expected) or ABSENT, short(row["tolerance"]), row["verdict"])


def finding(row: Mapping[str, Any]) -> str:
    """A number that refutes what the paper prints, in one line."""
    cells = number_cells(row)
    return f"{cells.name}: the paper says {cells.paper}, here {cells.ours}"


def short(value: float | None) -> str:
    """Six significant digits, and a dash for none."""
    return ABSENT if value is None else f"{value:.6g}"
