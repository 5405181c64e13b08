from pathlib import Path

import pytest

from tokenmargin import cli
from tokenmargin.experiments.registry import experiments
from tokenmargin.theory import claims, papers

DOCS = Path(__file__).parents[2] / "docs"


def test_list_names_every_paper_figure_and_claim(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    for paper in papers().values():
        assert paper.title in shown
    for name in (*experiments(), *claims()):
        assert name in shown


def test_list_of_one_paper_names_no_other(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert cli.main(["list", "--paper", "embeddings"]) == 0
    shown = capsys.readouterr().out
    assert "embeddings-thm5" in shown
    assert "maxmargin" not in shown


@pytest.mark.parametrize("command", [["list"], ["check"]])
def test_a_paper_that_is_not_there_is_refused_with_those_that_are(command, capsys):
    assert cli.main([*command, "--paper", "nobody"]) == 2
    said = capsys.readouterr().err
    assert {"maxmargin", "embeddings", "transformers_as_svms", "next_token"} <= set(
        said.replace(",", "").replace(";", "").split()
    )


def test_the_page_of_errata_is_what_the_command_prints(capsys):
    assert cli.main(["list", "--errata"]) == 0
    assert capsys.readouterr().out == (DOCS / "errata.md").read_text()
