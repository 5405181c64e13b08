"""The verdict on a least-norm problem whose numbers are of unlike sizes, by rational arithmetic.

Floats decide where |p||z| is within `REACH` of what is asked of a row z: a product is rounded by 1e-16 of |p||z|, so by
1e-10 of the margin. Beyond that a row that is missed altogether may look like rounding. There the problem is solved
without rounding, and p is rounded to floats such that it still meets every row of which more than 0 is asked.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np

from tokenmargin._rationals import Basis, Row, dot, whole_rows
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin._least_norm_batch import INFEASIBLE_MARGIN
from tokenmargin.margin.exact_shortest import ExactShortest, exact_shortest
from tokenmargin.margin.least_norm_solution import LeastNormSolution, no_point
from tokenmargin.margin.solution import KKT_TOLERANCE, Residuals, Status

#: Units in the last place of every product by which more is asked of a row, so that p may be rounded.
SPARE_ULPS = (1, 2, 8, 64)

#: Share of what is asked of a row that p, exactly, may be short of, and of |p|^2 that it may be too long by.
MISSED = Fraction(KKT_TOLERANCE)

#: Below it floats are rounded by as much as it is.
SMALLEST_NORMAL = Fraction(2) ** -1022

#: Powers of two between which multipliers are given as they are.
PLAIN_EXPONENT = 1000

TOO_LONG_FOR_FLOATS = "its shortest vector is longer than any float64, about 1e{:.0f}"
NO_FLOAT_MEETS = (
    "it has a shortest vector, of length about 1e{:.0f}, but no vector of float64 near that one meets the constraints"
)


def exact_verdict(given: GivenRows, rhs: np.ndarray, carrying: np.ndarray) -> LeastNormSolution | None:
    """Decide in rationals, from rows that seem to carry multipliers; None where that would take too long."""
    rows, ties = given.exact()
    asked, shape = _fractions(rhs), (given.width, len(rows), len(ties))
    found = exact_shortest(rows, asked, ties, carrying.tolist())
    if found.status is Status.UNDECIDED:
        return None
    if found.status is Status.INFEASIBLE:
        return _infeasible(shape, found.duals, found.tie_duals)
    point = _meeting(rows, asked, ties, found)
    if isinstance(point, str):
        if point != TOO_LONG_FOR_FLOATS and _nearly_contradict(rows, ties, found):
            return _infeasible(shape, found.duals, found.tie_duals)
        exact, reason = (tuple(found.duals), tuple(found.tie_duals)), point.format(_log10(found.square) / 2)
        return replace(no_point(Status.UNDECIDED, *shape, reason=reason), exact=exact, least=_root(found.square))
    duals, tie_duals, exponent = _floats(found.duals, found.tie_duals, most=PLAIN_EXPONENT)
    residuals = _residuals(rows, asked, ties, found, _fractions(point))
    slacks = np.array([_nearest(dot(z, found.p) - b) for z, b in zip(rows, asked, strict=True)])
    exact = tuple(found.duals), tuple(found.tie_duals)
    return LeastNormSolution(
        Status.OPTIMAL, residuals, point, duals, tie_duals, dual_exponent=exponent, known_slacks=slacks, exact=exact
    )


def _infeasible(shape: tuple[int, int, int], weights: Row, tie_weights: Row) -> LeastNormSolution:
    rounded, tie_rounded, _ = _floats(weights, tie_weights, most=0)
    exact = tuple(weights), tuple(tie_weights)
    return no_point(Status.INFEASIBLE, *shape, (rounded, tie_rounded), exact)


def _nearly_contradict(rows: list[Row], ties: list[Row], found: ExactShortest) -> bool:
    """True if the multipliers cancel but for a share of `INFEASIBLE_MARGIN`: the last digits of the rows decide.

    |sum of duals times rows| = |p| <= share * (largest of duals times |row|), of rows less their parts along the ties:
    p is level on those, so that a row that nearly is a tie contradicts nothing.
    """
    whole, over = whole_rows([*ties, *rows])
    basis = Basis()
    for tie in whole[: len(ties)]:
        basis.add(tie)
    parts = ((basis.parts(z), w) for z, w in zip(whole[len(ties) :], found.duals, strict=True) if w)
    largest = max(w * w * Fraction(rest, share.over * over**2) for (share, rest), w in parts)
    return found.square <= Fraction(INFEASIBLE_MARGIN) ** 2 * largest


def _meeting(rows: list[Row], asked: Row, ties: list[Row], found: ExactShortest) -> np.ndarray | str:
    """The shortest vector in floats that meets every row of which more than 0 is asked; or why there is none."""
    held = [k for k, x in enumerate(found.duals) if x]
    point = _rounded(found.p)
    for ulps in SPARE_ULPS:
        if point is None or _meets(rows, asked, point):
            break
        spare = exact_shortest(rows, _more_asked(rows, asked, point, ulps), ties, held)
        if spare.status is not Status.OPTIMAL or spare.square > found.square * (1 + MISSED):
            return NO_FLOAT_MEETS
        point = _rounded(spare.p)
    if point is None:
        return TOO_LONG_FOR_FLOATS
    return point if _meets(rows, asked, point) else NO_FLOAT_MEETS


def _fractions(numbers: np.ndarray) -> Row:
    return [Fraction(x) for x in numbers.tolist()]


def _nearest(number: Fraction) -> float:
    """The nearest float, infinite where there is none."""
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def _rounded(p: Row) -> np.ndarray | None:
    point = np.array([_nearest(x) for x in p])
    return point if np.isfinite(point).all() else None


def _floats(numbers: Row, others: Row, most: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Two lists as floats, and the power of two that they are in units of; 0 where the largest is within 2^`most`."""
    largest = max((abs(x) for x in numbers + others), default=Fraction(0))
    exponent = largest.numerator.bit_length() - largest.denominator.bit_length() if largest else 0
    if abs(exponent) < most:
        exponent = 0
    unit = Fraction(2) ** exponent
    return np.array([float(x / unit) for x in numbers]), np.array([float(x / unit) for x in others]), exponent


def _meets(rows: list[Row], asked: Row, point: np.ndarray) -> bool:
    """True if every product reaches what is asked, but for `KKT_TOLERANCE` of it, where that is more than 0."""
    p = _fractions(point)
    return all(dot(z, p) >= b * (1 - MISSED) for z, b in zip(rows, asked, strict=True) if b)


def _more_asked(rows: list[Row], asked: Row, point: np.ndarray, ulps: int) -> Row:
    """Margins asked of the rows or, where that is more, those that rounding of p does not cost."""
    sizes = [max(abs(x), SMALLEST_NORMAL) for x in _fractions(point)]
    share = ulps * Fraction(2) ** -53
    lost = [share * dot([abs(x) for x in z], sizes) for z in rows]
    return [max(b, b * (1 - MISSED) + less) if b else b for less, b in zip(lost, asked, strict=True)]


def _residuals(rows: list[Row], asked: Row, ties: list[Row], found: ExactShortest, p: Row) -> Residuals:
    """KKT residuals of the rounded p with the exact multipliers, each rounded once."""
    square = found.square
    level = [z for z, b in zip(rows, asked, strict=True) if not b]
    missed = [max(Fraction(0), -dot(z, p)) ** 2 / (dot(z, z) * square) for z in level if any(z)]
    missed += [dot(z, p) ** 2 / (dot(z, z) * square) for z in ties if any(z)]
    short = [max(Fraction(0), 1 - dot(z, p) / b) for z, b in zip(rows, asked, strict=True) if b]
    apart = [x - y for x, y in zip(p, found.p, strict=True)]
    held = [abs(w * (dot(z, p) - b)) for z, b, w in zip(rows, asked, found.duals, strict=True) if w]
    gain = dot(found.duals, asked)
    return Residuals(
        primal=max(float(max(short)), sqrt(max(missed, default=Fraction(0)))),
        dual=0.0,
        stationarity=sqrt(dot(apart, apart) / square),
        complementarity=float(max(held) / square),
        gap=float(abs(dot(p, p) - gain) / square),
    )


def _root(number: Fraction) -> float:
    """The square root, rounded; infinite where it is no float."""
    exponent = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    return _nearest(Fraction(sqrt(number / Fraction(4) ** exponent)) * Fraction(2) ** exponent)


def _log10(number: Fraction) -> float:
    return (number.numerator.bit_length() - number.denominator.bit_length()) * float(np.log10(2.0))
