"""Vectors in as few coordinates as they need: the same lengths and angles, without the width they came in.

Lengths are right at any size: squares of 1e155 overflow and those of 1e-163 vanish, so a power of two is taken out
first, which rounds nothing.
"""

from __future__ import annotations

import numpy as np

#: Smallest Cholesky pivot of the Gram matrix of unit rows that is trusted: rounding perturbs a pivot by about 1e-16
#: over its value, so coordinates keep fourteen digits; rows nearer to dependence go through QR.
GRAM_PIVOT = 1e-2


def power_of_two(numbers: np.ndarray | np.floating) -> np.ndarray:
    """The power of two at or below each modulus; 1 for zero: dividing by it rounds nothing."""
    return np.where(numbers == 0, 1.0, np.ldexp(1.0, np.frexp(np.abs(numbers))[1] - 1))


def lengths(vectors: np.ndarray) -> np.ndarray:
    """Euclidean lengths along the last axis, (..., d) -> (...), without overflow or underflow of the squares."""
    unit = power_of_two(np.abs(vectors).max(axis=-1))
    scaled = vectors / unit[..., None]
    return np.asarray(np.sqrt(np.einsum("...d,...d->...", scaled, scaled)) * unit)


def length(vector: np.ndarray) -> float:
    """Euclidean length of one vector, shape (d,), at any size."""
    return float(lengths(vector))


def isometric_rows(rows: np.ndarray) -> np.ndarray:
    """Rows (..., m, d) as rows (..., m, m) with the same inner products, when d > m; as they are otherwise.

    By Cholesky of their Gram matrix, whose cost in d is one pass; it squares the condition number, so the members of a
    batch whose rows are nearly dependent go through QR instead. Every row is taken in a unit of its own.
    """
    m, d = rows.shape[-2:]
    if d <= m:
        return rows
    units = power_of_two(np.abs(rows).max(axis=-1))[..., None]
    return np.ascontiguousarray(_triangles(rows / units) * units)


def _triangles(rows: np.ndarray) -> np.ndarray:
    """Lower triangles (..., m, m) with the inner products of the rows, whose largest entries are between 1 and 2."""
    gram = np.matmul(rows, np.swapaxes(rows, -1, -2))
    sizes = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
    try:
        triangle = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return _by_qr(rows)
    pivots = np.diagonal(triangle, axis1=-2, axis2=-1)
    doubtful = ~(pivots >= GRAM_PIVOT * sizes).all(axis=-1)
    if doubtful.any():
        triangle[doubtful] = _by_qr(rows[doubtful])
    return np.asarray(triangle)


def _by_qr(rows: np.ndarray) -> np.ndarray:
    return np.swapaxes(np.linalg.qr(np.swapaxes(rows, -1, -2), mode="r"), -1, -2)
