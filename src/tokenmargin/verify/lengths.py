"""Upper bounds of norms of an array of ratios, in exact arithmetic: with the kernel, all that one has to trust.

A bracket in a norm N needs two of them: N(p) <= high for a p that does what is asked, and N_*(g) <= (sum w margin)/low
for the weighted sum g of differences, because each feasible q has sum w margin <= g'q <= N_*(g) N(q). The norms are

- `max`, the largest modulus, and `sum`, the sum of moduli: each the dual of the other;
- `la/b`, (sum of |x|^(a/b))^(b/a) with whole a > b, of dual `la/(a-b)`: bounded by roots of whole numbers;
- `nuclear`, the sum of singular values: M = K Q' + R has N(M) <= (|K|^2 + |Q|^2)/2 + sum |R_ij|, whatever K and Q are;
- `spectral`, the largest singular value: R = s I - M'M - L L' has N(M)^2 <= s + max_i sum_j |R_ij| for any L, s.

So K, Q, L and s are witnesses: rounded as they may be, what rounding left, R, is taken without rounding. It imports the
standard library and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from tokenmargin.verify.kernel import Whole, demand, dot

#: Bits to which powers are taken, and the largest a of a norm la/b.
BITS, LARGEST = 160, 1000

#: The norms that have one name and no numbers, and their duals.
DUALS = {"L2": "L2", "max": "sum", "sum": "max", "nuclear": "spectral", "spectral": "nuclear"}


@dataclass(frozen=True)
class Matrix:
    """An array of ratios: rows of whole numbers over one, which is positive."""

    rows: list[Whole]
    over: int = 1

    def __post_init__(self) -> None:
        """Check that the denominator is positive and the rows are of one length."""
        demand(self.over > 0, "a denominator is not positive")
        demand(len({len(row) for row in self.rows}) == 1, "the rows of a matrix differ in length, or there is none")

    @property
    def columns(self) -> list[Whole]:
        """The transposed rows."""
        return [list(column) for column in zip(*self.rows, strict=True)]


def power_of(norm: str) -> tuple[int, int] | None:
    """(a, b) of la/b in lowest terms; None for another norm."""
    found = re.fullmatch(r"l([1-9][0-9]{0,3})/([1-9][0-9]{0,3})", norm, re.ASCII)
    a, b = (int(found[1]), int(found[2])) if found else (0, 0)
    return (a, b) if b < a <= LARGEST and gcd(a, b) == 1 else None


def dual_of(norm: str) -> str:
    """The name of the dual norm."""
    power = power_of(norm)
    return DUALS[norm] if power is None else f"l{power[0]}/{power[0] - power[1]}"


def demand_at_most(norm: str, M: Matrix, bound: Fraction, witness: dict[str, Matrix], what: str) -> None:
    """Raise Refuted unless it is proved that N(M) <= bound."""
    entries, power = [abs(x) for row in M.rows for x in row], power_of(norm)
    proved = bound >= 0
    if norm == "L2":
        proved &= dot(entries, entries) <= (bound * M.over) ** 2
    elif norm in ("max", "sum"):
        proved &= (max(entries) if norm == "max" else sum(entries)) <= bound * M.over
    elif power is not None:
        proved &= _power_sum_at_most(entries, bound * M.over, *power)
    elif norm == "nuclear":
        proved &= _nuclear_bound(M, witness["K"], witness["Q"]) <= bound
    else:
        demand(norm == "spectral", "the norm is not known here")
        proved &= _spectral_square(M, witness["L"], witness["s"]) <= bound**2
    demand(proved, f"the norm of {what} is not proved to be what it has to be")


def _power_sum_at_most(entries: Whole, bound: Fraction, a: int, b: int) -> bool:
    """sum x^(a/b) <= bound^(a/b), each power rounded to the unsafe side: entries up, the bound down."""
    drop = max(entries).bit_length() - BITS  # a common factor of entries and bound changes nothing
    fine = [-(-x >> drop) if drop > 0 else x << -drop for x in entries]
    room = bound / 2**drop if drop > 0 else bound * 2**-drop
    above, below = room.as_integer_ratio()
    return sum(_root(x**a, b) + 1 for x in fine if x) <= _root(above**a // below**a, b)


def _root(number: int, index: int) -> int:
    """The largest whole number whose power of `index` is at most `number`, by Newton's method from above."""
    if number < 2 or index == 1:
        return number
    found = 1 << -(-number.bit_length() // index)
    while True:
        ahead = ((index - 1) * found + number // found ** (index - 1)) // index
        if ahead >= found:
            return found
        found = ahead


def _nuclear_bound(M: Matrix, K: Matrix, Q: Matrix) -> Fraction:
    """(|K|^2 + |Q|^2)/2 + sum |M - K Q'|."""
    fits = len(K.rows) == len(M.rows) and len(Q.rows) == len(M.rows[0]) and len(K.rows[0]) == len(Q.rows[0])
    demand(fits, "K and Q do not have the shape of the matrix")
    over = K.over * Q.over
    left = sum(
        abs(x * over - dot(k, q) * M.over)
        for k, row in zip(K.rows, M.rows, strict=True)
        for q, x in zip(Q.rows, row, strict=True)
    )
    squares = [Fraction(sum(dot(row, row) for row in part.rows), part.over**2) for part in (K, Q)]
    return sum(squares, Fraction(0)) / 2 + Fraction(left, over * M.over)


def _spectral_square(M: Matrix, L: Matrix, s: Matrix) -> Fraction:
    """s + max_i sum_j |R_ij| with R = s I - M'M - L L', or of M' if this is smaller."""
    lines = M.columns if len(M.rows) >= len(M.rows[0]) else M.rows
    size = len(lines)
    demand(len(L.rows) == len(L.rows[0]) == size and len(s.rows) == len(s.rows[0]) == 1, "L has not the matrix's shape")
    shift, over = s.rows[0][0], s.over * M.over**2 * L.over**2
    units = over // s.over, over // M.over**2, over // L.over**2
    most = 0
    for i in range(size):
        row = [dot(lines[i], lines[j]) * units[1] + dot(L.rows[i], L.rows[j]) * units[2] for j in range(size)]
        row[i] -= shift * units[0]
        most = max(most, sum(abs(x) for x in row))
    return Fraction(shift, s.over) + Fraction(most, over)
