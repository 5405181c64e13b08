"""Tests of points: at rest and attracting, by Newton step and curvature; or else steady, and where they go then.

Only differences of keys move p: outside their span J is zero, and says nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Singular values of the key differences below this, relative to the largest, span nothing.
SPAN_TOLERANCE = 1e-12

#: Largest Newton step, relative to 1 + |p|, at a point that is called stationary.
NEWTON_TOLERANCE = 1e-7

#: Eigenvalues of the Jacobian must be below minus this times its norm for a stationary point to be called attracting.
CURVATURE_TOLERANCE = 1e-10

#: Pairs with at least this share of the weight separate at one speed exactly once settled.
STEADY_WEIGHT = 1e-6

#: Rounding turns a velocity by less than this, of the order of the spread of its gaps.
MOST_TURNED = 0.05

#: A velocity turned by more than this must still be a sum of the steady pairs with weights that are not negative, which
#: with equal gaps makes it their max-margin direction whatever was rounded; a pair that is on its way out would turn it
#: as much, with a negative weight. 1 - cos of a turn by less is 5e-11.
TURNED_UNSEEN = 1e-5


def spanned(values: np.ndarray) -> np.ndarray:
    """True for those singular values, shape (B, k), that belong to directions that are spanned."""
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
        norm: norms of the points, shape (B,).

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


def settled_velocity(keys: np.ndarray, signed: np.ndarray, force: np.ndarray) -> np.ndarray:
    """Unit velocities with rounding taken out, shape (B, r), where the weights bear that out.

    Once weights are steady, log w_k - log w_l is constant, so the velocity is orthogonal to z_k - z_l for all weighted
    pairs. G satisfies this only up to the rounding of the logits; here what violates it is projected out of G.
    """
    B, n, T, _ = keys.shape
    weights = signed.reshape(B, -1)
    order = np.argsort(-weights, axis=1, kind="stable")[:, : int((weights > STEADY_WEIGHT).sum(axis=1).max())]
    steady = np.take_along_axis(weights, order, axis=1) > STEADY_WEIGHT
    i, t, u = np.unravel_index(order, (n, T, T))
    every = np.arange(B)[:, None]
    pairs = keys[every, i, t] - keys[every, i, u]
    apart = np.where(steady[:, 1:, None], pairs[:, 1:] - pairs[:, :1], 0.0)
    _, values, right = np.linalg.svd(apart, full_matrices=False)
    across = np.where(spanned(values)[:, :, None], right, 0.0)
    rounded = np.einsum("bkr,bk->br", across, np.einsum("bkr,br->bk", across, force))
    whole = np.linalg.norm(force, axis=1, keepdims=True)
    # Inputs that share tokens have pairs that are one up to rounding, and what spans their difference is noise.
    turned = np.linalg.norm(rounded, axis=1) / np.where(whole[:, 0] > 0, whole[:, 0], 1.0)
    is_rounding = turned <= TURNED_UNSEEN
    for b in np.flatnonzero(~is_rounding & (turned <= MOST_TURNED)).tolist():
        change = np.linalg.lstsq(pairs[b][steady[b]].T, rounded[b], rcond=None)[0]
        is_rounding[b] = (weights[b, order[b]][steady[b]] >= change).all()
    along = np.where(is_rounding[:, None], force - rounded, force)
    return np.asarray(along / np.linalg.norm(along, axis=1, keepdims=True))


def in_units_asked(
    system: Any, keys: np.ndarray, logits: np.ndarray, scores: np.ndarray, signed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(keys, weights, orders) with each input in units of the margin that the loss asks of it; see `pair_field`."""
    order = np.ones(logits.shape[:2])
    if not (system.has_fixed_scores and system.loss.is_flat):
        return keys, signed, order
    share = np.exp(logits - np.logaddexp.reduce(logits, axis=2, keepdims=True))
    order = np.asarray(system.loss.order((share * scores).sum(axis=2)))
    signed = signed / order[:, :, None, None]
    total = np.abs(signed).sum(axis=(1, 2, 3), keepdims=True) / 2
    return keys * order[:, :, None, None], signed / np.where(total > 0, total, 1.0), order
