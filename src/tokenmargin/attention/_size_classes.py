"""Shapes rounded up to few sizes, so that problems of many shapes run in one compiled program.

A token that is added stands zero times, an input that is added has one token, and a coordinate that is added is zero in
every key: nothing pulls along it, and no other number changes but by rounding.
"""

from __future__ import annotations

import numpy as np

#: Sizes up to here keep the two leading digits of their binary number, 1 2 3 4 6 8 12 ...; beyond, where the time goes
#: into the problem and not into the compiler, three: 40 48 56 64 80 ...
FEW_CLASSES = 32


def size_class(size: int) -> int:
    """The size at or above that a compiled program is made for."""
    unit = 1 << max(size.bit_length() - (2 if size <= FEW_CLASSES else 3), 0)
    return -(-size // unit) * unit


def in_size_class(keys: np.ndarray, scores: np.ndarray, log_multiplicity: np.ndarray) -> tuple[np.ndarray, ...]:
    """Keys (..., n, T, d), scores and log multiplicity (..., n, T) of one problem or a stack, in their size class."""
    *beside, n, T, d = keys.shape
    shape = (*beside, *(size_class(size) for size in (n, T, d)))
    if shape == keys.shape:
        return keys, scores, log_multiplicity
    wide, present = np.zeros(shape, keys.dtype), np.full(shape[:-1], -np.inf, log_multiplicity.dtype)
    wide[..., :n, :T, :d] = keys
    present[..., :n, :T] = log_multiplicity
    present[..., n:, 0] = 0.0  # an input has a token, or its softmax is no number
    gamma = np.empty(shape[:-1], scores.dtype)
    # A loss need not be finite at every number: what is added scores as a token that there is.
    gamma[...] = scores[..., :1, :1]
    gamma[..., :n, :T] = scores
    return wide, gamma, present
