"""Whether points are at rest, and whether they attract: the Newton step and the curvature, many points at once.

Only differences of keys move p: outside their span J is zero, and says nothing.
"""

from __future__ import annotations

import numpy as np

#: Singular values of the key differences below this, relative to the largest, span nothing.
SPAN_TOLERANCE = 1e-12

#: Largest Newton step, relative to 1 + |p|, at a point that is called stationary.
NEWTON_TOLERANCE = 1e-7

#: Eigenvalues of the Jacobian must be below minus this times its norm for a stationary point to be called attracting.
CURVATURE_TOLERANCE = 1e-10


def spanned(values: np.ndarray) -> np.ndarray:
    """Which singular values, shape (B, k), belong to directions that are spanned."""
    return np.asarray(values > SPAN_TOLERANCE * np.maximum(values.max(axis=1, keepdims=True, initial=0.0), 1e-300))


def stationarity(
    keys: np.ndarray, present: np.ndarray, force: np.ndarray, jacobian: np.ndarray, norm: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Newton step relative to 1 + norm, and the largest eigenvalue of J relative to |J|, on the span of differences.

    Args:
        keys: relative to one of their input, shape (B, n, T, r).
        present: which tokens there are, shape (B, n, T).
        force: G, shape (B, r).
        jacobian: J, shape (B, r, r).
        norm: of the points, shape (B,).

    Returns:
        Two arrays of shape (B,), NaN where the field is not finite.
    """
    B, n, T, r = keys.shape
    differences = np.where(present[..., None], keys, 0.0).reshape(B, n * T, r)
    finite = np.isfinite(force).all(axis=1) & np.isfinite(jacobian).all(axis=(1, 2))
    _, values, right = np.linalg.svd(differences, full_matrices=n * T < r)
    values = np.concatenate([values, np.zeros((B, r - values.shape[1]))], axis=1)
    spans = spanned(values)
    basis = np.where(spans[:, :, None], right, 0.0)  # rows; those outside the span are zero
    force = np.where(finite[:, None], np.einsum("bkr,br->bk", basis, force), 0.0)
    inner = np.where(finite[:, None, None], basis @ jacobian @ np.swapaxes(basis, 1, 2), 0.0)
    size = np.linalg.norm(inner, axis=(1, 2))
    left, scale, _ = np.linalg.svd(inner)
    solvable = scale > np.finfo(inner.dtype).eps * r * scale[:, :1]
    step = np.where(solvable, np.einsum("bkr,bk->br", left, force) / np.where(solvable, scale, 1.0), 0.0)
    newton = np.linalg.norm(step, axis=1) / (1.0 + norm)
    # Outside the span an eigenvalue that is no larger than any inside, so that it is not the largest.
    diagonal = np.where(spans, 0.0, -size[:, None])
    symmetric = (inner + np.swapaxes(inner, 1, 2)) / 2 + diagonal[:, :, None] * np.eye(r)
    largest = np.linalg.eigvalsh(symmetric)[:, -1] / np.where(size > 0, size, 1.0)
    flat, empty = size == 0.0, ~spans.any(axis=1)
    newton = np.where(flat, np.where(force.any(axis=1), np.inf, 0.0), newton)
    newton, largest = np.where(empty, 0.0, newton), np.where(empty, -np.inf, np.where(flat, 0.0, largest))
    return np.where(finite, newton, np.nan), np.where(finite, largest, np.nan)
