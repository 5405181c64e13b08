"""Exact proofs from answers in floats: the shortest p in rationals, or a bracket around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any

import numpy as np

from tokenmargin._rationals import Exact, dot, exact, root_below, shortest_change, whole_rows
from tokenmargin._types import Vector
from tokenmargin.margin import FarkasCertificate, Status
from tokenmargin.margin.certificate import DEBRIS, WholeRows
from tokenmargin.margin.exact_shortest import ROWS_LIMIT, exact_shortest

#: Bits of a factor or of a bound that is rounded to the safe side: far below what rounding of the solution leaves.
BITS = 100

#: Projections of p on what has to hold exactly; each adds the rows that the last one lost.
PROJECTIONS = 5

Weighted = tuple[tuple[Sequence[int], int], ...]  #: (input, selected, other) and a whole number


@dataclass(frozen=True)
class Proof:
    """A proof of one `kind`, part by part, in exact numbers; see `tokenmargin.verify.kernel`."""

    kind: str
    weights: Weighted
    tie_weights: Weighted
    p: Exact | None = None
    low: Fraction | None = None
    high: Fraction | None = None

    def as_json(self) -> dict[str, Any]:
        """The proof as a file holds it."""
        names = ("weights", "tie_weights") if self.p is None else ("duals", "tie_duals")
        listed: dict[str, Any] = (
            {} if self.p is None else {"p": {"whole": _hex(self.p.whole), "over": hex(self.p.over)}}
        )
        for name, group in zip(names, (self.weights, self.tie_weights), strict=True):
            listed[name] = [[*pair, hex(weight)] for pair, weight in group]
        bounds = {"bound": ("low",), "bracket": ("low", "high")}.get(self.kind, ())
        return listed | {name: _hex(getattr(self, name).as_integer_ratio()) for name in bounds}

    def distance(self, p: Vector) -> float:
        """Distance of another p from this one, relative to the length of this one."""
        assert self.p is not None
        off = [Fraction(x, self.p.over) - Fraction(y) for x, y in zip(self.p.whole, p.tolist(), strict=True)]
        square = sum((x * x for x in off), Fraction(0)) / Fraction(dot(self.p.whole, self.p.whole), self.p.over**2)
        return sqrt(min(square, Fraction(10**300)))

    def from_the_first(self, first: Sequence[int]) -> Proof:
        """The same pull by pairs from the first selected token of an input, and by its ties with the others."""
        pairs, ties = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
        for (i, s, t), weight in self.weights:
            pairs[i, first[i], t] += weight
            if s != first[i]:
                ties[i, first[i], s] -= weight
        return replace(self, weights=tuple(pairs.items()), tie_weights=tuple(ties.items()))

    def sine_square(self, velocity: Vector) -> list[str]:
        """A bound of the squared sine of the angle between a velocity and the shortest p, rounded up."""
        assert self.p is not None
        assert self.low is not None
        assert self.high is not None
        u, p = exact(velocity.tolist()).whole, self.p.whole
        first = 1 - Fraction(dot(u, p) ** 2, dot(u, u) * dot(p, p))
        second = (self.high - self.low) / self.high
        scale = Fraction(2) ** (2 * BITS)
        root = Fraction(isqrt(int(first * second * scale)) + 1, 2**BITS) if first * second else 0
        return _hex(_up(first + second + 2 * root).as_integer_ratio())


def exact_proof(asked: WholeRows, p: Vector, duals: np.ndarray, tie_duals: np.ndarray) -> Proof:
    """The shortest p exactly, from the rows that carry a multiplier; that there is none; a bracket; or a bound."""
    sizes = duals * np.array([root_below(Fraction(square, asked.unit**2)) for square in asked.squares])
    tight = [int(k) for k in np.argsort(-sizes, kind="stable") if sizes[k] > DEBRIS * sizes.max()]
    found = exact_shortest(asked.rows, asked.asked.whole, asked.ties, tight)
    if found.status is Status.UNDECIDED:
        return _bracketed(asked, exact(p.tolist()), duals, tie_duals)
    whole = exact([*found.duals, *found.tie_duals]).whole
    weights, tie_weights = _weighted(asked, found.held, whole), _of_ties(asked, whole[len(found.duals) :])
    if found.status is Status.INFEASIBLE:
        return Proof("infeasible", weights, tie_weights)
    shortest = exact([x * Fraction(asked.unit, asked.asked.over) for x in found.p])
    square = Fraction(dot(shortest.whole, shortest.whole), shortest.over**2)
    return Proof("shortest", weights, tie_weights, shortest, square, square)


def bound(asked: WholeRows, found: FarkasCertificate) -> Proof:
    """Proof that there is no p, or none below a length."""
    weights = tuple((pair, int(w)) for pair, w in zip(found.pairs, found.weights, strict=True))
    tie_weights = tuple((pair, int(w)) for pair, w in zip(found.ties, found.tie_weights, strict=True))
    proof = Proof("infeasible", weights, tie_weights)
    places = {tuple(pair): k for k, pair in enumerate(asked.pairs)}
    tied: dict[tuple[int, ...], int] = dict(tie_weights)
    active = [places[tuple(pair)] for pair in found.pairs]
    low = asked.low(active, [w for _, w in weights], [tied.get(_key(pair), 0) for pair in asked.tie_pairs])
    return proof if low is None else replace(proof, kind="bound", low=low)


def _bracketed(asked: WholeRows, p: Exact, duals: np.ndarray, tie_duals: np.ndarray) -> Proof:
    """p, made feasible, and the bound that the multipliers prove; where p cannot be, the bound alone."""
    (whole,), _ = whole_rows([[*np.maximum(duals, 0.0).tolist(), *tie_duals.tolist()]])
    active = [k for k in range(len(duals)) if whole[k]]
    weights, tie_weights = [whole[k] for k in active], whole[len(duals) :]
    low = asked.low(active, weights, tie_weights)
    if low is None:
        return Proof("bound", (), (), None, Fraction(0))  # proves nothing, and will be refused
    alone = Proof("bound", _weighted(asked, active, whole), _of_ties(asked, tie_weights), None, low)
    feasible = _scaled(asked, _projected(asked, p))
    if feasible is None:
        return alone
    high = Fraction(dot(feasible.whole, feasible.whole), feasible.over**2)
    return replace(alone, kind="bracket", p=feasible, high=high)


def _projected(asked: WholeRows, p: Exact) -> Exact | None:
    """The point next to p that keeps every tie, and loses no row of which 0 is asked; None if too many rows matter."""
    level = [row for row, b in zip(asked.rows, asked.asked.whole, strict=True) if not b]
    held: list[Any] = list(asked.ties)
    for _ in range(PROJECTIONS):
        if len(held) > ROWS_LIMIT:
            return None
        if held:
            change = shortest_change(held, [-dot(row, p.whole) for row in held])
            if change is None:
                return None
            moved = [x * change.over + y for x, y in zip(p.whole, change.whole, strict=True)]
            p = Exact(moved, p.over * change.over).reduced()
        lost = [row for row in level if dot(row, p.whole) < 0]
        if not lost:
            return p
        held += lost
    return None


def _scaled(asked: WholeRows, p: Exact | None) -> Exact | None:
    """p times the least factor, rounded up, with which every row has its margin; None if no factor does."""
    if p is None:
        return None
    reach = [(dot(row, p.whole), b) for row, b in zip(asked.rows, asked.asked.whole, strict=True) if b]
    if min(product for product, _ in reach) <= 0:
        return None
    factor = _up(max(Fraction(b * asked.unit * p.over, product * asked.asked.over) for product, b in reach))
    return Exact([x * factor.numerator for x in p.whole], p.over * factor.denominator).reduced()


def _up(number: Fraction) -> Fraction:
    """The number, of `BITS` bits at most, rounded up."""
    above, below = number.as_integer_ratio()
    shift = max(0, BITS + below.bit_length() - above.bit_length())
    return Fraction(-((-above << shift) // below), 1 << shift)


def _weighted(asked: WholeRows, active: Iterable[int], whole: Sequence[int]) -> Weighted:
    return tuple((_key(asked.pairs[k]), whole[k]) for k in active if whole[k])


def _of_ties(asked: WholeRows, weights: Iterable[int]) -> Weighted:
    return tuple((_key(pair), w) for pair, w in zip(asked.tie_pairs, weights, strict=True) if w)


def _key(triple: Sequence[int]) -> tuple[int, ...]:
    return tuple(triple)


def _hex(numbers: Iterable[int]) -> list[str]:
    return [hex(number) for number in numbers]
