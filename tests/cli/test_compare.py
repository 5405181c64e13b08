"""`tokenmargin compare` as a user meets it: a folder with one page and its numbers."""

from __future__ import annotations

import csv
import json

import pytest

from tests.classify.corpora import texts
from tokenmargin import cli

QUICK = ("--explained", "24", "--resamples", "1", "--methods", "tfidf_coefficient,occlusion,random")


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    corpus = texts(n=160)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "sentiment"])
        writer.writerows(zip(corpus.texts, corpus.labels, strict=True))
    return path


def test_a_comparison_is_a_page_its_numbers_and_how_it_was_made(reviews, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("compare", reviews, "--out", out, *QUICK) == 0
    assert sorted(path.name for path in out.iterdir()) == ["comparison.html", "comparison.json", "manifest.json"]
    said = capsys.readouterr().out
    headings = ("Where ours loses", "Ties: within chance", "Where ours wins")
    there = [said.index(heading) for heading in headings if heading in said]
    assert len(there) >= 2
    assert there == sorted(there)
    assert "comparison.html" in said
    told = json.loads((out / "comparison.json").read_text())
    assert [row["method"] for row in told["classifiers"][0]["rows"]] == [
        "attention_value",
        "tfidf_coefficient",
        "occlusion",
        "random",
    ]
    assert told["texts_explained"] == 24
    assert json.loads((out / "manifest.json").read_text())["command"].startswith("tokenmargin compare")


def test_no_texts_leave_where_none_may(reviews, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("compare", reviews, "--out", out, *QUICK, "--no-texts", "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "comparison.json").read_text())
    for name in ("comparison.html", "comparison.json"):
        content = (out / name).read_text()
        assert [text for text in texts(n=160).texts if text in content] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("compare", "nowhere.csv"), "nowhere.csv"),
        (("compare", "--explained", "0"), "less than 1"),
        (("compare", "--methods", "divination"), "no method is called 'divination'"),
        (("compare", "--budget", "0"), "budget must be a positive finite number"),
        (("compare", "--frobnicate"), "does not know"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(arguments, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    complaint = capsys.readouterr().err.strip()
    assert says in complaint
    assert len(complaint.splitlines()) == 1
