"""The example package of docs/add-a-paper.md, installed and taken through every command that shows a paper."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tokenmargin

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "paper"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the installed example in `site`; built from a copy, as building leaves files behind."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder / "paper", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    offline = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "site", folder / "paper"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def beside(place: Path) -> dict[str, str]:
    """An environment in which the example is installed beside this tree."""
    path = os.pathsep.join([str(place / "site"), str(Path(tokenmargin.__file__).parents[1])])
    return os.environ | {"PYTHONPATH": path, "COLUMNS": "300"}


def run(place: Path, *words: str, code: int = 0) -> str:
    """What `tokenmargin WORDS` prints where the example is installed."""
    command = [sys.executable, "-m", "tokenmargin", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, env=beside(place))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_list_shows_the_paper_its_figure_and_its_claim_beside_ours(place):
    shown = run(place, "list")
    for words in ("Two Tokens, an Example", "two_tokens-fig1", "two_tokens-thm1", "maxmargin-thm2", "embeddings-fig1"):
        assert words in shown
    assert shown.index("embeddings-fig1") < shown.index("two_tokens-fig1")  # by their years
    assert "[Example, Thm 1] | For any two tokens." in run(place, "list", "--errata", "--paper", "two_tokens")


def test_its_claim_is_checked_and_gathers_evidence(place):
    rows = [line for line in run(place, "check", "two_tokens-thm1").splitlines() if "two_tokens-thm1" in line]
    assert [re.split(r"\s+│\s+", row)[2:5] for row in rows] == [["inside", "yes", "yes"], ["outside", "no", "-"]]
    assert "'thm1' is the ending of more than one claim: write maxmargin-thm1 or two_tokens-thm1." in run(
        place, "check", "thm1", code=2
    )
    run(place, "check", "two_tokens-thm1", "--instances", "5", "--out", "evidence.json")
    page = run(place, "check", "--markdown", "--paper", "two_tokens", "--evidence", "evidence.json")
    assert "## `two_tokens-thm1` [Example, Thm 1]: **holds**" in page
    assert "Checked in `two_tokens/claims.py`" in page
    assert "| 5 | 5 | 5 | 0 | 0 | *its mutation* 5 of 5 |" in page


def test_its_figure_is_reproduced_and_shown_on_the_page_of_results(place):
    shown = run(place, "reproduce", "two_tokens-fig1", "--steps", "50")
    assert "claim two_tokens-thm1" in shown
    page = (place / "results" / "index.html").read_text()
    assert "Descent leaves its start along the difference of two keys" in page
    assert "[Example, Fig. 1]" in page
    assert "gradient flow from 0 goes towards the better key" in page
    (place / "results" / "index.html").unlink()
    run(place, "report")
    assert (place / "results" / "index.html").read_text() == page


def test_parts_of_a_study_are_not_taken_up_when_its_code_changes(place):
    code = "from tokenmargin.experiments import store; print(store.study_computed_by()['code of two_tokens'])"

    def fingerprint() -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=beside(place)).stdout

    before, module = fingerprint(), place / "site" / "two_tokens" / "laws.py"
    assert fingerprint() == before
    text = module.read_text()
    module.write_text(text + "\n")
    assert fingerprint() != before
    module.write_text(text)


def test_the_page_shows_the_files_of_the_example():
    page = (ROOT / "docs" / "add-a-paper.md").read_text()
    shown = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page, flags=re.MULTILINE | re.DOTALL)
    assert len(shown) >= 3
    for name, block in shown:
        assert block in (EXAMPLE / name).read_text(), name
