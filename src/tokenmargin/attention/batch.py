"""Descent of a batch of problems given as arrays, without a data set for each."""

from __future__ import annotations

import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin.attention._lane_field import LaneField
from tokenmargin.attention.attention_risk import merged_scores
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
    mask = np.ones(keys.shape[:3], dtype=bool)
    return LaneField.of(keys, *merged_scores(keys, problems.scores, problems.tie_widths(), mask), loss)
