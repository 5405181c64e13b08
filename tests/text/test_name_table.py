"""Names in lines are found as in a dictionary, whatever their letters, before and after one is made."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.text import name_table as module
from tokenmargin.text.name_table import SPACING, NameTable, line_ends

#: Letters of one to four bytes, and a blank.
LETTERS = list("ab \u00e9\u0301\u4e2d\uffff\U0001f600")


def names(size: int) -> list[str]:
    rng = np.random.default_rng(size)
    found: set[str] = set()
    while len(found) < size:
        found.add("".join(rng.choice(LETTERS, rng.integers(1, 9))))
    return sorted(found)


@pytest.mark.parametrize("size", [1, 2, SPACING - 1, SPACING, SPACING + 1, 5 * SPACING, 700])
def test_names_in_lines_are_found_as_in_a_dictionary(size, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 10**6)
    every = names(2 * size)
    known, others = every[::2], every[1::2]
    table = NameTable.of_lines("".join(f"{name}\n" for name in known).encode(), line_ends(known), size)
    assert len(table) == size
    slow = {name: column for column, name in enumerate(known)}
    asked = [*every, *(name + "a" for name in known), *(name[:-1] for name in known), "", "\ud800", "a\nb", "\n"]
    assert [table.get(name) for name in asked] == [slow.get(name) for name in asked]
    columns = list(range(size))[::-1]
    assert table.of_columns(columns) == [known[column] for column in columns]
    assert "names" not in vars(table), "no string was made of any name but those asked for"
    assert table.names == tuple(known)
    assert table.of_columns(columns) == [known[column] for column in columns]
    assert others[0] not in slow


def test_after_many_questions_there_is_a_dictionary(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 3)
    known = names(200)
    table = NameTable.of_lines("".join(f"{name}\n" for name in known).encode(), line_ends(known), 200)
    assert [table.get(name) for name in known] == list(range(200))
    assert table.finder()(known[7]) == 7
    assert table.of_columns([3, 150]) == [known[3], known[150]]
