"""Rows of a margin problem in a norm, of length 1, where its Euclidean answer has length 1, and points judged there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin._isometry import length, lengths, power_of_two
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.margin.solution import REACH, Residuals, Status
from tokenmargin.norms import Norm

#: Directions of the span of the rows below this fraction of the largest are rounding.
SPAN_TOLERANCE = 1e-12

#: Share of what is asked of a row that rounding may cost; of N(W) N_*(row) where that is 0, or too little for floats.
MISSED = 1e-9

#: What the product of two arrays of length 1 is rounded by: room for rows where W is moved inwards to meet them.
ROUNDED = 2e-15

#: Where more is asked of one row of length 1 than of another by this factor, the Euclidean answer is no inner point.
UNLIKE = 1e3

#: Random combinations of the rows beyond the largest dimension that their span can have.
SPARE = 8

#: A weight below this share of the largest is rounding.
DEBRIS = 1e-9

Solve = Callable[..., LeastNormSolution]


@dataclass(frozen=True, eq=False)
class ForcedRows:
    """Rows that no p gives more than the 0 that is asked, because they oppose each other, and so are ties.

    If weights w >= 0 on rows z, of each of which at least 0 is asked, cancel, sum of w_k z_k = 0 (together with some
    combination of ties), then each p that does what is asked has p'z_k = 0 wherever w_k > 0. Proofs that no p gives all
    rows more than 0 are such weights, so asking again without the rows that they name finds all of them.
    """

    is_forced: np.ndarray  #: booleans, shape (m,)
    cancelling: tuple[np.ndarray, ...]  #: weights of rows and ties, shape (m + q,); of rows named by earlier ones too
    interior: np.ndarray  #: gives each other row its length or more; NaN if none is known

    @classmethod
    def none(cls, m: int, interior: np.ndarray) -> ForcedRows:
        """No row is forced."""
        return cls(np.zeros(m, dtype=bool), (), interior)

    @classmethod
    def among(
        cls,
        given: GivenRows,
        rhs: np.ndarray,
        sizes: np.ndarray,
        solve: Solve,
    ) -> ForcedRows:
        """The forced rows of a problem that has a solution: some of those of which 0 is asked.

        `sizes` are lengths of the rows in units of two to the power `given.exponent`; `solve` is `least_norm_of`.
        """
        m, there = len(sizes), sizes > 0
        forced, cancelling, interior = np.zeros(m, dtype=bool), [], np.full(given.width, np.nan)
        n_ties = 0 if given.tie_first is None else len(given.tie_first)
        while (there & ~forced).any():
            free, level = np.flatnonzero(there & ~forced), np.flatnonzero(forced)
            answer = solve(given.levelled(free, level), sizes[free])
            if answer.status is Status.OPTIMAL:
                interior = np.ldexp(answer.p, given.exponent)
            if answer.weights is None or answer.tie_weights is None:
                break
            shares = answer.weights * sizes[free]
            carrying = (shares > DEBRIS * shares.max()) & (rhs[free] == 0)
            if not carrying.any():
                break
            weights = np.zeros(m + n_ties)
            weights[free], weights[m:] = np.where(carrying, answer.weights, 0.0), answer.tie_weights[:n_ties]
            weights[level] = answer.tie_weights[n_ties:]
            cancelling.append(weights)
            forced[free[carrying]] = True
        return cls(forced, tuple(cancelling), interior)

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the forced rows."""
        return np.flatnonzero(self.is_forced)

    def signed(self, multipliers: np.ndarray) -> np.ndarray:
        """Multipliers of rows and ties with the same sum, none of a row below 0: the last weights that cancel first."""
        m = len(self.is_forced)
        for weights in reversed(self.cancelling):
            own = np.flatnonzero(weights[:m] > 0)
            short = multipliers[own] < 0
            if short.any():
                more = float((-multipliers[own] / weights[own])[short].max())
                multipliers = multipliers + more * weights
        return multipliers


@dataclass(frozen=True, eq=False)
class Candidate:
    """W in one line, shape (d,), with multipliers of rows (m,) and of ties (q,), up to a common positive factor."""

    point: np.ndarray
    duals: np.ndarray
    tie_duals: np.ndarray


@dataclass(frozen=True, eq=False)
class _Units:
    """Rows and ties that `ScaledRows` was made of, and their units."""

    solve: Solve
    given: GivenRows
    asked: np.ndarray  #: of the given rows
    exponent: int  #: rows were taken in units of two to this power
    length: float  #: of the Euclidean answer to them
    sizes: np.ndarray  #: lengths of all rows, and of all ties behind them
    forced: ForcedRows
    kept: np.ndarray  #: numbers of the rows that are rows here
    level: np.ndarray  #: numbers, among rows and the ties behind them, of those that are ties here
    ties: np.ndarray  #: these, of length 1


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """min N(W) s.t. rows W >= rhs, ties W = 0; rows of length 1, those of length 0 left out, and orthonormal ties."""

    rows: np.ndarray
    rhs: np.ndarray
    ties: np.ndarray
    norm: Norm
    shape: tuple[int, ...]
    start: Candidate  #: the Euclidean answer
    interior: np.ndarray  #: keeps the ties and gives each row 1 or more; NaN if none is known
    units: _Units

    @classmethod
    def of(
        cls,
        euclidean: LeastNormSolution,
        given: GivenRows,
        rhs: np.ndarray,
        norm: Norm,
        shape: tuple[int, ...],
        solve: Solve,
    ) -> ScaledRows:
        """Scale a problem by the length of its Euclidean answer; rows that cannot have more than the 0 asked are ties.

        The arguments are those of `least_in_norm`, with an optimal Euclidean answer.
        """
        m, exponent = len(rhs), given.exponent
        both = np.concatenate(given.floats(exponent))
        sizes = lengths(both)
        both = both / np.where(sizes > 0, sizes, 1.0)[:, None]
        p = np.ldexp(euclidean.p, exponent)
        unit = length(p)
        asked = rhs / (np.where(sizes[:m] > 0, sizes[:m], 1.0) * unit)
        forced = ForcedRows.none(m, p / (unit * asked.min())) if asked.min() * UNLIKE >= asked.max() else None
        forced = ForcedRows.among(given, rhs, sizes[:m], solve) if forced is None else forced
        there = np.flatnonzero(sizes > 0)
        is_row = (there < m) & ~np.isin(there, forced.numbers)
        kept, level = there[is_row], there[~is_row]
        multipliers = np.concatenate([euclidean.duals, euclidean.tie_duals]) * sizes
        ties = _range(both[level].T).T if len(level) else both[level]
        start = Candidate(p / unit, multipliers[kept], ties @ (both[level].T @ multipliers[level]))
        units = _Units(solve, given, rhs, exponent, unit, sizes, forced, kept, level, both[level])
        return cls(both[kept], asked[kept], ties, norm, shape, start, forced.interior, units)

    def value(self, point: np.ndarray) -> float:
        """N(W)."""
        return float(self.norm.value(point.reshape(self.shape)))

    def pull(self, one: Candidate) -> np.ndarray:
        """G, the weighted sum of rows and ties, shape (d,)."""
        return np.asarray(one.duals @ self.rows + one.tie_duals @ self.ties)

    def dual_value(self, array: np.ndarray) -> float:
        """N_*(G)."""
        return float(self.norm.dual.value(array.reshape(self.shape)))

    def meeting(self, one: Candidate) -> Candidate:
        """The candidate with ties kept, every row met, as short as may be, and multipliers >= 0 with N_*(G) = 1."""
        point = one.point
        if len(self.ties):
            point = point - self.ties.T @ (self.ties @ point)
        moved = replace(one, point=self._met(point), duals=np.maximum(one.duals, 0.0))
        size = self.dual_value(self.pull(moved))
        return replace(moved, duals=moved.duals / size, tie_duals=moved.tie_duals / size) if size > 0 else moved

    def _met(self, point: np.ndarray) -> np.ndarray:
        """The point in the length in which rows have what they ask, moved inwards where some still miss it.

        Two lengths are tried: that of all rows of which floats tell, and that of those of which most is asked.
        """
        levels = (UNLIKE,) if self.rhs.min() * UNLIKE >= self.rhs.max() else (1.0, REACH)
        found = []
        for level in levels:
            asking = self.rhs * level >= self.rhs.max()
            worst = float((self.rows[asking] @ point / self.rhs[asking]).min())
            moved = point / worst if worst > 0 else point
            missed = float((self.rhs - self.rows @ moved + self._unsure).max())
            is_met = missed <= ROUNDED or np.isnan(self.interior).any()
            found.append(moved if is_met else moved + (missed + ROUNDED) * self.interior)
        return found[0] if len(found) == 1 else min(found, key=self._met_value)

    def _met_value(self, point: np.ndarray) -> float:
        """N(W), infinite where a row is missed."""
        value = self.value(point)
        return np.inf if (self.rows @ point - self.rhs < -MISSED * self._asked(value)).any() else value

    def bracket(self, one: Candidate) -> tuple[float, float]:
        """N(W), infinite where a row is missed, and the dual value, of what `meeting` returns."""
        return self._met_value(one.point), float(one.duals @ self.rhs)

    def _asked(self, value: float) -> np.ndarray:
        """The margin asked of each row; N(W) N_*(row) where that is 0, or so little that floats do not tell."""
        return np.where(self._row_sizes > 0, self._row_sizes * value, self.rhs)

    @cached_property
    def _row_sizes(self) -> np.ndarray:
        """N_* of each row of which 0 is asked, or too little for floats to tell; 0 for the others."""
        told = self.rhs * REACH >= 1.0
        return np.array([0.0 if t else self.dual_value(row) for row, t in zip(self.rows, told, strict=True)])

    def best(self, one: Candidate, *found: Candidate) -> Candidate:
        """The shortest of the points with the multipliers that prove most; `one` meets the rows, others are made to."""
        met = [one, *map(self.meeting, found)]
        brackets = [self.bracket(one) for one in met]
        shortest = met[int(np.argmin([high for high, _ in brackets]))]
        most = met[int(np.argmax([low for _, low in brackets]))]
        return replace(shortest, duals=most.duals, tie_duals=most.tie_duals)

    @cached_property
    def _unsure(self) -> np.ndarray:
        """Room that is left to rows of which floats do not tell what is asked."""
        return np.where(self._row_sizes > 0, ROUNDED, 0.0)

    def gap(self, one: Candidate) -> float:
        """Relative gap between N(W) and the dual value, for a candidate that meets every row."""
        high, low = self.bracket(one)
        return max(0.0, 1 - low / high) if high > 0 else np.inf

    def residuals(self, one: Candidate) -> Residuals:
        """Residuals of a candidate that was made to meet the rows: units of what is asked, or of N(W) and N_*."""
        value = self.value(one.point)
        slack = self.rows @ one.point - self.rhs
        apart = float(np.abs(self.ties @ one.point).max(initial=0.0)) / value
        along = float(self.pull(one) @ one.point) / value
        return Residuals(
            primal=max(0.0, -float((slack / self._asked(value)).min()), apart),
            dual=max(0.0, -float(one.duals.min())),
            stationarity=abs(1 - along),
            complementarity=float(np.abs(one.duals * slack).max()) / value,
            gap=self.gap(one),
        )

    def euclidean(self, scale: np.ndarray) -> Candidate | None:
        """The W of least |W/scale|, with its multipliers; None where it is not decided."""
        ties = self.ties * scale if len(self.ties) else None
        asked = np.where(self._row_sizes > 0, 0.0, self.rhs)
        # Rows that are missed by rounding, however little they ask, are met by `meeting`.
        answer = self.units.solve(GivenRows(self.rows * scale, None, ties, is_rounded=True), asked, np.inf)
        if answer.status is not Status.OPTIMAL:
            return None
        return Candidate(answer.p * scale, np.ldexp(answer.duals, answer.dual_exponent), answer.tie_duals)

    def missed(self, p: np.ndarray) -> float:
        """The largest share of what is asked that a row misses, of those of which `residuals` does not tell it."""
        told = np.ones(len(self.units.asked), dtype=bool)
        told[self.units.kept] = self._row_sizes == 0
        unsure = np.flatnonzero(~told & (self.units.asked > 0))
        if not unsure.size:
            return 0.0
        unit = float(power_of_two(np.abs(p).max()))
        reach = self.units.given.of(unsure).products(p / unit)
        return float((1 - reach / (self.units.asked[unsure] / unit)).max())

    def inwards(self, one: Candidate) -> Candidate:
        """The candidate moved by a rounding, for rows that are met in floats alone."""
        return replace(one, point=one.point + ROUNDED * self.interior)

    def unscaled(self, one: Candidate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W and multipliers in the units of the rows as they came, with N_*(G) = 1."""
        units, m = self.units, len(self.units.forced.is_forced)
        multipliers = np.zeros(len(units.sizes))
        multipliers[units.kept] = one.duals / units.sizes[units.kept]
        if len(units.level):
            own = np.linalg.lstsq(units.ties.T, one.tie_duals @ self.ties, rcond=SPAN_TOLERANCE)[0]
            multipliers[units.level] = own / units.sizes[units.level]
        multipliers = np.ldexp(units.forced.signed(multipliers), -units.exponent)
        return self.in_units(one.point), multipliers[:m], multipliers[m:]

    def in_units(self, point: np.ndarray | float) -> np.ndarray:
        """W, or a number of its units, in the units of the rows as they came."""
        share, power = np.frexp(self.units.length)
        return np.asarray(np.ldexp(point * share, power - self.units.exponent))

    # --- The same in fewer rows and columns, for norms that rotations of either leave alone ------------------------

    @cached_property
    def bases(self) -> tuple[np.ndarray, np.ndarray]:
        """Orthonormal columns that span the columns, and the rows, of every A_k and E_j: W lives between them."""
        arrays = np.concatenate([self.rows, self.ties]).reshape(-1, *self.matrix_shape)
        draw = np.random.default_rng(0)
        k, r, c = arrays.shape
        left = _range(np.tensordot(arrays, draw.normal(size=(k, c, r + SPARE)), axes=([0, 2], [0, 1])))
        right = _range(np.tensordot(arrays, draw.normal(size=(k, r, c + SPARE)), axes=([0, 1], [0, 1])))
        return left, right

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """The shape of W as a matrix: a vector is one column."""
        return (self.shape[0], self.shape[1]) if len(self.shape) == 2 else (self.shape[0], 1)

    @cached_property
    def reduced(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and ties between the bases, shapes (m, r, c) and (q, r, c)."""
        left, right = self.bases
        both = left.T @ (np.concatenate([self.rows, self.ties]).reshape(-1, *self.matrix_shape) @ right)
        return both[: len(self.rows)], both[len(self.rows) :]

    @property
    def tall(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """Rows and ties between the bases, turned where they would be wider than tall; and whether they were."""
        rows, ties = self.reduced
        flip = rows.shape[1] < rows.shape[2]
        return (rows.transpose(0, 2, 1), ties.transpose(0, 2, 1), True) if flip else (rows, ties, False)

    def lifted(self, inner: np.ndarray) -> np.ndarray:
        """A matrix between the bases as W in one line."""
        left, right = self.bases
        return np.asarray((left @ inner @ right.T).ravel())


def _range(sample: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span those of a random sample of a space, which has a few more than it needs."""
    left, values, _ = np.linalg.svd(sample, full_matrices=False)
    return np.asarray(left[:, values > SPAN_TOLERANCE * values[0]])
