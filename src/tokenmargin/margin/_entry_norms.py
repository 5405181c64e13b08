"""Max-margin problems in norms of the entries: max and sum by linear programs, l_q by its smooth dual.

The programs as max s over N(Y) <= 1 and rows Y >= s b, with W = Y/s: the max norm then is a bound on each variable, and
the sum norm one row, so that a program has as many rows as pairs, however wide W is. HiGHS solves them. For l_q

    min over lambda >= 0 and nu of   |G|_q'^q' / q' - b'lambda,   q' = q/(q - 1),   W = sign(G) |G|^(q'-1)

L-BFGS-B finds which multipliers are 0, and projected Newton steps (Bertsekas 1982) find the digits; where they do not,
an interior-point method solves for W itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmargin.margin._scaled_rows import Candidate, ScaledRows
from tokenmargin.norms import Lp, Max

#: Most that HiGHS may miss a row or a bound by; it accepts no smaller number.
_FEASIBILITY = 1e-10

#: Numbers of a program above which the interior-point method is faster than the simplex method.
_LARGE = 100_000

#: A multiplier, and an entry, this near to 0, and an entry this near to its bound, relative to the largest, is there.
_AT_BOUND = 1e-8

Array = np.ndarray


def largest_entry(problem: ScaledRows) -> Candidate:
    """min of the largest modulus of an entry."""
    return _at_its_vertex(problem, _program(problem, [(-1.0, 1.0)] * problem.rows.shape[1], parts=1))


def sum_of_entries(problem: ScaledRows) -> Candidate:
    """min of the sum of the moduli of the entries: Y = (positive part) - (negative part)."""
    return _at_its_vertex(problem, _program(problem, [(0.0, None)] * (2 * problem.rows.shape[1]), parts=2))


def _program(problem: ScaledRows, bounds: list[tuple[float, float | None]], parts: int) -> Candidate:
    (m, d), q = problem.rows.shape, len(problem.ties)
    signs = [1.0, -1.0][:parts]
    above = np.hstack([*(-sign * problem.rows for sign in signs), problem.rhs[:, None]])
    level = np.hstack([*(sign * problem.ties for sign in signs), np.zeros((q, 1))])
    limit = np.zeros(m)
    if parts == 2:
        above = np.vstack([above, np.append(np.ones(2 * d), 0.0)])
        limit = np.append(limit, 1.0)
    gain = np.append(np.zeros(parts * d), -1.0)
    found = _solved(gain, above, limit, level, [*bounds, (0.0, None)])
    if found.x is None or not found.x[-1] > 0:
        return problem.start
    point = sum(sign * part for sign, part in zip(signs, np.split(found.x[:-1], parts), strict=True))
    tie_duals = found.eqlin.marginals if q else np.zeros(0)
    return Candidate(np.asarray(point) / found.x[-1], -found.ineqlin.marginals[:m], np.asarray(tie_duals))


def _solved(gain: Array, above: Array, limit: Array, level: Array, bounds: list[tuple[float, float | None]]) -> Any:
    """The program min gain'x, above x <= limit, level x = 0, within bounds, by HiGHS."""
    from scipy.optimize import linprog

    ties = (level, np.zeros(len(level))) if len(level) else (None, None)
    method = "highs-ipm" if above.size > _LARGE else "highs-ds"
    options = {"primal_feasibility_tolerance": _FEASIBILITY, "dual_feasibility_tolerance": _FEASIBILITY}
    return linprog(gain, above, limit, *ties, bounds, method=method, options=options)


def _at_its_vertex(problem: ScaledRows, found: Candidate) -> Candidate:
    """The digits that a program leaves out: the point where the rows that carry multipliers are tight, and these.

    With W = C y, where N(W) = c'y next to the point, it is A C y = b on these rows and ties, and C'A'lambda = c.
    """
    size = np.abs(found.point).max()
    if isinstance(problem.norm, Max):
        at_bound = np.abs(found.point) >= (1 - _AT_BOUND) * size
        columns = np.column_stack([np.where(at_bound, np.sign(found.point), 0.0), unit_columns(~at_bound)])
        slope = np.append(1.0, np.zeros(columns.shape[1] - 1))
    else:
        there = np.abs(found.point) > _AT_BOUND * size
        columns, slope = unit_columns(there), np.sign(found.point[there])
    carrying = found.duals > _AT_BOUND * found.duals.max()
    level = np.concatenate([problem.rows[carrying], problem.ties]) @ columns
    asked = np.concatenate([problem.rhs[carrying], np.zeros(len(problem.ties))])
    multipliers, duals = np.linalg.lstsq(level.T, slope, rcond=None)[0], np.zeros(len(problem.rhs))
    duals[carrying] = multipliers[: carrying.sum()]
    point = columns @ np.linalg.lstsq(level, asked, rcond=None)[0]
    return problem.best(problem.meeting(found), Candidate(point, duals, multipliers[carrying.sum() :]))


def unit_columns(chosen: Array) -> Array:
    """The unit vectors of the chosen entries, as columns."""
    places = np.flatnonzero(chosen)
    columns = np.zeros((len(chosen), len(places)))
    columns[places, np.arange(len(places))] = 1.0
    return columns


def farthest(problem: ScaledRows, value: float, along: np.ndarray) -> np.ndarray | None:
    """A W farthest along a direction that meets the rows with N(W) <= value, in max or sum norm; None if none is."""
    d = problem.rows.shape[1]
    signs = [1.0] if isinstance(problem.norm, Max) else [1.0, -1.0]
    above, limit = np.hstack([-sign * problem.rows for sign in signs]), -problem.rhs
    if len(signs) == 2:
        above, limit = np.vstack([above, np.ones(2 * d)]), np.append(limit, value)
    bounds: list[tuple[float, float | None]] = [(-value, value)] * d if len(signs) == 1 else [(0.0, None)] * (2 * d)
    level = np.hstack([sign * problem.ties for sign in signs])
    found = _solved(-np.concatenate([sign * along for sign in signs]), above, limit, level, bounds)
    if found.x is None:
        return None
    return np.asarray(sum(sign * part for sign, part in zip(signs, np.split(found.x, len(signs)), strict=True)))


# --- l_q --------------------------------------------------------------------------------------------------------------

#: Steps of L-BFGS-B, of Newton's method, and halvings of one of the latter.
_FIRST_STEPS, _NEWTON_STEPS, _HALVINGS = 300, 100, 40

#: The relative gap at which digits are exhausted, and what rounding makes of a value.
_EXHAUSTED, _ROUNDING = 1e-13, 1e-15

#: The relative gap beyond which W itself is solved for.
_MISSED = 1e-9

#: Ridges that keep a Hessian regular, and the share of the largest multiplier below which one that falls is held at 0.
_RIDGES, _HELD = (1e-13, 1e-9, 1e-5), 1e-3


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # a step too long is infinitely bad, and not taken
def power_norm(problem: ScaledRows) -> Candidate:
    """min |W|_q."""
    from scipy.optimize import minimize

    assert isinstance(problem.norm, Lp)
    power = problem.norm.dual.q
    m, both = len(problem.rows), np.concatenate([problem.rows, problem.ties])
    asked = np.concatenate([problem.rhs, np.zeros(len(problem.ties))])

    x = np.concatenate([np.maximum(problem.start.duals, 0.0), problem.start.tie_duals])
    x = x / problem.dual_value(x @ both)
    asked = asked / float(asked @ x)  # in units in which the value is near 1, so that powers of large q are numbers

    def value(x: Array) -> tuple[float, Array]:
        pull = x @ both
        return float((np.abs(pull) ** power).sum()) / power - float(asked @ x), both @ _point(pull, power) - asked

    bounds = [(0.0, None)] * m + [(None, None)] * len(problem.ties)
    x = minimize(value, x, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _FIRST_STEPS}).x
    best, least = problem.start, np.inf
    for _ in range(_NEWTON_STEPS):
        now, slope = value(x)
        if not np.isfinite(slope).all() or not x[:m].any():
            break
        found = Candidate(_point(x @ both, power), x[:m], x[m:])
        gap = problem.gap(problem.meeting(found))
        if gap < least:
            best, least = found, gap
        if least <= _EXHAUSTED:
            break
        ahead = _ahead(value, x, now, slope, both, power, m)
        if ahead is None:
            break
        x = ahead
    if least > _MISSED and problem.norm.q > 2:
        return problem.best(problem.meeting(best), _reweighted(problem))
    return best


def _point(pull: Array, power: float) -> Array:
    return np.asarray(np.sign(pull) * np.abs(pull) ** (power - 1))


def _ahead(
    value: Callable[[Array], tuple[float, Array]], x: Array, now: float, slope: Array, both: Array, power: float, m: int
) -> Array | None:
    """The multipliers after Newton's step, or a share of it, with the least ridge that loses nothing; None if none."""
    for ridge in _RIDGES:
        moved = _newton(x, slope, both, power, m, ridge)
        if not np.isfinite(moved).all():
            continue
        for _ in range(_HALVINGS):
            ahead = x + moved
            ahead[:m] = np.maximum(ahead[:m], 0.0)
            if value(ahead)[0] <= now + _ROUNDING * abs(now):  # near the end a step gains digits of x, not of the value
                return ahead
            moved = moved / 2
    return None


def _newton(x: Array, slope: Array, both: Array, power: float, m: int, ridge: float) -> Array:
    """Newton's step in the multipliers that are not held at 0, minus the gradient in those."""
    pull = np.abs(x @ both)
    floor = np.finfo(float).eps * float(pull.max())
    near = float(np.linalg.norm(x[:m] - np.maximum(x[:m] - slope[:m], 0.0)))
    held = np.zeros(len(x), dtype=bool)
    held[:m] = (x[:m] <= min(near, _HELD * float(x[:m].max()))) & (slope[:m] > 0)
    free = both[~held]
    hessian = (free * ((power - 1) * np.maximum(pull, floor) ** (power - 2))) @ free.T
    hessian[np.diag_indices(len(hessian))] += ridge * float(np.diagonal(hessian).max())
    moved = -slope
    with suppress(np.linalg.LinAlgError):  # a q next to 1, or very large, may leave no curvature: a plain step then
        moved[~held] = -np.linalg.solve(hessian, slope[~held])
    return moved


# --- l_q with a large q: its dual has powers of q/(q - 1), near 1, in which small entries are lost --------------------

#: Reweighted steps, the share of the largest weight that each entry has at least, and halvings of the range of a step.
_REWEIGHTED, _LEAST_WEIGHT, _BISECTIONS = 200, 1e-8, 50

#: The power beyond which the answer for half of it comes first.
_NEAR_EUCLID = 10.0

#: Steps without a narrower gap after which there are no more digits.
_WITHOUT_GAIN = 5


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def _reweighted(problem: ScaledRows) -> Candidate:
    """min |W|_q for q > 2 by Euclidean problems: X is shortest in sum |W_j|^(q-2) X_j^2, and W moves towards X.

    Next to the optimum W + (X - W)/(q - 1) is Newton's point, and the multipliers of X have the pull |W|^(q-2) X.
    """
    assert isinstance(problem.norm, Lp)
    q, best = problem.norm.q, problem.meeting(problem.start)
    if q > _NEAR_EUCLID:
        best = problem.meeting(_reweighted(replace(problem, norm=Lp(q / 2))))
    W, least, last = best.point, np.inf, 0
    for step in range(_REWEIGHTED):
        sizes = np.abs(W) / np.abs(W).max()
        found = problem.euclidean(1 / np.sqrt(np.maximum(sizes ** (q - 2), _LEAST_WEIGHT)))
        if found is None:
            break
        W = W + _shortest_share(W, found.point - W, q) * (found.point - W)
        best = problem.best(best, found, replace(found, point=W))
        if problem.gap(best) < least:
            least, last = problem.gap(best), step
        if least <= _EXHAUSTED or step - last > _WITHOUT_GAIN:
            break
    return best


def _shortest_share(W: Array, towards: Array, q: float) -> float:
    """The share t in [0, 1] with the least |W + t towards|_q, by bisection of its slope."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        moved = W + middle * towards
        moved = moved / np.abs(moved).max()
        rises = float((np.sign(moved) * np.abs(moved) ** (q - 1)) @ towards) > 0
        low, high = (low, middle) if rises else (middle, high)
    return (low + high) / 2
