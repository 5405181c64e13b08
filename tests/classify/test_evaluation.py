"""Numbers about predictions, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from tokenmargin.classify.evaluation import area_under_curve, calibration_curve, evaluate, paired_interval


def predictions(K: int, n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    raw = rng.normal(size=(n, K)) + 1.2 * np.eye(K)[truth]
    return np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True), truth


@pytest.mark.parametrize("K", [2, 3, 7])
def test_agrees_with_scikit_learn(K):
    p, truth = predictions(K)
    found = evaluate(p, truth, [f"c{k}" for k in range(K)])
    guess = p.argmax(axis=1)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(truth, guess))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(truth, guess, average="macro"))
    assert found.log_loss == pytest.approx(metrics.log_loss(truth, p))
    expected = metrics.roc_auc_score(truth, p[:, 1] if K == 2 else p, multi_class="ovr")
    assert found.auc == pytest.approx(expected)
    np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(truth, guess))
    precision, recall, f1, support = metrics.precision_recall_fscore_support(truth, guess)
    for k, scores in enumerate(found.per_class.values()):
        area = metrics.roc_auc_score(truth == k, p[:, k])
        expected = {"precision": precision[k], "recall": recall[k], "f1": f1[k], "documents": support[k], "auc": area}
        assert scores == pytest.approx(expected)


def test_ties_count_half_and_one_class_has_no_area():
    assert area_under_curve(np.zeros(4), np.array([True, False, True, False])) == 0.5
    assert np.isnan(area_under_curve(np.zeros(2), np.array([True, True])))


def test_a_class_that_is_never_predicted_scores_0():
    found = evaluate(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]), ("a", "b"))
    assert found.per_class["b"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "documents": 1, "auc": 1.0}


def test_the_interval_of_the_accuracy_holds_it_and_covers_about_95_percent():
    rng = np.random.default_rng(1)
    truth = np.zeros(200, dtype=int)
    covered = 0
    for _ in range(300):
        right = rng.random(200) < 0.8
        p = np.where(right[:, None], [[0.7, 0.3]], [[0.3, 0.7]])
        low, high = evaluate(p, truth, ("a", "b")).accuracy_interval
        covered += low <= 0.8 <= high
    assert 0.90 <= covered / 300 <= 0.99


def test_calibration_bins_hold_every_text_and_rise_in_confidence():
    p, truth = predictions(3, n=157)
    curve = calibration_curve(p.max(axis=1), p.argmax(axis=1) == truth)
    assert sum(size for _, _, size in curve) == 157
    said = [mean for mean, _, _ in curve]
    assert said == sorted(said)
    assert len(calibration_curve(np.array([0.5]), np.array([True]))) == 1


def test_a_paired_interval_is_narrower_where_the_two_err_together():
    rng = np.random.default_rng(2)
    ours = rng.random(2000) < 0.8
    together = np.where(rng.random(2000) < 0.05, ~ours, ours)
    apart = rng.random(2000) < 0.8
    mean, low, high = paired_interval(ours, together)
    assert low <= mean <= high
    assert mean == pytest.approx(ours.mean() - together.mean())
    other = paired_interval(ours, apart)
    assert high - low < 0.6 * (other[2] - other[1])


def test_a_paired_interval_of_few_texts_is_wide_and_holds_differences_only():
    two, none = np.ones(2, dtype=bool), np.zeros(2, dtype=bool)
    for ours, theirs in ((two, none), (none, two), (two, two)):
        mean, low, high = paired_interval(ours, theirs)
        assert -1.0 <= low <= mean <= high <= 1.0
        assert low < 0.0 < high, "two texts show nothing"


def test_a_paired_interval_covers_the_true_difference_for_few_texts_too():
    rng = np.random.default_rng(5)
    for n in (8, 30):
        # Each text: both right, ours alone, theirs alone, neither; the true difference is 0.15 - 0.05.
        drawn = rng.choice(4, p=(0.7, 0.15, 0.05, 0.1), size=(1000, n))
        ends = [paired_interval(row <= 1, (row == 0) | (row == 2))[1:] for row in drawn]
        assert np.mean([low <= 0.1 <= high for low, high in ends]) >= 0.94
