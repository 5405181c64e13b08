"""Random trials: the three treatments agree where they should, and each trial stands alone."""

import numpy as np
import pytest

from tests.instances import fig1c
from tests.references import usual_gradient
from tokenmargin import AttentionRisk, NormalizedDescent, follow, logistic
from tokenmargin.dynamics.textbook import textbook_descent
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory.trials import COLUMNS, Study, run_trials, trial, wilson


def column(table, name):
    return table[:, COLUMNS.index(name)]


def test_textbook_descent_is_the_usual_gradient_and_equals_ours_before_saturation(rng):
    for d in (3, 40):
        risks = [AttentionRisk(trial(Study(), 1, d, j)) for j in range(3)]
        starts = rng.normal(size=(3, d))
        ends = textbook_descent(risks, starts, NormalizedDescent(0.3, 1e-12), 1)
        for risk, start, end in zip(risks, starts, ends, strict=True):
            gradient = np.asarray(usual_gradient(risk.sequences, logistic, start))
            np.testing.assert_allclose(end, start - 0.3 * gradient / np.linalg.norm(gradient), atol=1e-11)
        together = textbook_descent(risks, starts, NormalizedDescent(0.3, 1e-12), 15)
        for risk, start, end in zip(risks, starts, together, strict=True):
            np.testing.assert_allclose(end, follow(risk, start, NormalizedDescent(0.3), steps=15).final, atol=1e-9)
    with pytest.raises(InvalidInputError, match="one shape"):
        textbook_descent([risks[0], AttentionRisk(fig1c())], np.zeros((2, 40)), NormalizedDescent(1.0), 1)


def test_printed_freezes_where_stable_goes_on():
    study = Study()
    printed, _ = run_trials(study, 3, 10, range(20), "printed")
    stable, _ = run_trials(study, 3, 10, range(20), "stable")
    assert np.median(column(printed, "norm")) < 150  # epsilon freezes it
    assert (column(stable, "norm") > 500).all()  # a thousand unit steps, not all in one direction
    assert np.nanmean(column(stable, "correlation")) > np.nanmean(column(printed, "correlation"))


def test_decided_decides_and_a_trial_can_be_run_alone():
    study = Study()
    table, selected = run_trials(study, 5, 2, range(30), "decided")
    assert column(table, "undecided").sum() == 0
    ended = column(table, "ended") == 1
    assert 0 < ended.sum() < 30
    assert (column(table, "is_lmm")[ended] == 1).all()
    assert (column(table, "error")[ended] <= 1e-6).all()
    assert np.isfinite(column(table, "newton_step")[~ended]).all()
    alone, alone_selected = run_trials(study, 5, 2, range(17, 18), "decided")
    assert alone_selected[0].tolist() == selected[17].tolist()
    assert column(alone, "ended")[0] == column(table, "ended")[17]


def test_a_trial_needs_tokens_to_choose_from():
    with pytest.raises(InvalidInputError, match="nothing to select"):
        Study(T=1)


def test_wilson_interval():
    low, high = wilson(510, 1000)
    assert low == pytest.approx(0.47904, abs=1e-4)
    assert high == pytest.approx(0.54088, abs=1e-4)
    assert wilson(0, 1000)[0] == 0.0
    assert wilson(1000, 1000)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)
