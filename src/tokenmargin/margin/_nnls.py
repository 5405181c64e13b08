"""Non-negative least squares: the nearest point of a convex hull, and the shortest vector found through it.

What decides a least-norm problem when an active set does not: weights that prove infeasibility, or a second opinion.
Lawson and Hanson's two reductions, and the re-solving of a nearly right answer on its active rows.
"""

from __future__ import annotations

import numpy as np

#: Rows whose singular values fall below this, relative to the largest, are repeats of others.
RANK_TOLERANCE = 1e-12

#: A multiplier above this, and a slack below that, relative to the solution's length, mark a row as active: the first
#: just above rounding, the second generous, since wrongly added rows get the multiplier 0.
_CARRIES, _NEAR = 1e-12, 1e-6


def hull_weights(unit: np.ndarray, asks: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights u >= 0 with sum over asking rows 1 that make |A'u| smallest, and that length (inf if none was found).

    Lawson and Hanson's reduction: one non-negative least squares problem, min |A'u|^2 + (sum u - 1)^2.
    """
    from scipy.optimize import nnls

    system = np.vstack([unit.T, asks.astype(float)])
    target = np.zeros(system.shape[0])
    target[-1] = 1.0
    try:
        weights, _ = nnls(system, target)
    except RuntimeError:
        return np.zeros(len(unit)), np.inf
    total = float(weights[asks].sum())
    if total <= 0.0:
        return weights, np.inf
    weights = weights / total
    pull = weights @ unit
    return weights, float(np.sqrt(pull @ pull))


def least_distance(unit: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lawson and Hanson's least-distance programming: p from the residual of a non-negative least squares problem."""
    from scipy.optimize import nnls

    system = np.vstack([unit.T, bound])
    target = np.zeros(system.shape[0])
    target[-1] = 1.0
    try:
        u, _ = nnls(system, target)
    except RuntimeError:
        return np.zeros(unit.shape[1]), np.zeros(len(unit))
    remainder = target - system @ u
    if remainder[-1] <= 0.0:
        return np.zeros(unit.shape[1]), np.zeros(len(unit))
    return -remainder[:-1] / remainder[-1], u / remainder[-1]


def polished(
    unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Re-solve on the rows that carry a multiplier, and on all rows that are tight: two better guesses."""
    from scipy.optimize import nnls

    scale = max(1.0, float(np.sqrt(p @ p)))
    guesses = []
    for active in (duals > _CARRIES * scale, unit @ p - bound < _NEAR * scale):
        if not active.any():
            continue
        point, *_ = np.linalg.lstsq(unit[active], bound[active], rcond=RANK_TOLERANCE)
        multipliers = np.zeros_like(duals)
        exact, *_ = np.linalg.lstsq(unit[active].T, point, rcond=RANK_TOLERANCE)
        if (exact < 0).any():
            try:
                exact, _ = nnls(unit[active].T, point)
            except RuntimeError:  # its iteration limit: the other guess, or the status UNDECIDED, remains
                continue
        multipliers[active] = exact
        guesses.append((point, multipliers))
    return guesses
