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


def test_check_answers_for_every_claim_or_says_what_it_needs(tmp_path, capsys, monkeypatch):
    import numpy as np

    from tests.instances import fig1b
    from tokenmargin.theory.registry import claims

    monkeypatch.setenv("COLUMNS", "400")
    data, path = fig1b(), tmp_path / "mine.npz"
    np.savez(path, tokens=data.tokens, labels=data.labels, head=data.head, keys=data.keys)
    assert run("check", "--problem", str(path)) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "mine.npz" in line]
    assert [row.split()[0] for row in rows] == list(claims())
    by_key = {row.split()[0]: row for row in rows}
    assert "needs selection" in by_key["maxmargin-thm5"]
    assert "needs selection, start_v" in by_key["maxmargin-thm5-flow"]
    assert "needs counts, eta0, log10_d" in by_key["embeddings-thm5"]
    assert "needs" not in by_key["maxmargin-thm1"]


def test_a_file_that_lets_nothing_be_asked_is_a_misuse(tmp_path, capsys):
    import numpy as np

    path = tmp_path / "mine.npz"
    np.savez(path, counts=[[1, 1, 0], [0, 1, 1]], labels=[1, -1])
    assert run("check", "maxmargin-thm5", "--problem", str(path)) == 2
    complaint = capsys.readouterr()
    assert "needs" in complaint.out
    assert "add tokens, selection;" in complaint.err


def test_the_help_of_check_says_what_a_file_may_hold(capsys):
    import pytest

    from tokenmargin.theory.problem import FIELDS

    with pytest.raises(SystemExit):
        run("check", "--help")
    shown = capsys.readouterr().out
    for name, what in FIELDS.items():
        assert f"  {name} " in shown
        assert what in shown


def test_a_problem_of_large_scores_is_answered(tmp_path, capsys):
    """A traceback with the exit code of a failed claim was the answer."""
    import numpy as np

    from tests.instances import fig1b

    data, path = fig1b(), tmp_path / "large.npz"
    np.savez(path, tokens=data.tokens, labels=data.labels, head=1000 * data.head, keys=data.keys)
    assert run("check", "maxmargin-thm1", "maxmargin-thm8", "maxmargin-lemma14", "--problem", str(path)) == 0
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err


def test_a_fault_of_the_program_is_no_refutation(monkeypatch, capsys):
    from tokenmargin.theory import registry

    def broken():
        raise KeyError("a fault")

    monkeypatch.setattr(registry, "claims", broken)
    assert run("check") == 70
    assert "nothing is refuted" in capsys.readouterr().err


def test_claims_without_a_law_are_left_out_and_named(monkeypatch, capsys):
    from tokenmargin.theory import evidence

    known = evidence.laws()
    monkeypatch.setattr(evidence, "laws", lambda: {key: known[key] for key in ("maxmargin-lemma3",)})
    assert run("check", "maxmargin-lemma2", "--instances", "1") == 2
    assert "no law draws random instances of maxmargin-lemma2" in capsys.readouterr().err
    assert run("check", "maxmargin-lemma2", "maxmargin-lemma3", "--instances", "1") == 0
    shown = capsys.readouterr()
    assert "left out, as no law draws random instances: maxmargin-lemma2" in shown.err
    assert "maxmargin-lemma2" not in shown.out
