"""The shortest array in a norm other than the Euclidean one, judged by the gap between N(W) and its dual value.

    primal   min N(W)   subject to   <A_k, W> >= b_k,   <E_j, W> = 0
    dual     max sum of lambda_k b_k   subject to   N_*(G) <= 1,   lambda >= 0,   G = sum lambda_k A_k + sum nu_j E_j

The two values are equal. So any W that meets the rows and any lambda >= 0 bracket the value, whichever solver they came
from: sum of lambda_k b_k / N_*(G) <= value <= N(W). That there is no W at all is known before, from the Euclidean
problem: its proof holds for every norm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._entry_norms import largest_entry, power_norm, sum_of_entries
from tokenmargin.margin._face import OnFace, on_its_face
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin._matrix_norms import nuclear, spectral
from tokenmargin.margin._scaled_rows import Candidate, ScaledRows, Solve
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.margin.solution import Status, Unique
from tokenmargin.norms import Lp, Max, Norm, Nuclear, Spectral, Sum

#: Largest relative gap between N(W) and its dual value of an answer that is called optimal.
GAP_TOLERANCE = 1e-8

_SOLVERS = {Lp: power_norm, Max: largest_entry, Sum: sum_of_entries, Nuclear: nuclear, Spectral: spectral}


def least_in_norm(
    euclidean: LeastNormSolution,
    given: GivenRows,
    rhs: np.ndarray,
    norm: Norm,
    shape: tuple[int, ...],
    solve: Solve,
) -> LeastNormSolution:
    """The shortest W in a norm that `tokenmargin.norms` has, from the Euclidean answer to the same rows.

    Args:
        euclidean: answer of `least_norm`; where it is not OPTIMAL it is the answer for every norm.
        given: rows, each an array of `shape` in one line, and ties.
        rhs: b >= 0, shape (m,).
        norm: another norm than L2.
        shape: of W.
        solve: `least_norm_of`, by which rows are found that no W gives more than the 0 that they ask.
    """
    if type(norm) not in _SOLVERS:
        known = ", ".join(sorted(f"norms.{kind.__name__}" for kind in _SOLVERS))
        raise InvalidInputError(
            f"margin problems are solved in norms.L2, {known}; for {norm.name!r} minimise it under the same rows with "
            "a convex solver, and judge the answer by its own dual value."
        )
    if euclidean.status is not Status.OPTIMAL:
        return replace(euclidean, norm=norm, shape=shape)
    problem = ScaledRows.of(euclidean, given, rhs, norm, shape, solve)
    found = _SOLVERS[type(norm)](problem)
    return _judged(euclidean, problem, found)


def _judged(euclidean: LeastNormSolution, problem: ScaledRows, found: Candidate) -> LeastNormSolution:
    """The candidate made to meet every row, its residuals, and what they make of it."""
    best = problem.meeting(found)
    face = OnFace(best, Unique.NOT_DECIDED, is_least=False)
    if problem.gap(best) <= GAP_TOLERANCE:
        face = on_its_face(problem, best)
        best = problem.meeting(face.found)
        if problem.missed(problem.unscaled(best)[0]) > GAP_TOLERANCE:
            best = problem.inwards(best)
    residuals = problem.residuals(best)
    p, duals, tie_duals = problem.unscaled(best)
    residuals = replace(residuals, primal=max(residuals.primal, problem.missed(p)))
    optimal = np.isfinite(p).all() and residuals.worst <= GAP_TOLERANCE
    above = f"{residuals.worst:.1e} (needed {GAP_TOLERANCE:.0e})"
    return replace(
        euclidean,
        status=Status.OPTIMAL if optimal else Status.UNDECIDED,
        residuals=residuals,
        p=p,
        duals=duals,
        tie_duals=tie_duals,
        dual_exponent=0,
        known_slacks=None,
        exact=None,
        norm=problem.norm,
        shape=problem.shape if len(problem.shape) == 2 else None,
        unique=face.unique,
        other=None if face.other is None else problem.in_units(face.other),
        is_least=face.is_least,
        spread=face.spread,
        least=float(problem.in_units(problem.bracket(best)[1])),
        reason="" if optimal else f"in the norm {problem.norm.name!r} the best point misses its dual value by {above}",
    )
