"""Coordinates for ordering points by a linear score, in which points asked level are level by themselves."""

from __future__ import annotations

import numpy as np

#: Ties whose singular values fall below this, relative to the largest, repeat others; points closer than this, relative
#: to the longest, are one point: a thousand times the rounding of either.
RANK_TOLERANCE = 1e-12

#: Pairs whose differences are formed when coinciding points are sought; one is enough for an answer.
LOOKED_AT = 1 << 14


class TieFrame:
    """Coordinates in which the ties hold by themselves and no more dimensions are left than points.

    Only differences of points act on p. Their mean is taken out, so that a large common part costs no digits; the span
    of the ties is projected out; and for d > V a QR of the points leaves V coordinates, in which p = x'c lies.
    """

    def __init__(self, points: np.ndarray, ties: np.ndarray) -> None:
        """Reduce points of shape (V, d) under ties of shape (q, 2)."""
        self.width = points.shape[1]
        self.differences = points[ties[:, 0]] - points[ties[:, 1]]
        self.lengths = np.linalg.norm(self.differences, axis=1)
        self.points = points - points.mean(axis=0)
        self.size = float(np.linalg.norm(self.points, axis=1).max())
        if len(ties):
            unit = self.differences / np.where(self.lengths > 0, self.lengths, 1.0)[:, None]
            _, values, right = np.linalg.svd(unit, full_matrices=False)
            self.level = right[values > RANK_TOLERANCE * max(1.0, float(values.max(initial=0.0)))]
            for _ in range(2):  # twice is enough for orthogonality to rounding
                self.points = self.points - (self.points @ self.level.T) @ self.level
        self.basis: np.ndarray | None = None
        if self.width > len(points):
            self.basis, triangle = np.linalg.qr(self.points.T)
            self.points = np.ascontiguousarray(triangle.T)

    def trapped(self, pairs: np.ndarray) -> int | None:
        """A pair whose points coincide once the ties hold, if any does.

        |probe'(x - y)| <= |probe| |x - y|: pairs that are far apart in one projection need no closer look.
        """
        width = RANK_TOLERANCE * self.size
        probe = np.random.default_rng(0).normal(size=self.points.shape[1])
        shadow = self.points @ probe
        near = np.abs(shadow[pairs[:, 0]] - shadow[pairs[:, 1]]) <= 2 * width * np.linalg.norm(probe)
        places = np.flatnonzero(near)[:LOOKED_AT]
        lengths = np.linalg.norm(self.points[pairs[places, 0]] - self.points[pairs[places, 1]], axis=1)
        return int(places[lengths.argmin()]) if places.size and lengths.min() <= width else None

    def inside(self, p: np.ndarray) -> np.ndarray:
        """The part of p that keeps the ties, in these coordinates."""
        p = self._keeping_ties(p)
        return p if self.basis is None else self.basis.T @ p

    def outside(self, p: np.ndarray) -> np.ndarray:
        """Coordinates back to a vector of shape (d,)."""
        return self._keeping_ties(p if self.basis is None else self.basis @ p)

    def _keeping_ties(self, p: np.ndarray) -> np.ndarray:
        return p - self.level.T @ (self.level @ p) if len(self.differences) else p

    def tie_multipliers(self, pull: np.ndarray) -> np.ndarray:
        """Weights on the ties whose differences add up to `pull`, the smallest of them."""
        if not len(self.differences):
            return np.zeros(0)
        safe = np.where(self.lengths > 0, self.lengths, 1.0)
        weights, *_ = np.linalg.lstsq((self.differences / safe[:, None]).T, pull, rcond=RANK_TOLERANCE)
        return weights / safe
