"""The nearest point of a hull in rational arithmetic, against the float solver and SciPy's linear programs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from tokenmargin._rationals import Row, dot, fraction_rows
from tokenmargin.errors import TooLargeError
from tokenmargin.margin import label_svm
from tokenmargin.papers.maxmargin.claims._exact_hull import nearest_point, separating


def exact_rows(rows: np.ndarray) -> list[Row]:
    return fraction_rows(rows.tolist())


def drawn(number: int) -> np.ndarray:
    """Some rows, every second time small whole numbers with repetitions."""
    rng = np.random.default_rng([7, number])
    shape = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    return rng.integers(-2, 4, size=shape).astype(float) if number % 2 else rng.normal(size=shape) + 0.7


@pytest.mark.parametrize("number", range(40))
def test_it_is_the_label_margin_with_the_largest_weights(number):
    rows = drawn(number)
    found = nearest_point(exact_rows(rows))
    assert float(found.square) ** 0.5 == pytest.approx(label_svm(rows, np.ones(len(rows))).label_margin, abs=1e-9)
    assert sum(found.weights.values()) == 1
    assert min(found.weights.values()) > 0
    assert min(dot(row, found.point) for row in found.rows) >= found.square
    u = separating(exact_rows(rows))
    assert (u is None) == (found.square == 0)
    if u is not None:
        assert min(dot(row, u) for row in found.rows) == 1
        equal, target = np.vstack([rows.T, np.ones(len(rows))]), np.append(np.array(found.point, float), 1.0)
        for i, largest in enumerate(found.largest_weights()):
            program = linprog(-np.eye(len(rows))[i], A_eq=equal, b_eq=target, bounds=(0, 1))
            assert float(largest) == pytest.approx(-program.fun, abs=1e-7)


def test_weights_that_are_not_unique_and_a_row_that_carries_nothing():
    rows = exact_rows(np.array([[0.0, 1.0], [1.0, 1.0], [-1.0, 1.0], [2.0, 1.0], [0.0, 3.0]]))
    assert nearest_point(rows).largest_weights() == [1, Fraction(1, 2), Fraction(2, 3), Fraction(1, 3), 0]
    assert nearest_point(rows[:2]).largest_weights() == [1, 0]  # tight, and of dual 0


def test_ties_are_kept_exactly():
    third = 1 / 3
    rows, tie = exact_rows(np.array([[1.0, 0.0], [0.0, 1.0]])), exact_rows(np.array([[third, -0.1]]))
    u = separating(rows, tie)
    assert u is not None
    assert dot(tie[0], u) == 0
    assert separating(rows, exact_rows(np.eye(2))) is None
    assert separating(rows, exact_rows(np.array([[1.0, 1e-300]]))) is None


def test_what_is_nearly_infeasible_is_told_apart():
    """Two rows that are opposite but for the last digit: some u, far away, has both products positive."""
    rows = np.array([[1.0, 0.0], [-1.0, 2.0**-60]])
    assert label_svm(rows, [1, 1]).is_optimal()
    assert label_svm(rows * [1.0, 0.0], [1, 1]).is_infeasible
    u = separating(exact_rows(rows))
    assert u is not None
    assert min(dot(row, u) for row in exact_rows(rows)) == 1


def test_too_many_rows_are_refused():
    with pytest.raises(TooLargeError, match="rational"):
        nearest_point(exact_rows(np.eye(81)))
