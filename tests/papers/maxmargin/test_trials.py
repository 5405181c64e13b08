"""Random trials: the three treatments agree where they should, and each trial stands alone."""

import logging

import jax
import numpy as np
import pytest

from tests.references import usual_gradient
from tokenmargin import AttentionRisk, NormalizedDescent, follow
from tokenmargin.attention import logistic
from tokenmargin.data import Selection, optimal_selection, scores
from tokenmargin.data.problem_batch import ProblemBatch
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, att_svm, is_locally_optimal, neighbor_score_gap, neighbors
from tokenmargin.papers.maxmargin.trials import (
    COLUMNS,
    SATURATED,
    TREATMENTS,
    Study,
    _compare,
    margins,
    run_trials,
    textbook_descent,
    trial,
    trials,
)
from tokenmargin.theory.agreement import one_minus_cosine


def column(table, name):
    return table[:, COLUMNS.index(name)]


def one_trial_alone(study, seed, d, number):
    """The slow twin of a row of the stable study: one trial, its own objects, its own width."""
    data = trial(study, seed, d, number)
    risk = AttentionRisk(data)
    p = follow(risk, np.zeros(d), NormalizedDescent(study.lr), steps=study.steps).final
    alpha = (data.keys @ p).argmax(axis=1)
    zeros = ("undecided", "beyond", "mixed", "is_lmm", "is_gmm", "infeasible")
    row = dict.fromkeys(COLUMNS, np.nan) | dict.fromkeys(zeros, 0.0)
    row["norm"] = np.linalg.norm(p)
    row["softmax"] = risk.attention(p)[np.arange(len(alpha)), alpha].mean()
    row["ended"] = float(row["softmax"] >= SATURATED)
    if row["ended"]:
        solution = att_svm(data, Selection.from_indices(alpha, data.n_places))
        if solution.status is not Status.OPTIMAL:
            row["infeasible"] = 1.0
            return row, alpha
        row["error"] = one_minus_cosine(p, solution.p)
        row["correlation"] = 1 - row["error"]
        row["gap"] = neighbor_score_gap(solution)
        row["is_lmm"] = float(is_locally_optimal(solution))
        row["is_gmm"] = float(solution.selection == optimal_selection(data))
    return row, alpha


@pytest.mark.parametrize("d", [2, 7, 60])
def test_a_batch_of_trials_is_each_trial_alone(d):
    """Drawn, reduced, descended and solved as arrays, against one object at a time in the full width."""
    study, numbers = Study(steps=200), range(3, 15)
    table, selected = run_trials(study, 11, d, numbers, "stable")
    for place, number in enumerate(numbers):
        row, alpha = one_trial_alone(study, 11, d, number)
        assert selected[place].tolist() == alpha.tolist()
        for name in set(COLUMNS) - {"proxy_correlation"}:
            np.testing.assert_allclose(column(table, name)[place], row[name], rtol=1e-7, atol=1e-9, err_msg=name)
    assert column(table, "ended").sum() > 0


@pytest.mark.parametrize("origin_matters", [False, True])
@pytest.mark.parametrize("d", [3, 22, 40])
def test_trials_in_few_coordinates_are_isometric_to_the_trials(d, origin_matters):
    study, numbers = Study(), [4, 9]
    batch = trials(study, 2, d, numbers, origin_matters)
    assert batch.keys.shape[3] == min(d, 24 if origin_matters else 20)
    for j, number in enumerate(numbers):
        data = trial(study, 2, d, number)
        full = data.keys if origin_matters else data.keys - data.keys[:, :1]
        full, short = full.reshape(24, d), batch.keys[j].reshape(24, -1)
        np.testing.assert_allclose(short @ short.T, full @ full.T, atol=1e-14)
        np.testing.assert_allclose(batch.scores[j], scores(data), atol=1e-15)


def test_a_study_of_another_seed_compiles_nothing(caplog):
    """All three treatments, a second time with other data: every compiled function is used again."""
    study = Study(n=2, T=3, steps=60, until_norm=1e4)

    def compiled(seed):
        caplog.clear()
        with jax.log_compiles(True), caplog.at_level(logging.WARNING, logger="jax"):
            for treatment in TREATMENTS:
                run_trials(study, seed, 4, range(70), treatment)
        return sum(record.getMessage().startswith("Compiling") for record in caplog.records)

    assert compiled(0) > 0  # the log does show compilations
    assert compiled(1) == 0


def test_textbook_descent_is_the_usual_gradient_and_equals_ours_before_saturation(rng):
    for d in (3, 40):
        problems = trials(Study(), 1, d, range(3), origin_matters=True)
        risks = [AttentionRisk(problems[j]) for j in range(3)]
        starts = rng.normal(size=(3, problems.keys.shape[3]))
        ends = textbook_descent(problems, starts, NormalizedDescent(0.3, 1e-12), 1)
        for risk, start, end in zip(risks, starts, ends, strict=True):
            gradient = np.asarray(usual_gradient(risk.sequences, logistic, start))
            np.testing.assert_allclose(end, start - 0.3 * gradient / np.linalg.norm(gradient), atol=1e-11)
        together = textbook_descent(problems, starts, NormalizedDescent(0.3, 1e-12), 15)
        for risk, start, end in zip(risks, starts, together, strict=True):
            np.testing.assert_allclose(end, follow(risk, start, NormalizedDescent(0.3), steps=15).final, atol=1e-9)


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


def test_a_neighbour_of_the_same_score_up_to_rounding_is_a_tie_and_no_lmm():
    """Scores 0.3 and 0.1 + 0.2 differ in the last bit; the gap of 5e-17 is no advantage."""
    keys = np.array([[[[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]]] * 2)
    problems = ProblemBatch(keys, np.array([[[0.1 + 0.2, 0.3, -1.0]], [[0.4, 0.3, -1.0]]]))
    columns = {name: np.zeros(2) for name in COLUMNS} | {"ended": np.ones(2)}
    _compare(problems, np.array([[5.0, 0.0]] * 2), np.zeros((2, 1), dtype=int), columns)
    assert columns["gap"][0] > 0
    assert columns["is_lmm"].tolist() == [0.0, 1.0]
    for j in range(2):
        assert is_locally_optimal(att_svm(problems[j], Selection.from_indices([0], 3))) == bool(columns["is_lmm"][j])


def test_a_neighbour_of_the_same_score_is_as_good_as_the_selected_token():
    """Token 0 is selected; 1 is a neighbour of equal and 2 one of higher score, and p goes to 1: so does (ATT-SVM')."""
    keys = np.array([[[[1.0, 0.0], [0.0, 2.0], [0.0, -2.0], [0.0, 0.0]]]])
    problems = ProblemBatch(keys, np.array([[[0.0, 0.0, 1.0, -1.0]]]))
    columns = {name: np.full(1, np.nan) for name in COLUMNS} | {"ended": np.ones(1)}
    _compare(problems, np.array([[0.0, 5.0]]), np.zeros((1, 1), dtype=int), columns)
    assert columns["gap"][0] == -1.0
    assert columns["proxy_correlation"][0] == pytest.approx(1.0)


def test_a_trial_needs_tokens_to_choose_from():
    with pytest.raises(InvalidInputError, match="nothing to select"):
        Study(T=1)


@pytest.mark.parametrize("d", [2, 5, 30])
def test_margins_as_arrays_are_those_of_the_problems_one_by_one(rng, d):
    batch = ProblemBatch(rng.normal(size=(40, 3, 4, d)), rng.normal(size=(40, 3, 4)))
    alpha = rng.integers(4, size=(40, 3))
    p, near = margins(batch.keys, alpha)
    for j in range(40):
        alone = att_svm(batch[j], Selection.from_indices(alpha[j], 4))
        assert bool(np.isfinite(p[j]).all()) == (alone.status is Status.OPTIMAL)
        np.testing.assert_array_equal(near[j], neighbors(alone))
        if alone.status is Status.OPTIMAL:
            np.testing.assert_allclose(p[j], alone.p, atol=1e-9 * np.linalg.norm(alone.p))
    assert np.isfinite(p).any()
    assert d > 2 or not np.isfinite(p).all()  # some selections in the plane cannot be separated
