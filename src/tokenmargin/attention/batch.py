"""Descent of a batch of problems given as arrays, without a data set for each."""

from __future__ import annotations

import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin.attention._lane_field import LaneField
from tokenmargin.attention.attention_risk import AttentionRisk, ties_made_equal
from tokenmargin.attention.descent import Descent, NormalizedDescent, descend
from tokenmargin.data.problem_batch import BatchVectors, ProblemBatch
from tokenmargin.losses import Loss, logistic


@checked
@keep_precision
def descend_batch(
    problems: ProblemBatch, method: Descent | NormalizedDescent, steps: int, loss: Loss = logistic
) -> BatchVectors:
    """Points after `steps` steps from 0, shape (B, d): `follow(AttentionRisk(problems[j]), 0, method).final` for all j.

    The keys are used in the coordinates they are given in: `in_span_of_differences` makes them short.
    """
    whole_number(steps, "steps", 1)
    starts = np.zeros((len(problems), problems.keys.shape[3]))
    return descend(lane_fields(problems, loss), starts, method, steps, steps)[0][:, -1]


def lane_fields(problems: ProblemBatch, loss: Loss) -> LaneField:
    """All problems, a lane for each."""
    keys = problems.keys - problems.keys[:, :, :1]
    gamma = ties_made_equal(problems.scores, problems.tie_widths()[:, :, None])
    log_multiplicity = np.zeros_like(gamma)
    for j in np.flatnonzero(_has_repeats(keys)).tolist():
        merged = AttentionRisk(problems[j], loss).field
        gamma[j], log_multiplicity[j] = merged.scores, merged.log_multiplicity
    return LaneField.of(keys, gamma, log_multiplicity, loss)


def _has_repeats(keys: np.ndarray) -> np.ndarray:
    """True for problem j if two tokens of one of its inputs have the same key, shape (B,)."""
    ordered = np.sort(keys[..., 0], axis=2)
    suspects = (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=(1, 2))  # equal in the first coordinate already
    T = keys.shape[2]
    later = np.triu(np.ones((T, T), dtype=bool), 1)
    for j in np.flatnonzero(suspects).tolist():
        same = (keys[j, :, :, None] == keys[j, :, None]).all(axis=-1)
        suspects[j] = bool((same & later).any())
    return suspects
