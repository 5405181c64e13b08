"""(ATT-SVM) for many problems of one shape, answers as arrays: for studies that need numbers, not objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from tokenmargin._checks import checked
from tokenmargin._isometry import lengths
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin._least_norm_batch import BatchFlags, BatchPoints, least_norm_arrays
from tokenmargin.margin.att_svm import att_svm
from tokenmargin.margin.least_norm import least_norm_of
from tokenmargin.margin.margin_solution import tight_constraints
from tokenmargin.margin.optimality import neighbors
from tokenmargin.margin.solution import Status

BatchKeys = Float[np.ndarray, "B n T d"]
BatchScores = Float[np.ndarray, "B n T"]
BatchTokens = Bool[np.ndarray, "B n T"]
BatchIndices = Int[np.ndarray, "B n"]
InputGaps = Float[np.ndarray, "B n"]


@dataclass(frozen=True, eq=False)
class MarginArrays:
    """`att_svm` of B problems, one token per input selected; NaN and False where a problem has no solution."""

    solved: BatchFlags  #: status OPTIMAL: the shortest vector was found and its residuals checked
    p: BatchPoints
    trivial: BatchFlags  #: status TRIVIAL: inputs of one token, nothing to separate, p = 0
    neighbors: BatchTokens  #: SVM-neighbours of the selected tokens [M, Def. 2]


@checked
def att_svm_arrays(keys: BatchKeys, alpha: BatchIndices) -> MarginArrays:
    """The shortest p that prefers token alpha_i of every input i by 1, for B problems [M, (ATT-SVM)].

    Args:
        keys: shape (B, n, T, d), no mask.
        alpha: selected tokens, shape (B, n).
    """
    B, n, T, d = keys.shape
    inside = keys.size and alpha.shape == (B, n) and (alpha >= 0).all() and (alpha < T).all()
    if not inside or not np.isfinite(keys).all():
        raise InvalidInputError(
            f"keys of shape {keys.shape} must be finite, and alpha, of shape {alpha.shape}, a token of each input."
        )
    if T == 1:
        nothing, everything = np.zeros(B, dtype=bool), np.ones(B, dtype=bool)
        return MarginArrays(nothing, np.zeros((B, d)), everything, np.zeros((B, n, T), dtype=bool))
    others = np.argsort(np.arange(T) == alpha[:, :, None], axis=2, kind="stable")[:, :, :-1]
    selected = np.take_along_axis(keys, alpha[:, :, None, None], axis=2)
    unselected = np.take_along_axis(keys, others[:, :, :, None], axis=2)
    with np.errstate(over="ignore"):  # keys of 1e308: solved on their own, in other units
        rows = (selected - unselected).reshape(B, n * (T - 1), d)
    required = np.ones(rows.shape[:2])
    found = least_norm_arrays(rows, required)
    solved, p = found.solved.copy(), found.p
    with np.errstate(invalid="ignore", over="ignore"):
        slacks = np.matmul(rows, p[:, :, None])[:, :, 0] - 1.0
        tight = solved[:, None] & tight_constraints(slacks, lengths(rows) * lengths(p)[:, None], found.duals)
    near = np.zeros((B, n, T), dtype=bool)
    np.put_along_axis(near, others, tight.reshape(B, n, T - 1), axis=2)
    for j in np.flatnonzero(~solved).tolist():
        over = np.broadcast_to(selected[j], unselected[j].shape).reshape(-1, d)
        answer = least_norm_of(GivenRows(over, unselected[j].reshape(-1, d)), required[j])
        solved[j] = answer.status is Status.OPTIMAL
        p[j], near[j] = np.nan, False
        if solved[j]:  # which is rare: most of what is not solved above is infeasible
            data = EmbeddedSequences.from_scores(keys[j], np.zeros((n, T)))
            alone = att_svm(data, Selection.from_indices(alpha[j], T))
            p[j], near[j] = alone.p, neighbors(alone)
    return MarginArrays(solved, p, np.zeros(B, dtype=bool), near)


@checked
def neighbor_score_gaps(scores: BatchScores, alpha: BatchIndices, neighbors: BatchTokens) -> InputGaps:
    """Smallest score advantage of a selected token over its SVM-neighbours, shape (B, n); inf when there are none."""
    if not scores.shape == neighbors.shape == (*alpha.shape, scores.shape[2]) or not scores.size:
        raise InvalidInputError(
            f"scores {scores.shape}, alpha {alpha.shape} and neighbors {neighbors.shape} do not fit: give (B, n, T), "
            "(B, n) and (B, n, T)."
        )
    if alpha.min() < 0 or alpha.max() >= scores.shape[2]:
        raise InvalidInputError(f"alpha must number the tokens 0 to {scores.shape[2] - 1}.")
    gaps = np.take_along_axis(scores, alpha[:, :, None], axis=2) - scores
    return np.where(neighbors, gaps, np.inf).min(axis=2)
