"""Whole studies on a cluster, from the command line down: the bytes of the local run, also when a worker is killed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from tests.classify.corpora import texts
from tests.cli.test_reproduce import fake
from tokenmargin import cli
from tokenmargin.classify import FitSettings, fit_texts
from tokenmargin.experiments import registry, store
from tokenmargin.experiments.experiment import Result
from tokenmargin.papers.embeddings import selection_study
from tokenmargin.papers.embeddings.selection_study import Theorem5Study, theorem5_study
from tokenmargin.papers.maxmargin.figures import fig09_10_trials as trials
from tokenmargin.parallel import cluster_map
from tokenmargin.text import plain_recipe


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks are cut in the process that asks, so workers need not know."""
    monkeypatch.setattr(trials, "BLOCK", 2)
    monkeypatch.setattr(selection_study, "BLOCK", 2)


def _pid(_):
    return os.getpid()


class KillsOnce:
    """Progress that kills a worker as soon as the first block is done, and remembers what it was told."""

    def __init__(self, pid):
        self.pid, self.killed, self.told = pid, False, []

    def __call__(self, done, total, what):
        self.told.append((done, total, what))
        if not self.killed:
            self.killed = True
            os.kill(self.pid, signal.SIGKILL)


def test_random_trials_lose_none_and_double_none_when_a_worker_is_killed(scheduler, small_blocks, tmp_path):
    """One treatment of the figure, with its folder of finished blocks; all three would compile for a minute."""
    settings = trials.Settings(trials=12, n=2, T=3, d=(4,), steps=20, resume=str(tmp_path))
    told = []
    here = trials._table(replace(settings, resume=""), 0, "printed", lambda *now: told.append(now), map)
    with cluster_map(scheduler) as over:
        kills = KillsOnce(next(iter(over(_pid, [0]))))
        there = trials._table(settings, 0, "printed", kills, over)
    assert kills.killed
    assert kills.told == told  # every block once, in order
    assert len(list(tmp_path.glob("*.npz"))) == 6
    assert [row.tobytes() for row in there.rows[4]] == [row.tobytes() for row in here.rows[4]]
    again = trials._table(settings, 0, "printed", kills, _no_map)
    assert [row.tobytes() for row in again.rows[4]] == [row.tobytes() for row in here.rows[4]]


def _no_map(function, blocks):
    """All blocks are in the folder, so none is asked for."""
    assert not blocks
    return []


def test_a_theorem_sweep_hands_its_blocks_to_the_map(small_blocks):
    """In this process: `python -m benchmarks.parallel` compares the bytes of a cluster, which compiles for long."""
    study, asked = Theorem5Study(sets=4, sizes=((2, 2),), explicit_log10_d=2.0), []

    def counting(function, blocks):
        for block in blocks:
            asked.append(len(block))
            yield function(block)

    rows = theorem5_study(study, map=counting)
    assert asked == [2, 2]
    assert rows.tobytes() == theorem5_study(study).tobytes()
    assert rows.tobytes() != theorem5_study(study, seed=1).tobytes()


def test_bootstraps_and_counting_of_a_fit_have_the_bytes_of_the_local_run(scheduler):
    settings = FitSettings(plain_recipe(minimum_count=2), bootstrap=3, show_texts=False)
    corpus = texts(n=120)
    here = fit_texts(corpus, settings)
    with cluster_map(scheduler) as over:
        there = fit_texts(corpus, settings, map=over)
    assert here.tokens.spread.any()
    for name, column in here.tokens.columns().items():
        if column.dtype != object:
            assert column.tobytes() == there.tokens.columns()[name].tobytes(), name
    assert here.metrics == there.metrics


# --- the flag ---------------------------------------------------------------------------------------------------------


def test_reproduce_takes_a_scheduler_and_hands_its_map_to_the_study(scheduler, tmp_path, capsys, monkeypatch):
    def compute(config, key, progress, map):
        return Result({"pids": np.array(list(map(_pid, range(6))))}, ())

    study = replace(fake(compute), spreads=True)
    monkeypatch.setattr(registry, "experiments", lambda: {study.id: study})
    assert run("reproduce", study.id, "--out", tmp_path, "--scheduler", scheduler) == 0
    pids = store.load(tmp_path / study.id / "smoke").result.arrays["pids"]
    assert os.getpid() not in pids
    assert run("reproduce", study.id, "--out", tmp_path) == 0
    assert set(store.load(tmp_path / study.id / "smoke").result.arrays["pids"]) == {os.getpid()}


def test_check_takes_a_scheduler(scheduler, capsys):
    shown = []
    for more in ((), ("--scheduler", scheduler)):
        assert run("check", "maxmargin-lemma5", *more) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "inside" in shown[0]


def test_fit_takes_an_address_and_does_not_record_it(scheduler, tmp_path, capsys):
    table = tmp_path / "reviews.csv"
    corpus = texts(n=120)
    lines = [f'"{text}",{label}' for text, label in zip(corpus.texts, corpus.labels, strict=True)]
    table.write_text("\n".join(["text,label", *lines]))
    for more in ((), ("--scheduler", scheduler)):
        assert run("fit", table, "--bootstrap", 2, "--quiet", "--out", tmp_path / f"out{len(more)}", *more) == 0
    for name in ("tokens.csv", "metrics.json"):
        assert (tmp_path / "out0" / name).read_bytes() == (tmp_path / "out2" / name).read_bytes()
    assert scheduler not in (tmp_path / "out2" / "manifest.json").read_text()


def test_a_figure_of_one_piece_refuses_a_scheduler(capsys):
    assert run("reproduce", "maxmargin-fig4", "--scheduler", "tcp://127.0.0.1:9") == 2
    said = capsys.readouterr().err
    assert "maxmargin-fig4 is computed in one piece: --scheduler is for maxmargin-fig9" in said


def test_an_address_without_a_scheduler_is_one_line(capsys):
    assert run("check", "maxmargin-lemma5", "--scheduler", "nonsense:") == 2
    assert capsys.readouterr().err.startswith("tokenmargin: no scheduler answers at 'nonsense:'")
