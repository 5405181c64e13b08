"""Runs under docs/results are of today's columns, settings and verdicts, and of commits that are in the history."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path

import pytest
from benchmarks.full_scale import MADE, PLACES, configured, is_made, make_all
from benchmarks.published import RUNS as COMMANDS
from benchmarks.published import Run
from benchmarks.published_page import release_of, table
from benchmarks.run_code import code_of, roots, tree_here, tree_of

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


def study_code_of(commit: str) -> str:
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
    "embeddings-reading-500",
    "embeddings-reading-500-slow",
    "embeddings-reading-500-slow-two",
    "transformers_as_svms-rank",
}


#: Fields that settings have got since a run was made, whose default is what the run had.
ADDED_SINCE = {"maxmargin-fig6": {"decay"}, "maxmargin-fig7": {"decay"}}


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
        added = {field.name for field in fields(experiment.config)} ^ set(manifest["config"])
        assert added <= ADDED_SINCE.get(experiment.id, set())
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
        assert (study_code_of(training["commit"]) == training["code"]) == (name not in FOLDED)


def test_a_run_of_no_commit_is_noticed():
    if not history():
        pytest.skip("no history of commits is here")
    assert not is_in_history("53a41820ff9e")


def test_every_folder_has_a_command_and_every_command_a_folder_or_a_reason():
    there = {path.name for path in (ROOT / "docs" / "results").iterdir()}
    assert there == {name for name, run in COMMANDS.items() if not run.planned}


@pytest.mark.parametrize("name", [name for name, run in COMMANDS.items() if run.figure])
def test_the_command_of_a_figure_is_that_of_its_manifest(name):
    """And at smoke size its flags are understood: who has a GPU types what was tried without."""
    own = json.loads(json.dumps(asdict(configured(COMMANDS[name]))))
    configured(COMMANDS[name], smoke=True)
    if name in RUNS:
        published = read(name, "manifest")
        assert published["command"].split()[2] == COMMANDS[name].figure
        changed = {key for key, value in published["config"].items() if own[key] != value}
        assert changed <= set(PLACES)


def test_the_page_of_published_runs_is_that_of_their_manifests():
    if not history():
        pytest.skip("no history of commits is here")
    assert is_in_history(release_of())
    assert (ROOT / "docs" / "published.md").read_text() == table(release_of())


class TestCode:
    """The modules that a run computes with."""

    def test_they_are_all_that_a_figure_loads(self):
        """What a process has loaded after a figure's module and `reproduce`, but for claims and other papers' lists."""
        figure = roots(COMMANDS["embeddings-fig1"])
        script = f"import sys, {', '.join(figure)}; print(*[m for m in sys.modules if m.startswith('tokenmargin')])"
        loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        paths = {path for name in loaded.split() if (path := tree_here().path_of(name))}
        modules = {path for path in paths if not path.endswith(("/__init__.py", "/_lazy.py"))}  # they find names
        found = set(code_of(COMMANDS["embeddings-fig1"], tree_here()))
        assert len(modules) > 50
        assert modules <= found
        assert not any("next_token" in path or "/classify/" in path for path in found)

    def test_a_change_is_noticed_where_it_is_computed_with_and_nowhere_else(self):
        here, run = tree_here(), COMMANDS["transformers_as_svms-rank"]
        own = code_of(run, here)

        def changed(path):
            return code_of(run, replace(here, digests={**here.digests, path: "another"})) != own

        assert changed("src/tokenmargin/margin/att_svm.py")
        assert not changed("src/tokenmargin/classify/fitting.py")
        assert not changed("src/tokenmargin/papers/embeddings/case.py")

    def test_a_study_of_all_code_is_of_all_code(self):
        assert code_of(COMMANDS["mutation"], tree_here()) == dict(tree_here().digests)

    def test_a_commit_has_the_digests_that_its_files_have_here(self):
        if not history() or git("status", "--porcelain", "--", "src", "benchmarks").strip():
            pytest.skip("no history of commits is here, or files that were changed")
        assert tree_of("HEAD").digests == tree_here().digests


class TestAll:
    """Runs are made in processes, in pieces, once."""

    QUICK = Run(name="quick", commands=("python -c print(1)",), smoke=("python -c print(2)",), files=("said.txt",))

    @pytest.fixture
    def quick(self, monkeypatch):
        """A run whose process is this one."""
        from benchmarks import full_scale

        monkeypatch.setitem(COMMANDS, "quick", self.QUICK)
        asked = []

        def in_this(out, run, seconds, smoke, processes):
            asked.append(seconds)
            return full_scale.make_one(out, run, smoke)

        monkeypatch.setattr(full_scale, "in_a_process", in_this)
        return asked

    def test_a_run_is_made_once_and_smoke_is_not_the_run(self, quick, tmp_path):
        for smoke, said in ((True, "2\n"), (False, "1\n")):
            for _ in range(2):
                assert make_all(tmp_path, [self.QUICK], None, smoke) == 0
            assert (tmp_path / "runs" / "quick" / "said.txt").read_text() == said
        assert quick == [None, None]

    def test_a_run_of_other_code_is_made_again(self, quick, tmp_path):
        make_all(tmp_path, [self.QUICK], None, True)
        file = tmp_path / "runs" / "quick" / MADE
        file.write_text(file.read_text().replace('"code": "', '"code": "0'))
        assert not is_made(tmp_path, self.QUICK, True)
        make_all(tmp_path, [self.QUICK], None, True)
        assert len(quick) == 2

    def test_without_time_nothing_is_begun_and_the_command_says_so(self, quick, tmp_path, capsys):
        assert make_all(tmp_path, [self.QUICK], 0.0, True) == 75
        assert "the command goes on: quick" in capsys.readouterr().out
        assert quick == []

    def test_a_process_that_takes_too_long_is_ended_and_noted(self, tmp_path, monkeypatch, capsys):
        from benchmarks import full_scale

        slow = Run(name="slow", commands=("sleep 60",), smoke=("sleep 60",), files=("said.txt",))
        endless = tmp_path / "python"
        endless.write_text("#!/bin/sh\nexec sleep 60\n")
        endless.chmod(0o755)
        monkeypatch.setattr(full_scale, "LEAST", 0.0)
        monkeypatch.setattr(full_scale.sys, "executable", str(endless))
        assert make_all(tmp_path, [slow], 0.03, True) == 75
        pieces = json.loads((tmp_path / "runs" / "slow" / "pieces.json").read_text())
        assert [piece["smoke"] for piece in pieces] == [True]
        assert pieces[0]["seconds"] < 30
