"""The command line as a user meets it: exit codes, one-line complaints, help that teaches."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tokenmargin import cli


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


def test_no_arguments_teach(capsys):
    assert run() == 0
    assert "tokenmargin reproduce maxmargin-fig1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reproduce",), "tokenmargin list"),
        (("reproduce", "fig99"), "no figure is called 'fig99'"),
        (("reproduce", "maxmargin-fig4", "--preset", "huge"), "--preset"),
        (("reproduce", "maxmargin-fig4", "--colour", "red"), "--help lists its flags"),
        (("reproduce", "maxmargin-fig4", "--steps", "many"), "--help lists its flags"),
        (("reproduce", "maxmargin-fig4", "--steps", "0"), "less than 1"),
        (("reproduce", "embeddings-fig1", "--epochs", "0"), "less than 1"),
        (("reproduce", "embeddings-fig1", "--documents", "-5"), "less than 0"),
        (("reproduce", "maxmargin-fig4", "--out", __file__), "is a file"),
        (("reproduce", "maxmargin-fig4", "--out", f"{__file__}/below"), "below a file"),
        (("reproduce", "maxmargin-fig4", "--out", "/proc/nowhere"), "nothing can be written"),
        (("reproduce", "all", "--steps", "3"), "exactly one figure"),
        (("check", "thm99"), "no claim is called"),
        (("check", "maxmargin-thm1", "--paper", "embeddings"), "no claim of the paper 'embeddings' is called"),
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


def test_installed_command(tmp_path):
    out = subprocess.run([sys.executable, "-m", "tokenmargin.cli", "--version"], capture_output=True, text=True)
    assert out.returncode == 0
    assert out.stdout.startswith("tokenmargin ")


def test_the_package_itself_is_the_command():
    out = subprocess.run([sys.executable, "-m", "tokenmargin", "frobnicate"], capture_output=True, text=True)
    assert out.returncode == 2
    assert out.stderr.startswith("tokenmargin: ")


def test_help_is_light():
    """What only a command needs is imported by that command."""
    heavy = ["rich", "jinja2", "matplotlib", "daqp", "tokenmargin.experiments", "tokenmargin.report"]
    code = (
        "import sys\nfrom tokenmargin.cli import main\nassert main([]) == 0\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "[]"


def test_an_interruption_is_said_and_has_the_shells_exit_code(monkeypatch, capsys):
    from tokenmargin.experiments import registry

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "experiments", interrupt)
    assert run("reproduce", "maxmargin-fig4", "--preset", "paper") == 130
    said = capsys.readouterr().err
    assert "interrupted" in said
    assert "To go on: tokenmargin reproduce maxmargin-fig4 --preset paper" in said


def test_a_missing_extra_is_noticed_before_computing(monkeypatch, tmp_path, capsys):
    from tokenmargin.experiments import run as running

    monkeypatch.setattr(running, "find_spec", lambda name: None)
    monkeypatch.setattr(running, "reproduce", lambda *a, **k: pytest.fail("it began to compute"))
    assert run("reproduce", "maxmargin-fig4", "--out", str(tmp_path)) == 2
    assert "tokenmargin[figures]" in capsys.readouterr().err


def test_data_that_are_absent_have_an_exit_code_of_their_own_when_a_figure_was_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TOKENMARGIN_DATA", str(tmp_path))
    assert run("reproduce", "embeddings-fig1", "--out", str(tmp_path / "out")) == 3
    assert "data absent" in capsys.readouterr().out


def test_a_full_disk_loses_nothing(monkeypatch, tmp_path, capsys):
    import errno

    from tokenmargin.experiments import store

    assert run("reproduce", "maxmargin-fig4", "--out", str(tmp_path)) == 0
    folder = tmp_path / "maxmargin-fig4" / "smoke"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(path, **arrays):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(store, "write_arrays", full)
    capsys.readouterr()
    assert run("reproduce", "maxmargin-fig4", "--out", str(tmp_path), "--seed", "1") == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert len(said.strip().splitlines()) == 1
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert not [path for path in tmp_path.rglob(".*") if path.is_dir()]


def test_a_truncated_result_is_one_line(tmp_path, capsys):
    assert run("reproduce", "maxmargin-fig4", "--out", str(tmp_path)) == 0
    file = tmp_path / "maxmargin-fig4" / "smoke" / "result.npz"
    file.write_bytes(file.read_bytes()[:200])
    capsys.readouterr()
    assert run("report", str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert "cannot be read" in said
    assert len(said.strip().splitlines()) == 1
