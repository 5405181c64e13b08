"""`tokenmargin reproduce`: what it writes, its verdicts as exit codes, flags from the figure's configuration."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from tokenmargin import cli
from tokenmargin._sentences import ABSENT
from tokenmargin.cli._exit import INTERNAL
from tokenmargin.errors import DataAbsentError
from tokenmargin.experiments import registry
from tokenmargin.experiments.experiment import Config, Experiment, Number, Relation, Result


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


def test_reproduce_writes_results_and_a_page(capsys, tmp_path):
    assert run("reproduce", "maxmargin-fig4", "--out", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "holds" in shown
    assert str(tmp_path / "index.html") in shown
    assert (tmp_path / "index.html").is_file()
    assert (tmp_path / "maxmargin-fig4" / "smoke" / "figure.png").is_file()


def test_flags_come_from_the_configuration(tmp_path):
    assert run("reproduce", "maxmargin-fig4", "--out", str(tmp_path), "--steps", "60", "--lr", "0.5") == 0
    folder = tmp_path / "maxmargin-fig4" / "smoke"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["config"]["steps"] == 60
    assert manifest["config"]["lr"] == 0.5
    assert manifest["command"].endswith("--steps 60 --lr 0.5")
    rows = json.loads((folder / "summary.json").read_text())["numbers"]
    assert {row["verdict"] for row in rows} == {"not comparable"}


@pytest.mark.parametrize("name", registry.experiments())
def test_help_of_a_figure_lists_its_hyper_parameters(name, capsys):
    with pytest.raises(SystemExit) as stop:
        run("reproduce", name, "--help")
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    for field in dataclasses.fields(registry.experiments()[name].config):
        assert f"--{field.name.replace('_', '-')}" in shown


def fake(compute) -> Experiment:
    class Nothing(Config):
        @classmethod
        def smoke(cls):
            return cls()

        paper = smoke

    def draw(result):
        from tokenmargin.plots import canvas

        return canvas.panels(1, 1, 2, 2)[0]

    return Experiment("maxmargin-fake", "A fake", "M", "Fig. 1", Nothing, compute, draw)


def test_a_failing_verdict_is_exit_code_1(monkeypatch, tmp_path, capsys):
    wrong = fake(lambda *_: Result({}, (Number.exact("pi", 3.0, 3.14159, 1e-3),), ("A sentence.",)))
    monkeypatch.setattr(registry, "experiments", lambda: {wrong.id: wrong})
    assert run("reproduce", "all", "--out", str(tmp_path)) == 1
    assert "FAILS  maxmargin-fake: pi" in capsys.readouterr().err


def test_a_paper_that_is_refuted_is_a_finding_and_exit_code_0(monkeypatch, tmp_path, capsys):
    below = {"place": "App. E", "relation": Relation.BELOW, "interval": (0.011, 0.014)}
    numbers = (
        Number("share", 0.012, paper=0.01, at_most=0.02, **below),
        Number("steps down", 2.0, at_most=0.0, says="a V is drawn", place="Fig. 1"),
        Number("count", 1.0, at_most=1.0),
    )
    found = fake(lambda *_: Result({}, numbers, ("A sentence.",)))
    monkeypatch.setattr(registry, "experiments", lambda: {found.id: found})
    assert run("reproduce", "all", "--preset", "paper", "--out", str(tmp_path)) == 0
    shown = capsys.readouterr()
    said = "finding: maxmargin-fake: share: the paper says < 0.01 (App. E), here 0.012 (0.011 to 0.014)"
    assert said in shown.out
    assert "finding: maxmargin-fake: steps down: the paper says a V is drawn (Fig. 1), here 2" in shown.out
    assert "FAILS" not in shown.err
    rows = json.loads((tmp_path / "maxmargin-fake" / "paper" / "summary.json").read_text())["numbers"]
    assert [row["verdict"] for row in rows] == ["finding", "finding", "holds"]
    assert [row["paper"] for row in rows] == [0.01, None, None], "the paper's column has what it prints, and no more"
    page = (tmp_path / "index.html").read_text()
    assert "Of 3 numbers that could be judged, 1 holds, 2 refute the paper." in page
    assert "finding: 2 of 3" in page

    wrong = dataclasses.replace(numbers[0], value=0.03, interval=(0.025, 0.035))
    failing = fake(lambda *_: Result({}, (wrong,)))
    monkeypatch.setattr(registry, "experiments", lambda: {failing.id: failing})
    assert run("reproduce", "all", "--preset", "paper", "--out", str(tmp_path)) == 1
    assert "FAILS  maxmargin-fake: share" in capsys.readouterr().err


def test_the_papers_number_and_what_is_expected_have_columns_of_their_own(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    numbers = (
        Number.exact("pi", 3.14, paper=3.1416, place="Sec. 1", tolerance=0.1),
        Number.exact("e", 2.7, 2.71828, 0.1, source="closed form"),
    )
    figure = fake(lambda *_: Result({}, numbers))
    monkeypatch.setattr(registry, "experiments", lambda: {figure.id: figure})
    assert run("reproduce", "all", "--out", str(tmp_path)) == 0
    shown = [[cell.strip() for cell in re.split("[│┃]", line)] for line in capsys.readouterr().out.splitlines()]
    assert ["number", "ours", "the paper's", "expected", "verdict"] in shown
    assert ["pi", "3.14", "3.1416 (Sec. 1)", ABSENT, "holds"] in shown
    assert ["e", "2.7", ABSENT, "2.71828 (closed form)", "holds"] in shown


def test_absent_data_is_listed_and_does_not_fail(monkeypatch, tmp_path, capsys):
    def no_data(*_):
        raise DataAbsentError("imdb was not found: set TOKENMARGIN_DATA")

    absent = fake(no_data)
    good = registry.experiments()["maxmargin-fig4"]
    monkeypatch.setattr(registry, "experiments", lambda: {absent.id: absent, good.id: good})
    assert run("reproduce", "all", "--out", str(tmp_path)) == 0
    assert "not reproduced: data absent" in capsys.readouterr().out
    assert "not reproduced: data absent" in (tmp_path / "index.html").read_text()


def test_an_error_in_a_figure_is_not_swallowed(monkeypatch, tmp_path, capsys):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(registry, "experiments", lambda: {"maxmargin-fake": fake(broken)})
    assert run("reproduce", "all", "--out", str(tmp_path)) == INTERNAL
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_without_matplotlib_the_remedy_is_named(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from tokenmargin.cli import main\n"
        f"sys.exit(main(['reproduce', 'maxmargin-fig4', '--out', {str(tmp_path)!r}]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 2
    assert "pip install 'tokenmargin[figures]'" in out.stderr
    assert list(tmp_path.glob("*/*")) == []


def test_a_preset_that_a_figure_lacks_is_named(tmp_path, capsys):
    assert cli.main(["reproduce", "maxmargin-fig4", "--preset", "cpu", "--out", str(tmp_path)]) == 2
    assert "has no preset 'cpu': it has smoke, paper" in capsys.readouterr().err


def test_ctrl_c_in_a_training_saves_names_the_command_and_goes_on(monkeypatch, tmp_path, capsys):
    import signal
    from dataclasses import dataclass

    import numpy as np

    from tokenmargin.data import TokenDataset
    from tokenmargin.models import OneLayer
    from tokenmargin.training import AdamW, Checkpoint, train

    @dataclass(frozen=True)
    class Resumed(Config):
        resume: str = ""

        @classmethod
        def smoke(cls):
            return cls()

        paper = smoke

    seen = []

    def press(epoch, _):
        seen.append(epoch)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGINT)

    def compute(config, key, progress):
        data = TokenDataset(np.eye(4), [1, -1, 1, -1])
        run = train(
            data, OneLayer(width=2), AdamW(), epochs=4, key=key, checkpoint=Checkpoint(config.resume), on_epoch=press
        )
        return Result({"loss": run.records.loss}, (Number("loss", float(run.records.loss[-1])),))

    experiment = dataclasses.replace(fake(compute), config=Resumed)
    monkeypatch.setattr(registry, "experiments", lambda: {"maxmargin-fake": experiment})
    command = ["reproduce", "maxmargin-fake", "--out", str(tmp_path)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert run(*command) == 130
        assert f"To go on: tokenmargin {' '.join(command)}" in capsys.readouterr().err
        assert run(*command) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1, 2, 3, 4]
    assert [path.name for path in tmp_path.glob(".*")] == []
