"""Logits in exact arithmetic: what p selects, and by how much, at norms where rounding hides it.

At |p| = 1e16 a logit is rounded to 1, and at 1e20 to 1e4. Products and sums of float64 numbers are integers in units of
a power of two, so that differences of logits are had exactly and rounded once.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

#: Logit gap at which a softmax is so saturated that only differences of gaps matter: exp(-60) is 1e-26.
SATURATED = 60


def exact_logits(keys: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """(integers of shape (n, T), unit): K_i p is the one times the other, exactly.

    Args:
        keys: shape (n, T, d).
        p: shape (d,).
    """
    whole_keys, unit = _integers(keys)
    whole_p, unit_p = _integers(p)
    return np.asarray((whole_keys * whole_p).sum(axis=-1)), unit * unit_p


def _integers(numbers: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """Python's integers, and the power of two that they are multiplied by."""
    mantissa, exponent = np.frexp(numbers)
    whole, power = np.ldexp(mantissa, 53).astype(np.int64), exponent.astype(np.int64) - 53
    least = int(power[whole != 0].min()) if whole.any() else 0
    shift = np.where(whole != 0, power - least, 0)
    return whole.astype(object) << shift.astype(object), Fraction(2) ** least


def shifted_gaps(keys: np.ndarray, present: np.ndarray, scores: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, float]:
    """Gaps to the first token of each input, less what all that pull on p have in common; and that.

    With every token of another score than the first at least `SATURATED` behind, the field depends on differences of
    gaps alone, and a shift of all those gaps leaves it what it is to 1e-26.

    Args:
        keys: shape (n, T, d).
        present: which tokens there are, shape (n, T).
        scores: shape (n, T).
        p: shape (d,).

    Returns:
        (gaps of shape (n, T), infinite where masked; the shift).
    """
    whole, unit = exact_logits(keys, p)
    each = np.arange(len(whole))
    first = np.where(present, whole, whole.min() - 1).argmax(axis=1)
    gaps = whole[each, first][:, None] - whole
    pulls = present & (scores != scores[each, first][:, None])
    shift = max(min(gaps[pulls], default=0) - int(SATURATED / unit), 0)
    gaps = np.where(pulls, gaps - shift, gaps)
    rounded = np.array([[_number(gap, unit) for gap in row] for row in gaps.tolist()])
    return np.where(present, rounded, np.inf), _number(shift, unit)


def is_clear(keys: np.ndarray, present: np.ndarray, p: np.ndarray, least: float) -> bool:
    """True if logits of an input, and gaps to the first over all inputs, are equal or at least `least` apart."""
    whole, unit = exact_logits(keys, p)
    rows = [sorted(row[there].tolist()) for row, there in zip(whole, present, strict=True)]
    gaps = sorted(row[-1] - one for row in rows for one in row)
    steps = {b - a for row in (*rows, gaps) for a, b in pairwise(row)}
    return all(step == 0 or step * unit >= least for step in steps)


def _number(whole: int, unit: Fraction) -> float:
    try:
        return float(whole * unit)
    except OverflowError:
        return float("inf")
