"""Runs under docs/results are of today's columns, settings and verdicts, and of commits that are in the history."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from tokenmargin.experiments.experiment import Number
from tokenmargin.experiments.registry import experiments

ROOT = Path(__file__).parent.parent
RUNS = {path.parent.name: path.parent for path in sorted((ROOT / "docs" / "results").glob("*/summary.json"))}

#: What every summary holds.
COLUMNS = {"id", "title", "in_plain_words", "paper", "figure", "preset", "claims", "numbers", "sentences", "tables"}


def read(name: str, file: str) -> dict:
    return json.loads((RUNS[name] / f"{file}.json").read_text())


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


@cache
def history() -> frozenset[str]:
    """Every commit from here back; nothing where there is no git, no checkout, or one without its past."""
    try:
        if git("rev-parse", "--is-shallow-repository").strip() == b"true":
            return frozenset()
        return frozenset(git("rev-list", "HEAD").decode().split())
    except (OSError, subprocess.CalledProcessError):
        return frozenset()


def is_in_history(commit: str) -> bool:
    return len(commit) >= 7 and any(full.startswith(commit) for full in history())


def code_of(commit: str) -> str:
    """The fingerprint that a study kept of the code that computed it, from the tree of a commit."""
    store = git("show", f"{commit}:src/tokenmargin/experiments/store.py").decode()
    listed = re.search(r"COMPUTED_BY = \((.*?)\)", store, flags=re.DOTALL)
    assert listed
    parts = ("_precision", *re.findall(r'"(\w+)"', listed[1]))
    lines = git("ls-tree", "-r", f"{commit}:src/tokenmargin").decode().splitlines()
    files = [(path, blob) for blob, path in (re.split(r"\s+", line, maxsplit=3)[2:] for line in lines)]
    own = [
        (p, b) for p, b in files if p.endswith(".py") and any(p == f"{x}.py" or p.startswith(f"{x}/") for x in parts)
    ]
    digests = (
        (path, hashlib.sha256(git("cat-file", "blob", blob)).hexdigest()) for path, blob in sorted(own, key=by_parts)
    )
    described = ",".join(f"tuple(str:{path!r},str:{digest!r})" for path, digest in digests)
    return hashlib.sha256(f"tuple({described})".encode()).hexdigest()[:16]


def by_parts(file: tuple[str, str]) -> list[str]:
    return file[0].split("/")


#: Runs of commits that were folded into one later: its tree is not theirs, and their manifests say so. None comes in:
#: a run that is made again leaves this list.
FOLDED = {
    "classifier",
    "embeddings-reading-500",
    "embeddings-reading-500-slow",
    "embeddings-reading-500-slow-two",
    "optimiser_geometry-attention",
    "planted",
    "transformers_as_svms-rank",
}


def test_only_the_listed_runs_are_of_a_folded_commit():
    manifests = (ROOT / "docs" / "results").glob("*/manifest.json")
    assert {path.parent.name for path in manifests if "folded" in json.loads(path.read_text())} == FOLDED


def test_there_are_runs_to_look_at():
    assert len(RUNS) >= 12


@pytest.mark.parametrize(
    "folder",
    sorted(path for path in (ROOT / "docs" / "results").iterdir() if path.is_dir()),
    ids=lambda path: path.name,
)
def test_every_folder_names_its_command_and_a_commit_of_the_history(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["command"]
    assert re.fullmatch(r"[0-9a-f]{7,40}( \(copied\))?", manifest["commit"])  # never "(changed)"
    if not history():
        pytest.skip("no history of commits is here")
    assert is_in_history(manifest["commit"].split()[0])


@pytest.mark.parametrize("name", RUNS)
class TestPublished:
    def test_columns_settings_and_verdicts_are_of_this_code(self, name):
        summary, manifest = read(name, "summary"), read(name, "manifest")
        experiment = experiments()[summary["id"]]
        assert name == experiment.id or name.startswith(f"{experiment.id}-")
        assert set(summary) == COLUMNS
        assert summary["title"] == experiment.title
        assert set(manifest["config"]) == {field.name for field in fields(experiment.config)}
        assert summary["numbers"]
        for row in summary["numbers"]:
            assert Number.from_row(row).row(summary["preset"])["verdict"] == row["verdict"]
        assert (RUNS[name] / "figure.png").is_file()

    def test_what_was_trained_before_it_was_judged_says_by_which_commit(self, name):
        trained = re.findall(r'code"?:? "?([0-9a-f]{16})', json.dumps(read(name, "summary")))
        training = read(name, "manifest").get("training")
        assert bool(trained) == (training is not None)
        if training is None:
            return
        assert set(trained) == {training["code"]}
        if not history():
            pytest.skip("no history of commits is here")
        assert is_in_history(training["commit"])
        assert (code_of(training["commit"]) == training["code"]) == (name not in FOLDED)


def test_a_run_of_no_commit_is_noticed():
    if not history():
        pytest.skip("no history of commits is here")
    assert not is_in_history("53a41820ff9e")
