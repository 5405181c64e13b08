"""Rows as they were given: differences of floats, which floats hold up to rounding only."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tokenmargin._rationals import Row, fraction_rows
from tokenmargin.margin.exact_shortest import EXACT_NUMBERS, EXACT_ROWS
from tokenmargin.margin.solution import REACH

#: Halves of a float of 53 digits, so that products of halves are floats (Veltkamp, Dekker).
_SPLITTER = 2.0**27 + 1


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """Rows `first` - `second`, shape (m, d), and ties, shape (q, d), alike; the second is 0 where absent."""

    first: np.ndarray
    second: np.ndarray | None = None
    tie_first: np.ndarray | None = None
    tie_second: np.ndarray | None = None
    is_rounded: bool = False  #: whether the rows were rounded before they came here, so that only floats decide

    @property
    def width(self) -> int:
        """d."""
        return int(self.first.shape[1])

    @property
    def is_small(self) -> bool:
        """True if the problem is solved in rationals where floats do not tell."""
        count = len(self.first) + (0 if self.tie_first is None else len(self.tie_first))
        return not self.is_rounded and count <= EXACT_ROWS and count * self.width <= EXACT_NUMBERS

    @property
    def is_spread(self) -> bool:
        """True if the numbers other than 0 differ by more than `REACH`; by rows and columns where there are many."""
        sizes = np.abs(np.concatenate(self._parts))
        if not self.is_small:
            sizes = np.concatenate([sizes.max(axis=0), sizes.max(axis=1)])
        sizes = sizes[sizes > 0]
        return bool(sizes.size) and float(sizes.max()) / REACH > float(sizes.min())

    @property
    def exponent(self) -> int:
        """The power of two near the largest number."""
        return int(max(np.frexp(np.abs(part).max(initial=0.0))[1] for part in self._parts))

    @property
    def _parts(self) -> list[np.ndarray]:
        return [x for x in (self.first, self.second, self.tie_first, self.tie_second) if x is not None]

    def floats(self, exponent: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows and ties, rounded, in units of two to this power."""
        rows = _rounded(self.first, self.second, exponent)
        if self.tie_first is None:
            return rows, rows[:0]
        return rows, _rounded(self.tie_first, self.tie_second, exponent)

    def exact(self) -> tuple[list[Row], list[Row]]:
        """Rows and ties without rounding."""
        ties = [] if self.tie_first is None else _differences(self.tie_first, self.tie_second)
        return _differences(self.first, self.second), ties

    def of(self, numbers: np.ndarray) -> GivenRows:
        """Some of the rows, and all ties."""
        second = None if self.second is None else self.second[numbers]
        return GivenRows(self.first[numbers], second, self.tie_first, self.tie_second)

    def levelled(self, numbers: np.ndarray, level: np.ndarray) -> GivenRows:
        """Some of the rows; as ties all ties, and behind them other rows."""
        few, more = self.of(numbers), self.of(level)
        first = more.first if self.tie_first is None else np.concatenate([self.tie_first, more.first])
        second = more.second
        if second is not None and self.tie_second is not None:
            second = np.concatenate([self.tie_second, second])
        return GivenRows(few.first, few.second, first, second)

    def products(self, p: np.ndarray) -> np.ndarray:
        """Rows times p as if computed in twice the digits and then rounded (Ogita, Rump and Oishi's Dot2), (m,)."""
        exponent = self.exponent  # in units in which nothing over- or underflows
        total, rest = np.zeros(len(self.first)), np.zeros(len(self.first))
        for sign, part in ((1.0, self.first), (-1.0, self.second)):
            if part is None:
                continue
            for column, x in zip(np.ldexp(part, -exponent).T, np.ldexp(sign * p, exponent).tolist(), strict=True):
                product, low = _two_product(column, x)
                total, more = _two_sum(total, product)
                rest += low + more
        return total + rest


def _rounded(first: np.ndarray, second: np.ndarray | None, exponent: int) -> np.ndarray:
    if exponent:
        first, second = np.ldexp(first, -exponent), None if second is None else np.ldexp(second, -exponent)
    with np.errstate(over="ignore"):
        return first if second is None else first - second


def _differences(first: np.ndarray, second: np.ndarray | None) -> list[Row]:
    if second is None:
        return fraction_rows(first.tolist())
    return [
        [Fraction(a) - Fraction(b) for a, b in zip(x, y, strict=True)]
        for x, y in zip(first.tolist(), second.tolist(), strict=True)
    ]


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and what was rounded off (Knuth)."""
    total = a + b
    late = total - a
    return total, (a - (total - late)) + (b - late)


def _two_product(a: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
    """a b rounded, and what was rounded off (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(np.float64(b))
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(x: np.ndarray | np.float64) -> tuple[np.ndarray, np.ndarray]:
    far = _SPLITTER * x
    high = far - (far - x)
    return np.asarray(high), np.asarray(x - high)
