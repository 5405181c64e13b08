"""Verdicts on min |p| s.t. z'p >= b, e'p = 0 decided again in rational arithmetic, by other means than the library's.

Floats are ratios of whole numbers, so nothing here is rounded. A shortest vector is right if it can be moved, exactly,
onto the constraints and is then at most a hair longer than the bound that its multipliers prove; "there is none" is
right if a simplex method on fractions finds weights that contradict.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

#: How much longer, relatively, a shortest vector may be than the bound that its multipliers prove.
BRACKET = Fraction(1, 10**7)
#: A constraint that is met to this share of |z||p| is one that the exact vector is put onto.
TIGHT = Fraction(1, 10**9)

#: Share of what is asked of a row that it may be short of.
SHORT = Fraction(1, 10**8)

#: Times the length that the hardest row alone asks for, above which float64 keys mean nothing; the library says 1e12,
#: of rows scaled to length 1 and so rounded.
BEYOND = 10**11

#: Share of |z||p| that a product of 32 floats may be rounded by.
ROUNDING = Fraction(32, 2**52)

Row = list[Fraction]


def exact(rows: np.ndarray) -> list[Row]:
    """A matrix of floats as fractions."""
    return [[Fraction(x) for x in row] for row in np.asarray(rows, dtype=float).tolist()]


def dot(a: Row, b: Row) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def combined(rows: list[Row], weights: Row, width: int) -> Row:
    """sum_k weights_k rows_k."""
    total = [Fraction(0)] * width
    for row, weight in zip(rows, weights, strict=True):
        if weight:
            total = [t + weight * x for t, x in zip(total, row, strict=True)]
    return total


def moved_onto(p: Row, level: list[Row]) -> Row:
    """p less its part along `level`, so that every one of those products is 0: Gram-Schmidt on fractions."""
    basis: list[Row] = []
    for row in level:
        for known in basis:
            share = dot(row, known) / dot(known, known)
            row = [x - share * y for x, y in zip(row, known, strict=True)]
        if any(row):
            basis.append(row)
    for known in basis:
        share = dot(p, known) / dot(known, known)
        p = [x - share * y for x, y in zip(p, known, strict=True)]
    return p


def is_shortest(
    rows: list[Row], rhs: Row, ties: list[Row], p: Row, duals: Row, tie_duals: Row, missed: Fraction = Fraction(0)
) -> bool:
    """Whether p, moved exactly onto what it must meet, is feasible and as short as its multipliers say it must be.

    Rows of which 0 is asked may be `missed` by this share of |z||p|.
    """
    weights = [max(w, Fraction(0)) for w in duals]
    pull = combined(rows + ties, weights + tie_duals, len(p))
    gain = sum((w * b for w, b in zip(weights, rhs, strict=True)), Fraction(0))
    # The multipliers' pull only nearly is p: what it proves is |p*| >= gain / |pull|.
    longest = (1 + BRACKET) ** 2 * gain**2
    return gain > 0 and any(
        square is not None and square * dot(pull, pull) <= longest
        for square in (feasible_square(rows, rhs, ties, p, onto, missed) for onto in _sides(rows, rhs, p, duals))
    )


def meets_its_margins(rows: list[Row], rhs: Row, p: Row) -> bool:
    """Whether p, as it is, gives every row what is asked of it, up to `SHORT` of that; rows asked 0 apart."""
    return all(dot(z, p) >= b * (1 - SHORT) for z, b in zip(rows, rhs, strict=True) if b)


def is_shortest_to_rounding(rows: list[Row], rhs: Row, ties: list[Row], p: Row, duals: Row, tie_duals: Row) -> bool:
    """Whether p is as short as its multipliers say, and level rows are missed by rounding of its entries at most."""
    weights = [max(w, Fraction(0)) for w in duals]
    pull = combined(rows + ties, weights + tie_duals, len(p))
    gain = sum((w * b for w, b in zip(weights, rhs, strict=True)), Fraction(0))
    sizes = [abs(x) for x in p]
    level = [(-dot(z, p), z) for z, b in zip(rows, rhs, strict=True) if not b] + [(abs(dot(z, p)), z) for z in ties]
    met = all(missed <= ROUNDING * dot([abs(x) for x in z], sizes) for missed, z in level)
    return met and gain > 0 and dot(p, p) * dot(pull, pull) <= (1 + BRACKET) ** 2 * gain**2


def _sides(rows: list[Row], rhs: Row, p: Row, duals: Row) -> Iterator[list[Row]]:
    """Rows of which 0 is asked that the exact vector may be put onto: none, those it misses, that hold it, all near."""
    yield []
    asked = [(z, w) for z, b, w in zip(rows, rhs, duals, strict=True) if not b]
    yield [z for z, _ in asked if dot(z, p) < 0]
    yield [z for z, w in asked if w > 0 or dot(z, p) < 0]
    yield [z for z, _ in asked if dot(z, p) ** 2 <= TIGHT**2 * dot(z, z) * dot(p, p)]


def feasible_square(
    rows: list[Row], rhs: Row, ties: list[Row], p: Row, onto: list[Row], missed: Fraction
) -> Fraction | None:
    """|p|^2 of the exact feasible vector next to p that is level on `onto`, or None where there is none."""
    point = moved_onto(p, ties + onto)
    gaps = [dot(z, point) for z in rows]
    asked = [(gap, b) for gap, b in zip(gaps, rhs, strict=True) if b]
    square = dot(point, point)
    over = [gap < 0 and gap**2 > missed**2 * dot(z, z) * square for z, gap in zip(rows, gaps, strict=True)]
    if any(over) or any(gap <= 0 for gap, _ in asked):
        return None
    return square * max(Fraction(1), *(b / gap for gap, b in asked)) ** 2


def is_beyond(rows: list[Row], rhs: Row, ties: list[Row], weights: Row, tie_weights: Row) -> bool:
    """Whether these weights prove that every p is BEYOND times as long as the hardest row alone asks for.

    z'p >= b for all rows gives sum w b <= |sum w z + ties| |p|. Where the hardest row is of another size than those of
    the weights: that they cancel up to 1/BEYOND of the longest term, and that the shortest p, as floats, misses a row.
    """
    if not weights or min(weights) < 0:
        return False
    nothing = [Fraction(0)] * (len(ties) - len(tie_weights))
    pull = combined(rows + ties, weights + tie_weights + nothing, len(rows[0]))
    gain = sum((w * b for w, b in zip(weights, rhs, strict=True)), Fraction(0))
    alone = max(b**2 / dot(z, z) for z, b in zip(rows, rhs, strict=True) if any(z))  # squared
    if gain <= 0 or gain**2 >= BEYOND**2 * alone * dot(pull, pull):
        return gain > 0
    level = [moved_onto(z, ties) for z in rows]  # a row that nearly is a tie contradicts nothing
    longest = max(w * w * dot(z, z) for z, w in zip(level, weights, strict=True))
    point = [Fraction(float(x * gain / dot(pull, pull))) for x in pull]
    return longest >= BEYOND**2 * dot(pull, pull) and not meets_its_margins(rows, rhs, point)


def is_contradictory(rows: list[Row], rhs: Row, ties: list[Row]) -> bool:
    """Whether weights >= 0 on rows, any on ties, cancel while sum w b = 1: phase one of the simplex method.

    With Bland's rule, so that it ends.
    """
    width = len(rows[0])
    columns = [[*z, b] for z, b in zip(rows, rhs, strict=True)]
    columns += [[*e, Fraction(0)] for e in ties] + [[*(-x for x in e), Fraction(0)] for e in ties]
    table = [[column[i] for column in columns] + [Fraction(int(i == width))] for i in range(width + 1)]
    basis: list[int | None] = [None] * (width + 1)  # None: the artificial variable of that row
    while True:
        left = [i for i, owner in enumerate(basis) if owner is None]
        costs = [sum((table[i][j] for i in left), Fraction(0)) for j in range(len(columns))]
        enter = next((j for j, cost in enumerate(costs) if cost > 0), None)
        if enter is None:
            return all(table[i][-1] == 0 for i in left)
        ratios = [
            (table[i][-1] / table[i][enter], -1 if basis[i] is None else basis[i], i)
            for i in range(width + 1)
            if table[i][enter] > 0
        ]
        _, _, leave = min(ratios)
        pivot = table[leave][enter]
        table[leave] = [x / pivot for x in table[leave]]
        for i in range(width + 1):
            factor = table[i][enter]
            if i != leave and factor:
                table[i] = [x - factor * y for x, y in zip(table[i], table[leave], strict=True)]
        basis[leave] = enter
