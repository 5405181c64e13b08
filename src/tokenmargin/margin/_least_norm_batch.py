"""Least-norm problems of one shape, solved together as arrays; scaling and residuals are shared work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from tokenmargin._isometry import isometric_rows
from tokenmargin.margin._daqp import active_set
from tokenmargin.margin.solution import KKT_TOLERANCE, REACH, residuals_batch

#: If the unit rows can be averaged to a vector shorter than this, no p of practical length separates: rows that are
#: moved by this share of their lengths contradict each other, and any feasible p is 1e12 times as long as the rows of
#: that average alone ask for, in the mean. Float64 keys mean no more.
INFEASIBLE_MARGIN = 1e-12

#: Squared lengths of rows between which nothing over- or underflows on the way; others are left to `least_norm`.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-200, 1e200

BatchRows = Float[np.ndarray, "B m d"]
BatchNumbers = Float[np.ndarray, "B m"]
BatchPoints = Float[np.ndarray, "B d"]
BatchResiduals = Float[np.ndarray, "B 5"]
BatchFlags = Bool[np.ndarray, "B"]


@dataclass(frozen=True, eq=False)
class LeastNormArrays:
    """Answers to B problems; where not `solved` the other arrays hold nothing of value."""

    solved: BatchFlags  #: whether the point is optimal, by its own residuals
    p: BatchPoints
    duals: BatchNumbers
    residuals: BatchResiduals  #: in the order of `Residuals`


def least_norm_arrays(rows: BatchRows, rhs: BatchNumbers) -> LeastNormArrays:
    """min |p|^2/2 s.t. rows p >= rhs for B problems; those not solved are infeasible, or need `least_norm`."""
    m, d = rows.shape[1:]
    with np.errstate(over="ignore"):
        squares = np.einsum("bmd,bmd->bm", rows, rows)
    plain = ((squares > SMALLEST_SQUARE) & (squares < LARGEST_SQUARE)).all(axis=1)
    if not plain.all():
        rows, squares = np.where(plain[:, None, None], rows, 0.0), np.where(plain[:, None], squares, 0.0)
    norms = np.sqrt(np.where(squares > 0, squares, 1.0))
    bound = rhs / norms
    unit_length = bound.max(axis=1)
    plain &= unit_length > 0
    unit_length = np.where(plain, unit_length, 1.0)
    bound /= unit_length[:, None]
    reduced = isometric_rows(rows) / norms[:, :, None]
    y = np.zeros((len(rows), reduced.shape[2]))
    duals = np.zeros((len(rows), m))
    found = np.zeros(len(rows), dtype=bool)
    backend = active_set()
    if backend is not None:
        for k in np.flatnonzero(plain).tolist():
            found[k] = backend(reduced[k], bound[k], y[k], duals[k])
    combined = np.matmul((duals / norms)[:, None, :], rows)[:, 0, :]
    p = combined if d > m else y
    slack = np.matmul(rows, p[:, :, None])[:, :, 0] / norms - bound
    residuals = residuals_batch(slack, combined - p, bound, p, duals)
    told = np.linalg.norm(p, axis=1) <= REACH * bound.min(axis=1)  # where floats do not tell, exact arithmetic does
    solved = found & (residuals.max(axis=1) <= KKT_TOLERANCE) & told
    return LeastNormArrays(solved, p * unit_length[:, None], duals * (unit_length[:, None] / norms), residuals)
