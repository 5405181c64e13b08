"""Points p at which Assumption C may fail: along differences of keys, and where the label margin is largest."""

from __future__ import annotations

import numpy as np

from tokenmargin._checks import real_array
from tokenmargin._types import ArrayLike
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.theory.maxmargin.order_cells import Choice

#: Logits of the points along differences of keys, in units of the longest one.
_TRIAL_LOGITS = (0.0, 1.0, 3.0, 10.0)


def trial_points_of(sequences: EmbeddedSequences, given: ArrayLike, unit: float) -> np.ndarray:
    """The caller's points, in units of one over `unit`, and those along the differences of keys, short and long."""
    width = sequences.width
    none = isinstance(given, tuple | list) and not given
    points = np.zeros((0, width)) if none else real_array(given, "trial_points", "(...,)")
    if points.size and (points.ndim != 2 or points.shape[1] != width):
        raise InvalidInputError(f"trial_points have shape {points.shape}: give shape (s, {width}).")
    near = sequences.relative_keys[sequences.mask].astype(float)
    square = float((near**2).sum(axis=1).max()) or 1.0
    near = near[:: max(1, len(near) // 32)] / square
    return np.concatenate([points.reshape(-1, width) * unit, *(c * near for x in _TRIAL_LOGITS for c in (x, -x))])


def climbed_points(sequences: EmbeddedSequences, choices: list[Choice], gamma: float) -> np.ndarray:
    """Where the label margin is largest nearby, from two points that favour each choice, shape (s, d)."""
    from scipy.optimize import minimize

    keys, found = sequences.relative_keys.astype(float), []
    for choice in choices:
        toward = sum(
            keys[i, list(some)].mean(axis=0) - keys[i, sequences.mask[i]].mean(axis=0) for i, some in enumerate(choice)
        )
        for scale in (1.0, 10.0):
            start = scale * np.asarray(toward)
            found.append(minimize(_minus_margin, start, (sequences, keys, gamma), jac=True, method="L-BFGS-B").x)
    return np.array(found)


def _minus_margin(
    p: np.ndarray, sequences: EmbeddedSequences, keys: np.ndarray, gamma: float
) -> tuple[float, np.ndarray]:
    """Minus the label margin at p in units of Gamma, and its gradient -sum_i w_i Y_i v'dr_i/dp."""
    s = sequences.attention(p)
    signed = sequences.labels[:, None, None] * sequences.tokens
    answer = least_norm(np.einsum("nt,ntk->nk", s, signed), np.ones(len(s)))
    if answer.status is not Status.OPTIMAL:
        return 0.0, np.zeros_like(p)
    size = float(np.linalg.norm(answer.p))
    pulls = answer.duals[:, None] / answer.duals.sum() * s * (signed @ (answer.p / size))
    centred = keys - np.einsum("nt,ntd->nd", s, keys)[:, None]
    return -1.0 / size / gamma, -np.einsum("nt,ntd->d", pulls, centred) / gamma
