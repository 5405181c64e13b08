"""Continuing an answer when rows arrive: against solving afresh, and when it must decline."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.margin._constraint_generation import continued
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.margin.solution import Status

#: Both answers are right to about 1e-12 in units of |p|.
SAME_POINT = 1e-9


def separable(rng, m, d):
    """Rows of very different lengths that some vector satisfies."""
    rows = rng.normal(size=(m, d))
    return rows * (np.sign(rows @ rng.normal(size=d)) * 10.0 ** rng.uniform(-1, 1, size=m))[:, None]


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 6, 20]))
def test_it_is_the_answer_of_a_fresh_solve(seed, d):
    rng = np.random.default_rng(seed)
    rows = separable(rng, 5 * d, d)
    before = least_norm(rows[: 2 * d], np.ones(2 * d))
    fresh = least_norm(rows, np.ones(len(rows)))
    assert fresh.status is Status.OPTIMAL
    answer = continued(rows, np.flatnonzero(before.duals > 0))
    assert answer is not None
    p, duals = answer
    length = float(np.linalg.norm(fresh.p))
    assert np.linalg.norm(p - fresh.p) <= SAME_POINT * length
    np.testing.assert_allclose(duals @ rows, p, atol=SAME_POINT * length)
    assert duals.min() >= 0
    assert (rows @ p).min() >= 1 - SAME_POINT * length * np.linalg.norm(rows, axis=1).max()


def test_an_answer_that_still_holds_is_kept():
    rows = np.array([[1.0, 0.0], [2.0, 0.5]])
    p, duals = continued(rows, np.array([0]))
    np.testing.assert_allclose(p, [1.0, 0.0])
    np.testing.assert_allclose(duals, [1.0, 0.0])


def test_a_held_row_is_let_go():
    rows = np.array([[1.0, 1.0], [1.0, 0.1]])  # with the second row the first is slack: p = (1, .1)/1.01
    p, duals = continued(rows, np.array([0]))
    np.testing.assert_allclose(p, rows[1] / 1.01)
    assert duals[0] == 0.0


@pytest.mark.parametrize(
    ("rows", "held"),
    [
        ([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1]),  # dependent
        ([[1.0, 0.0], [4.0, 1.0]], [0, 1]),  # one that carries nothing
        ([[1.0], [2.0]], [0, 1]),  # more than dimensions
        ([[1.0], [2.0]], []),
    ],
)
def test_held_rows_that_carried_no_answer_change_nothing(rows, held):
    fresh = least_norm(np.array(rows), np.ones(len(rows)))
    answer = continued(np.array(rows), np.array(held, dtype=int))
    assert answer is not None
    np.testing.assert_allclose(answer[0], fresh.p, atol=SAME_POINT)


@pytest.mark.parametrize("rows", [[[1.0, 0.0], [-1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])
def test_it_declines_where_there_is_no_vector(rows):
    assert continued(np.array(rows), np.array([0])) is None
