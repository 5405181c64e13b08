"""The shortest vector without rounding beside its definition: the KKT conditions or Farkas' weights, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tokenmargin._rationals import Row, dot, fraction_rows
from tokenmargin.margin import exact_shortest as method
from tokenmargin.margin.exact_shortest import exact_shortest
from tokenmargin.margin.solution import Status


def drawn(seed: int) -> tuple[list[Row], Row, list[Row]]:
    """Rows, what is asked and ties: small whole numbers, reals, lengths from 1e-12 to 1e12, and what degenerates."""
    rng = np.random.default_rng([3, seed])
    m, d, e = int(rng.integers(3, 12)), int(rng.integers(1, 7)), int(rng.integers(0, 4))
    matrix = rng.integers(-2, 3, size=(m + e, d)) + 0.0 if seed % 2 else rng.normal(size=(m + e, d))
    if seed % 4 > 1:
        matrix[:, 0] += 3.0
    if seed % 3 == 0:
        matrix *= 10.0 ** rng.uniform(-12, 12, size=(m + e, 1))
    if e > 1 and seed % 5 < 3:
        matrix[-1] = -2 * matrix[-2]  # ties that are dependent
    if e and seed % 7 == 0:
        matrix[0] = matrix[m]  # a row that is a tie
    if seed % 11 == 0:
        matrix[1] = 0.0
    if seed % 13 == 0:
        matrix[2] = matrix[0]
    rows = fraction_rows(matrix.tolist())
    return rows[:m], [Fraction(int(x)) for x in rng.integers(0, 3, size=m)], rows[m:]


def test_it_meets_its_conditions_and_a_conflict_cancels():
    """From any start the same p, which the multipliers make and the rows that have one hold tight."""
    seen = {Status.OPTIMAL: 0, Status.INFEASIBLE: 0}
    for seed in range(200):
        rows, asked, ties = drawn(seed)
        starts = [[], range(len(rows)), np.random.default_rng(seed).permutation(len(rows))[:3].tolist()]
        answers = [exact_shortest(rows, asked, ties, start) for start in starts]
        for found in answers:
            made = [dot([*found.duals, *found.tie_duals], column) for column in zip(*rows, *ties, strict=True)]
            assert min(found.duals) >= 0
            assert (found.status, found.p) == (answers[0].status, answers[0].p)
            if found.status is Status.INFEASIBLE:
                assert not any(made)
                assert dot(found.duals, asked) > 0
                continue
            assert made == found.p
            assert all(dot(row, found.p) >= b for row, b in zip(rows, asked, strict=True))
            assert not any(dot(tie, found.p) for tie in ties)
            assert dot(found.duals, asked) == found.square
        seen[answers[0].status] += 1
    assert min(seen.values()) >= 50, seen


def test_rows_that_ask_for_nothing_leave_p_at_0():
    found = exact_shortest([[1, 0], [-1, 0], [0, 0]], [0, 0, 0])
    assert (found.status, found.p, found.duals) == (Status.OPTIMAL, [0, 0], [0, 0, 0])


def test_a_row_of_zeros_contradicts_itself():
    found = exact_shortest([[1, 0], [0, 0]], [1, 1], [[1, 1]], [0, 1])
    assert (found.status, found.duals, found.tie_duals) == (Status.INFEASIBLE, [0, 1], [0])


@pytest.mark.parametrize("start", [(), range(81)])
def test_more_rows_than_can_be_eliminated_are_left_undecided(start):
    def of_unit_rows(count: int) -> Status:
        return exact_shortest(np.eye(count, dtype=int).tolist(), [1] * count, (), start[:count]).status

    assert of_unit_rows(80) is Status.OPTIMAL
    assert of_unit_rows(81) is Status.UNDECIDED


def test_a_search_gives_up_in_time(monkeypatch):
    eye = np.eye(4, dtype=int).tolist()
    assert exact_shortest(eye, [1] * 4).p == [1] * 4
    monkeypatch.setattr(method, "SEARCH", 1e-5)
    assert exact_shortest(eye, [1] * 4).status is Status.UNDECIDED
