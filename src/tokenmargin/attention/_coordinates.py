"""The coordinates in which p is followed: the span of the token differences, in units of the longest one.

Only differences of keys within an input act on p, so the component of p outside their span never moves; for
d > n(T-1) a QR leaves the same problem in n(T-1) coordinates. Dividing by the length of the longest difference makes
tolerances mean the same thing whatever units the keys came in (a power of two, so nothing is rounded).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.attention._points import LARGEST_POWER, binary_unit


@dataclass(frozen=True, eq=False)
class Coordinates:
    """y = kappa Q'p and back: p = (start's part outside the span) + Q y / kappa. A matrix W may first be L'W R.

    Those of many problems (`of_many`) take points of shape (B, s, d): s points of each problem.
    """

    basis: np.ndarray | None  #: Q, shape (d, r), orthonormal columns; None for the identity
    kappa: Any  #: length of the longest key difference, rounded to a power of two
    sides: tuple[np.ndarray, np.ndarray] | None = None  #: L, R, orthonormal, where p is W in one line, for each head

    @classmethod
    def of_many(cls, each: Sequence[Coordinates]) -> Coordinates:
        """Those of many problems with arrays of the same shapes."""
        bases = [one.basis for one in each if one.basis is not None]
        both = [one.sides for one in each if one.sides is not None]
        basis, sides = np.stack(bases) if bases else None, None
        if both:
            sides = (
                np.stack([left for left, _ in both])[:, None, None],
                np.stack([right for _, right in both])[:, None, None],
            )
        return cls(basis, np.array([one.kappa for one in each])[:, None, None], sides)

    def some(self, which: np.ndarray) -> Coordinates:
        """Those of some of many problems."""
        sides = None if self.sides is None else (self.sides[0][which], self.sides[1][which])
        return Coordinates(None if self.basis is None else self.basis[which], self.kappa[which], sides)

    def one(self, b: int) -> Coordinates:
        """Those of problem b of many."""
        sides = None if self.sides is None else (self.sides[0][b, 0, 0], self.sides[1][b, 0, 0])
        return Coordinates(None if self.basis is None else self.basis[b], float(self.kappa[b, 0, 0]), sides)

    def inward(self, p: np.ndarray) -> np.ndarray:
        """y of a point p, shape (..., r)."""
        return self.along(p) * self.kappa

    def outward(self, y: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Points p, shape (..., d), whose part outside the span is that of `start`."""
        if self.basis is None and self.sides is None:
            return y / self.kappa
        outside = start - self.velocity(self.along(start))
        return outside + self.velocity(y / self.kappa)

    def along(self, p: np.ndarray) -> np.ndarray:
        """Coordinates of p in the span, without the unit, shape (..., r)."""
        if self.sides is not None:
            left, right = self.sides
            matrices = p.reshape(*p.shape[:-1], -1, left.shape[-2], right.shape[-2])
            p = (np.swapaxes(left, -1, -2) @ matrices @ right).reshape(*p.shape[:-1], -1)
        return p if self.basis is None else p @ self.basis

    def times(self, inside: np.ndarray) -> np.ndarray:
        """s of dp/ds = G(p) from that of the field in y: both p and G are in units of their own, so by kappa twice."""
        with np.errstate(over="ignore"):  # keys below 1e-154 take longer than float64 counts: infinity
            return inside / self.kappa / self.kappa

    def within(self, columns: np.ndarray) -> Coordinates:
        """Coordinates on the span of orthonormal columns of these, shape (r, m)."""
        return Coordinates(columns if self.basis is None else self.basis @ columns, self.kappa, self.sides)

    def velocity(self, dy: np.ndarray) -> np.ndarray:
        """Directions in y as directions in p (up to a positive factor), shape (..., d)."""
        along = dy if self.basis is None else dy @ np.swapaxes(self.basis, -1, -2)
        if self.sides is None:
            return along
        left, right = self.sides
        matrices = along.reshape(*along.shape[:-1], -1, left.shape[-1], right.shape[-1])
        return np.asarray(left @ matrices @ np.swapaxes(right, -1, -2)).reshape(*along.shape[:-1], -1)


def rounded_length(vectors: np.ndarray) -> np.ndarray:
    """Length of the longest of m vectors, shape (B, m, d) -> (B,), rounded to a power of two; 1 if all are zero."""
    unit = binary_unit(vectors, axis=(1, 2))
    longest = np.sqrt(((vectors / unit) ** 2).sum(axis=-1).max(axis=-1))
    rounded = 2.0 ** np.round(np.log2(np.where(longest > 0, longest, 1.0))) * unit[:, 0, 0]
    return np.where(longest > 0, np.minimum(rounded, LARGEST_POWER), 1.0)
