"""Solutions in closed form: ratios of whole numbers that are the solution exactly, as people write them.

Exact arithmetic confirms them, and no tolerance: W does what is asked, multipliers lambda >= 0 carry tight rows alone,
N_*(G) <= 1 for their sum G, and N(W) = sum lambda_k b_k. How each norm shows the last two:

- `max` and `sum` by sums; L2 by squares: G = W/|W|.
- `nuclear`: I - G'G >= 0, and W = G H with H = G'W >= 0, of which N(W) <= trace H = <G, W>.
- `spectral`: t^2 I - W'W >= 0 with t = <G, W>, and G = W H/t with H = W'G/t >= 0, of which N_*(G) <= trace H = 1.
- l_q with q = a/b: |W|^(a-b) = c |G|^b with one c, entry by entry, and equal signs: equality in Hoelder's inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tokenmargin._notebook import Told
from tokenmargin._rationals import Row, dot
from tokenmargin.margin.exact_shortest import exact_shortest
from tokenmargin.margin.solution import Status
from tokenmargin.norms import L2, Lp, Max, Nuclear, Spectral, Sum

if TYPE_CHECKING:
    from tokenmargin.margin.margin_solution import MarginSolution

#: Largest denominators that are tried, the shortest first: beyond them a ratio says no more than a float.
DENOMINATORS = (12, 120, 2000, 40_000)

#: A float this near to a ratio, relative to the largest number of its list, may be it.
NEAR = 1e-7

#: Largest denominator of q as a ratio.
LARGEST_POWER = 20

Matrix = list[Row]


@dataclass(frozen=True, repr=False)
class ClosedForm(Told):
    """A solution in ratios: N(p) = `power`^(1/`root`), p, and the multipliers that prove it."""

    power: Fraction  #: N(p) to the power `root`
    root: int
    p: tuple[Row, ...]  #: the rows of p as a matrix; a vector is one row
    pairs: tuple[tuple[int, int, int], ...]  #: (input, selected, other) of the rows that carry a multiplier
    duals: tuple[Fraction, ...]  #: up to a common factor, which makes N_*(G) = 1

    @property
    def latex(self) -> str:
        """The solution in LaTeX: the value, p, and the multipliers."""
        value = _ratio(self.power) if self.root == 1 else rf"\sqrt{_index(self.root)}{{{_ratio(self.power)}}}"
        lines = r" \\ ".join(" & ".join(map(_ratio, row)) for row in self.p)
        weights = ",\\ ".join(
            rf"\lambda_{{{i}:{s}>{t}}} = {_ratio(w)}" for (i, s, t), w in zip(self.pairs, self.duals, strict=True)
        )
        return rf"\|W\| = {value},\quad W = \begin{{pmatrix}} {lines} \end{{pmatrix}},\quad {weights}"


def found_in_closed_form(solution: MarginSolution) -> ClosedForm | None:
    """The closed form of an optimal solution; None if no short ratios are confirmed."""
    if solution.norm == L2():
        return _euclidean(solution)
    asked, shape = solution.exact_rows, (*solution.matrix.shape, 1)[:2]
    rows = [[Fraction(x, asked.unit) for x in row] for row in (*asked.rows, *asked.ties)]
    required = [Fraction(x) for x in solution.required.tolist()]
    unit = float(solution.duals.max()) if isinstance(solution.norm, Lp) else 1.0  # their units are roots otherwise
    for most in DENOMINATORS:
        line = _short(solution.p.tolist(), most)
        weights = _short((np.concatenate([solution.duals, solution.tie_duals]) / unit).tolist(), most)
        if line is None or weights is None or not _does_what_is_asked(rows, required, line, weights):
            continue
        pull = [dot(weights, column) for column in zip(*rows, strict=True)]
        gain = dot(weights[: len(required)], required)
        found = _power(solution.norm, _folded(line, shape), _folded(pull, shape), gain)
        if found is not None:
            carrying = [k for k in range(len(required)) if weights[k]]
            pairs = tuple((int(i), int(s), int(t)) for i, s, t in solution.triples[carrying])
            return ClosedForm(*found, _shown(line, solution), pairs, tuple(weights[k] for k in carrying))
    return None


def _euclidean(solution: MarginSolution) -> ClosedForm | None:
    asked = solution.exact_rows
    held = [k for k, w in enumerate(solution.duals.tolist()) if w > 0]
    found = exact_shortest(asked.rows, asked.asked.whole, asked.ties, held)
    if found.status is not Status.OPTIMAL:
        return None
    unit = Fraction(asked.unit, asked.asked.over)
    p, square = [x * unit for x in found.p], found.square * unit**2
    carrying = [k for k, w in enumerate(found.duals) if w]
    pairs = tuple((int(i), int(s), int(t)) for i, s, t in solution.triples[carrying])
    return ClosedForm(
        square, 2, _shown(p, solution), pairs, tuple(found.duals[k] * unit * asked.unit for k in carrying)
    )


def _shown(line: Row, solution: MarginSolution) -> tuple[Row, ...]:
    width = solution.matrix.shape[-1]
    return tuple(line[k : k + width] for k in range(0, len(line), width))


def _short(numbers: list[float], most: int) -> Row | None:
    """Ratios of short whole numbers next to floats; None if one of them is not near."""
    size = max(map(abs, numbers))
    found = [Fraction(x).limit_denominator(most) for x in numbers]
    return found if all(abs(float(x) - y) <= NEAR * size for x, y in zip(found, numbers, strict=True)) else None


def _does_what_is_asked(rows: list[Row], required: Row, line: Row, weights: Row) -> bool:
    """True if each row has its margin and each tie is kept, and weights are >= 0 and on tight rows alone."""
    count = len(required)
    slack = [dot(row, line) - b for row, b in zip(rows, required, strict=False)]
    tied = all(dot(row, line) == 0 for row in rows[count:])
    carried = all(w >= 0 and w * left == 0 for w, left in zip(weights, slack, strict=False))
    return tied and min(slack) >= 0 and carried


def _power(norm: object, W: Matrix, G: Matrix, gain: Fraction) -> tuple[Fraction, int] | None:
    """(N(W)^k, k) if W is proved to be shortest, with gain = <G, W>; None if it is not."""
    entries, pulls = ([x for row in part for x in row] for part in (W, G))
    if isinstance(norm, Max | Sum):
        sizes = [(max(map(abs, part)), sum(map(abs, part), Fraction(0))) for part in (entries, pulls)]
        value, size = (sizes[0][0], sizes[1][1]) if isinstance(norm, Max) else (sizes[0][1], sizes[1][0])
        return (value, 1) if gain and value * size == gain else None
    if isinstance(norm, Lp):
        return _of_power(norm, entries, pulls, gain)
    if not gain:
        return None
    if isinstance(norm, Nuclear):
        return (gain, 1) if _aligned(W, G, Fraction(1)) else None
    return (gain, 1) if isinstance(norm, Spectral) and _aligned(G, W, gain) else None


def _aligned(low: Matrix, flat: Matrix, size: Fraction) -> bool:
    """True if |flat| <= size, and low = flat H with H = flat'low/size^2 symmetric and >= 0: <low, flat> is largest."""
    turned = [list(column) for column in zip(*flat, strict=True)]
    inner = [[dot(row, column) / size**2 for column in zip(*low, strict=True)] for row in turned]
    back = [[dot(row, column) for column in zip(*inner, strict=True)] for row in flat]
    square = [[dot(a, b) for b in turned] for a in turned]
    room = [[(i == j) * size**2 - x for j, x in enumerate(row)] for i, row in enumerate(square)]
    symmetric = all(inner[i][j] == inner[j][i] for i in range(len(inner)) for j in range(i))
    return symmetric and back == low and _is_semidefinite(inner) and _is_semidefinite(room)


def _is_semidefinite(matrix: Matrix) -> bool:
    """True if a symmetric matrix of ratios is >= 0, by elimination: pivots >= 0, and a row of zeros where one is 0."""
    left = [list(row) for row in matrix]
    for k in range(len(left)):
        pivot = left[k][k]
        if pivot < 0 or (pivot == 0 and any(left[k][k:])):
            return False
        if pivot:
            for i in range(k + 1, len(left)):
                share = left[i][k] / pivot
                left[i] = [x - share * y for x, y in zip(left[i], left[k], strict=True)]
    return True


def _of_power(norm: Lp, entries: Row, pulls: Row, gain: Fraction) -> tuple[Fraction, int] | None:
    """N(W)^a = c gain^b, if |W|^(a-b) = c |G|^b in every entry, with equal signs."""
    a, b = Fraction(norm.q).limit_denominator(LARGEST_POWER).as_integer_ratio()
    if a / b != norm.q:
        return None
    shares = {abs(x) ** (a - b) / abs(y) ** b for x, y in zip(entries, pulls, strict=True) if y}
    equal = all((x > 0) - (x < 0) == (y > 0) - (y < 0) for x, y in zip(entries, pulls, strict=True))
    return (shares.pop() * gain**b, a) if equal and len(shares) == 1 else None


def _folded(line: Row, shape: tuple[int, ...]) -> Matrix:
    return [line[k : k + shape[1]] for k in range(0, len(line), shape[1])]


def _ratio(number: Fraction) -> str:
    above, below = number.as_integer_ratio()
    return str(above) if below == 1 else rf"{'-' if above < 0 else ''}\frac{{{abs(above)}}}{{{below}}}"


def _index(root: int) -> str:
    return "" if root == 2 else f"[{root}]"
