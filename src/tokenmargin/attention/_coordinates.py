"""The coordinates in which p is followed: the span of the token differences, in units of the longest one.

Only differences of keys within an input act on p, so the component of p outside their span never moves; for
d > n(T-1) a QR leaves the same problem in n(T-1) coordinates. Dividing by the length of the longest difference makes
tolerances mean the same thing whatever units the keys came in (a power of two, so nothing is rounded).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin.attention._points import LARGEST_POWER, binary_unit


@dataclass(frozen=True, eq=False)
class Coordinates:
    """y = kappa Q'p and back: p = (start's part outside the span) + Q y / kappa."""

    basis: np.ndarray | None  #: Q, shape (d, r), orthonormal columns; None for the identity
    kappa: float  #: length of the longest key difference, rounded to a power of two

    def inward(self, p: np.ndarray) -> np.ndarray:
        """y of a point p, shape (..., r)."""
        return (p if self.basis is None else p @ self.basis) * self.kappa

    def outward(self, y: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Points p, shape (..., d), whose part outside the span is that of `start`."""
        if self.basis is None:
            return y / self.kappa
        outside = start - self.basis @ (self.basis.T @ start)
        return outside + (y / self.kappa) @ self.basis.T

    def times(self, inside: np.ndarray) -> np.ndarray:
        """s of dp/ds = G(p) from that of the field in y: both p and G are in units of their own, so by kappa twice."""
        with np.errstate(over="ignore"):  # keys below 1e-154 take longer than float64 counts: infinity
            return inside / self.kappa / self.kappa

    def within(self, columns: np.ndarray) -> Coordinates:
        """Coordinates on the span of orthonormal columns of these, shape (r, m)."""
        return Coordinates(columns if self.basis is None else self.basis @ columns, self.kappa)

    def velocity(self, dy: np.ndarray) -> np.ndarray:
        """A direction in y as a direction in p (up to a positive factor), shape (d,)."""
        return dy if self.basis is None else self.basis @ dy


def rounded_length(vectors: np.ndarray) -> np.ndarray:
    """Length of the longest of m vectors, shape (B, m, d) -> (B,), rounded to a power of two; 1 if all are zero."""
    unit = binary_unit(vectors, axis=(1, 2))
    longest = np.sqrt(((vectors / unit) ** 2).sum(axis=-1).max(axis=-1))
    rounded = 2.0 ** np.round(np.log2(np.where(longest > 0, longest, 1.0))) * unit[:, 0, 0]
    return np.where(longest > 0, np.minimum(rounded, LARGEST_POWER), 1.0)
