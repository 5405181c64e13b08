"""The point of a convex hull that is nearest to 0, in rational arithmetic: it decides what floats leave open.

Floats are rationals, so a hull of floats has an exact nearest point x, found by Wolfe's method (1976) in finitely many
steps: go to the nearest point of an affine hull, back to the border where that leaves the hull, and take in a row that
x does not separate from 0. It answers three questions without a tolerance. |x| is the label margin of the rows. Some u
has rows u > 0 if and only if x is not 0, and then u = x is one (Gordan). A row carries x if it has a positive weight in
some mixture that gives x, and the largest such weight is a linear program, solved by the simplex method from Wolfe's
own weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tokenmargin.errors import TooLargeError
from tokenmargin.margin.least_norm import least_norm

#: A vector of rationals.
Row = list[Fraction]

#: Most rows that may hold a nearest point: elimination is cubic in them, on numbers that grow with them.
MOST_HELD = 60

#: Weights of a float solution below this fraction of the largest are rounding: where the exact search starts, no more.
_DEBRIS = 1e-9


def exact_rows(rows: np.ndarray) -> list[Row]:
    """A matrix of floats as fractions."""
    return [[Fraction(x) for x in row] for row in np.asarray(rows, dtype=float).tolist()]


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    """a'b."""
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


@dataclass(frozen=True)
class HullPoint:
    """The nearest point of the hull of some rows, and weights of affinely independent rows that give it."""

    rows: list[Row]
    point: Row
    weights: dict[int, Fraction]  #: positive, of sum 1

    @property
    def square(self) -> Fraction:
        """|x|^2: the squared label margin of the rows, and 0 if no u has rows u > 0."""
        return dot(self.point, self.point)

    def largest_weights(self) -> list[Fraction]:
        """The largest weight of each row among all weights, >= 0 with sum 1, that give the point; for points but 0."""
        square, found = self.square, [Fraction(0)] * len(self.rows)
        tight = [i for i, row in enumerate(self.rows) if dot(row, self.point) == square]
        if len(tight) == len(self.weights):  # independent: no others give it
            return [self.weights.get(i, Fraction(0)) for i in range(len(self.rows))]
        first = sorted(tight, key=lambda i: i not in self.weights)
        table, basis = _reduced([[self.rows[i][c] for i in first] + [x] for c, x in enumerate(self.point)], len(first))
        for column, i in enumerate(first):
            found[i] = _maximised(table, basis, column)
        return found


def nearest_point(rows: list[Row]) -> HullPoint:
    """The point of the convex hull of the rows that is nearest to 0.

    Args:
        rows: at least one, of one width.
    """
    weights = _start(rows)
    while True:
        point = _mixed(rows, weights)
        square, products = dot(point, point), [dot(row, point) for row in rows]
        least = min(range(len(rows)), key=products.__getitem__)
        if not square or products[least] >= square:
            return HullPoint(rows, point, weights)
        weights = _moved(rows, {**weights, least: Fraction(0)})


def separating(rows: list[Row], ties: Sequence[Row] = ()) -> Row | None:
    """Some u with rows u > 0 and ties u = 0, the least product being 1; None if there is none."""
    width = len(rows[0])
    free = _null_space(list(ties), width)
    if not free:
        return None
    point = nearest_point([[dot(row, axis) for axis in free] for row in rows]).point
    u = [sum((x * axis[c] for x, axis in zip(point, free, strict=True)), Fraction(0)) for c in range(width)]
    least = min(dot(row, u) for row in rows)
    return [x / least for x in u] if least > 0 else None


def _mixed(rows: list[Row], weights: dict[int, Fraction]) -> Row:
    return [sum((w * rows[i][c] for i, w in weights.items()), Fraction(0)) for c in range(len(rows[0]))]


def _start(rows: list[Row]) -> dict[int, Fraction]:
    """Weights of the rows that hold a float solution where these are right as they stand, else the shortest row."""
    floats = np.array(rows, dtype=float)
    found = least_norm(floats, np.ones(len(floats)))
    weights = found.duals if found.weights is None else found.weights
    held = np.flatnonzero(weights > _DEBRIS * weights.max()).tolist()
    if 0 < len(held) <= len(rows[0]) + 1:
        exact = _affine(rows, held)
        if exact is not None and min(exact.values()) > 0:
            return exact
    return {min(range(len(rows)), key=lambda i: dot(rows[i], rows[i])): Fraction(1)}


def _moved(rows: list[Row], weights: dict[int, Fraction]) -> dict[int, Fraction]:
    """Weights of the nearest point of a hull of some of these rows, no farther from 0 than where it starts."""
    while True:
        goal = _affine(rows, list(weights))
        assert goal is not None  # a row is taken in only where it is off the affine hull of the others
        outside = [i for i, w in goal.items() if w <= 0]
        if not outside:
            return goal
        share = min(weights[i] / (weights[i] - goal[i]) for i in outside)
        moved = {i: w + share * (goal[i] - w) for i, w in weights.items()}
        weights = {i: w for i, w in moved.items() if w > 0}


def _affine(rows: list[Row], some: list[int]) -> dict[int, Fraction] | None:
    """Weights, of sum 1, of the point of the affine hull of some rows that is nearest to 0; None for dependent rows."""
    if len(some) > MOST_HELD:
        raise TooLargeError(f"More than {MOST_HELD} rows hold a nearest point: too many for rational arithmetic.")
    one, nothing = Fraction(1), Fraction(0)
    table = [[*(dot(rows[i], rows[j]) for j in some), one, nothing] for i in some]
    table.append([*(one for _ in some), nothing, one])
    table, basis = _reduced(table, len(some) + 1)
    if len(basis) <= len(some):
        return None
    return {i: table[basis.index(column)][-1] for column, i in enumerate(some)}


def _null_space(rows: list[Row], width: int) -> list[Row]:
    """A basis of the vectors that every row is orthogonal to."""
    table, basis = _reduced([row[:] for row in rows], width)
    found = []
    for free in (c for c in range(width) if c not in basis):
        vector = [Fraction(int(c == free)) for c in range(width)]
        for line, column in zip(table, basis, strict=True):
            vector[column] = -line[free]
        found.append(vector)
    return found


def _reduced(table: list[Row], columns: int) -> tuple[list[Row], list[int]]:
    """Gauss and Jordan: a row for each pivot, and the columns of the pivots, the first ones that may be."""
    basis: list[int] = []
    for column in range(columns):
        top = len(basis)
        lead = next((r for r in range(top, len(table)) if table[r][column]), None)
        if lead is not None:
            table[top], table[lead] = table[lead], table[top]
            _pivot(table, top, column)
            basis.append(column)
    return table[: len(basis)], basis


def _pivot(table: list[Row], row: int, column: int) -> None:
    """Make a column a unit vector."""
    pivot = table[row][column]
    table[row] = [x / pivot for x in table[row]]
    for r, line in enumerate(table):
        if r != row and (factor := line[column]):
            table[r] = [x - factor * y for x, y in zip(line, table[row], strict=True)]


def _maximised(table: list[Row], basis: list[int], column: int) -> Fraction:
    """The largest value of one variable: the simplex method, which ends by Bland's rule. The table is moved to it."""
    while True:
        own = table[basis.index(column)] if column in basis else None
        gains = [-x for x in own[:-1]] if own else [Fraction(0)] * (len(table[0]) - 1)
        gains[column] += 1
        enter = next((j for j, gain in enumerate(gains) if gain > 0 and j not in basis), None)
        if enter is None:
            return own[-1] if own else Fraction(0)
        ratios = [(line[-1] / line[enter], basis[r], r) for r, line in enumerate(table) if line[enter] > 0]
        _, _, leave = min(ratios)  # there is one: weights sum to 1
        _pivot(table, leave, enter)
        basis[leave] = enter
