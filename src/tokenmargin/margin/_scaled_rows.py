"""Rows of a margin problem in a norm, in units in which its Euclidean answer has length 1, and points judged there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin._isometry import length
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.margin.solution import Residuals
from tokenmargin.norms import Norm

#: Directions of the span of the rows below this fraction of the largest are rounding.
SPAN_TOLERANCE = 1e-12

#: Share of what is asked of a row, or of N(W) N_*(row) where 0 is, that rounding may make a point miss.
MISSED = 1e-9

#: Random combinations of the rows beyond the largest dimension that their span can have.
SPARE = 8


@dataclass(frozen=True, eq=False)
class Candidate:
    """W in one line, shape (d,), with multipliers of rows (m,) and of ties (q,), up to a common positive factor."""

    point: np.ndarray
    duals: np.ndarray
    tie_duals: np.ndarray


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """min N(W) s.t. rows W >= rhs, ties W = 0, W in units of `unit`, ties of length 1."""

    rows: np.ndarray
    rhs: np.ndarray
    ties: np.ndarray
    norm: Norm
    shape: tuple[int, ...]
    unit: float
    tie_lengths: np.ndarray
    start: Candidate  #: the Euclidean answer
    interior: np.ndarray  #: meets every row with room to spare, also one of which 0 is asked; NaN if there is none

    @classmethod
    def of(
        cls,
        euclidean: LeastNormSolution,
        rows: np.ndarray,
        rhs: np.ndarray,
        ties: np.ndarray,
        norm: Norm,
        shape: tuple[int, ...],
        interior: np.ndarray,
    ) -> ScaledRows:
        """Scale a problem by the length of its Euclidean answer."""
        unit = length(euclidean.p)
        sizes = np.linalg.norm(ties, axis=1)
        sizes = np.where(sizes > 0, sizes, 1.0)
        start = Candidate(euclidean.p / unit, euclidean.duals, euclidean.tie_duals * sizes)
        return cls(rows * unit, rhs, ties / sizes[:, None], norm, shape, unit, sizes, start, interior)

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
        """The candidate with ties kept, every row met (the longer the better), and multipliers >= 0 with N_*(G) = 1."""
        point = one.point
        if len(self.ties):
            point = point - np.linalg.lstsq(self.ties, self.ties @ point, rcond=SPAN_TOLERANCE)[0]
        asking = self.rhs > 0
        worst = float((self.rows[asking] @ point / self.rhs[asking]).min())
        if worst > 0:
            point = point / worst
        moved = replace(one, point=point, duals=np.maximum(one.duals, 0.0))
        size = self.dual_value(self.pull(moved))
        return replace(moved, duals=moved.duals / size, tie_duals=moved.tie_duals / size) if size > 0 else moved

    def bracket(self, one: Candidate) -> tuple[float, float]:
        """N(W), infinite where a row is missed, and the dual value, of what `meeting` returns."""
        value = self.value(one.point)
        slack = self.rows @ one.point - self.rhs
        missed = slack < -MISSED * np.where(self.rhs > 0, self.rhs, value * self._row_sizes)
        return np.inf if missed.any() else value, float(one.duals @ self.rhs)

    @cached_property
    def _row_sizes(self) -> np.ndarray:
        """N_* of each row of which 0 is asked, and 0 for the others."""
        return np.array([0.0 if b else self.dual_value(row) for row, b in zip(self.rows, self.rhs, strict=True)])

    def gap(self, one: Candidate) -> float:
        """Relative gap between N(W) and the dual value, for a candidate that meets every row."""
        high, low = self.bracket(one)
        return max(0.0, 1 - low / high)

    def residuals(self, one: Candidate) -> Residuals:
        """Residuals of a candidate that was made to meet the rows: units of what is asked, or of N(W) and N_*."""
        value = self.value(one.point)
        slack = self.rows @ one.point - self.rhs
        sizes = self._row_sizes[self.rhs == 0] * value
        level = -(slack[self.rhs == 0] / np.where(sizes > 0, sizes, 1.0))
        asked = self.rhs > 0
        missed = [0.0, -float((slack[asked] / self.rhs[asked]).min()), float(level.max(initial=0.0))]
        apart = float(np.abs(self.ties @ one.point).max(initial=0.0)) / value
        along = float(self.pull(one) @ one.point) / value
        return Residuals(
            primal=max(*missed, apart),
            dual=max(0.0, -float(one.duals.min())),
            stationarity=abs(1 - along),
            complementarity=float(np.abs(one.duals * slack).max()) / value,
            gap=self.gap(one),
        )

    def unscaled(self, one: Candidate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W and multipliers in the units of the rows as they came, with N_*(G) = 1."""
        return one.point * self.unit, one.duals * self.unit, one.tie_duals / self.tie_lengths

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
