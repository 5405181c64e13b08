"""Descent of a batch of problems given as arrays: one compiled run, and no object for each problem."""

from __future__ import annotations

import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin.attention._coordinates import rounded_length
from tokenmargin.attention._lane_field import LaneField
from tokenmargin.attention.descent import Descent, NormalizedDescent, descend
from tokenmargin.attention.losses import Loss, logistic
from tokenmargin.attention.risk import AttentionRisk, ties_made_equal
from tokenmargin.data.problem_batch import BatchVectors, ProblemBatch


@keep_precision
def descend_batch(
    problems: ProblemBatch, method: Descent | NormalizedDescent, steps: int, loss: Loss = logistic
) -> BatchVectors:
    """Where `steps` steps from 0 lead, shape (B, d): `follow(AttentionRisk(problems[j]), 0, method).final` for all j.

    The keys are used in the coordinates they are given in: `in_span_of_differences` makes them short.
    """
    fields, kappa = lane_fields(problems, loss)
    starts = np.zeros((len(problems), problems.keys.shape[3]))
    return descend(fields, starts, kappa, method, steps, steps)[:, -1] / kappa[:, None]


def lane_fields(problems: ProblemBatch, loss: Loss) -> tuple[LaneField, np.ndarray]:
    """All problems, a lane for each, in units of their longest key difference kappa, and these units, shape (B,)."""
    keys = problems.keys - problems.keys[:, :, :1]
    gamma = ties_made_equal(problems.scores, problems.tie_widths()[:, None, None])
    log_multiplicity = np.zeros_like(gamma)
    for j in np.flatnonzero(_has_repeats(keys)).tolist():
        merged = AttentionRisk(problems[j], loss).pair_field
        gamma[j], log_multiplicity[j] = merged.scores, merged.log_multiplicity
    kappa = rounded_length(keys.reshape(len(keys), -1, keys.shape[3]))
    return LaneField.of(keys / kappa[:, None, None, None], gamma, log_multiplicity, loss), kappa


def _has_repeats(keys: np.ndarray) -> np.ndarray:
    """Whether two tokens of one input of problem j have the same key, shape (B,)."""
    ordered = np.sort(keys[..., 0], axis=2)
    suspects = (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=(1, 2))  # equal in the first coordinate already
    T = keys.shape[2]
    later = np.triu(np.ones((T, T), dtype=bool), 1)
    for j in np.flatnonzero(suspects).tolist():
        same = (keys[j, :, :, None] == keys[j, :, None]).all(axis=-1)
        suspects[j] = bool((same & later).any())
    return suspects
