"""Exact proofs from answers in floats: the shortest p in rationals, or a bracket around it.

In other norms than the Euclidean one p is made to do what is asked, weights are rounded to whole numbers, and both
bounds are as wide as rounding of their witnesses makes them: the narrowest that the verifier's own arithmetic confirms.
"""

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
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import FarkasCertificate, MarginSolution, Status
from tokenmargin.margin.certificate import DEBRIS, WholeRows
from tokenmargin.margin.exact_shortest import ROWS_LIMIT, exact_shortest
from tokenmargin.norms import L2, Lp, Norm
from tokenmargin.verify.kernel import Refuted
from tokenmargin.verify.lengths import LARGEST, Matrix, demand_at_most, dual_of

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
    made = feasible(asked, p)
    if made is None:
        return alone
    high = Fraction(dot(made.whole, made.whole), made.over**2)
    return replace(alone, kind="bracket", p=made, high=high)


def feasible(asked: WholeRows, p: Exact) -> Exact | None:
    """A point next to p that does all that is asked, exactly; None if too many rows matter, or it points elsewhere."""
    return _scaled(asked, _projected(asked, p))


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


# --- in other norms ---------------------------------------------------------------------------------------------------

#: Shares by which a bound is stated further out than floats have it, tried from the narrowest on.
WIDER = (0.0, *(2.0**-bits for bits in range(52, 9, -3)))

#: Bits of the largest weight; the other weights are whole numbers in the same units.
WEIGHT_BITS = 80

#: Shifts of the matrix that is factored, relative to the square of its largest singular value, until it has a factor.
SHIFTS = tuple(2.0**-bits for bits in range(48, 8, -3))

#: Singular values below this share of the largest are left to the remainder.
LEFT_OUT = 1e-17


def norm_name(norm: Norm) -> str:
    """The name of a norm in a certificate; l_q with q as the simplest ratio that this float is nearest to.

    Raises:
        InvalidInputError: if no ratio of whole numbers up to a thousand is nearest to it.
    """
    if norm == L2():
        return "L2"
    if not isinstance(norm, Lp):
        return norm.name
    for below in range(1, LARGEST):
        ratio = Fraction(round(norm.q * below), below)
        if float(ratio) == norm.q and ratio.numerator <= LARGEST:
            return f"l{ratio.numerator}/{ratio.denominator}"
    raise InvalidInputError(
        f"there is no certificate file for the norm {norm.name!r}: a power is checked by roots of whole numbers, so "
        f"give a q that is a ratio of whole numbers up to {LARGEST}."
    )


def norm_proof(solution: MarginSolution) -> tuple[Proof, dict[str, Any]] | None:
    """A bracket of N(p*) with its witnesses as JSON has them; None if p cannot be made to do what is asked."""
    asked = solution.exact_rows
    p = feasible(asked, exact(solution.p.tolist()))
    if p is None:
        return None
    shape = (*solution.matrix.shape, 1)[:2]
    name = norm_name(solution.norm)
    largest = max(float(np.abs(part).max(initial=0.0)) for part in (solution.duals, solution.tie_duals))
    unit = Fraction(2) ** (WEIGHT_BITS - int(np.frexp(largest)[1]))
    duals = [int(Fraction(x) * unit) for x in np.maximum(solution.duals, 0.0).tolist()]
    tie_duals = [int(Fraction(x) * unit) for x in solution.tie_duals.tolist()]
    active = [k for k, w in enumerate(duals) if w]
    pull = asked.pull(active, [duals[k] for k in active], tie_duals)
    high, above = _upper(name, _folded(p.whole, p.over, shape), solution.norm)
    size, below = _upper(dual_of(name), _folded(pull, asked.unit, shape), solution.norm.dual)
    low = asked.gain(active, [duals[k] for k in active]) / size
    weights = tuple((tuple(asked.pairs[k]), duals[k]) for k in active)
    tie_weights = tuple((tuple(pair), w) for pair, w in zip(asked.tie_pairs, tie_duals, strict=True) if w)
    return Proof("bracket", weights, tie_weights, p, low, high), {"above": above, "below": below}


def _folded(line: Sequence[int], over: int, shape: tuple[int, int]) -> Matrix:
    reduced = Exact(list(line), over).reduced()
    return Matrix([reduced.whole[k : k + shape[1]] for k in range(0, len(line), shape[1])], reduced.over)


def _upper(name: str, M: Matrix, norm: Norm) -> tuple[Fraction, dict[str, Any] | None]:
    """A number that N(M) is at most, as the verifier finds it, and the witness of it."""
    floats = np.array([[x / M.over for x in row] for row in M.rows])
    found = _witness(name, floats)
    parts = {part: _exact_matrix(array) for part, array in found.items()}
    near = Fraction(float(norm.value(floats)))
    if name in ("max", "sum"):  # which nothing has to round
        sizes = [abs(x) for row in M.rows for x in row]
        near = Fraction(max(sizes) if name == "max" else sum(sizes), M.over)
    for share in WIDER:
        try:
            demand_at_most(name, M, near * (1 + Fraction(share)), parts, "it")
        except Refuted:
            continue
        texts = {part: [[(x + 0.0).hex() for x in row] for row in array.tolist()] for part, array in found.items()}
        return near * (1 + Fraction(share)), texts or None
    raise InvalidInputError("there is nothing to certify: no bound of the norm is confirmed in exact arithmetic.")


def _witness(name: str, floats: np.ndarray) -> dict[str, np.ndarray]:
    if name == "nuclear":
        left, values, right = np.linalg.svd(floats, full_matrices=False)
        root = np.sqrt(values[values > LEFT_OUT * values[0]])
        return {"K": left[:, : len(root)] * root, "Q": right[: len(root)].T * root}
    if name != "spectral":
        return {}
    lines = floats.T if floats.shape[0] >= floats.shape[1] else floats
    square = lines @ lines.T
    size = float(np.linalg.norm(floats, ord=2)) ** 2
    for share in SHIFTS:
        try:
            factor = np.linalg.cholesky(size * (1 + share) * np.eye(len(square)) - square)
        except np.linalg.LinAlgError:
            continue
        return {"L": factor, "s": np.array([[size * (1 + share)]])}
    return {"L": np.zeros(square.shape), "s": np.array([[0.0]])}  # bounded by its rows alone


def _exact_matrix(array: np.ndarray) -> Matrix:
    whole = exact(array.ravel().tolist())
    return Matrix([whole.whole[k : k + array.shape[1]] for k in range(0, array.size, array.shape[1])], whole.over)
