"""The max-margin classifier of one feature per input, and of the selected tokens."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.instances import fig3
from tokenmargin.data import Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status
from tokenmargin.margin.label_svm import label_svm, selected_label_svm

OPTIMAL = Selection.from_indices([1, 1, 1], 2)
A, B = (0.5, 1.0), (0.5, 1.5)
HAND = 1e-12  # problems small enough to be solved by hand come out to rounding


@pytest.mark.parametrize("third", [A, B])
def test_the_classifier_of_figure_3(third):
    solution = selected_label_svm(fig3(third), OPTIMAL)
    assert solution.is_optimal()
    np.testing.assert_allclose(solution.v, [0, 1], atol=HAND)
    np.testing.assert_allclose(fig3(third).head, solution.v, atol=HAND)  # the figure trains p under this head
    assert solution.label_margin == pytest.approx(1.0, abs=HAND)


def test_support_is_read_off_margins_not_duals():
    solution = selected_label_svm(fig3(A), OPTIMAL)
    assert solution.support.all()
    assert (solution.duals == 0).any()  # a dual of zero on an input that is a support vector all the same
    assert "every input" in solution.explain()


def test_inseparable_labels_are_an_answer_with_a_proof():
    features, labels = np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([1, -1])
    solution = label_svm(features, labels)
    assert solution.status is Status.INFEASIBLE
    assert solution.label_margin == 0.0
    assert solution.weights is not None
    assert (solution.weights >= 0).all()
    assert solution.weights.sum() > 0
    np.testing.assert_allclose(solution.weights * labels @ features, 0, atol=HAND)
    assert "No classifier" in solution.explain()


def test_against_a_general_optimiser(rng):
    for _ in range(5):
        features = rng.normal(size=(4, 6))
        labels = rng.choice([-1, 1], size=4)
        ours = label_svm(features, labels)
        rows = labels[:, None] * features
        theirs = minimize(
            lambda v: 0.5 * v @ v,
            np.linalg.lstsq(rows, 2 * np.ones(4), rcond=None)[0],
            jac=lambda v: v,
            constraints={"type": "ineq", "fun": lambda v, rows=rows: rows @ v - 1, "jac": lambda v, rows=rows: rows},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(ours.v, theirs.x, atol=1e-6)
        # Margin and weights are dual to each other: no weights bound the label margin lower.
        weights = ours.duals / ours.duals.sum()
        assert np.linalg.norm(weights @ rows) == pytest.approx(ours.label_margin, rel=1e-9)


def test_labels_may_be_zero_and_one():
    features = np.array([[1.0, 0.2], [-1.0, 0.3]])
    np.testing.assert_array_equal(label_svm(features, [1, 0]).v, label_svm(features, [1, -1]).v)


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (np.zeros(3), [1, 1, 1], "shape"),
        (np.ones((2, 2)), [1, 2], "two-valued"),
        (np.ones((2, 2)), [1], "labels"),
        (np.array([[np.nan, 1.0]]), [1], "NaN"),
    ],
)
def test_wrong_input_is_named(features, labels, words):
    with pytest.raises(InvalidInputError, match=words):
        label_svm(features, labels)
