"""The point of a convex hull that is nearest to 0, in rational arithmetic: it decides what floats leave open.

The shortest p with rows p >= 1 is x / |x|^2 for the point x of their hull that is nearest to 0, and its multipliers are
weights of that point; where there is no p, weights that cancel are those of x = 0. This answers three questions without
a tolerance. |x| is the label margin of the rows. Some u has rows u > 0 if and only if x is not 0, and then u = x is one
(Gordan). A row carries x if it has a positive weight in some mixture that gives x, and the largest such weight is a
linear program, solved by the simplex method from the weights at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tokenmargin._rationals import Row, dot
from tokenmargin.errors import TooLargeError
from tokenmargin.margin.exact_shortest import ROWS_LIMIT, ExactShortest, exact_shortest
from tokenmargin.margin.solution import Status


@dataclass(frozen=True)
class HullPoint:
    """The nearest point of the hull of some rows, and weights of affinely independent rows that give it."""

    rows: Sequence[Row]
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


def nearest_point(rows: Sequence[Row]) -> HullPoint:
    """The point of the convex hull of the rows, at least one, that is nearest to 0."""
    found = _solved(rows, ())
    total = sum(found.duals)  # |p|^2 where there is a p
    point = [x / total for x in found.p] or [Fraction(0)] * len(rows[0])
    return HullPoint(rows, point, {i: w / total for i, w in enumerate(found.duals) if w})


def separating(rows: Sequence[Row], ties: Sequence[Row] = ()) -> Row | None:
    """The shortest u with rows u >= 1 and ties u = 0, the least product being 1; None if there is none."""
    return _solved(rows, ties).p or None


def _solved(rows: Sequence[Row], ties: Sequence[Row]) -> ExactShortest:
    found = exact_shortest(rows, [1] * len(rows), ties)
    if found.status is Status.UNDECIDED:
        raise TooLargeError(f"More than {ROWS_LIMIT} rows hold a nearest point: too many for rational arithmetic.")
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
