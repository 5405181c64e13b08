"""Linear algebra without rounding, on whole numbers: what decides a sign or an equality that no tolerance may decide.

A float is a ratio of whole numbers, so whatever is solved by elimination can be solved exactly. Rows are brought to
whole numbers once (`whole_rows`), elimination is Bareiss's (`Basis`), whose divisions leave no rest, so that no
fraction is reduced on the way and numbers grow as the determinants do, no faster. It imports nothing
but the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, lcm, ldexp
from typing import TypeVar, cast

Whole = list[int]

#: A vector of fractions.
Row = list[Fraction]

Number = TypeVar("Number", int, Fraction)


@dataclass(frozen=True)
class Exact:
    """A vector of ratios with one denominator, which is positive: `whole[j] / over`."""

    whole: Whole
    over: int = 1

    @property
    def fractions(self) -> Row:
        """The numbers one by one."""
        return [Fraction(x, self.over) for x in self.whole]

    def reduced(self) -> Exact:
        """The same numbers, with the least denominator."""
        common = gcd(self.over, *self.whole)
        return self if common == 1 else Exact([x // common for x in self.whole], self.over // common)


def exact(numbers: Sequence[float | Fraction]) -> Exact:
    """Finite floats or fractions as one exact vector, rounded nowhere."""
    pairs = [number.as_integer_ratio() for number in numbers]
    over = lcm(*(below for _, below in pairs))
    return Exact([above * (over // below) for above, below in pairs], over)


def fraction_rows(rows: Sequence[Sequence[float]]) -> list[Row]:
    """Rows of finite floats as fractions."""
    return [[Fraction(x) for x in row] for row in rows]


def whole_rows(rows: Sequence[Sequence[float | Fraction]]) -> tuple[list[Whole], int]:
    """Rows times the least positive whole number that makes all of them whole, and that number."""
    pairs = [[number.as_integer_ratio() for number in row] for row in rows]
    over = lcm(*(below for row in pairs for _, below in row))
    return [[above * (over // below) for above, below in row] for row in pairs], over


def dot(a: Sequence[Number], b: Sequence[Number]) -> Number:
    """a'b of whole numbers, or of fractions."""
    return cast("Number", sum(x * y for x, y in zip(a, b, strict=True)))


def combine(weights: Sequence[int], rows: Sequence[Sequence[int]], width: int) -> Whole:
    """Sum of weight times row, a vector of `width`."""
    total = [0] * width
    for weight, row in zip(weights, rows, strict=True):
        if weight:
            total = [x + weight * y for x, y in zip(total, row, strict=True)]
    return total


class Basis:
    """Independent rows of whole numbers, and Bareiss's elimination of their products with each other.

    Products of independent rows are positive definite, so that no pivot is 0, and symmetric, so that what is left of a
    further row is the column it adds. A row is added at the cost of one row, not of a new elimination.
    """

    def __init__(self) -> None:
        """Begin without rows."""
        self.rows: list[Whole] = []
        self.work = 0  #: products of long numbers so far
        self._upper: list[Whole] = []  # each from its pivot on, which is a determinant

    def add(self, row: Whole) -> bool:
        """Take in a row; False, and nothing done, if it is a combination of those there are."""
        column, room = self._reduced(self.products(row), dot(row, row))
        if room:
            for upper, x in zip(self._upper, column, strict=True):
                upper.append(x)
            self._upper.append([room])
            self.rows.append(row)
        return bool(room)

    def keep(self, places: Sequence[int]) -> None:
        """Keep only the rows with these ascending numbers; elimination begins anew after the first gap."""
        first = next((j for j, place in enumerate(places) if place != j), len(places))
        later = [self.rows[place] for place in places[first:]]
        del self.rows[first:], self._upper[first:]
        for r, upper in enumerate(self._upper):
            del upper[first - r :]
        for row in later:
            self.add(row)

    def products(self, vector: Sequence[int]) -> Whole:
        """Products of the rows with a vector."""
        return [dot(row, vector) for row in self.rows]

    def weights(self, products: Sequence[int]) -> Exact:
        """Weights with which the rows sum to the shortest vector that has these products with them."""
        column, _ = self._reduced(products)
        over = self._upper[-1][0] if self._upper else 1
        found: Whole = []  # from the last to the first
        for upper, x in zip(reversed(self._upper), reversed(column), strict=True):
            found.append((over * x - dot(upper[:0:-1], found)) // upper[0])
        self.work += len(self.rows) ** 2 // 2
        return Exact(found[::-1], over)

    def parts(self, row: Whole) -> tuple[Exact, int]:
        """Weights of the rows in a further one, and the squared length of what they leave of it, times their `over`."""
        products = self.products(row)
        share = self.weights(products)
        return share, share.over * dot(row, row) - dot(share.whole, products)

    def _reduced(self, products: Sequence[int], square: int = 0) -> tuple[Whole, int]:
        """Products and a square, as those of one more row, after elimination by the rows there are."""
        rest, column, previous = list(products), [], 1
        for upper in self._upper:
            pivot, factor = upper[0], rest[0]
            rest = [(pivot * x - factor * y) // previous for x, y in zip(rest[1:], upper[1:], strict=True)]
            square = (pivot * square - factor * factor) // previous
            previous = pivot
            column.append(factor)
        self.work += len(self.rows) ** 2
        return column, square


def shortest_change(rows: Sequence[Whole], misses: Sequence[int]) -> Exact | None:
    """The shortest x with rows x = misses: the projection of 0 on where they hold; None where they contradict.

    p + x is the projection of p for `misses` = wanted - rows p.
    """
    if not rows:
        return None
    basis = Basis()
    kept = [k for k, row in enumerate(rows) if basis.add(row)]
    weights = basis.weights([misses[k] for k in kept])
    change = Exact(combine(weights.whole, basis.rows, len(rows[0])), weights.over).reduced()
    held = all(dot(row, change.whole) == miss * change.over for row, miss in zip(rows, misses, strict=True))
    return change if held else None


def root_below(number: Fraction) -> float:
    """The square root of a rational, rounded down, or 2^1000 if it is more."""
    above, below = number.as_integer_ratio()
    shift = max(0, 60 + (below.bit_length() - above.bit_length()) // 2)
    found = isqrt((above << (2 * shift)) // below)
    spare = max(0, found.bit_length() - 53)
    exponent = spare - shift
    return ldexp(found >> spare, exponent) if exponent + 53 < 1000 else ldexp(1.0, 1000)
