"""Norms and directions, which every path of p has."""

from __future__ import annotations

import numpy as np

from tokenmargin._types import Path

#: The largest power of two in float64.
LARGEST_POWER = 2.0**1023


class PathOfPoints:
    """Norms and directions of `points`, shape (s, d), of a result that has them."""

    points: Path

    @property
    def norms(self) -> np.ndarray:
        """|p| along the path, shape (s,)."""
        return lengths(self.points)

    @property
    def directions(self) -> Path:
        """p/|p| along the path, shape (s, d); zeros where p = 0."""
        return unit_rows(self.points)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths; zeros stay zeros."""
    scaled = vectors / binary_unit(vectors, axis=-1)
    long = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.asarray(scaled / np.where(long > 0, long, 1.0))


def lengths(vectors: np.ndarray) -> np.ndarray:
    """Lengths of vectors along the last axis, whose squares need not be numbers of float64."""
    unit = binary_unit(vectors, axis=-1)
    return np.asarray(np.linalg.norm(vectors / unit, axis=-1) * unit[..., 0])


def binary_unit(numbers: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """The power of two at or below the largest modulus along some axes, which are kept; 1 where all are zero.

    Dividing by it rounds nothing, and leaves numbers whose squares neither over- nor underflow unless they vanish
    beside the largest.
    """
    largest = np.abs(numbers).max(axis=axis, keepdims=True, initial=0.0)
    exponent = np.frexp(np.where(largest > 0, largest, 1.0))[1] - 1
    return np.asarray(np.ldexp(np.ones_like(largest), exponent))
