"""A dual active-set solver for the scaled least-norm problem: the only place that knows daqp."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

#: fill(unit, bound, p, duals) -> solved: writes the minimiser of |p|^2/2 s.t. unit p >= bound, and its multipliers. A
#: fifth argument numbers the rows to start from: those that carried the answer before some rows were added.
Backend = Callable[..., bool]

#: Number that daqp takes for "no upper bound".
_UNBOUNDED = 1e30

#: Violations that daqp lets pass, on rows of unit norm: two digits better than what the residuals are held to.
_PRIMAL_TOLERANCE, _DUAL_TOLERANCE = 1e-11, 1e-12


@cache
def active_set() -> Backend | None:
    """The solver; None where daqp is not installed.

    Without it every problem goes through non-negative least squares, which decides the same things more slowly.
    """
    try:
        import daqp
    except ImportError:
        return None

    def fill(
        unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray, held: np.ndarray | None = None
    ) -> bool:
        m, d = unit.shape
        start = {}
        if held is not None:
            start["dual_start"] = np.zeros(m)
            start["dual_start"][held] = -1.0  # signs alone tell daqp which rows are active
        hessian, linear = _identity(d)
        upper, sense = _row_constants(m)
        tolerances = {"primal_tol": _PRIMAL_TOLERANCE, "dual_tol": _DUAL_TOLERANCE}
        point, _, flag, info = daqp.solve(hessian, linear, unit, upper, bound, sense, **tolerances, **start)
        if flag != 1:
            return False
        p[:] = point
        np.negative(info["lam"], out=duals)  # daqp's multipliers of active lower bounds are negative
        return True

    return fill


@cache
def _identity(d: int) -> tuple[np.ndarray, np.ndarray]:
    return np.eye(d), np.zeros(d)


@cache
def _row_constants(m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(m, _UNBOUNDED), np.zeros(m, dtype=np.int32)
