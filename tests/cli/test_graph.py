"""`tokenmargin graph` as a user meets it: a folder with one page and its numbers."""

from __future__ import annotations

import json

import pytest

from tests.theory.test_word_graphs import TEXTS
from tokenmargin import cli


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "cats.txt"
    path.write_text("\n".join([*TEXTS, "<b>odd</b> the odd of the"]) + "\n")
    return path


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_a_graph_is_a_page_its_numbers_and_how_it_was_made(corpus, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("graph", corpus, "--out", out, "--trained", 0, "--window", 4) == 0
    assert sorted(path.name for path in out.iterdir()) == ["graph.html", "graph.json", "manifest.json"]
    said = capsys.readouterr().out
    assert "the next word" in said
    assert "graph.html" in said
    told = json.loads((out / "graph.json").read_text())
    assert told["competitions"][0]["last"] == "of"
    page = (out / "graph.html").read_text()
    first_screen = page[: page.index("After other words")]
    for words in ("Compete for ever", "Ruled out", "the", "windows", "pairs tied"):
        assert words in first_screen
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    made = json.loads((out / "manifest.json").read_text())
    assert made["settings"]["window"] == 4
    assert list(made["files"]) == ["cats.txt"]


def test_words_asked_for_and_numbers_printed(corpus, tmp_path, capsys):
    assert run("graph", corpus, "--out", tmp_path / "b", "--trained", 0, "--after", "of", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["last"] for one in told["competitions"]] == ["of"]
    assert run("graph", corpus, "--out", tmp_path / "c", "--after", "zebra") == 2
    assert "no window ends in 'zebra'" in capsys.readouterr().err
    assert run("graph", corpus, "--out", tmp_path / "d", "--window", 1) == 2
    assert run("graph", tmp_path / "absent.txt", "--out", tmp_path / "e") == 2
