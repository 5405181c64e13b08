"""The shortest vector under linear constraints without rounding, or weights that prove that there is none.

    minimise |p|^2   subject to   A p >= b,   E p = 0        (b >= 0)

Goldfarb and Idnani's dual active-set method (1983) on whole numbers: p is the shortest vector that is tight on the rows
that are held, the most violated row is brought in, and a held row whose multiplier would become negative is let go on
the way. Where the new row is a combination of held ones and none of those can be let go, that combination is the proof.
|p| grows with every row that is brought in, so no set of held rows comes twice and the method ends. Started from the
rows that a solver in floats found tight it takes a step or none; the answer does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, inf, log2

from tokenmargin._rationals import Basis, Exact, Row, Whole, combine, dot, exact, whole_rows
from tokenmargin.margin.solution import Status

#: Rows that may hold p back at once, ties among them, wherever rows are eliminated without rounding: numbers become as
#: long as there are rows, so that 80 rows of floats take 3 seconds, twice as many 90.
ROWS_LIMIT = 80

#: Products of long numbers that a search may cost, in cubes of `ROWS_LIMIT`: hundreds of steps where 30 rows hold p,
#: some 70 from a start with 80, which is less than a minute.
SEARCH = 4

#: Rows and ties, and numbers in them, of a problem that is given here because floats do not tell: one that few rows
#: hold takes a second at most.
EXACT_ROWS, EXACT_NUMBERS = 200, 40_000


@dataclass(frozen=True, slots=True)
class ExactShortest:
    """The shortest p with its multipliers, or weights that prove that there is none, or neither (UNDECIDED).

    OPTIMAL: p = sum of duals times rows and of tie duals times ties. INFEASIBLE: `duals` and `tie_duals` are weights
    with which rows and ties cancel, while what the rows ask sums to more than 0.
    """

    status: Status
    duals: Row = field(default_factory=list)  #: of all rows, >= 0
    tie_duals: Row = field(default_factory=list)  #: of all ties
    p: Row = field(default_factory=list)  #: empty where there is none
    held: list[int] = field(default_factory=list)  #: rows that may have a multiplier, as they were taken in

    @property
    def square(self) -> Fraction:
        """|p|^2."""
        return dot(self.p, self.p)


def exact_shortest(
    rows: Sequence[Sequence[int | Fraction]],
    asked: Sequence[int | Fraction],
    ties: Sequence[Sequence[int | Fraction]] = (),
    start: Iterable[int] = (),
) -> ExactShortest:
    """Solve min |p| s.t. rows p >= asked, ties p = 0; undecided beyond `ROWS_LIMIT` or `SEARCH`.

    Args:
        rows: A, at least one.
        asked: b >= 0, one number for each row.
        ties: E, as wide as the rows.
        start: numbers of the rows that are believed tight, those of largest multiplier first.
    """
    lines = [_line(row) for row in (*ties, *rows)]
    levels = exact([unit * b for (_, unit), b in zip(lines, (*(0 for _ in ties), *asked), strict=True)])
    held = _Held([row for row, _ in lines], levels.whole, len(ties))
    try:
        cancelling = held.search([len(ties) + k for k in start])
    except _TooLong:
        return ExactShortest(Status.UNDECIDED)
    weights, over = (held.weights, held.weights.over * levels.over) if cancelling is None else (cancelling, 1)
    found = [Fraction(0)] * len(lines)
    for number, weight in zip(held.numbers, weights.whole, strict=True):
        found[number] = lines[number][1] * Fraction(weight, over)
    status = Status.OPTIMAL if cancelling is None else Status.INFEASIBLE
    p = [Fraction(x, over) for x in held.point] if cancelling is None else []
    order = [number - len(ties) for number in held.numbers if number >= len(ties)]
    return ExactShortest(status, found[len(ties) :], found[: len(ties)], p, order)


def _line(row: Sequence[int | Fraction]) -> tuple[Whole, Fraction]:
    """A row times a unit that makes it whole, without a power of two that all its numbers have; and the unit."""
    (whole,), over = whole_rows([row])
    common = gcd(*whole)
    common = common & -common or 1
    return [x // common for x in whole], Fraction(over, common)


class _TooLong(Exception):
    """More rows than `ROWS_LIMIT`, or more work than `SEARCH`."""


class _Held:
    """The rows that p is held tight on; ties come first among all rows, and are never let go."""

    def __init__(self, rows: list[Whole], levels: Whole, n_ties: int) -> None:
        self.rows, self.levels, self.n_ties = rows, levels, n_ties
        self.basis, self.numbers = Basis(), list[int]()
        self.weights, self.point = Exact([]), [0] * len(rows[0])  # p is the point over weights.over

    def search(self, start: Sequence[int]) -> Exact | None:
        """Bring in violated rows until none is left; weights of `numbers` that cancel if one cannot be."""
        for tie in range(self.n_ties):
            self._hold(tie)
        if len(self.numbers) + min(len(start), len(self.point)) > ROWS_LIMIT:
            raise _TooLong  # rows that a solver found tight are independent: seconds would only show it
        for known in start:
            self._hold(known)
        self._solve()
        while pushing := {j for j, k in enumerate(self.numbers) if k >= self.n_ties and self.weights.whole[j] < 0}:
            self._let_go(pushing)
        while (number := self._most_violated()) is not None:
            cancelling = self._bring_in(number)
            if cancelling is not None:
                return cancelling
        return None

    def _hold(self, number: int) -> None:
        if self.basis.add(self.rows[number]):
            self.numbers.append(number)
        if len(self.numbers) > ROWS_LIMIT or self.basis.work > SEARCH * ROWS_LIMIT**3:
            raise _TooLong

    def _let_go(self, places: set[int]) -> None:
        kept = [j for j in range(len(self.numbers)) if j not in places]
        self.basis.keep(kept)
        self.numbers = [self.numbers[j] for j in kept]
        self._solve()

    def _solve(self) -> None:
        self.weights = self.basis.weights([self.levels[k] for k in self.numbers])

    def _most_violated(self) -> int | None:
        """The row that p misses by most, in units of its length; None if it misses none."""
        self.point = combine(self.weights.whole, self.basis.rows, len(self.point))
        worst, found = -inf, None
        for number in range(self.n_ties, len(self.rows)):
            row = self.rows[number]
            miss = self.levels[number] * self.weights.over - dot(row, self.point)
            if miss > 0:
                square = dot(row, row)
                size = log2(miss) - log2(square) / 2 if square else inf
                if size > worst:
                    worst, found = size, number
        return found

    def _bring_in(self, number: int) -> Exact | None:
        """Raise the multiplier x of a violated row until it is tight; weights that cancel where nothing makes it so.

        Held rows stay tight with multipliers weights - x share; one that comes to 0 first is let go.
        """
        row = self.rows[number]
        while True:
            share, room = self.basis.parts(row)
            falling = [
                (Fraction(w, x), j)
                for j, (w, x) in enumerate(zip(self.weights.whole, share.whole, strict=True))
                if x > 0 and self.numbers[j] >= self.n_ties
            ]
            if not room and not falling:
                self.numbers.append(number)
                return Exact([*(-x for x in share.whole), share.over])
            first, place = min(falling, default=(inf, -1))
            lack = self.levels[number] * share.over - dot(share.whole, [self.levels[k] for k in self.numbers])
            if room and Fraction(lack, room) <= first:
                self._hold(number)
                self._solve()
                return None
            self._let_go({place})
