"""The shortest vector under linear constraints, with a proof either way. Nothing here knows what a token is.

    minimise |p|^2 / 2   subject to   A p >= b,   E p = 0        (b >= 0)

Whatever a solver says, our own residuals decide: a point is optimal when the KKT residuals of the *scaled* problem
are below `KKT_TOLERANCE`; the problem is infeasible when non-negative weights on rows that ask for something
(b > 0), together with any weights on the others' span, cancel (Farkas). Scaled means: rows of unit norm, lengths in
units of the largest b/|row|, so that the shortest vector has length >= 1 whatever units the data came in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._isometry import isometric_rows, length, lengths
from tokenmargin._types import EqualityNumbers, EqualityRows, RightHandSide, RowNumbers, Rows, Vector
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._daqp import active_set
from tokenmargin.margin._least_norm_batch import INFEASIBLE_MARGIN, least_norm_arrays
from tokenmargin.margin._nnls import RANK_TOLERANCE, hull_weights, least_distance, polished
from tokenmargin.margin.solution import (
    KKT_TOLERANCE,
    NO_POINT,
    NOTHING_ASKED,
    Residuals,
    Solution,
    Status,
    residuals_of,
)

#: A row of which 0 is asked is missed by no more than a product of this width (or p's own) is rounded by: a longer p
#: makes up for a row of which more is asked, and for this one nothing does, if two such rows are nearly opposite.
LEVEL_ROUNDING, LEVEL_WIDTH = float(np.finfo(float).eps), 32

#: Rows that a sentence names before it says how many more there are.
NAMED = 6


@dataclass(frozen=True, slots=True, eq=False)
class LeastNormSolution(Solution):
    """Primal and dual solution, or weights that prove there is none (`weights`, `equality_weights`)."""

    p: Vector  #: the shortest p, shape (d,); NaN when infeasible
    duals: RowNumbers  #: p = sum of duals times rows and of equality duals times equality rows
    equality_duals: EqualityNumbers
    weights: RowNumbers | None = None
    equality_weights: EqualityNumbers | None = None

    def explain(self) -> str:
        """One or two sentences a person understands."""
        if self.status is Status.OPTIMAL:
            carrying = int((self.duals > 0).sum())
            return (
                f"The shortest vector has length {length(self.p):.6g}; "
                f"{carrying} of {len(self.duals)} constraints hold it there."
            )
        if self.status is Status.TRIVIAL:
            return "No constraint asks for anything, so the shortest vector is 0."
        if self.weights is not None:
            rows = np.flatnonzero(self.weights).tolist()
            named = ", ".join(map(str, rows[:NAMED])) + (f" and {len(rows) - NAMED} more" if len(rows) > NAMED else "")
            return f"No vector satisfies the constraints: rows {named} contradict each other, as weights on them prove."
        return f"{self._explain_undecided()} Rescale the rows or merge near-duplicates."


@checked
def least_norm(rows: Rows, rhs: RightHandSide, equalities: EqualityRows | None = None) -> LeastNormSolution:
    """Solve min |p|^2/2 s.t. rows p >= rhs, equalities p = 0, or prove that nothing satisfies the constraints.

    Args:
        rows: A, shape (m, d), m >= 1.
        rhs: b >= 0, shape (m,).
        equalities: E, shape (q, d).
    """
    _check_rows(rows, rhs, equalities)
    no_ties = equalities is None or equalities.shape[0] == 0
    norms = lengths(rows)
    if not norms.all():
        shortcut = _zero_rows(rows, rhs, equalities, norms)
        if shortcut is not None:
            return shortcut
        norms = np.where(norms > 0, norms, 1.0)
    unit, bound = rows / norms[:, None], rhs / norms
    unit_length = float(bound.max())
    if unit_length == 0.0:  # nothing asks for anything
        return _nothing_asked(rows, equalities)
    bound = bound / unit_length
    if no_ties:
        return _finish(_solve_unit(unit, bound), norms, unit_length, 0)
    assert equalities is not None
    return _with_equalities(unit, bound, equalities, norms, unit_length)


@checked
def least_norm_batch(rows: np.ndarray, rhs: np.ndarray) -> list[LeastNormSolution]:
    """`least_norm` for B problems of one shape: rows (B, m, d), rhs (B, m).

    A problem whose first answer does not pass its residuals is solved again on its own, with every fallback.
    """
    if rows.ndim != 3 or rhs.shape != rows.shape[:2]:
        raise InvalidInputError(f"rows {rows.shape} and rhs {rhs.shape} do not fit: give (B, m, d) and (B, m).")
    if not len(rows):
        return []
    _check_rows(rows[0], rhs[0], None)
    _check_finite(rows, rhs)
    found = least_norm_arrays(rows, rhs)
    no_equalities = np.zeros(0)
    solutions = []
    for j, (solved, numbers) in enumerate(zip(found.solved.tolist(), found.residuals.tolist(), strict=True)):
        if solved:
            p, duals = found.p[j], found.duals[j]
            solutions.append(LeastNormSolution(Status.OPTIMAL, Residuals(*numbers), p, duals, no_equalities))
        else:
            solutions.append(least_norm(rows[j], rhs[j]))
    return solutions


def _check_rows(rows: np.ndarray, rhs: np.ndarray, equalities: np.ndarray | None) -> None:
    """Raise unless there is something to solve."""
    if rows.ndim != 2 or not rows.size or rhs.shape != (len(rows),):
        raise InvalidInputError(f"rows {rows.shape} and rhs {rhs.shape} do not fit: give (m, d) and (m,), none empty.")
    if equalities is not None and equalities.shape[1:] != rows.shape[1:]:
        raise InvalidInputError(f"equalities {equalities.shape} must be as wide as rows {rows.shape}.")
    _check_finite(rows, rhs, *([] if equalities is None else [equalities]))


def _check_finite(rows: np.ndarray, rhs: np.ndarray, *equalities: np.ndarray) -> None:
    arrays = (rows, rhs, *equalities)
    if not all(array.dtype.kind in "fiu" and np.isfinite(array).all() for array in arrays) or rhs.min() < 0:
        raise InvalidInputError("rows, rhs and equalities must be finite numbers, and rhs not negative.")


@dataclass(frozen=True, slots=True)
class _Unit:
    """Answer to the scaled problem, before the scaling is undone."""

    status: Status
    p: np.ndarray
    duals: np.ndarray
    residuals: Residuals
    weights: np.ndarray | None = None


def _solve_unit(unit: np.ndarray, bound: np.ndarray) -> _Unit:
    """Unit rows, largest bound 1, no equalities: active set first, then a polish, then non-negative least squares."""
    m, d = unit.shape
    if d > m:
        inner = _solve_unit(isometric_rows(unit), bound)
        if inner.status is Status.INFEASIBLE:
            return _Unit(inner.status, np.full(d, np.nan), inner.duals, inner.residuals, inner.weights)
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
        return _Unit(Status.INFEASIBLE, np.full(d, np.nan), np.zeros(m), NO_POINT, weights)
    candidates.append(least_distance(unit, bound))
    best: _Unit | None = None
    for point, multipliers in [guess for c in candidates for guess in (c, *polished(unit, bound, *c))]:
        answer = _judged(unit, bound, point, multipliers)
        if best is None or answer.residuals.worst < best.residuals.worst:
            best = answer
    assert best is not None
    return best


def _accepted(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> _Unit | None:
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


def _judged(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> _Unit:
    residuals = residuals_of(unit, bound, p, duals)
    missed = -float((unit[bound == 0] @ p).min(initial=0.0)) / max(1.0, length(p))
    met = missed <= LEVEL_ROUNDING * max(LEVEL_WIDTH, len(p))
    optimal = met and residuals.worst <= KKT_TOLERANCE
    return _Unit(Status.OPTIMAL if optimal else Status.UNDECIDED, p, duals, residuals)


def _finish(answer: _Unit, norms: np.ndarray, unit_length: float, n_equalities: int) -> LeastNormSolution:
    """Undo the scaling; what floats cannot hold then, multipliers of rows of 1e-155 say, leaves it undecided."""
    weights = None if answer.weights is None else answer.weights / norms
    with np.errstate(over="ignore", invalid="ignore"):
        p, duals = answer.p * unit_length, answer.duals * (unit_length / norms)
    status, residuals = answer.status, answer.residuals
    if status is Status.OPTIMAL and not (np.isfinite(p).all() and np.isfinite(duals).all()):
        status, residuals = Status.UNDECIDED, NO_POINT
    none = np.zeros(n_equalities)
    return LeastNormSolution(status, residuals, p, duals, none, weights, None if weights is None else none)


def _with_equalities(
    unit: np.ndarray, bound: np.ndarray, equalities: np.ndarray, norms: np.ndarray, unit_length: float
) -> LeastNormSolution:
    """Solve in the null space of the equality rows, then find their multipliers by least squares."""
    back = lengths(equalities)
    back = np.where(back > 0, back, 1.0)
    unit_equalities = equalities / back[:, None]
    _, values, right = np.linalg.svd(unit_equalities, full_matrices=True)
    rank = int((values > RANK_TOLERANCE * max(1.0, float(values.max(initial=0.0)))).sum())
    free = right[rank:].T  # columns: orthonormal basis of {p : E p = 0}
    projected = unit @ free
    inner_norms = np.sqrt(np.einsum("mr,mr->m", projected, projected))
    # A row inside the span of the equalities cannot be satisfied by any p that obeys them.
    inside = np.flatnonzero((inner_norms <= RANK_TOLERANCE) & (bound > 0))
    pseudo = np.linalg.pinv(unit_equalities.T, rcond=RANK_TOLERANCE)
    if inside.size:
        weights = np.zeros(len(unit))
        weights[inside[0]] = 1.0
        answer = _Unit(Status.INFEASIBLE, np.full(unit.shape[1], np.nan), np.zeros(len(unit)), NO_POINT, weights)
    else:
        keep = np.where(inner_norms > RANK_TOLERANCE, inner_norms, 1.0)
        inner_bound = bound / keep
        stretch = float(inner_bound.max())
        inner = _solve_unit(
            np.where(inner_norms[:, None] > RANK_TOLERANCE, projected, 0.0) / keep[:, None],
            inner_bound / stretch,
        )
        inner_weights = None if inner.weights is None else inner.weights / keep
        answer = _Unit(
            inner.status,
            free @ inner.p * stretch,
            inner.duals * stretch / keep,
            inner.residuals,
            inner_weights,
        )
    finished = _finish(answer, norms, unit_length, len(equalities))
    if answer.status is Status.INFEASIBLE:
        assert answer.weights is not None
        equality_weights = -(pseudo @ (unit.T @ answer.weights)) / back
        return replace(finished, equality_weights=equality_weights)
    multipliers = pseudo @ (answer.p - unit.T @ answer.duals)
    residuals = _equality_residuals(unit, bound, unit_equalities, answer.p, answer.duals, multipliers)
    status = finished.status
    with np.errstate(over="ignore"):
        equality_duals = multipliers * (unit_length / back)
    if status is Status.OPTIMAL and not (residuals.worst <= KKT_TOLERANCE and np.isfinite(equality_duals).all()):
        status = Status.UNDECIDED
    return LeastNormSolution(status, residuals, finished.p, finished.duals, equality_duals)


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


def _zero_rows(
    rows: np.ndarray, rhs: np.ndarray, equalities: np.ndarray | None, norms: np.ndarray
) -> LeastNormSolution | None:
    """A row that is exactly zero asks 0 >= b: impossible when b > 0 (its own certificate), void when b = 0."""
    impossible = np.flatnonzero((norms == 0) & (rhs > 0))
    if not impossible.size:
        return None
    weights = np.zeros(len(rows))
    weights[impossible[0]] = 1.0
    q = 0 if equalities is None else len(equalities)
    return LeastNormSolution(
        Status.INFEASIBLE,
        NO_POINT,
        np.full(rows.shape[1], np.nan),
        np.zeros(len(rows)),
        np.zeros(q),
        weights,
        np.zeros(q),
    )


def _nothing_asked(rows: np.ndarray, equalities: np.ndarray | None) -> LeastNormSolution:
    q = 0 if equalities is None else len(equalities)
    return LeastNormSolution(Status.TRIVIAL, NOTHING_ASKED, np.zeros(rows.shape[1]), np.zeros(len(rows)), np.zeros(q))
