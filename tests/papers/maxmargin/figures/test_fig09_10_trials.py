"""The study of random trials as a figure: it resumes, and one trial can be drawn alone."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.store import flattened
from tokenmargin.papers.maxmargin.figures import fig09_10_trials as figures
from tokenmargin.papers.maxmargin.trials import COLUMNS, Study, decide_trials, run_trials

SMALL = replace(figures.Settings.smoke(), trials=6, d=(2,), recheck=0)


def test_an_interrupted_study_resumes_from_its_finished_trials(tmp_path, monkeypatch):
    config = replace(SMALL, recheck=4, resume=str(tmp_path))
    first = figures.compute_trials(config, jax.random.key(0), silent)
    assert len(list(tmp_path.glob("*.npz"))) == 5  # three treatments, a second seed as printed, a finer tolerance

    def no_more(*_):
        raise AssertionError("a finished trial was run again")

    monkeypatch.setattr(figures, "run_trials", no_more)
    monkeypatch.setattr(figures, "decide_trials", no_more)
    again = figures.compute_trials(config, jax.random.key(0), silent)
    before, after = flattened(first.arrays), flattened(again.arrays)
    assert set(before) == set(after)
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])


def test_blocks_that_run_beside_each_other_give_the_bytes_of_one_after_the_other(monkeypatch):
    monkeypatch.setattr(figures, "BLOCK", 2)
    monkeypatch.setattr(figures, "_cores", lambda: 3)
    config = replace(SMALL, d=(2, 3), recheck=6)
    together = figures.compute_trials(config, jax.random.key(0), silent)
    in_turn = figures.compute_trials(config, jax.random.key(0), silent, lambda function, inputs: map(function, inputs))
    assert together.numbers == in_turn.numbers
    before, after = flattened(together.arrays), flattened(in_turn.arrays)
    for name, value in before.items():
        assert value.tobytes() == after[name].tobytes()


def test_a_trial_that_ends_elsewhere_at_a_finer_tolerance_is_counted(monkeypatch):
    def moved(study, seed, d, numbers):
        ended, selected = decide_trials(study, seed, d, numbers)
        selected[np.flatnonzero(ended)[0]] += 1
        ended[np.flatnonzero(~ended)[0]] = True
        return ended, selected

    monkeypatch.setattr(figures, "decide_trials", moved)
    result = figures.compute_trials(replace(SMALL, recheck=6), jax.random.key(0), silent)
    share = {number.name: number.value for number in result.numbers}
    assert share["decided: share of trials that change at atol/100"] == pytest.approx(2 / 6)


def test_one_trial_alone_is_the_same_trial():
    study = figures.compute_trials(SMALL, jax.random.key(0), silent)
    alone = figures.compute_trials(replace(SMALL, trial="d=2:4"), jax.random.key(0), silent)
    assert alone.arrays["selected"].tolist() == study.arrays["decided"]["selected"]["2"][4].tolist()
    assert figures.draw_trials(alone).get_axes()
    wide = figures.compute_trials(replace(SMALL, trial="d=5:1"), jax.random.key(0), silent)
    assert figures.draw_trials(wide).get_axes()


@pytest.mark.parametrize("text", ["17", "d=2", "d=0:1", "two:1"])
def test_a_trial_must_be_named(text):
    with pytest.raises(InvalidInputError, match="d=2:17"):
        figures.compute_trials(replace(SMALL, trial=text), jax.random.key(0), silent)


def test_gaps_are_those_of_the_trials():
    config = figures.GapSettings(trials=6, d=(2,), recheck=0)
    gaps = figures.compute_gaps(config, jax.random.key(0), silent).arrays
    study = figures.compute_trials(SMALL, jax.random.key(0), silent).arrays
    for treatment, values in gaps.items():
        np.testing.assert_array_equal(values, study[treatment]["gaps"])
    with pytest.raises(InvalidInputError, match="maxmargin-fig9"):
        figures.compute_gaps(replace(config, trial="d=2:4"), jax.random.key(0), silent)


@pytest.mark.parametrize(
    ("seed", "number", "ends"),
    [
        # Seed 11: two keys of an input are 9e-6 apart and part at ten times the norm at which the others are judged.
        (653040850, 417, "an LMM"),
        # Seed 1: a finite limit where the risk is so flat that G vanishes before Newton's step does.
        (1300485425, 894, "finite"),
        # One that goes to a direction of margin 2.5e-6, where the rounding of logits is all of a gap.
        (1541089728, 919, "beyond"),
    ],
)
def test_a_trial_that_stalls_is_followed_further_or_is_out_of_reach(seed, number, ends):
    table, _ = run_trials(Study(), seed, 2, range(number, number + 1), "decided")
    row = dict(zip(COLUMNS, table[0].tolist(), strict=True))
    assert (row["undecided"], row["beyond"]) == ((1, 1) if ends == "beyond" else (0, 0))
    assert (row["ended"], row["is_lmm"]) == ((1, 1) if ends == "an LMM" else (0, 0))
    if ends == "an LMM":
        assert row["velocity_error"] < 1e-20
        assert "diverges" in figures.one_trial(Study(), seed, f"d=2:{number}").sentences[0]
    if ends == "finite":
        assert row["newton_step"] < 1e-9
