"""Intervals of whole numbers over 2^bits, rounded outward: sums, products, inverses and exponentials.

What is true lies inside, whatever is rounded. This file imports the kernel and the standard library alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tokenmargin.verify.kernel import demand

Interval = tuple[int, int]  #: the least and the largest number, over 2^bits
Rows = list[list[Interval]]

#: exp(x) is a power of exp(x / 2^k), which is at most this and summed up.
SUMMED = Fraction(1, 16)


@dataclass(frozen=True)
class Grid:
    """Arithmetic of intervals whose ends are whole numbers over 2^bits."""

    bits: int

    @property
    def one(self) -> Interval:
        """1."""
        return 1 << self.bits, 1 << self.bits

    def of(self, number: Fraction) -> Interval:
        """An interval around a ratio."""
        above, below = number.numerator << self.bits, number.denominator
        return above // below, -(-above // below)

    def times(self, a: Interval, b: Interval) -> Interval:
        """All products."""
        every = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
        return min(every) >> self.bits, -(-max(every) >> self.bits)

    def sum(self, terms: Sequence[Interval]) -> Interval:
        """The sum."""
        return sum(a for a, _ in terms), sum(b for _, b in terms)

    def product(self, a: Sequence[Interval], b: Sequence[Interval]) -> Interval:
        """Sum of a_k b_k."""
        return self.sum([self.times(x, y) for x, y in zip(a, b, strict=True)])

    def inverse(self, a: Interval) -> Interval:
        """All 1/x, of positive x."""
        demand(a[0] > 0, "what is divided by may be 0: more bits are needed")
        whole = 1 << 2 * self.bits
        return whole // a[1], -(-whole // a[0])

    def exp(self, a: Interval) -> Interval:
        """All exp(x)."""
        return self._exp(a[0])[0], self._exp(a[1])[1]

    def _exp(self, x: int) -> Interval:
        """exp of one number; below what the bits show it is between 0 and the least of them."""
        far = abs(x) >> self.bits >= self.bits
        demand(not far or x < 0, "an exponential is too large for these bits")
        if far:
            return 0, 1
        halved = 0
        while abs(x) > (int(SUMMED * self.one[0]) << halved):
            halved += 1
        low = self._summed(abs(x) >> halved)[0]
        high = self._summed(-(-abs(x) >> halved))[1]
        for _ in range(halved):
            low, high = self.times((low, low), (low, low))[0], self.times((high, high), (high, high))[1]
        return (low, high) if x >= 0 else self.inverse((low, high))

    def _summed(self, x: int) -> Interval:
        """exp of a small number from 0 on: terms that are positive, and a rest of no more than the last of them."""
        low = high = least = most = 1 << self.bits
        for k in range(1, self.bits):
            least = (least * x >> self.bits) // k
            most = -((most * -x >> self.bits) // k)
            low, high = low + least, high + most
            if most <= 1:
                break
        return low, high + most


def negative(a: Interval) -> Interval:
    """All -x."""
    return -a[1], -a[0]


def less(a: Interval, b: Interval) -> Interval:
    """All x - y."""
    return a[0] - b[1], a[1] - b[0]


def size(a: Interval) -> int:
    """The largest |x|."""
    return max(-a[0], a[1])
