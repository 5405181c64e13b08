"""The study of random trials as a figure: it resumes, and one trial can be drawn alone."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.maxmargin import fig09_trials as fig9

SMALL = replace(fig9.Settings.smoke(), trials=6, d=(2,), recheck=0)


def test_an_interrupted_study_resumes_from_its_finished_trials(tmp_path, monkeypatch):
    config = replace(SMALL, resume=str(tmp_path))
    first = fig9.compute(config, jax.random.key(0), silent)
    assert len(list(tmp_path.glob("*.npz"))) == 3

    def no_more(*_):
        raise AssertionError("a finished trial was run again")

    monkeypatch.setattr(fig9, "run_trials", no_more)
    again = fig9.compute(config, jax.random.key(0), silent)
    for name, value in first.arrays.items():
        np.testing.assert_array_equal(value, again.arrays[name])


def test_one_trial_alone_is_the_same_trial():
    study = fig9.compute(SMALL, jax.random.key(0), silent)
    alone = fig9.compute(replace(SMALL, trial="d=2:4"), jax.random.key(0), silent)
    assert alone.arrays["selected"].tolist() == study.arrays["decided_d2_selected"][4].tolist()
    assert fig9.draw(alone).get_axes()
    wide = fig9.compute(replace(SMALL, trial="d=5:1"), jax.random.key(0), silent)
    assert fig9.draw(wide).get_axes()


@pytest.mark.parametrize("text", ["17", "d=2", "d=0:1", "two:1"])
def test_a_trial_must_be_named(text):
    with pytest.raises(InvalidInputError, match="d=2:17"):
        fig9.compute(replace(SMALL, trial=text), jax.random.key(0), silent)
