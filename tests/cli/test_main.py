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
    assert run("list") == 130
    assert "interrupted" in capsys.readouterr().err
