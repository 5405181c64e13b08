"""Max-margin problems in norms of the entries: max and sum by linear programs, l_q by its smooth dual.

The programs as max s over N(Y) <= 1 and rows Y >= s b, with W = Y/s: the max norm then is a bound on each variable, and
the sum norm one row, so that a program has as many rows as pairs, however wide W is. HiGHS solves them. For l_q

    min over lambda >= 0 and nu of   |G|_q'^q' / q' - b'lambda,   q' = q/(q - 1),   W = sign(G) |G|^(q'-1)

L-BFGS-B finds which multipliers are 0, and projected Newton steps (Bertsekas 1982) find the digits.
"""

from __future__ import annotations

import numpy as np

from tokenmargin.margin._scaled_rows import Candidate, ScaledRows
from tokenmargin.norms import Lp

#: Most that HiGHS may miss a row or a bound by; it accepts no smaller number.
_FEASIBILITY = 1e-10

#: Numbers of a program above which the interior-point method is faster than the simplex method.
_LARGE = 100_000


def largest_entry(problem: ScaledRows) -> Candidate:
    """min of the largest modulus of an entry."""
    d = problem.rows.shape[1]
    return _program(problem, [(-1.0, 1.0)] * d, parts=1)


def sum_of_entries(problem: ScaledRows) -> Candidate:
    """min of the sum of the moduli of the entries: Y = (positive part) - (negative part)."""
    d = problem.rows.shape[1]
    return _program(problem, [(0.0, None)] * (2 * d), parts=2)


def _program(problem: ScaledRows, bounds: list[tuple[float, float | None]], parts: int) -> Candidate:
    from scipy.optimize import linprog

    (m, d), q = problem.rows.shape, len(problem.ties)
    signs = [1.0, -1.0][:parts]
    above = np.hstack([*(-sign * problem.rows for sign in signs), problem.rhs[:, None]])
    level = np.hstack([*(sign * problem.ties for sign in signs), np.zeros((q, 1))])
    limit = np.zeros(m)
    if parts == 2:
        above = np.vstack([above, np.append(np.ones(2 * d), 0.0)])
        limit = np.append(limit, 1.0)
    gain = np.append(np.zeros(parts * d), -1.0)
    found = linprog(
        gain,
        above,
        limit,
        level if q else None,
        np.zeros(q) if q else None,
        [*bounds, (0.0, None)],
        method="highs-ipm" if above.size > _LARGE else "highs-ds",
        options={"primal_feasibility_tolerance": _FEASIBILITY, "dual_feasibility_tolerance": _FEASIBILITY},
    )
    if found.x is None or not found.x[-1] > 0:
        return problem.start
    point = sum(sign * part for sign, part in zip(signs, np.split(found.x[:-1], parts), strict=True))
    tie_duals = found.eqlin.marginals if q else np.zeros(0)
    return Candidate(np.asarray(point), -found.ineqlin.marginals[:m], np.asarray(tie_duals))


# --- l_q --------------------------------------------------------------------------------------------------------------

#: Steps of L-BFGS-B, of Newton's method, and halvings of one of the latter.
_FIRST_STEPS, _NEWTON_STEPS, _HALVINGS = 300, 100, 40

#: The relative gap at which digits are exhausted, the ridge that keeps a Hessian regular, and what rounding makes of
#: a value.
_EXHAUSTED, _RIDGE, _ROUNDING = 1e-13, 1e-13, 1e-15

Array = np.ndarray


def power_norm(problem: ScaledRows) -> Candidate:
    """min |W|_q."""
    from scipy.optimize import minimize

    assert isinstance(problem.norm, Lp)
    power = problem.norm.dual.q
    m, both = len(problem.rows), np.concatenate([problem.rows, problem.ties])
    asked = np.concatenate([problem.rhs, np.zeros(len(problem.ties))])

    def value(x: Array) -> tuple[float, Array]:
        pull = x @ both
        return float((np.abs(pull) ** power).sum()) / power - float(asked @ x), both @ _point(pull, power) - asked

    x = np.concatenate([np.maximum(problem.start.duals, 0.0), problem.start.tie_duals])
    x = x * (float(asked @ x) / float((np.abs(x @ both) ** power).sum())) ** (1 / (power - 1))
    bounds = [(0.0, None)] * m + [(None, None)] * len(problem.ties)
    x = minimize(value, x, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _FIRST_STEPS}).x
    best, least = problem.start, np.inf
    for _ in range(_NEWTON_STEPS):
        now, slope = value(x)
        found = Candidate(_point(x @ both, power), x[:m], x[m:])
        gap = problem.gap(problem.meeting(found))
        if gap < least:
            best, least = found, gap
        if least <= _EXHAUSTED:
            break
        moved = _newton(x, slope, both, power, m)
        for _ in range(_HALVINGS):
            ahead = x + moved
            ahead[:m] = np.maximum(ahead[:m], 0.0)
            if value(ahead)[0] <= now + _ROUNDING * abs(now):  # near the end a step gains digits of x, not of the value
                break
            moved = moved / 2
        else:
            break
        x = ahead
    return best


def _point(pull: Array, power: float) -> Array:
    return np.asarray(np.sign(pull) * np.abs(pull) ** (power - 1))


def _newton(x: Array, slope: Array, both: Array, power: float, m: int) -> Array:
    """Newton's step in the multipliers that are not held at 0, minus the gradient in those."""
    pull = np.abs(x @ both)
    floor = np.finfo(float).eps * float(pull.max())
    near = float(np.linalg.norm(x[:m] - np.maximum(x[:m] - slope[:m], 0.0)))
    held = np.zeros(len(x), dtype=bool)
    held[:m] = (x[:m] <= min(near, 1e-8 * float(x[:m].max()))) & (slope[:m] > 0)
    free = both[~held]
    hessian = (free * ((power - 1) * np.maximum(pull, floor) ** (power - 2))) @ free.T
    hessian[np.diag_indices(len(hessian))] += _RIDGE * float(np.diagonal(hessian).max())
    moved = -slope
    moved[~held] = -np.linalg.solve(hessian, slope[~held])
    return moved
