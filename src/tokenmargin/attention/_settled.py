"""The velocity of a point whose weights are steady, with the rounding of its logits taken out."""

from __future__ import annotations

import numpy as np

from tokenmargin.attention._stationary import spanned

#: Pairs with at least this share of the weight separate at one speed exactly once settled.
STEADY_WEIGHT = 1e-6

#: Rounding turns a velocity by less than this, of the order of the spread of its gaps.
MOST_TURNED = 0.05

#: A velocity turned by more than this must still be a sum of the steady pairs with weights that are not negative, which
#: with equal gaps makes it their max-margin direction whatever was rounded; a pair that is on its way out would turn it
#: as much, with a negative weight. 1 - cos of a turn by less is 5e-11.
TURNED_UNSEEN = 1e-5


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
