"""Exact linear algebra beside its definitions: every equation holds without rounding, whatever the scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tokenmargin import _rationals as q


def draw(seed: int) -> tuple[list[list[int]], list[int]]:
    """A matrix of random shape, some of its rows combinations of others, some columns zero; and a right side."""
    rng = np.random.default_rng(seed)
    m, d = (int(x) for x in rng.integers(1, 7, size=2))
    matrix = rng.integers(-3, 4, size=(m, d)) * 10 ** int(rng.integers(0, 12))
    if m > 2 and seed % 2:
        matrix[-1] = 2 * matrix[0] - 3 * matrix[1]
    if seed % 5 == 0:
        matrix[:, 0] = 0
    right = matrix @ rng.integers(-3, 4, size=d) if seed % 3 else rng.integers(-3, 4, size=m)
    return [[int(x) for x in row] for row in matrix], [int(x) for x in right]


def times(matrix: list[list[int]], x: q.Exact) -> list[Fraction]:
    return [Fraction(q.dot(row, x.whole), x.over) for row in matrix]


def rank(matrix: list[list[int]]) -> int:
    """By a slow obvious elimination over fractions."""
    rows = [[Fraction(x) for x in row] for row in matrix]
    found = 0
    for column in range(len(rows[0])):
        lead = next((r for r in range(found, len(rows)) if rows[r][column]), None)
        if lead is None:
            continue
        rows[found], rows[lead] = rows[lead], rows[found]
        for r in range(found + 1, len(rows)):
            factor = rows[r][column] / rows[found][column]
            rows[r] = [x - factor * y for x, y in zip(rows[r], rows[found], strict=True)]
        found += 1
    return found


def basis_of(rows: list[list[int]]) -> q.Basis:
    basis = q.Basis()
    for row in rows:
        basis.add(row)
    return basis


def test_a_basis_takes_in_what_is_independent_and_makes_the_rest():
    """A row is left out exactly where it is a combination of those before it, and its weights say which."""
    left_out = 0
    for seed in range(120):
        matrix, _ = draw(seed)
        basis = q.Basis()
        for k, row in enumerate(matrix):
            known = list(basis.rows)
            assert basis.add(row) == (rank(matrix[: k + 1]) > (rank(matrix[:k]) if k else 0))
            if basis.rows == known:
                left_out += 1
                share = basis.weights(basis.products(row))
                assert q.combine(share.whole, basis.rows, len(row)) == [x * share.over for x in row]
        assert len(basis.rows) == rank(matrix)
    assert left_out > 50


def test_weights_solve_and_do_not_depend_on_what_was_let_go():
    for seed in range(120):
        matrix, right = draw(seed)
        basis = basis_of(matrix)
        places = np.flatnonzero(np.random.default_rng(seed).integers(0, 2, size=len(basis.rows))).tolist()
        kept = [basis.rows[k] for k in places]
        for rows in (basis.rows, kept):
            if rows is kept:
                basis.keep(places)
            weights = basis.weights(right[: len(rows)])
            x = q.Exact(q.combine(weights.whole, rows, len(matrix[0])), weights.over)
            assert x.over > 0
            assert times(rows, x) == right[: len(rows)]
        assert basis.rows == kept
        assert weights == basis_of(kept).weights(right[: len(kept)])


def test_the_shortest_change_is_in_the_span_of_the_rows():
    for seed in range(120):
        matrix, right = draw(seed)
        x = q.shortest_change(matrix, right)
        augmented = [[*row, b] for row, b in zip(matrix, right, strict=True)]
        assert (x is None) == (rank(augmented) > rank(matrix))
        if x is not None:
            assert times(matrix, x) == right
            assert rank([*matrix, x.whole]) == rank(matrix)


def test_floats_become_whole_numbers_without_rounding():
    rows = [[0.1, -1e-300], [1e300, 0.0]]
    whole, over = q.whole_rows(rows)
    assert [[Fraction(x, over) for x in row] for row in whole] == [[Fraction(x) for x in row] for row in rows]
    assert q.exact([0.1, Fraction(1, 3)]).fractions == [Fraction(0.1), Fraction(1, 3)]
    assert q.Exact([2, 4], 6).reduced() == q.Exact([1, 2], 3)
    with pytest.raises((OverflowError, ValueError)):
        q.exact([float("nan")])
