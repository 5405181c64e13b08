"""Proof of where training stops: exactly one stationary point in a box, a strict minimum, in whole numbers.

The risk is L(p) = sum_i l(f_i), f_i = sum_t s_it gamma_it with s_i = softmax(K_i p), over the tokens that keep
attention. It depends on p through differences of keys of one input alone. A box is p + sum_j c_j u_j e_j, |c_j| <= h_j,
over some columns j of the keys, u_j being one over the largest difference in column j. The differences have no higher
rank than there are columns, so that every p' has the logits of one point p + sum_j c_j u_j e_j, inside the box or not.

The Krawczyk test. g is the gradient in c at p, H(box) holds the Hessians over the box, and Y = B B'. If for each j

    |(Y g)_j| + sum_k |(I - Y H(box))_jk| h_k  <  h_j,

the box has exactly one point with gradient 0. Y H then is I up to less than 1 in a norm, hence regular, and so is B; it
is similar to B'H B, which is symmetric with eigenvalues between 0 and 2: H is positive definite all over the box, and
the point is a strict local minimum up to directions in which no difference of keys points.

Numbers are intervals, rounded outward. This file imports the standard library and its neighbours alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from tokenmargin.verify._intervals import Grid, Interval, Rows, less, negative, size
from tokenmargin.verify.kernel import Point, Problem, Whole, demand, dot

#: Bits that a file may ask for.
LEAST_BITS, MOST_BITS = 128, 4096

Slopes = tuple[Interval, Interval]  #: l' and l''


def _logistic(grid: Grid, f: Interval) -> Slopes:
    share = tuple(grid.inverse(grid.sum([grid.one, grid.exp((end, end))])) for end in f)
    inside = share[1][0], share[0][1]
    return negative(inside), grid.times(inside, less(grid.one, inside))


def _exponential(grid: Grid, f: Interval) -> Slopes:
    value = grid.exp(negative(f))
    return negative(value), value


def _label_log(grid: Grid, f: Interval) -> Slopes:
    inverse = grid.inverse(f)
    return negative(inverse), grid.times(inverse, inverse)


#: l' and l'' of each loss that is known: log(1 + e^-f), e^-f, -f, -log f and (1 - f)^2 / 2.
LOSSES: dict[str, Callable[[Grid, Interval], Slopes]] = {
    "logistic": _logistic,
    "exponential": _exponential,
    "correlation": lambda grid, f: (negative(grid.one), (0, 0)),
    "label_log": _label_log,
    "label_squared": lambda grid, f: (less(f, grid.one), grid.one),
}


@dataclass(frozen=True)
class Box:
    """The box as a file has it: its columns, half widths in their units, B, and how many bits are needed."""

    columns: list[int]
    half: list[Fraction]
    factor: list[list[Fraction]]
    bits: int

    def __post_init__(self) -> None:
        """Check that it is a box, and a square factor."""
        m = len(self.columns)
        demand(m > 0 and len(set(self.columns)) == m, "the box has no columns, or one of them twice")
        demand(len(self.half) == m and min(self.half) > 0, "a half width of the box is missing, or is not positive")
        demand(len(self.factor) == m and all(len(row) == m for row in self.factor), "the factor is not square")
        demand(LEAST_BITS <= self.bits <= MOST_BITS, f"bits are not between {LEAST_BITS} and {MOST_BITS}")


@dataclass(frozen=True)
class Stationary:
    """Findings: the square of the largest distance of the point from p, and the outputs f_i all over the box."""

    radius_square: Fraction
    outputs: list[tuple[Fraction, Fraction]]


def stationary(problem: Problem, scores: list[list[Fraction]], loss: str, p: Point, box: Box) -> Stationary:
    """Check the Krawczyk test for the selected tokens, whose scores are given in their order."""
    demand(loss in LOSSES, f"the derivatives of the loss {loss[:40]!r} are not known here")
    risk = _Risk.of(problem, scores, loss, p, box)
    grid, every = Grid(box.bits), range(len(box.columns))
    gradient, _, _ = risk.derivatives([Fraction(0)] * len(every))
    _, hessian, outputs = risk.derivatives(box.half)
    Y = [
        [grid.of(sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))) for b in box.factor] for a in box.factor
    ]
    half = [grid.of(h) for h in box.half]
    for j in every:
        step = size(grid.product(Y[j], gradient))
        off = [less(grid.one if k == j else (0, 0), grid.product(Y[j], [row[k] for row in hessian])) for k in every]
        rest = grid.sum([grid.times((0, size(x)), h) for x, h in zip(off, half, strict=True)])[1]
        demand(
            step + rest < half[j][0], "the box does not pass the Krawczyk test: that a point is inside is not proved"
        )
    square = sum(((h * u) ** 2 for h, u in zip(box.half, risk.units, strict=True)), Fraction(0))
    unit = Fraction(1, 1 << box.bits)
    return Stationary(square, [(a * unit, b * unit) for a, b in outputs])


@dataclass(frozen=True)
class _Input:
    """Logits at p, how they change in c, and scores: of each token behind the first, and of the first, * for short.

    All but `best` are relative to *: where it has nearly all attention, the rest is small, and nothing cancels.
    """

    logits: list[Interval]
    change: Rows
    ahead: list[Interval]  #: gamma_t - gamma_*
    best: Interval  #: gamma_*

    @classmethod
    def of(
        cls, grid: Grid, unit: int, rows: list[Whole], p: Point, columns: list[tuple[int, int]], scores: list[Fraction]
    ) -> _Input:
        """Those of an input, from the differences of its keys to one of them."""
        products = [dot(row, p.whole) for row in rows]
        top = products.index(max(products))
        behind = [t for t in range(len(rows)) if t != top]
        return cls(
            [grid.of(Fraction(products[t] - products[top], unit * p.over)) for t in behind],
            [[grid.of(Fraction(rows[t][j] - rows[top][j], most)) for j, most in columns] for t in behind],
            [grid.of(scores[t] - scores[top]) for t in behind],
            grid.of(scores[top]),
        )


@dataclass(frozen=True)
class _Risk:
    """The inputs of a risk, and what one of each column of a box is worth in p."""

    grid: Grid
    loss: str
    units: list[Fraction]
    inputs: list[_Input]

    @classmethod
    def of(cls, problem: Problem, scores: list[list[Fraction]], loss: str, p: Point, box: Box) -> _Risk:
        """The risk of the selected tokens, keys being taken from the first of each input."""
        grid, width = Grid(box.bits), len(p.whole)
        demand(all(0 <= j < width for j in box.columns), "the keys have no such column")
        rows = [[problem.row((i, s, chosen[0])) for s in chosen] for i, chosen in enumerate(problem.selected)]
        demand_rank([row for group in rows for row in group], len(box.columns), width)
        largest = [max(abs(row[j]) for group in rows for row in group) for j in box.columns]
        demand(min(largest) > 0, "a column of the box has no difference of keys")
        units = [Fraction(problem.unit, top) for top in largest]
        inputs = [
            _Input.of(grid, problem.unit, group, p, list(zip(box.columns, largest, strict=True)), told)
            for group, told in zip(rows, scores, strict=True)
        ]
        return cls(grid, loss, units, inputs)

    def derivatives(self, half: list[Fraction]) -> tuple[list[Interval], Rows, list[Interval]]:
        """Gradient, Hessian and outputs, over all c within `half` of 0."""
        grid, every = self.grid, range(len(half))
        widths = [grid.of(h)[1] for h in half]
        gradient, hessian = [(0, 0)] * len(half), [[(0, 0)] * len(half) for _ in every]
        outputs = []
        for given in self.inputs:
            f, felt, bent = self._of_input(given, widths)
            outputs.append(f)
            if not given.logits:  # one token, which pulls on nothing
                continue
            first, second = LOSSES[self.loss](grid, f)
            for j in every:
                gradient[j] = grid.sum([gradient[j], grid.times(first, felt[j])])
                bend = grid.times(second, felt[j])
                for k in range(j, len(half)):
                    both = grid.times(first, bent[j][k]), grid.times(bend, felt[k])
                    hessian[j][k] = hessian[k][j] = grid.sum([hessian[j][k], *both])
        return gradient, hessian, outputs

    def _of_input(self, given: _Input, widths: list[int]) -> tuple[Interval, list[Interval], Rows]:
        """f of an input, its gradient and its Hessian, with a_t = s_t (gamma_t - f) and D_t the change of logits:

        grad f = sum_t a_t D_t,    Hess f = sum_t a_t D_t D_t' - mean grad f' - grad f mean',    mean = sum_t s_t D_t.
        """
        change = given.change
        grid, every = self.grid, range(len(widths))
        wide = [(w, w) for w in widths]
        spread = [grid.product([(size(x), size(x)) for x in row], wide)[1] for row in change]
        lifted = [grid.exp((a - s, b + s)) for (a, b), s in zip(given.logits, spread, strict=True)]
        over = grid.inverse(grid.sum([grid.one, *lifted]))
        share = [grid.times(x, over) for x in lifted]
        off = grid.product(share, given.ahead)
        pull = [grid.times(s, less(ahead, off)) for s, ahead in zip(share, given.ahead, strict=True)]
        columns = [[row[j] for row in change] for j in every]
        felt, mean = ([grid.product(by, column) for column in columns] for by in (pull, share))
        bent: Rows = [[(0, 0)] * len(widths) for _ in every]
        for j in every:
            pulled = [grid.times(a, x) for a, x in zip(pull, columns[j], strict=True)]
            for k in range(j, len(widths)):
                crossed = grid.sum([grid.times(mean[j], felt[k]), grid.times(mean[k], felt[j])])
                bent[j][k] = bent[k][j] = less(grid.product(pulled, columns[k]), crossed)
        return grid.sum([given.best, off]), felt, bent


def demand_rank(rows: Sequence[Whole], most: int, width: int) -> None:
    """Raise Refuted if more rows than `most` are independent: elimination without fractions."""
    if most >= width:
        return
    echelon: list[tuple[int, Whole]] = []
    for row in rows:
        rest = list(row)
        for place, other in echelon:
            if rest[place]:
                a, b = rest[place], other[place]
                rest = [x * b - y * a for x, y in zip(rest, other, strict=True)]
        first = next((k for k, x in enumerate(rest) if x), None)
        if first is not None:
            demand(len(echelon) < most, "differences of keys point out of the columns of the box")
            common = gcd(*rest)
            echelon.append((first, [x // common for x in rest]))
