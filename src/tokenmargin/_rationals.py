"""Linear algebra without rounding, on whole numbers: what decides a sign or an equality that no tolerance may decide.

A float is a ratio of whole numbers, so whatever is solved by elimination can be solved exactly. Rows are brought to
whole numbers once (`whole_rows`), elimination is Bareiss's, whose divisions leave no rest, so that no fraction is
reduced on the way and numbers grow as the determinants do and no faster. It imports the standard library alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, lcm, ldexp

Whole = list[int]

#: A prime of the size of a machine word.
PRIME = (1 << 61) - 1


@dataclass(frozen=True)
class Exact:
    """A vector of ratios with one denominator, which is positive: `whole[j] / over`."""

    whole: Whole
    over: int = 1

    @property
    def fractions(self) -> list[Fraction]:
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


def whole_rows(rows: Sequence[Sequence[float | Fraction]]) -> tuple[list[Whole], int]:
    """Rows times the least positive whole number that makes all of them whole, and that number."""
    pairs = [[number.as_integer_ratio() for number in row] for row in rows]
    over = lcm(*(below for row in pairs for _, below in row))
    return [[above * (over // below) for above, below in row] for row in pairs], over


def dot(a: Sequence[int], b: Sequence[int]) -> int:
    """a'b of whole numbers."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def combine(weights: Sequence[int], rows: Sequence[Sequence[int]], width: int) -> Whole:
    """Sum of weight times row, a vector of `width`."""
    total = [0] * width
    for weight, row in zip(weights, rows, strict=True):
        if weight:
            total = [x + weight * y for x, y in zip(total, row, strict=True)]
    return total


def independent(rows: Sequence[Sequence[int]]) -> list[int]:
    """Numbers of the rows that are independent of those before them, in order: a basis of all, the first ones first.

    What is independent modulo a prime is independent; only where a row is not, which is rare, are long numbers needed.
    """
    kept = _independent_modulo(rows)
    if len(kept) == len(rows):
        return kept
    return _eliminated([list(column) for column in zip(*rows, strict=True)], len(rows))[1]


def _independent_modulo(rows: Sequence[Sequence[int]]) -> list[int]:
    """The same modulo `PRIME`: some of the rows, and as a rule all, that are independent of those before them."""
    kept: list[int] = []
    echelon: list[tuple[int, Whole]] = []
    for number, row in enumerate(rows):
        rest = [x % PRIME for x in row]
        for place, other in echelon:
            factor = rest[place]
            if factor:
                rest = [(x - factor * y) % PRIME for x, y in zip(rest, other, strict=True)]
        lead = next((place for place, x in enumerate(rest) if x), None)
        if lead is not None:
            inverse = pow(rest[lead], -1, PRIME)
            echelon.append((lead, [x * inverse % PRIME for x in rest]))
            kept.append(number)
    return kept


def solve(matrix: Sequence[Sequence[int]], right: Sequence[int]) -> Exact | None:
    """x with matrix x = right, unknowns that are free set to 0; None where there is no solution.

    Args:
        matrix: any shape, of whole numbers.
        right: one whole number per row.
    """
    width = len(matrix[0]) if matrix else 0
    system, pivots = _eliminated([[*row, b] for row, b in zip(matrix, right, strict=True)], width)
    if any(row[width] for row in system[len(pivots) :]):
        return None
    return _back_substituted(system, pivots, width, [(width, 1)])


def null_space(matrix: Sequence[Sequence[int]]) -> list[Exact]:
    """A basis of the x with matrix x = 0; each has a 1 at an unknown of its own."""
    width = len(matrix[0]) if matrix else 0
    system, pivots = _eliminated([list(row) for row in matrix], width)
    free = [column for column in range(width) if column not in pivots]
    return [_back_substituted(system, pivots, width, [(column, -1)], column) for column in free]


def shortest_change(rows: Sequence[Sequence[int]], misses: Sequence[int]) -> Exact | None:
    """The shortest x with rows x = misses: the projection of 0 on where they hold; None where they contradict.

    p + x is the projection of p for `misses` = wanted - rows p.
    """
    if not rows:
        return None
    kept = independent(rows)
    basis = [rows[k] for k in kept]
    weights = solve([[dot(a, b) for b in basis] for a in basis], [misses[k] for k in kept])
    if weights is None:
        return None
    change = Exact(combine(weights.whole, basis, len(rows[0])), weights.over).reduced()
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


def _eliminated(system: list[Whole], width: int) -> tuple[list[Whole], list[int]]:
    """The system in echelon form, by Bareiss's elimination of its first `width` columns, and the columns of pivots."""
    pivots: list[int] = []
    previous = 1
    for column in range(width):
        top = len(pivots)
        leads = [r for r in range(top, len(system)) if system[r][column]]
        if not leads:
            continue
        lead = min(leads, key=lambda r: abs(system[r][column]))
        system[top], system[lead] = system[lead], system[top]
        pivot, upper = system[top][column], system[top]
        for r in range(top + 1, len(system)):
            row, factor = system[r], system[r][column]
            head = [0] * (column + 1)
            tail = zip(row[column + 1 :], upper[column + 1 :], strict=True)
            system[r] = head + [(pivot * x - factor * y) // previous for x, y in tail]
        previous = pivot
        pivots.append(column)
    return system, pivots


def _back_substituted(
    system: list[Whole], pivots: list[int], width: int, right: list[tuple[int, int]], free: int | None = None
) -> Exact:
    """The unknowns of the pivots for a right side that is a sum of columns; other unknowns are 0, or 1 for `free`.

    The last pivot is a determinant of which all denominators are divisors, so that every unknown is whole over it.
    """
    over = system[len(pivots) - 1][pivots[-1]] if pivots else 1
    values = [0] * width
    if free is not None:
        values[free] = over
    for r in range(len(pivots) - 1, -1, -1):
        row, column = system[r], pivots[r]
        total = over * sum(sign * row[place] for place, sign in right)
        total -= sum(row[c] * values[c] for c in pivots[r + 1 :])
        values[column] = total // row[column]
    return Exact([-x for x in values], -over) if over < 0 else Exact(values, over)
