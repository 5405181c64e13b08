"""Bounds of norms that a certificate may state, at their boundaries, on arrays whose norms are known."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import pytest

from tokenmargin.verify.kernel import Refuted
from tokenmargin.verify.lengths import (
    BITS,
    LARGEST,
    Matrix,
    _power_sum_at_most,
    _root,
    demand_at_most,
    dual_of,
    power_of,
)

HALVES = Matrix([[3, -4, 0]], 2)


def is_at_most(norm: str, M: Matrix, bound: Fraction, **witness: Matrix) -> bool:
    try:
        demand_at_most(norm, M, Fraction(bound), witness, "p")
    except Refuted:
        return False
    return True


def test_names_of_norms():
    assert power_of("l3/2") == (3, 2)
    assert power_of("l2/1") == (2, 1)
    assert power_of("l1000/999") == (1000, 999)
    for name in ("l2/3", "l1/1", "l4/2", "l1001/1", "l0/1", "l3/0", "l3", "L2", "l03/2", "l3/2 ", "l٣/2", "l10000/1"):
        assert power_of(name) is None, name
    assert (BITS, LARGEST) == (160, 1000)
    assert {name: dual_of(name) for name in ("L2", "max", "sum", "nuclear", "spectral", "l3/2", "l5/2")} == {
        **{"L2": "L2", "max": "sum", "sum": "max", "nuclear": "spectral", "spectral": "nuclear"},
        **{"l3/2": "l3/1", "l5/2": "l5/3"},
    }


def test_what_is_no_matrix():
    assert Matrix([[1, 2], [3, 4]], 1).columns == [[1, 3], [2, 4]]
    for rows, over in (([[1]], 0), ([[1]], -1), ([[1], [1, 2]], 1), ([], 1)):
        with pytest.raises(Refuted):
            Matrix(rows, over)
    with pytest.raises(Refuted, match="not known"):
        demand_at_most("L9", HALVES, Fraction(100), {}, "p")


@pytest.mark.parametrize(("norm", "length"), [("L2", Fraction(5, 2)), ("max", Fraction(2)), ("sum", Fraction(7, 2))])
def test_a_bound_may_be_the_norm_itself_and_nothing_less(norm, length):
    little = Fraction(1, 10**30)
    assert is_at_most(norm, HALVES, length)
    assert not is_at_most(norm, HALVES, length - little)
    assert not is_at_most(norm, HALVES, -2 * length)
    assert is_at_most(norm, Matrix([[0]], 3), Fraction(0))
    assert not is_at_most(norm, Matrix([[0]], 3), Fraction(-1))


class TestPowers:
    @pytest.mark.parametrize("unit", [1, 7, 3**150])
    def test_a_cube(self, unit):
        """3^3 + 4^3 + 5^3 = 6^3."""
        cubes = Matrix([[3, -4], [5, 0]], unit)
        for share, fine in ((Fraction(1, 2**150), True), (-Fraction(1, 2**150), False)):
            assert is_at_most("l3/1", cubes, Fraction(6, unit) * (1 + share)) == fine
        assert not is_at_most("l3/1", cubes, Fraction(-7, unit))
        assert is_at_most("l3/1", Matrix([[0, 0]], unit), Fraction(0))

    def test_three_halves(self):
        """4^(3/2) + 9^(3/2) + 1 = 36 = bound^(3/2)."""
        for share, fine in ((1, True), (-1, False)):
            bound = Fraction(1090272, 100000) + Fraction(share, 10**5)  # 36^(2/3) = 10.90272...
            assert is_at_most("l3/2", Matrix([[4, 9, 1]]), bound) == fine

    def test_entries_are_rounded_up_and_the_bound_down(self):
        for more in (0, 3):
            long = 2 ** (BITS + more) + 1  # a bit, or four bits, more than are kept
            for power in (2, 3):
                assert not _power_sum_at_most([long], Fraction(long), power, 1)
                assert not _power_sum_at_most([long], Fraction(1), power, 1)
                assert _power_sum_at_most([long], Fraction(long + 2 ** (more + 2)), power, 1)
        x = 2**BITS - 1  # as long as is kept: nothing is rounded but what the root leaves
        least = x + Fraction(3, 6 * x**2)  # its cube is between x^3 + 1 and x^3 + 2
        assert x**3 + 1 < least**3 < x**3 + 2
        assert _power_sum_at_most([x], least, 3, 1)
        assert not _power_sum_at_most([x], Fraction(x), 3, 1)

    def test_roots(self):
        for index in (1, 2, 3, 7):
            for number in (*range(70), 2**100, 2**100 - 1, 3**70, 3**70 - 1, 3**70 + 1, 10**60):
                found = _root(number, index)
                assert found**index <= number < (found + 1) ** index, (number, index)


class TestNuclear:
    M, K, Q = Matrix([[28, 0, 0], [0, 7, 0]], 7), Matrix([[6, 0], [0, 3]], 3), Matrix([[10, 0], [0, 5], [0, 0]], 5)

    def test_factors_that_multiply_to_the_matrix(self):
        """diag(4, 1): K = Q = diag(2, 1)."""
        assert is_at_most("nuclear", self.M, 5, K=self.K, Q=self.Q)
        assert not is_at_most("nuclear", self.M, 5 - Fraction(1, 10**30), K=self.K, Q=self.Q)
        assert not is_at_most("nuclear", self.M, -6, K=self.K, Q=self.Q)

    def test_what_they_leave_is_counted(self):
        """With diag(2, 0) for Q: (5 + 4)/2 + 1. With (2, 1; 0, 1): K Q' has a 1 where there is a 0."""
        less = Matrix([[10, 0], [0, 0], [0, 0]], 5)
        assert is_at_most("nuclear", self.M, Fraction(11, 2), K=self.K, Q=less)
        assert not is_at_most("nuclear", self.M, Fraction(109, 20), K=self.K, Q=less)
        skew = Matrix([[6, 3], [0, 3]], 3)
        assert is_at_most("nuclear", self.M, Fraction(13, 2), K=skew, Q=self.Q)
        assert not is_at_most("nuclear", self.M, Fraction(129, 20), K=skew, Q=self.Q)

    @pytest.mark.parametrize(
        ("K", "Q"),
        [
            (Matrix([[6, 0]], 3), Q),
            (K, Matrix([[10, 0], [0, 5]], 5)),
            (Matrix([[6], [3]], 3), Q),
        ],
    )
    def test_factors_of_another_shape(self, K, Q):
        with pytest.raises(Refuted, match="shape of the matrix"):
            demand_at_most("nuclear", self.M, Fraction(100), {"K": K, "Q": Q}, "p")


class TestSpectral:
    TALL = Matrix([[35, 0], [0, 21], [0, 0]], 7)  # diag(5, 3)
    WIDE = Matrix([[35, 0, 0], [0, 21, 0]], 7)
    L, S = Matrix([[0, 0], [0, 12]], 3), Matrix([[50]], 2)  # s = 25, L = diag(0, 4)

    def test_of_a_square_matrix_the_columns_are_completed(self):
        """M = (0 5; 3 0): s I - M'M = diag(16, 0), and s I - M M' is another."""
        assert is_at_most("spectral", Matrix([[0, 5], [3, 0]]), 5, L=Matrix([[4, 0], [0, 0]]), s=Matrix([[25]]))

    @pytest.mark.parametrize("M", [TALL, WIDE], ids=["tall", "wide"])
    def test_a_square_that_is_completed(self, M):
        assert is_at_most("spectral", M, 5, L=self.L, s=self.S)
        assert not is_at_most("spectral", M, 5 - Fraction(1, 10**30), L=self.L, s=self.S)
        assert not is_at_most("spectral", M, -6, L=self.L, s=self.S)

    @pytest.mark.parametrize("M", [TALL, WIDE], ids=["tall", "wide"])
    @pytest.mark.parametrize(
        ("L", "s", "square"),
        [
            (L, Matrix([[52]], 2), 27),  # R = I
            (L, Matrix([[48]], 2), 25),  # R = -I
            (Matrix([[0, 3], [0, 12]], 3), S, 30),  # R = -(1 4; 4 0)
            (Matrix([[0, 0], [3, 12]], 3), S, 26),  # R = -(0 0; 0 1)
            (Matrix([[3, 0], [0, 12]], 3), S, 26),
        ],
    )
    def test_what_is_left_is_counted(self, M, L, s, square):
        root = Fraction(square) ** Fraction(1, 2)
        for share, fine in ((1e-9, True), (-1e-9, False)):
            assert is_at_most("spectral", M, Fraction(root * (1 + share)), L=L, s=s) == fine

    @pytest.mark.parametrize(
        ("L", "s"),
        [
            (Matrix([[0, 0, 0], [0, 12, 0]], 3), S),
            (Matrix([[0, 0]], 3), S),
            (Matrix([[0]], 3), S),
            (L, Matrix([[50, 1]], 2)),
            (L, Matrix([[50], [1]], 2)),
        ],
    )
    def test_witnesses_of_another_shape(self, L, s):
        with pytest.raises(Refuted, match="shape"):
            demand_at_most("spectral", self.TALL, Fraction(100), {"L": L, "s": s}, "p")


@pytest.mark.parametrize("M", [Matrix([[6, 8]], 2), Matrix([[6], [8]], 2)], ids=["row", "column"])
def test_a_single_row_or_column(M):
    """(3, 4) = 1 (3, 4): (1 + 25)/2; and its length is 5 with nothing to complete."""
    one, other = Matrix([[1]]), Matrix([[3], [4]])
    K, Q = (one, other) if len(M.rows) == 1 else (other, one)
    assert is_at_most("nuclear", M, 13, K=K, Q=Q)
    assert not is_at_most("nuclear", M, Fraction(129, 10), K=K, Q=Q)
    assert is_at_most("spectral", M, 5, L=Matrix([[0]]), s=Matrix([[25]]))
    assert not is_at_most("spectral", M, Fraction(49, 10), L=Matrix([[0]]), s=Matrix([[25]]))


def test_the_sum_of_powers_is_that_of_floats():
    for a in range(2, 8):
        for b in range(1, a):
            if gcd(a, b) == 1:
                length = sum(x ** (a / b) for x in (3, 4, 5)) ** (b / a)
                assert is_at_most(f"l{a}/{b}", Matrix([[3, 4, 5]]), Fraction(length * (1 + 1e-12)))
                assert not is_at_most(f"l{a}/{b}", Matrix([[3, 4, 5]]), Fraction(length * (1 - 1e-12)))
