"""The shortest vector under linear constraints, with a proof either way. Nothing here knows what a token is.

    minimise N(p)   subject to   A p >= b,   E p = 0        (b >= 0)

N is the Euclidean norm here. Floats decide where they can tell (`_float_verdict`). Where |p||row| is more than `REACH`
times what is asked of a row, or the numbers of rows that contradict differ by as much, it is decided without rounding
(`_exact_verdict`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._isometry import lengths
from tokenmargin._types import EqualityRows, RightHandSide, Rows
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._exact_verdict import PLAIN_EXPONENT, TOO_LONG_FOR_FLOATS, exact_verdict
from tokenmargin.margin._float_verdict import float_verdict
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin._least_norm_batch import LARGEST_SQUARE, SMALLEST_SQUARE, least_norm_arrays
from tokenmargin.margin.exact_shortest import EXACT_NUMBERS, EXACT_ROWS
from tokenmargin.margin.least_norm_solution import LeastNormSolution, no_point
from tokenmargin.margin.solution import KKT_TOLERANCE, NOTHING_ASKED, Residuals, Status
from tokenmargin.norms import L2, Norm, as_norm

#: Lengths of rows, and what is asked of them, between which no square over- or underflows on the way.
SMALLEST, LARGEST = SMALLEST_SQUARE**0.5, LARGEST_SQUARE**0.5

TOO_LARGE = (
    "its numbers are of sizes so unlike that float64 does not tell, and it has more than "
    f"{EXACT_ROWS} rows or {EXACT_NUMBERS} numbers, up to which it is solved without rounding"
)


@checked
def least_norm(
    rows: Rows,
    rhs: RightHandSide,
    ties: EqualityRows | None = None,
    norm: Norm | str = "l2",
    shape: tuple[int, ...] | None = None,
) -> LeastNormSolution:
    """Solve min N(p) s.t. rows p >= rhs, ties p = 0, or prove that nothing satisfies the constraints.

    Args:
        rows: A, shape (m, d), m >= 1.
        rhs: b >= 0, shape (m,).
        ties: E, shape (q, d).
        norm: N, a norm or its name. A proof that no p exists holds for every norm.
        shape: shape of p as an array, (a, b) with a b = d for a matrix; a vector when absent.
    """
    _check_rows(rows, rhs, ties)
    if shape is not None and (np.prod(shape) != rows.shape[1] or len(shape) > 2):
        raise InvalidInputError(f"shape {shape} does not fit rows of width {rows.shape[1]}: give (a, b) with a b = it.")
    return least_norm_in(GivenRows(rows.astype(float, copy=False), None, ties), rhs, as_norm(norm), shape)


def least_norm_in(
    given: GivenRows, rhs: np.ndarray, norm: Norm, shape: tuple[int, ...] | None = None
) -> LeastNormSolution:
    """`least_norm` in a norm, for rows that are differences of floats.

    Whether there is a vector at all is decided in L2, without rounding where that matters.
    """
    answer = replace(least_norm_of(given, rhs), shape=shape)
    if norm == L2():
        return answer
    from tokenmargin.margin._other_norms import least_in_norm  # its solvers are loaded for other norms alone

    return least_in_norm(answer, given, rhs, norm, shape or (given.width,), least_norm_of)


def least_norm_of(given: GivenRows, rhs: np.ndarray, tolerance: float = KKT_TOLERANCE) -> LeastNormSolution:
    """`least_norm` for finite rows that are differences of floats, taken without rounding where that matters."""
    rows, ties = given.floats()
    with np.errstate(invalid="ignore"):  # differences of 1e308 may be infinite: other units, below
        norms = lengths(rows)
    if not rhs.any():
        return LeastNormSolution(
            Status.TRIVIAL, NOTHING_ASKED, np.zeros(given.width), np.zeros(len(rows)), np.zeros(len(ties))
        )
    if not norms.all():
        impossible = np.flatnonzero((norms == 0) & (rhs > 0))
        if impossible.size:  # a row of zeros asks 0 >= b: its own certificate
            own = np.zeros(len(rows))
            own[impossible[0]] = 1.0
            return no_point(Status.INFEASIBLE, given.width, len(rows), len(ties), (own, np.zeros(len(ties))))
        norms = np.where(norms > 0, norms, 1.0)
    if not _in_range(norms, ties, rhs):
        return _in_other_units(given, rhs, tolerance)
    answer, told = float_verdict(rows, rhs, ties, norms)
    return answer if told else _doubted(given, rhs, answer, tolerance)


def _in_range(norms: np.ndarray, ties: np.ndarray, rhs: np.ndarray) -> bool:
    """True if lengths and right-hand sides are between `SMALLEST` and `LARGEST`, zeros apart."""
    sizes = np.concatenate([norms, rhs, lengths(ties)]) if len(ties) else np.concatenate([norms, rhs])
    return bool(((sizes == 0) | ((sizes > SMALLEST) & (sizes < LARGEST))).all())


def _in_other_units(given: GivenRows, rhs: np.ndarray, tolerance: float) -> LeastNormSolution:
    """The same in units of powers of two near the largest number and what is asked: rounding changes nothing."""
    exponent, asked = given.exponent, int(np.frexp(rhs.max())[1])
    rows, ties = given.floats(exponent)
    norms, level = lengths(rows), np.ldexp(rhs, -asked)
    if not norms.all() or not _in_range(norms, ties, level):
        nothing = no_point(Status.UNDECIDED, given.width, len(rows), len(ties))
        return _doubted(given, rhs, nothing, tolerance)
    answer, told = float_verdict(rows, level, ties, norms)
    if not told:
        return _doubted(given, rhs, answer, tolerance)
    return in_units(answer, asked - exponent, asked - 2 * exponent)


def in_units(answer: LeastNormSolution, shift: int, dual_shift: int) -> LeastNormSolution:
    """The answer with p times 2^`shift` and multipliers times 2^`dual_shift`; undecided where p is no float then."""
    with np.errstate(over="ignore"):
        p = np.ldexp(answer.p, shift)
    if not np.isfinite(p).all():
        size = np.log10(np.abs(answer.p).max()) + shift * np.log10(2.0)
        counts = len(p), len(answer.duals), len(answer.tie_duals)
        return no_point(Status.UNDECIDED, *counts, reason=TOO_LONG_FOR_FLOATS.format(size))
    largest = max(float(np.abs(part).max(initial=0.0)) for part in (answer.duals, answer.tie_duals))
    if abs(int(np.frexp(largest)[1]) + dual_shift) > PLAIN_EXPONENT:
        return replace(answer, p=p, dual_exponent=dual_shift)
    duals, tie_duals = np.ldexp(answer.duals, dual_shift), np.ldexp(answer.tie_duals, dual_shift)
    return replace(answer, p=p, duals=duals, tie_duals=tie_duals)


def _doubted(given: GivenRows, rhs: np.ndarray, answer: LeastNormSolution, tolerance: float) -> LeastNormSolution:
    """The verdict on a problem of which floats do not tell, or say that there is no vector."""
    no_ties = not len(answer.tie_duals)
    if answer.status is Status.INFEASIBLE and (given.is_rounded or (no_ties and not given.is_spread)):
        return answer
    if given.is_small:
        exact = exact_verdict(given, rhs, np.flatnonzero(answer.duals > 0))
        if exact is not None:
            return exact
    if answer.status is Status.INFEASIBLE:
        return _proved_by_its_rows(given, rhs, answer)
    if answer.status is Status.UNDECIDED and np.isfinite(answer.p).all():
        return answer
    if answer.status is Status.OPTIMAL:
        asks = rhs > 0
        missed = float((1.0 - given.of(asks).products(answer.p) / rhs[asks]).max())
        if missed <= tolerance:
            return replace(answer, residuals=replace(answer.residuals, primal=max(0.0, missed)))
    counts = given.width, len(answer.duals), len(answer.tie_duals)
    return no_point(Status.UNDECIDED, *counts, reason=TOO_LARGE)


def _proved_by_its_rows(given: GivenRows, rhs: np.ndarray, answer: LeastNormSolution) -> LeastNormSolution:
    """Infeasible if the rows that carry weight contradict each other without rounding; undecided otherwise."""
    assert answer.weights is not None
    rows = np.flatnonzero(answer.weights > 0)
    few = given.of(rows)
    exact = exact_verdict(few, rhs[rows], np.zeros(0, dtype=int)) if few.is_small else None
    counts = given.width, len(answer.duals), len(answer.tie_duals)
    if exact is None or exact.weights is None or exact.tie_weights is None or exact.exact is None:
        return no_point(Status.UNDECIDED, *counts, reason=TOO_LARGE)
    weights, fractions = np.zeros(len(answer.duals)), [Fraction(0)] * len(answer.duals)
    for k, rounded, weight in zip(rows.tolist(), exact.weights, exact.exact[0], strict=True):
        weights[k], fractions[k] = rounded, weight
    proof = tuple(fractions), exact.exact[1]
    return no_point(Status.INFEASIBLE, *counts, (weights, exact.tie_weights), proof)


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
    return least_norm_batch_of(rows, rhs, lambda j: GivenRows(rows[j]))


def least_norm_batch_of(
    rows: np.ndarray, rhs: np.ndarray, given: Callable[[int], GivenRows]
) -> list[LeastNormSolution]:
    """`least_norm_batch` for rows that are rounded differences; `given(j)` has those of problem j without rounding."""
    found = least_norm_arrays(rows, rhs)
    no_ties = np.zeros(0)
    solutions = []
    for j, (solved, numbers) in enumerate(zip(found.solved.tolist(), found.residuals.tolist(), strict=True)):
        if solved:
            p, duals = found.p[j], found.duals[j]
            solutions.append(LeastNormSolution(Status.OPTIMAL, Residuals(*numbers), p, duals, no_ties))
        else:
            solutions.append(least_norm_of(given(j), rhs[j]))
    return solutions


def least_norm_batch_of_pairs(pairs: np.ndarray) -> list[LeastNormSolution]:
    """`least_norm_batch` for rows, of each of which 1 is asked, that are the first minus the second of (B, 2, m, d)."""
    with np.errstate(over="ignore"):  # numbers of 1e308: solved on their own, in other units
        rows = pairs[:, 0] - pairs[:, 1]
    return least_norm_batch_of(rows, np.ones(rows.shape[:2]), lambda j: GivenRows(pairs[j, 0], pairs[j, 1]))


def _check_rows(rows: np.ndarray, rhs: np.ndarray, ties: np.ndarray | None) -> None:
    """Raise unless there is something to solve."""
    if rows.ndim != 2 or not rows.size or rhs.shape != (len(rows),):
        raise InvalidInputError(f"rows {rows.shape} and rhs {rhs.shape} do not fit: give (m, d) and (m,), none empty.")
    if ties is not None and ties.shape[1:] != rows.shape[1:]:
        raise InvalidInputError(f"ties {ties.shape} must be as wide as rows {rows.shape}.")
    _check_finite(rows, rhs, *([] if ties is None else [ties]))


def _check_finite(rows: np.ndarray, rhs: np.ndarray, *ties: np.ndarray) -> None:
    arrays = (rows, rhs, *ties)
    if not all(array.dtype.kind in "fiu" and np.isfinite(array).all() for array in arrays) or rhs.min() < 0:
        raise InvalidInputError("rows, rhs and ties must be finite numbers, and rhs not negative.")
