"""Words for what certificates prove: numbers are rounded outward, and nothing is said that was not checked."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import isqrt
from typing import Any

from tokenmargin.verify import _parsing, kernel, lengths
from tokenmargin.verify.kernel import Point, Problem, demand

#: Digits of the norms and distances that a sentence names, rounded outward.
DIGITS = 12


def asked(problem: Problem, left_out: int = 0) -> str:
    """The predicate that was checked: what p does."""
    ties, least, most = len(problem.ties()), min(problem.margins), max(problem.margins)
    by = margin(most, problem.over)
    margins = f"by {by}" if least == most else f"by margins of {margin(least, problem.over)} to {by}"
    count = len(problem.pairs()) - left_out
    tied = f" and keeps {ties} tied" if ties else ""
    return f"separates {count} {'pair' if count == 1 else 'pairs'} {margins}{tied}"


def between(low: Fraction, high: Fraction) -> str:
    """Both bounds of |p*|, given as squares."""
    width = root(((high - low) / (2 * low)) ** 2, up=True, digits=2)  # (b - a)/a is at most (b^2 - a^2) / 2 a^2
    return f"{root(low)} <= |p*| <= {root(high, up=True)} (relative width {width})"


def bracket(problem: Problem, proof: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """The bracket of |p*|^2 that p and the duals of a proof prove."""
    p, (duals, tie_duals) = _parsing.point(proof["p"]), weights_of(problem, proof, "duals", proof["p"])
    return kernel.bracket(problem, p, duals, tie_duals)


def weights_of(
    problem: Problem,
    proof: dict[str, Any],
    name: str,
    p: Any = None,
    shape: tuple[int, int] = (0, 0),
    witnesses: tuple[dict[str, lengths.Matrix], ...] = (),
) -> tuple[dict[kernel.Pair, int], ...]:
    """Weights of pairs and of ties, once it is known that multiplying them, p and witnesses takes no hours."""
    found = _parsing.weights(proof[name]), _parsing.weights(proof[f"tie_{name}"])
    vector = [] if p is None else [_parsing.whole(text) for text in (*p["whole"], p["over"])]
    demand(p is None or len(p["whole"]) == problem.width, "p is not as wide as the keys")
    parts = [part for group in witnesses for part in group.values()]
    long = [x for part in parts for x in (part.over, *(x for row in part.rows for x in row))]
    wide = max([*shape, *(len(part.rows[0]) for part in parts)])
    products = shape[0] * shape[1] * wide + sum(len(part.rows) * len(part.rows[0]) * wide for part in parts)
    _parsing.demand_affordable(problem, [*vector, *found[0].values(), *found[1].values(), *long], products)
    return found


def vector_of(texts: Any) -> Point:
    """Floats as one vector of ratios."""
    numbers = _parsing.floats(texts)
    over = max(x.denominator for x in numbers)
    return Point([int(x * over) for x in numbers], over)


def root(square: Fraction, up: bool = False, digits: int = DIGITS) -> str:
    """The square root in decimals, rounded down, or up, also where no float holds it."""
    above, below = square.as_integer_ratio()
    shift = digits + (below.bit_length() - above.bit_length()) * 301 // 2000 + 3  # log10(2) / 2 = .1505
    scaled = square * Fraction(10) ** (2 * shift)
    found = isqrt(scaled.numerator // scaled.denominator)
    exact = found * found == scaled
    while found >= 10**digits:
        found, rest = divmod(found, 10)
        shift, exact = shift - 1, exact and not rest
    return f"{Decimal(found + (up and not exact)).scaleb(-shift).normalize():g}"


def margin(whole: int, over: int) -> str:
    """A margin, which is a float, as Python writes it."""
    return repr(float(Fraction(whole, over))).removesuffix(".0")
