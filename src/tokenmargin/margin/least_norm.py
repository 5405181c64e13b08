"""The shortest vector under linear constraints, with a proof either way. Nothing here knows what a token is.

    minimise |p|^2 / 2   subject to   A p >= b,   E p = 0        (b >= 0)

Whatever a solver says, our own residuals decide: a point is optimal when the KKT residuals of the *scaled* problem
are below `KKT_TOLERANCE`; the problem is infeasible when non-negative weights on rows that ask for something
(b > 0), together with any weights on the others' span, cancel (Farkas). Scaled means: rows of unit norm, lengths in
units of the largest b/|row|, so that the shortest vector has length >= 1 whatever units the data came in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import sqrt

import numpy as np

from tokenmargin._types import EqualityNumbers, EqualityRows, RightHandSide, RowNumbers, Rows, Vector

#: Largest KKT residual of the scaled problem (unit rows, relative to the solution's length) of an optimal point.
#: Active-set solutions reach 1e-12 and better; 1e-9 leaves room for ill-conditioned supports.
KKT_TOLERANCE = 1e-9

#: If the unit rows can be averaged to a vector shorter than this, no p of practical length separates: any feasible p
#: is longer than 1e12 times the longest single-row solution, beyond what float64 keys can mean.
INFEASIBLE_MARGIN = 1e-12

#: Equality rows whose singular values fall below this, relative to the largest, are repeats of others.
RANK_TOLERANCE = 1e-12

#: Smallest Cholesky pivot of the Gram matrix of unit rows that is trusted: rounding perturbs a pivot by about 1e-16
#: over its value, so this keeps six digits more than `KKT_TOLERANCE` asks.
GRAM_PIVOT = 1e-2


class Verdict(Enum):
    """How the problem was decided."""

    OPTIMAL = "the shortest vector was found and its KKT residuals checked"
    INFEASIBLE = "no vector satisfies the constraints, and weights prove it"
    UNDECIDED = "neither an optimal point nor a proof of infeasibility reached its tolerance"


@dataclass(frozen=True, slots=True)
class Residuals:
    """KKT residuals of the scaled problem (unit rows), relative to the solution's length; all 0 at the optimum."""

    primal: float  #: largest violation of A p >= b or E p = 0
    dual: float  #: most negative multiplier
    stationarity: float  #: |p - A'lambda - E'nu|
    complementarity: float  #: largest lambda_k (A p - b)_k
    gap: float  #: |primal value - dual value|

    @property
    def worst(self) -> float:
        """The largest of the five."""
        return max(self.primal, self.dual, self.stationarity, self.complementarity, self.gap)


@dataclass(frozen=True, slots=True)
class LeastNormSolution:
    """Primal and dual solution, or weights that prove there is none (`weights`, `equality_weights`)."""

    verdict: Verdict
    p: Vector
    duals: RowNumbers
    equality_duals: EqualityNumbers
    residuals: Residuals
    weights: RowNumbers | None = None
    equality_weights: EqualityNumbers | None = None


def least_norm(rows: Rows, rhs: RightHandSide, equalities: EqualityRows | None = None) -> LeastNormSolution:
    """Solve min |p|^2/2 s.t. rows p >= rhs, equalities p = 0, or prove that nothing satisfies the constraints.

    Args:
        rows: A, shape (m, d), m >= 1.
        rhs: b >= 0, shape (m,).
        equalities: E, shape (q, d).
    """
    no_ties = equalities is None or equalities.shape[0] == 0
    norms = np.sqrt(np.einsum("md,md->m", rows, rows))
    if not norms.all():
        shortcut = _zero_rows(rows, rhs, equalities, norms)
        if shortcut is not None:
            return shortcut
        norms = np.where(norms > 0, norms, 1.0)
    unit, bound = rows / norms[:, None], rhs / norms
    unit_length = float(bound.max())
    if unit_length == 0.0:  # nothing asks for anything: p = 0
        return _nothing_asked(rows, equalities)
    bound = bound / unit_length
    if no_ties:
        return _finish(_solve_unit(unit, bound), norms, unit_length, 0)
    assert equalities is not None
    return _with_equalities(unit, bound, equalities, norms, unit_length)


def least_norm_batch(rows: np.ndarray, rhs: np.ndarray) -> list[LeastNormSolution]:
    """`least_norm` for B problems of one shape: rows (B, m, d), rhs (B, m); scaling and residuals are shared work.

    A problem whose first answer does not pass its residuals is solved again on its own, with every fallback.
    """
    if not len(rows):
        return []
    m, d = rows.shape[1:]
    squares = np.einsum("bmd,bmd->bm", rows, rows)
    plain = squares.all(axis=1)
    norms = np.sqrt(np.where(squares > 0, squares, 1.0))
    bound = rhs / norms
    unit_length = bound.max(axis=1)
    plain &= unit_length > 0
    unit_length = np.where(plain, unit_length, 1.0)
    bound /= unit_length[:, None]
    reduced = _in_span_of_rows(rows, norms) if d > m else rows / norms[:, :, None]
    y = np.zeros((len(rows), reduced.shape[2]))
    duals = np.zeros((len(rows), m))
    found = np.zeros(len(rows), dtype=bool)
    backend = _active_set()
    if backend is not None:
        for k in np.flatnonzero(plain).tolist():
            found[k] = backend(reduced[k], bound[k], y[k], duals[k])
    combined = np.matmul((duals / norms)[:, None, :], rows)[:, 0, :]
    p = combined if d > m else y
    residuals = _residuals_batch(np.matmul(rows, p[:, :, None])[:, :, 0] / norms - bound, combined - p, bound, p, duals)
    good = found & (residuals.max(axis=1) <= KKT_TOLERANCE) & (np.linalg.norm(p, axis=1) * INFEASIBLE_MARGIN < 1)
    p *= unit_length[:, None]
    duals *= unit_length[:, None] / norms
    no_equalities = np.zeros(0)
    solutions = []
    for j, (is_good, numbers) in enumerate(zip(good.tolist(), residuals.tolist(), strict=True)):
        if is_good:
            solutions.append(LeastNormSolution(Verdict.OPTIMAL, p[j], duals[j], no_equalities, Residuals(*numbers)))
        else:
            solutions.append(least_norm(rows[j], rhs[j]))
    return solutions


def _in_span_of_rows(rows: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """The unit rows (..., m, d) in m coordinates of their span, where the shortest vector p = A'lambda lies.

    By Cholesky of their Gram matrix; it squares the condition number, so nearly dependent rows go through QR instead.
    """
    gram = np.matmul(rows, np.swapaxes(rows, -1, -2)) / (norms[..., :, None] * norms[..., None, :])
    try:
        triangle = np.linalg.cholesky(gram)
        trusted = np.diagonal(triangle, axis1=-2, axis2=-1).min() >= GRAM_PIVOT
    except np.linalg.LinAlgError:
        trusted = False
    if not trusted:
        unit = rows / norms[..., :, None]
        triangle = np.swapaxes(np.linalg.qr(np.swapaxes(unit, -1, -2), mode="r"), -1, -2)
    return np.ascontiguousarray(triangle)


@dataclass(frozen=True, slots=True)
class _Unit:
    """Answer to the scaled problem, before the scaling is undone."""

    verdict: Verdict
    p: np.ndarray
    duals: np.ndarray
    residuals: Residuals
    weights: np.ndarray | None = None


def _solve_unit(unit: np.ndarray, bound: np.ndarray) -> _Unit:
    """Unit rows, largest bound 1, no equalities: active set first, then a polish, then non-negative least squares."""
    m, d = unit.shape
    if d > m:
        inner = _solve_unit(_in_span_of_rows(unit, np.ones(m)), bound)
        if inner.verdict is Verdict.INFEASIBLE:
            return _Unit(inner.verdict, np.full(d, np.nan), inner.duals, inner.residuals, inner.weights)
        return _judged(unit, bound, inner.duals @ unit, inner.duals)
    candidates = []
    backend = _active_set()
    y, duals = np.zeros(d), np.zeros(m)
    if backend is not None and backend(unit, bound, y, duals):
        candidates.append((y, duals))
        answer = _accepted(unit, bound, y, duals)
        if answer is not None:
            return answer
    # Infeasible, ill-conditioned or not solved: decide by the nearest point of the rows' convex hull to 0.
    weights, hull_margin = _hull_weights(unit, bound > 0)
    if hull_margin <= INFEASIBLE_MARGIN:
        nothing = Residuals(np.inf, 0.0, 0.0, 0.0, np.inf)
        return _Unit(Verdict.INFEASIBLE, np.full(d, np.nan), np.zeros(m), nothing, weights)
    candidates.append(_least_distance(unit, bound))
    best: _Unit | None = None
    for point, multipliers in [polished for c in candidates for polished in (c, *_polish(unit, bound, *c))]:
        answer = _judged(unit, bound, point, multipliers)
        if best is None or answer.residuals.worst < best.residuals.worst:
            best = answer
    assert best is not None
    return best


def _accepted(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> _Unit | None:
    """The point if it is optimal to tolerance (polished where that is needed), else None."""
    answer = _judged(unit, bound, p, duals)
    if answer.verdict is not Verdict.OPTIMAL:
        for point, multipliers in _polish(unit, bound, p, duals):
            answer = _judged(unit, bound, point, multipliers)
            if answer.verdict is Verdict.OPTIMAL:
                break
    if answer.verdict is Verdict.OPTIMAL and INFEASIBLE_MARGIN * np.sqrt(answer.p @ answer.p) < 1:
        return answer
    return None


def _judged(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> _Unit:
    residuals = _residuals(unit, bound, p, duals)
    return _Unit(Verdict.OPTIMAL if residuals.worst <= KKT_TOLERANCE else Verdict.UNDECIDED, p, duals, residuals)


def _residuals(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> Residuals:
    """KKT residuals at (p, duals), equalities apart."""
    slack = unit @ p - bound
    pull = duals @ unit - p
    square = float(p @ p)
    length = max(1.0, sqrt(square))
    return Residuals(
        primal=max(0.0, -float(slack.min())) / length,
        dual=max(0.0, -float(duals.min())) / length,
        stationarity=sqrt(float(pull @ pull)) / length,
        complementarity=float(np.abs(duals * slack).max()) / length**2,
        gap=abs(square - float(duals @ bound)) / length**2,
    )


def _residuals_batch(
    slack: np.ndarray, pull: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray
) -> np.ndarray:
    """`_residuals` for a batch, from slack = A p - b and pull = A'duals - p: the five numbers in order, (B, 5)."""
    square = np.einsum("bd,bd->b", p, p)
    length = np.maximum(1.0, np.sqrt(square))
    numbers = np.empty((len(p), 5))
    numbers[:, 0] = np.maximum(0.0, -slack.min(axis=1)) / length
    numbers[:, 1] = np.maximum(0.0, -duals.min(axis=1)) / length
    numbers[:, 2] = np.sqrt(np.einsum("bd,bd->b", pull, pull)) / length
    numbers[:, 3] = np.abs(duals * slack).max(axis=1) / length**2
    numbers[:, 4] = np.abs(square - np.einsum("bm,bm->b", duals, bound)) / length**2
    return numbers


def _polish(
    unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Re-solve on the rows that carry a multiplier, and on all rows that are tight: two better guesses."""
    from scipy.optimize import nnls

    scale = max(1.0, float(np.sqrt(p @ p)))
    guesses = []
    for active in (duals > 1e-12 * scale, unit @ p - bound < 1e-6 * scale):
        if not active.any():
            continue
        point, *_ = np.linalg.lstsq(unit[active], bound[active], rcond=RANK_TOLERANCE)
        multipliers = np.zeros_like(duals)
        exact, *_ = np.linalg.lstsq(unit[active].T, point, rcond=RANK_TOLERANCE)
        if (exact < 0).any():
            try:
                exact, _ = nnls(unit[active].T, point)
            except RuntimeError:  # its iteration limit: the other guess, or the verdict UNDECIDED, remains
                continue
        multipliers[active] = exact
        guesses.append((point, multipliers))
    return guesses


def _hull_weights(unit: np.ndarray, asks: np.ndarray) -> tuple[np.ndarray, float]:
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


def _least_distance(unit: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def _finish(answer: _Unit, norms: np.ndarray, unit_length: float, n_equalities: int) -> LeastNormSolution:
    """Undo the scaling."""
    weights = None if answer.weights is None else answer.weights / norms
    return LeastNormSolution(
        answer.verdict,
        answer.p * unit_length,
        answer.duals * (unit_length / norms),
        np.zeros(n_equalities),
        answer.residuals,
        weights,
        None if weights is None else np.zeros(n_equalities),
    )


def _with_equalities(
    unit: np.ndarray, bound: np.ndarray, equalities: np.ndarray, norms: np.ndarray, unit_length: float
) -> LeastNormSolution:
    """Solve in the null space of the equality rows, then find their multipliers by least squares."""
    lengths = np.sqrt(np.einsum("qd,qd->q", equalities, equalities))
    unit_equalities = equalities / np.where(lengths > 0, lengths, 1.0)[:, None]
    _, values, right = np.linalg.svd(unit_equalities, full_matrices=True)
    rank = int((values > RANK_TOLERANCE * max(1.0, float(values.max(initial=0.0)))).sum())
    free = right[rank:].T  # columns: orthonormal basis of {p : E p = 0}
    projected = unit @ free
    inner_norms = np.sqrt(np.einsum("mr,mr->m", projected, projected))
    # A row inside the span of the equalities cannot be satisfied by any p that obeys them.
    inside = np.flatnonzero((inner_norms <= RANK_TOLERANCE) & (bound > 0))
    pseudo = np.linalg.pinv(unit_equalities.T, rcond=RANK_TOLERANCE)
    back = np.where(lengths > 0, lengths, 1.0)
    if inside.size:
        weights = np.zeros(len(unit))
        weights[inside[0]] = 1.0
        answer = _Unit(
            Verdict.INFEASIBLE,
            np.full(unit.shape[1], np.nan),
            np.zeros(len(unit)),
            Residuals(np.inf, 0.0, 0.0, 0.0, np.inf),
            weights,
        )
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
            inner.verdict,
            free @ inner.p * stretch,
            inner.duals * stretch / keep,
            inner.residuals,
            inner_weights,
        )
    finished = _finish(answer, norms, unit_length, len(equalities))
    if answer.verdict is Verdict.INFEASIBLE:
        assert answer.weights is not None
        equality_weights = -(pseudo @ (unit.T @ answer.weights)) / back
        return LeastNormSolution(
            finished.verdict,
            finished.p,
            finished.duals,
            finished.equality_duals,
            finished.residuals,
            finished.weights,
            equality_weights,
        )
    multipliers = pseudo @ (answer.p - unit.T @ answer.duals)
    residuals = _equality_residuals(unit, bound, unit_equalities, answer.p, answer.duals, multipliers)
    verdict = answer.verdict
    if verdict is Verdict.OPTIMAL and residuals.worst > KKT_TOLERANCE:
        verdict = Verdict.UNDECIDED
    return LeastNormSolution(verdict, finished.p, finished.duals, multipliers * unit_length / back, residuals)


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
    plain = _residuals(unit, bound, p, duals)
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
        Verdict.INFEASIBLE,
        np.full(rows.shape[1], np.nan),
        np.zeros(len(rows)),
        np.zeros(q),
        Residuals(np.inf, 0.0, 0.0, 0.0, np.inf),
        weights,
        np.zeros(q),
    )


def _nothing_asked(rows: np.ndarray, equalities: np.ndarray | None) -> LeastNormSolution:
    q = 0 if equalities is None else len(equalities)
    return LeastNormSolution(
        Verdict.OPTIMAL,
        np.zeros(rows.shape[1]),
        np.zeros(len(rows)),
        np.zeros(q),
        Residuals(0.0, 0.0, 0.0, 0.0, 0.0),
    )


@cache
def _identity(d: int) -> tuple[np.ndarray, np.ndarray]:
    return np.eye(d), np.zeros(d)


@cache
def _row_constants(m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(m, 1e30), np.zeros(m, dtype=np.int32)


@cache
def _active_set() -> Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], bool] | None:
    """A dual active-set solver, as fill(unit, bound, p, duals) -> solved; None where daqp is not installed.

    Without it every problem goes through non-negative least squares, which decides the same things more slowly.
    """
    try:
        import daqp
    except ImportError:
        return None

    def fill(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> bool:
        m, d = unit.shape
        hessian, linear = _identity(d)
        upper, sense = _row_constants(m)
        point, _, flag, info = daqp.solve(hessian, linear, unit, upper, bound, sense, primal_tol=1e-11, dual_tol=1e-12)
        if flag != 1:
            return False
        p[:] = point
        np.negative(info["lam"], out=duals)  # daqp's multipliers of active lower bounds are negative
        return True

    return fill
