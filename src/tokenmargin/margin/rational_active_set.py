"""The shortest vector under linear constraints in rational arithmetic, or weights that prove there is none.

    minimise |p|^2 / 2   subject to   Z p >= b,   E p = 0        (b >= 0)

Goldfarb and Idnani's dual active-set method on whole numbers: p stays the shortest vector for the rows that are held, a
violated row is brought in, and a held row whose multiplier would turn negative is let go on the way. Where the new row
is a combination of held ones and none can be let go, that combination is the proof. |p| grows with every row that is
brought in, so no set of held rows comes twice and the method ends; nothing is rounded, so nothing need be tolerated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, log2

Row = list[Fraction]

#: Cubes of the number of held rows, added up over the solves: some seconds of whole numbers of a thousand digits.
MOST_WORK = 2_000_000


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest vector, exactly: p = sum of duals times rows and of tie duals times ties."""

    p: Row
    duals: Row
    tie_duals: Row

    @property
    def square(self) -> Fraction:
        """|p|^2."""
        return dot(self.p, self.p)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Weights >= 0 on rows and of any sign on ties that cancel exactly, while sum of weights times b is positive."""

    weights: Row
    tie_weights: Row


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    """Sum of products."""
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


def rational_least_norm(
    rows: list[Row], asked: Row, ties: list[Row], start: Iterable[int] = ()
) -> Shortest | Contradiction | None:
    """Solve the problem above; None where it would take more than `MOST_WORK`.

    Args:
        rows: Z, each of d fractions whose denominators are powers of two.
        asked: b, not negative.
        ties: E.
        start: rows that a solver in floats found to carry multipliers; the answer does not depend on them.
    """
    scaled = [_whole(row) for row in ties + rows]
    levels = [Fraction(0)] * len(ties) + [b / unit for (_, unit), b in zip(scaled[len(ties) :], asked, strict=True)]
    held = _Held([row for row, _ in scaled], levels, len(ties))
    try:
        weights = held.solve([len(ties) + k for k in start])
    except _TooLong:
        return None
    numbers = held.weights_of(weights) if weights is not None else held.weights_of(held.duals)
    numbers = [x / unit for x, (_, unit) in zip(numbers, scaled, strict=True)]
    tie_part, row_part = numbers[: len(ties)], numbers[len(ties) :]
    if weights is not None:
        return Contradiction(row_part, tie_part)
    return Shortest(held.point(), row_part, tie_part)


def _whole(row: Row) -> tuple[list[int], Fraction]:
    """A row as whole numbers without a common power of two, and the unit that makes it what it was."""
    scale = lcm(*(x.denominator for x in row))
    whole = [x.numerator * (scale // x.denominator) for x in row]
    bits = min(((x & -x).bit_length() - 1 for x in whole if x), default=0)
    return [x >> bits for x in whole], Fraction(1 << bits, scale)


class _TooLong(Exception):
    """More work than `MOST_WORK`."""


class _Held:
    """The held rows and their multipliers; ties come first among all rows, and are never let go."""

    def __init__(self, rows: list[list[int]], levels: Row, n_ties: int) -> None:
        self.rows, self.levels, self.n_ties = rows, levels, n_ties
        self.squares = [sum(x * x for x in row) for row in rows]
        self.columns: dict[int, list[int]] = {}
        self.numbers: list[int] = []
        self.duals: dict[int, Fraction] = {}
        self.work = 0

    def solve(self, start: list[int]) -> dict[int, Fraction] | None:
        """Bring in violated rows until none is left; weights that contradict if one cannot be."""
        for tie in range(self.n_ties):
            self._hold_if_independent(tie)
        self._begin(start)
        while (number := self._violated(start)) is not None:
            weights = self._take_in(number)
            if weights is not None:
                return weights
        return None

    def weights_of(self, numbers: dict[int, Fraction]) -> Row:
        """The same by all rows."""
        return [numbers.get(k, Fraction(0)) for k in range(len(self.rows))]

    def point(self) -> Row:
        """p, the held rows times their multipliers."""
        scale, whole = _common(list(self.duals.values()))
        total = [0] * len(self.rows[0])
        for number, weight in zip(self.duals, whole, strict=True):
            total = [t + weight * x for t, x in zip(total, self.rows[number], strict=True)]
        return [Fraction(t, scale) for t in total]

    def _hold_if_independent(self, number: int) -> None:
        if self.squares[number] and self._part_outside(number)[1]:
            self.numbers.append(number)
            self.duals[number] = Fraction(0)

    def _begin(self, start: list[int]) -> None:
        """Hold the rows of `start` if they carry the shortest vector for themselves; begin with the ties otherwise."""
        ties = list(self.numbers)
        for number in start:
            self._hold_if_independent(number)
        duals = self._solved([self.levels[k] for k in self.numbers])
        if all(x >= 0 for k, x in zip(self.numbers, duals, strict=True) if k >= self.n_ties):
            self.duals = dict(zip(self.numbers, duals, strict=True))
        else:
            self.numbers, self.duals = ties, dict.fromkeys(ties, Fraction(0))

    def _violated(self, start: list[int]) -> int | None:
        """The row that p misses by most of its length, those of `start` first; None where all are met."""
        scale, whole = _common(list(self.duals.values()))
        columns = [self._column(k) for k in self.duals]
        worst: dict[bool, tuple[float, int]] = {}
        for k in range(self.n_ties, len(self.rows)):
            level, known = self.levels[k], k in start
            have = sum(weight * column[k] for weight, column in zip(whole, columns, strict=True))
            lack = level.numerator * scale - have * level.denominator
            if k in self.duals or lack <= 0:
                continue
            missed = log2(lack) - log2(level.denominator) - log2(self.squares[k] or 1) / 2
            if known not in worst or missed > worst[known][0]:
                worst[known] = missed, k
        found = worst.get(True) or worst.get(False)
        return None if found is None else found[1]

    def _take_in(self, number: int) -> dict[int, Fraction] | None:
        """Bring in one violated row; weights that contradict when nothing satisfies it together with the held ones."""
        gained = Fraction(0)
        while True:
            share, room = self._part_outside(number)
            column = self._column(number)
            have = sum((self.duals[k] * column[k] for k in self.numbers), gained * column[number])
            lack = self.levels[number] - have
            falling = [(self.duals[k] / x, k) for k, x in share.items() if x > 0 and k >= self.n_ties]
            if not room and not falling:
                return {number: Fraction(1)} | {k: -x for k, x in share.items() if x}
            step = min(([lack / room] if room else []) + [ratio for ratio, _ in falling])
            full = bool(room) and step == lack / room
            for k, x in share.items():
                self.duals[k] -= step * x
            gained += step
            if full:
                self.numbers.append(number)
                self.duals[number] = gained
                return None
            _, dropped = min(falling)
            self.numbers.remove(dropped)
            del self.duals[dropped]

    def _part_outside(self, number: int) -> tuple[dict[int, Fraction], Fraction]:
        """Shares of the held rows in one more row, and the squared length of what they leave of it."""
        column = self._column(number)
        share = self._solved([Fraction(column[k]) for k in self.numbers])
        inside = sum((x * column[k] for k, x in zip(self.numbers, share, strict=True)), Fraction(0))
        return dict(zip(self.numbers, share, strict=True)), self.squares[number] - inside

    def _solved(self, right: Row) -> Row:
        """Solution of (Gram matrix of the held rows) x = right, by fraction-free elimination (Bareiss)."""
        size = len(self.numbers)
        self.work += size**3
        if self.work > MOST_WORK:
            raise _TooLong
        scale, whole = _common(right)
        system = [[self._column(i)[k] for i in self.numbers] + [whole[r]] for r, k in enumerate(self.numbers)]
        previous = 1
        for top in range(size):  # the Gram matrix of independent rows is positive definite: no pivot is zero
            pivot, lead = system[top][top], system[top]
            for r in range(top + 1, size):
                factor = system[r][top]
                system[r] = [(pivot * x - factor * y) // previous for x, y in zip(system[r], lead, strict=True)]
            previous = pivot
        answer = [Fraction(0)] * size
        for r in range(size - 1, -1, -1):
            rest = sum((system[r][c] * answer[c] for c in range(r + 1, size)), Fraction(0))
            answer[r] = (system[r][size] - rest) / system[r][r]
        return [x / scale for x in answer]

    def _column(self, number: int) -> list[int]:
        """Products of one row with all."""
        if number not in self.columns:
            held = self.rows[number]
            places = [j for j, x in enumerate(held) if x]
            self.columns[number] = [sum(row[j] * held[j] for j in places) for row in self.rows]
        return self.columns[number]


def _common(numbers: Row) -> tuple[int, list[int]]:
    """A common denominator, and the numerators over it."""
    scale = lcm(*(x.denominator for x in numbers))
    return scale, [x.numerator * (scale // x.denominator) for x in numbers]
