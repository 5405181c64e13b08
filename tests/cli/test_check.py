"""`tokenmargin check` on the claims' own instances, and on problems of a user's."""

from __future__ import annotations

from tokenmargin import cli


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


def test_check_prints_a_row_inside_and_outside(capsys):
    assert run("check", "maxmargin-thm2") == 0
    shown = capsys.readouterr().out
    assert "inside" in shown
    assert "outside" in shown
    assert run("check", "--paper", "maxmargin") == 0


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
