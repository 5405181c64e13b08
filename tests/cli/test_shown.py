"""What is shown is data: no terminal obeys it and no spreadsheet computes it."""

from __future__ import annotations

import ast
import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest

import tokenmargin
from tests.classify.corpora import texts
from tokenmargin import cli
from tokenmargin._atomic import write_text
from tokenmargin.classify import FitSettings, LabelledCorpus, fit_texts, save
from tokenmargin.classify.fit_folder import write_fit, write_rows
from tokenmargin.cli import _console
from tokenmargin.errors import DataAbsentError, InvalidInputError, MissingExtraError, visible
from tokenmargin.report.fit_files import fit_files
from tokenmargin.text import plain_recipe

ROOT = Path(tokenmargin.__file__).parent
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\u202egpj.exe"
CLASSES = (f"bad{EVIL}", "=1+1")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def obeyed(text: str) -> set[str]:
    """What a terminal would obey, but for what rich colours and clears lines with."""
    import re

    plain = re.sub(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]", "", text)
    return {letter for letter in plain if letter in "\x1b\x07\x9b\x7f\r\u202e"}


@pytest.fixture(scope="module")
def found():
    """A fit of texts whose classes are made to be obeyed and computed."""
    named = dict(zip(("bad", "good"), CLASSES, strict=True))
    corpus = LabelledCorpus(texts().texts, tuple(named[label] for label in texts().labels))
    return fit_texts(corpus, FitSettings(plain_recipe(minimum_count=1)))


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    place = tmp_path_factory.mktemp("shown") / "fit"
    write_fit(found, place)
    return place


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_table_cuts_names_and_never_numbers(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [(name * 12, name * 9, "12.3%", "-1.25 to +120.75") for name in ("class", "很好", "x")]
    _console.table(("class", "token", "decides", "95% interval"), rows, fold=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(rows)
    assert lines[0].split() == ["class", "┃", "token", "┃", "decides", "┃", "95%", "interval"]
    assert all(line.rstrip().endswith("12.3%   │ -1.25 to +120.75") for line in lines[2:])


def test_what_a_terminal_obeys_is_made_visible():
    assert visible(EVIL) == r"\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u000d\u202egpj.exe"
    assert visible("a\tb\nc é 中 😀") == "a\tb\nc é 中 😀"


def test_half_a_character_is_shown_as_its_escape_and_names_no_class(tmp_path):
    given = [f"{own} \ud83d" for own in texts().texts]
    write_text(tmp_path / "half.json", "\ud83d")
    assert (tmp_path / "half.json").read_text() == visible("\ud83d") == r"\ud83d"
    with pytest.raises(InvalidInputError, match=r"the label 'bad\\ud83d' holds half a character"):
        LabelledCorpus(tuple(given), tuple(f"{own}\ud83d" for own in texts().labels))
    corpus = LabelledCorpus(tuple(given), texts().labels)
    found = fit_texts(corpus, FitSettings(plain_recipe(minimum_count=1), show_texts=True))
    write_fit(found, tmp_path / "fit", fit_files(found))
    assert r"\ud83d" in (tmp_path / "fit" / "report.html").read_text(encoding="utf-8")


def test_output_for_a_program_has_no_half_character(monkeypatch):
    monkeypatch.setattr(sys, "stdout", written := io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    _console.data("a\ud83d,b\n")
    written.flush()
    assert written.buffer.getvalue() == rb"a\ud83d,b" + b"\n"


@pytest.mark.parametrize("shows", ["table", "heading", "paragraph", "line", "complaint", "data", "highlighted"])
def test_nothing_that_is_printed_is_obeyed(shows, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    given = {"table": ([EVIL], [[EVIL]]), "highlighted": ([(EVIL, 1.0), (EVIL, 0.0)],)}.get(shows, (EVIL,))
    getattr(_console, shows)(*given)
    assert r"\u001b" in terminal.getvalue()
    assert obeyed(terminal.getvalue()) == set()


def test_progress_is_no_exception(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with _console.progress("fit") as progress:
        progress(1, 2, f"reading [red]{EVIL}")
        progress.say(EVIL)
    assert obeyed(terminal.getvalue()) <= {"\r"}  # with which a bar is drawn again


@pytest.mark.parametrize("kind", [InvalidInputError, DataAbsentError])
def test_errors_are_visible_wherever_they_are_shown(kind):
    assert str(kind(f"{EVIL} is not there")) == f"{visible(EVIL)} is not there"
    assert obeyed(str(MissingExtraError(EVIL, "fit"))) == set()


def test_names_of_files_and_classes_are_visible(folder, capsys, monkeypatch, tmp_path):
    assert cli.main(["explain", str(folder / EVIL), "a text"]) == 2
    assert cli.main(["fit", f"{EVIL}.csv"]) == 2
    assert cli.main([EVIL]) == 2
    assert cli.main(["explain", str(folder), "an awful film"]) == 0
    told = capsys.readouterr()
    assert obeyed(told.out + told.err) == set()
    assert r"\u001b" in told.out
    (tmp_path / "new.csv").write_text("text\nan awful film\n")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert cli.main(["predict", str(folder), str(tmp_path / "new.csv")]) == 0
    assert obeyed(terminal.getvalue()) == set()


def test_redirected_data_stay_as_they_are(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    _console.data(EVIL)
    assert pipe.getvalue() == EVIL


TEXTS = ["=1+1", "+1+1", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "'", "\uff1d1", "-", "+", "=", "-1e", "-.e1"]
NUMBERS = ["-1", "+1", "-1.5", "-1e-05", "+.5", "-0.000000", "12", "1e9"]
PLAIN = ["a=b", " =1", "", "x", "1-2", "é"]


def test_cells_that_begin_like_a_formula_are_quoted_and_can_be_had_back():
    stream = io.StringIO()
    write_rows(stream, [TEXTS, NUMBERS, PLAIN, [-1, 2.5, None, True]])
    stream.seek(0)
    texts, numbers, plain, rest = csv.reader(stream)
    assert texts == [f"'{text}" for text in TEXTS]
    assert [cell[1:] if cell.startswith("'") else cell for cell in texts] == TEXTS
    assert numbers == NUMBERS
    assert plain == PLAIN
    assert rest == ["-1", "2.5", "", "True"]


def is_harmless(path: Path) -> bool:
    import re

    with path.open(encoding="utf-8", newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    number = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?")
    return all(cell[:1] not in tuple("=+-@\t\r") or number.fullmatch(cell) for cell in cells if cell)


def test_every_csv_is_harmless(folder, tmp_path):
    (tmp_path / "new.csv").write_text("text\nan awful film\na superb film\n")
    assert cli.main(["explain", str(folder), str(tmp_path / "new.csv"), "--csv", str(tmp_path / "words.csv")]) == 0
    assert cli.main(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    for path in (tmp_path / "words.csv", tmp_path / "out.csv"):
        assert "'=1+1" in path.read_text(encoding="utf-8")
    for path in (folder / "tokens.csv", tmp_path / "words.csv", tmp_path / "out.csv"):
        assert is_harmless(path)


def test_nothing_else_prints_or_writes_csv():
    """One place each: what is printed elsewhere would be neither visible nor harmless."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "csv.writer", "csv.DictWriter"):
                found.add((str(path.relative_to(ROOT)), ast.unparse(node.func)))
            if isinstance(node, ast.Name) and node.id == "print" and "cli" in path.parts:
                found.add((str(path.relative_to(ROOT)), "print"))
    assert found == {
        ("cli/_console.py", "print"),
        ("classify/fit_folder.py", "csv.writer"),
        ("_progress.py", "print"),  # words of its own and numbers, in a notebook
        ("training/checkpoint.py", "print"),  # a sentence of its own, when Ctrl-C is pressed
    }


def test_a_model_with_such_classes_is_the_same_after_reading(found, tmp_path):
    model = found.model
    save(model, tmp_path / "model")
    again = tokenmargin.load(tmp_path / "model")
    assert again.classes == model.classes == tuple(sorted(CLASSES))
    np.testing.assert_array_equal(again.predict_proba(["awful"]), model.predict_proba(["awful"]))
