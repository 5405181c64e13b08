"""The shortest vector under linear constraints in exact arithmetic, from what a solver in floats believes of it.

    minimise |p|^2   subject to   A p >= b,   E p = 0        (whole numbers, b >= 0)

The dual active-set method of Goldfarb and Idnani (1983), without rounding: rows that hold p back are kept tight, the
most violated row is added, and a row whose multiplier would become negative is dropped. The value rises with every row
that is added, so that it ends; with no row left to drop, the weights at hand prove that there is no p at all. Started
from the rows that a solver found tight it takes a step or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tokenmargin._rationals import Exact, Whole, combine, dot, exact, independent, solve, whole_rows
from tokenmargin._types import Keys
from tokenmargin.margin.solution import Status

#: Rows that may hold p back, ties among them: elimination is cubic, on whole numbers as long as there are rows.
ROWS_LIMIT = 80

#: Rows added or dropped before giving up; a start from a solver's tight rows takes a few.
STEPS_LIMIT = 200


#: No numbers.
NONE = Exact([])

#: (input, token, token), as triples of an array are in a list.
Triple = Sequence[int]


class WholeRows:
    """Differences of keys in whole numbers, k_s - k_t times `unit`, and what is asked of them."""

    def __init__(
        self, keys: Keys, pairs: Sequence[Triple], ties: Sequence[Triple], required: Sequence[float | Fraction]
    ) -> None:
        """Keys of shape (n, T, d), triples (input, selected, other) and (input, selected, selected'), margins."""
        self.pairs, self.tie_pairs, self.asked = pairs, ties, exact(required)
        self.width = int(keys.shape[2])
        used = sorted({(i, t) for i, *ends in (*pairs, *ties) for t in ends})
        whole, self.unit = whole_rows([keys[i, t].tolist() for i, t in used])
        places = dict(zip(used, whole, strict=True))

        def differences(triples: Sequence[Triple]) -> list[Whole]:
            return [[x - y for x, y in zip(places[i, s], places[i, t], strict=True)] for i, s, t in triples]

        self.rows, self.ties = differences(pairs), differences(ties)
        self.squares = [dot(row, row) for row in self.rows]

    def pull(self, active: Sequence[int], weights: Sequence[int], tie_weights: Sequence[int]) -> Whole:
        """Weighted sum of some rows and of all ties."""
        return combine([*weights, *tie_weights], [*(self.rows[k] for k in active), *self.ties], self.width)

    def gain(self, active: Sequence[int], weights: Sequence[int]) -> Fraction:
        """Weighted sum of what is asked of some rows."""
        return Fraction(sum(w * self.asked.whole[k] for k, w in zip(active, weights, strict=True)), self.asked.over)

    def low(self, active: Sequence[int], weights: Sequence[int], tie_weights: Sequence[int]) -> Fraction | None:
        """(gain / |pull|)^2, which no |p|^2 that does what is asked is less than; None if the pull is 0."""
        rest = self.pull(active, weights, tie_weights)
        return self.gain(active, weights) ** 2 * self.unit**2 / dot(rest, rest) if any(rest) else None


@dataclass(frozen=True)
class ExactShortest:
    """The shortest p with its multipliers, or weights that prove that there is none, or neither (UNDECIDED).

    OPTIMAL: p = sum of duals times the `active` rows and of tie duals times ties. INFEASIBLE: `duals` and `tie_duals`
    are weights with which the rows cancel, while what they ask sums to more than 0.
    """

    status: Status
    active: tuple[int, ...] = ()
    duals: Exact = NONE  #: of the active rows, >= 0
    tie_duals: Exact = NONE  #: of all ties
    p: Exact | None = None


def exact_shortest(
    rows: Sequence[Whole], asked: Sequence[int], ties: Sequence[Whole], start: Sequence[int] = ()
) -> ExactShortest:
    """Solve min |p| s.t. rows p >= asked, ties p = 0 in whole numbers, or prove that nothing satisfies them.

    Args:
        rows: A, m rows of d whole numbers; multiply floats by a common power of two first.
        asked: b >= 0, m whole numbers.
        ties: E, any number of rows of d.
        start: numbers of the rows that are believed tight, those of largest multiplier first.
    """
    kept_ties = independent(ties)
    if len(kept_ties) + min(len(start), len(rows[0])) > ROWS_LIMIT:
        return ExactShortest(Status.UNDECIDED)
    return _ActiveSet(rows, asked, ties, kept_ties).run(start)


class _ActiveSet:
    """Tight rows with their multipliers; the ties are always tight."""

    def __init__(
        self, rows: Sequence[Whole], asked: Sequence[int], ties: Sequence[Whole], kept_ties: list[int]
    ) -> None:
        self.rows, self.asked, self.n_ties, self.kept_ties = rows, asked, len(ties), kept_ties
        self.ties = [ties[k] for k in kept_ties]
        self.squares = [dot(row, row) for row in rows]
        self.active: list[int] = []
        self.duals: list[Fraction] = []

    def run(self, start: Sequence[int]) -> ExactShortest:
        wanted = [k for k in start if self.squares[k]]
        basis = independent([*self.ties, *(self.rows[k] for k in wanted)])
        self.active = [wanted[k - len(self.ties)] for k in basis if k >= len(self.ties)]
        for _ in range(STEPS_LIMIT):
            p, duals = self._tight()
            number = self._most_violated(p)
            if number is None:
                return self._answer(Status.OPTIMAL, self.active, duals, p)
            self.duals = Exact(duals.whole[: len(self.active)], duals.over).fractions
            conflict = self._add(number)
            if conflict is not None:
                return self._answer(Status.INFEASIBLE, [*self.active, number], conflict, None)
            if len(self.active) + len(self.ties) > ROWS_LIMIT:
                break
        return ExactShortest(Status.UNDECIDED)

    def _tight(self) -> tuple[Exact, Exact]:
        """The shortest p that holds the active rows tight, and its multipliers; rows that push are let go first."""
        while True:
            basis = [*(self.rows[k] for k in self.active), *self.ties]
            right = [*(self.asked[k] for k in self.active), *(0 for _ in self.ties)]
            duals = self._solved(basis, right)
            pulling = [w > 0 for w in duals.whole[: len(self.active)]]
            if all(pulling):
                return Exact(combine(duals.whole, basis, len(self.rows[0])), duals.over).reduced(), duals
            self.active = [k for k, pulls in zip(self.active, pulling, strict=True) if pulls]

    @staticmethod
    def _solved(basis: list[Whole], right: list[int]) -> Exact:
        found = solve([[dot(a, b) for b in basis] for a in basis], right) if basis else Exact([])
        assert found is not None  # the basis is independent
        return found.reduced()

    def _most_violated(self, p: Exact) -> int | None:
        """The row that p misses by most, in units of its length; None if it misses none."""
        worst, found = -1, None
        for number, (row, asked) in enumerate(zip(self.rows, self.asked, strict=True)):
            miss = asked * p.over - dot(row, p.whole)
            if miss > 0:
                square = self.squares[number]
                size = (miss * miss << 64) // square if square else 0
                if not square or size > worst:
                    worst, found = size, number
                if not square:
                    break  # two tokens of one key: a contradiction by itself
        return found

    def _add(self, number: int) -> Exact | None:
        """Raise the multiplier of a violated row until it is tight, dropping rows whose own falls to 0.

        Returns None, or weights of the active rows, of this row and of the ties, with which they cancel.
        """
        row, weight = self.rows[number], Fraction(0)
        tie_duals = self._tie_duals()
        while True:
            basis = [*(self.rows[k] for k in self.active), *self.ties]
            share = self._solved(basis, [dot(row, other) for other in basis])
            parts = share.fractions
            over = len(self.active)
            products = [dot(row, other) for other in basis]
            square = self.squares[number] - sum((c * g for c, g in zip(parts, products, strict=True)), Fraction(0))
            blocking = [(self.duals[j] / parts[j], j) for j in range(over) if parts[j] > 0]
            if not square and not blocking:
                return exact([*(-c for c in parts[:over]), Fraction(1), *(-c for c in parts[over:])])
            reached = sum((w * g for w, g in zip([*self.duals, *tie_duals], products, strict=True)), Fraction(0))
            miss = self.asked[number] - reached - weight * self.squares[number]
            first = min(blocking, default=None)
            if square and (first is None or miss / square <= first[0]):
                self.active.append(number)
                return None
            assert first is not None
            step, dropped = first
            self.duals = [w - step * c for w, c in zip(self.duals, parts[:over], strict=True)]
            tie_duals = [w - step * c for w, c in zip(tie_duals, parts[over:], strict=True)]
            weight += step
            del self.active[dropped], self.duals[dropped]

    def _tie_duals(self) -> list[Fraction]:
        """Multipliers of the ties beside those of the active rows."""
        if not self.ties:
            return []
        pull = exact(self.duals)
        rows = [self.rows[k] for k in self.active]
        total = combine(pull.whole, rows, len(self.rows[0]))
        found = self._solved(self.ties, [-dot(total, tie) for tie in self.ties])
        return [w / pull.over for w in found.fractions]

    def _answer(self, status: Status, active: list[int], duals: Exact, p: Exact | None) -> ExactShortest:
        count = len(active)
        tie_duals = [0] * self.n_ties
        for place, w in zip(self.kept_ties, duals.whole[count:], strict=True):
            tie_duals[place] = w
        return ExactShortest(
            status, tuple(active), Exact(duals.whole[:count], duals.over), Exact(tie_duals, duals.over), p
        )
