"""The command line as a user meets it: exit codes, one-line complaints, flags from the figure's configuration."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tokenmargin import cli
from tokenmargin.errors import DataAbsentError
from tokenmargin.experiments import registry
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


def test_list_names_every_figure(capsys):
    assert run("list") == 0
    shown = capsys.readouterr().out
    for name in registry.experiments():
        assert name in shown


def test_no_arguments_teach(capsys):
    assert run() == 0
    assert "tokenmargin reproduce maxmargin-fig1" in capsys.readouterr().out


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
    import dataclasses

    with pytest.raises(SystemExit) as stop:
        run("reproduce", name, "--help")
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    for field in dataclasses.fields(registry.experiments()[name].config):
        assert f"--{field.name.replace('_', '-')}" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reproduce",), "tokenmargin list"),
        (("reproduce", "fig99"), "no figure is called 'fig99'"),
        (("reproduce", "maxmargin-fig4", "--preset", "huge"), "--preset"),
        (("reproduce", "maxmargin-fig4", "--colour", "red"), "--help lists its flags"),
        (("reproduce", "maxmargin-fig4", "--steps", "many"), "--help lists its flags"),
        (("reproduce", "all", "--steps", "3"), "exactly one figure"),
        (("check", "thm99"), "no claim is called"),
        (("check", "maxmargin-thm1", "--paper", "embeddings"), "none of these claims is of the paper"),
        (("frobnicate",), "invalid choice"),
        (("list", "extra"), "does not know"),
        (("report", "nowhere"), "tokenmargin reproduce"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(arguments, says, capsys):
    assert run(*arguments) == 2
    complaint = capsys.readouterr().err.strip()
    assert says in complaint
    assert len(complaint.splitlines()) == 1


def test_check_prints_a_row_inside_and_outside(capsys):
    assert run("check", "maxmargin-thm2") == 0
    shown = capsys.readouterr().out
    assert "inside" in shown
    assert "outside" in shown
    assert run("check", "--paper", "maxmargin") == 0


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


def test_absent_data_is_listed_and_does_not_fail(monkeypatch, tmp_path, capsys):
    def no_data(*_):
        raise DataAbsentError("imdb was not found: set TOKENMARGIN_DATA")

    absent = fake(no_data)
    good = registry.experiments()["maxmargin-fig4"]
    monkeypatch.setattr(registry, "experiments", lambda: {absent.id: absent, good.id: good})
    assert run("reproduce", "all", "--out", str(tmp_path)) == 0
    assert "not reproduced: data absent" in capsys.readouterr().out
    assert "not reproduced: data absent" in (tmp_path / "index.html").read_text()


def test_an_error_in_a_figure_is_not_swallowed(monkeypatch, tmp_path):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(registry, "experiments", lambda: {"maxmargin-fake": fake(broken)})
    with pytest.raises(RuntimeError, match="a bug"):
        run("reproduce", "all", "--out", str(tmp_path))


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


def test_installed_command(tmp_path):
    out = subprocess.run([sys.executable, "-m", "tokenmargin.cli", "--version"], capture_output=True, text=True)
    assert out.returncode == 0
    assert out.stdout.startswith("tokenmargin ")


def test_check_a_problem_of_ones_own(tmp_path, capsys):
    import numpy as np

    from tests.instances import fig1a, fig1b

    for name, data in (("global", fig1a()), ("local", fig1b())):
        path = tmp_path / f"{name}.npz"
        np.savez(path, tokens=data.tokens, labels=data.labels, head=data.head, keys=data.keys, start=[0.0, -1.5])
        assert run("check", "maxmargin-thm2", "--problem", str(path)) == 0
    shown = capsys.readouterr().out
    assert "yes" in shown  # Assumption B holds in the global data
    assert "no" in shown  # and not in the local
    np.savez(tmp_path / "bad.npz", tokens=np.ones((1, 2, 3)))
    assert run("check", "--problem", str(tmp_path / "bad.npz")) == 2
    assert run("check", "--problem", str(tmp_path / "absent.npz")) == 2
    (tmp_path / "text.npz").write_text("hello")
    assert run("check", "--problem", str(tmp_path / "text.npz")) == 2
    np.savez(tmp_path / "odd.npz", tokens=np.ones((1, 2, 3)), labels=[1], head=[1, 1, 1], colour=[1])
    assert run("check", "--problem", str(tmp_path / "odd.npz")) == 2
    complaints = capsys.readouterr().err.strip().splitlines()
    assert len(complaints) == 4


def test_a_preset_that_a_figure_lacks_is_named(tmp_path, capsys):
    assert cli.main(["reproduce", "maxmargin-fig4", "--preset", "cpu", "--out", str(tmp_path)]) == 2
    assert "has no preset 'cpu': it has smoke, paper" in capsys.readouterr().err
