"""The verdict on a least-norm problem in floats, and whether floats can tell.

Whatever a solver says, our own residuals decide: a point is optimal when the KKT residuals of the *scaled* problem
are below `KKT_TOLERANCE`; the problem is infeasible when non-negative weights on rows that ask for something
(b > 0), together with any weights on the others' span, cancel (Farkas). Scaled means: rows of unit norm, lengths in
units of the largest b/|row|, so that the shortest vector has length >= 1 whatever units the data came in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin._isometry import isometric_rows, length, lengths
from tokenmargin.margin._daqp import active_set
from tokenmargin.margin._least_norm_batch import INFEASIBLE_MARGIN
from tokenmargin.margin.least_norm_solution import LeastNormSolution, no_point
from tokenmargin.margin.solution import KKT_TOLERANCE, REACH, Residuals, Status, residuals_of

#: A row of which 0 is asked is missed by no more than a product of this width (or p's own) is rounded by: a longer p
#: makes up for a row of which more is asked, and for this one nothing does, if two such rows are nearly opposite.
LEVEL_ROUNDING, LEVEL_WIDTH = float(np.finfo(float).eps), 32

#: Multipliers of no ties.
_NONE = np.zeros(0)


def float_verdict(
    rows: np.ndarray, rhs: np.ndarray, ties: np.ndarray, norms: np.ndarray
) -> tuple[LeastNormSolution, bool]:
    """The answer, and whether it is optimal beyond the doubt that rounding leaves.

    Rows, shape (m, d), have entries whose squares neither over- nor underflow; `norms` are their lengths, 1 for zeros.
    """
    unit, bound = rows / norms[:, None], rhs / norms
    unit_length = float(bound.max())
    bound = bound / unit_length
    if len(ties):
        return _with_equalities(unit, bound, ties, norms, unit_length)
    answer = _solve_unit(unit, bound)
    told = answer.status is Status.OPTIMAL and _told(unit, bound, answer.p)
    return _finish(answer, norms, unit_length, 0), told


def _solve_unit(unit: np.ndarray, bound: np.ndarray) -> LeastNormSolution:
    """Unit rows, largest bound 1, no equalities: active set first, then a polish, then non-negative least squares."""
    m, d = unit.shape
    if d > m:
        inner = _solve_unit(isometric_rows(unit), bound)
        if inner.status is Status.INFEASIBLE:
            return replace(inner, p=np.full(d, np.nan))
        # Multipliers of nearly opposed rows are far longer than what they make: the sum may need a polish of its own.
        made = inner.duals @ unit
        return _accepted(unit, bound, made, inner.duals) or _judged(unit, bound, made, inner.duals)
    candidates = []
    backend = active_set()
    y, duals = np.zeros(d), np.zeros(m)
    if backend is not None and backend(unit, bound, y, duals):
        candidates.append((y, duals))
        answer = _accepted(unit, bound, y, duals)
        if answer is not None:
            return answer
    # Infeasible, ill-conditioned or not solved: decide by the nearest point of the rows' convex hull to 0.
    weights, hull_margin = hull_weights(unit, bound > 0)
    if hull_margin <= INFEASIBLE_MARGIN:
        return no_point(Status.INFEASIBLE, d, m, 0, (weights, _NONE))
    candidates.append(least_distance(unit, bound))
    best: LeastNormSolution | None = None
    for point, multipliers in [guess for c in candidates for guess in (c, *polished(unit, bound, *c))]:
        answer = _judged(unit, bound, point, multipliers)
        if best is None or answer.residuals.worst < best.residuals.worst:
            best = answer
    assert best is not None
    return best


def _accepted(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> LeastNormSolution | None:
    """The point if it is optimal to tolerance (polished where that is needed), else None."""
    answer = _judged(unit, bound, p, duals)
    if answer.status is not Status.OPTIMAL:
        for point, multipliers in polished(unit, bound, p, duals):
            answer = _judged(unit, bound, point, multipliers)
            if answer.status is Status.OPTIMAL:
                break
    if answer.status is Status.OPTIMAL and INFEASIBLE_MARGIN * np.sqrt(answer.p @ answer.p) < 1:
        return answer
    return None


def _judged(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> LeastNormSolution:
    residuals = residuals_of(unit, bound, p, duals)
    missed = -float((unit[bound == 0] @ p).min(initial=0.0)) / max(1.0, length(p))
    met = missed <= LEVEL_ROUNDING * max(LEVEL_WIDTH, len(p))
    optimal = met and residuals.worst <= KKT_TOLERANCE
    return LeastNormSolution(Status.OPTIMAL if optimal else Status.UNDECIDED, residuals, p, duals, _NONE)


def _told(unit: np.ndarray, bound: np.ndarray, p: np.ndarray) -> bool:
    """True if rounding of the products is far below what is asked of every row, and no row is asked for its sign alone.

    A row of which 0 is asked, at its border, is met or missed in the last digits.
    """
    size, least = length(p), float(bound.min())
    if least > 0:
        return size <= REACH * least
    level = unit[bound == 0] @ p
    at_border = float(level.min()) <= LEVEL_ROUNDING * max(LEVEL_WIDTH, len(p)) * size
    return not at_border and size <= REACH * float(bound[bound > 0].min())


def _finish(answer: LeastNormSolution, norms: np.ndarray, unit_length: float, n_ties: int) -> LeastNormSolution:
    """Undo the scaling of unit rows; ties have no multipliers yet."""
    weights = None if answer.weights is None else answer.weights / norms
    p, duals, ties = answer.p * unit_length, answer.duals * (unit_length / norms), np.zeros(n_ties)
    return replace(
        answer, p=p, duals=duals, tie_duals=ties, weights=weights, tie_weights=None if weights is None else ties
    )


def _with_equalities(
    unit: np.ndarray, bound: np.ndarray, equalities: np.ndarray, norms: np.ndarray, unit_length: float
) -> tuple[LeastNormSolution, bool]:
    """Solve for what is left of the rows off the span of the equality rows, then find multipliers of these."""
    back = lengths(equalities)
    back = np.where(back > 0, back, 1.0)
    unit_equalities = equalities / back[:, None]
    left, values, right = np.linalg.svd(unit_equalities, full_matrices=False)
    rank = int((values > RANK_TOLERANCE * max(1.0, float(values.max(initial=0.0)))).sum())
    level = right[:rank]
    projected = unit
    for _ in range(2):  # twice is enough for orthogonality to rounding
        projected = projected - (projected @ level.T) @ level
    inner_norms = np.sqrt(np.einsum("mr,mr->m", projected, projected))
    # A row inside the span of the equalities cannot be satisfied by any p that obeys them.
    inside = np.flatnonzero((inner_norms <= RANK_TOLERANCE) & (bound > 0))
    pseudo = (left[:, :rank] / values[:rank]) @ level
    if inside.size:
        weights = np.zeros(len(unit))
        weights[inside[0]] = 1.0
        answer = no_point(Status.INFEASIBLE, unit.shape[1], len(unit), 0, (weights, _NONE))
    else:
        keep = np.where(inner_norms > RANK_TOLERANCE, inner_norms, 1.0)
        inner_bound = bound / keep
        stretch = float(inner_bound.max())
        inner = _solve_unit(
            np.where(inner_norms[:, None] > RANK_TOLERANCE, projected, 0.0) / keep[:, None],
            inner_bound / stretch,
        )
        p = inner.p - level.T @ (level @ inner.p)
        answer = _finish(replace(inner, p=p), keep, stretch, 0)
    finished = _finish(answer, norms, unit_length, len(equalities))
    if answer.status is Status.INFEASIBLE:
        assert answer.weights is not None
        tie_weights = -(pseudo @ (unit.T @ answer.weights)) / back
        return replace(finished, tie_weights=tie_weights), False
    multipliers = pseudo @ (answer.p - unit.T @ answer.duals)
    residuals = _equality_residuals(unit, bound, unit_equalities, answer.p, answer.duals, multipliers)
    optimal = finished.status is Status.OPTIMAL and residuals.worst <= KKT_TOLERANCE
    status = Status.OPTIMAL if optimal else Status.UNDECIDED
    # Ties that nearly repeat each other ask for more in their last digits than floats tell.
    independent = len(values) == len(equalities) and REACH * float(values.min()) >= float(values.max())
    solution = LeastNormSolution(status, residuals, finished.p, finished.duals, multipliers * (unit_length / back))
    return solution, optimal and independent and _told(unit, bound, answer.p)


def _equality_residuals(
    unit: np.ndarray,
    bound: np.ndarray,
    unit_equalities: np.ndarray,
    p: np.ndarray,
    duals: np.ndarray,
    multipliers: np.ndarray,
) -> Residuals:
    """The residuals of the full problem, equality rows included."""
    length = max(1.0, float(np.sqrt(p @ p)))
    plain = residuals_of(unit, bound, p, duals)
    pull = p - unit.T @ duals - unit_equalities.T @ multipliers
    return Residuals(
        primal=max(plain.primal, float(np.abs(unit_equalities @ p).max()) / length),
        dual=plain.dual,
        stationarity=float(np.sqrt(pull @ pull)) / length,
        complementarity=plain.complementarity,
        gap=plain.gap,
    )


# --- Non-negative least squares ---------------------------------------------------------------------------------------

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
