"""Long work in a notebook says how far it is, and nothing elsewhere."""

from __future__ import annotations

import sys
import types

from tokenmargin import _progress
from tokenmargin._progress import silent


def told(monkeypatch, capsys, seconds):
    now = iter(seconds)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(now))
    for done in range(len(seconds)):
        silent(done + 1, len(seconds), "flows")
    return capsys.readouterr()


def test_a_notebook_shows_what_takes_more_than_two_seconds(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    shown = told(monkeypatch, capsys, [0.0, 1.9, 2.6, 2.7, 3.5, 4.0])
    assert shown.err == "\rflows: 3 of 6\rflows: 5 of 6\rflows: 6 of 6\n"
    assert shown.out == ""
    assert told(monkeypatch, capsys, [0.0, 0.5, 1.0]).err == "", "what is quick is not shown"
    assert told(monkeypatch, capsys, [9.0, 12.0]).err == "\rflows: 2 of 2\n", "each work has its own clock"


def test_names_of_files_are_not_obeyed_by_a_terminal(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    now = iter([0.0, 3.0])
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(now))
    for done in (1, 2):
        silent(done, 2, "reading \x1b[2J.csv")
    assert capsys.readouterr().err == "\rreading \\u001b[2J.csv: 2 of 2\n"


def test_elsewhere_it_is_silent(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    silent(1, 2, "flows")
    assert capsys.readouterr().err == ""
