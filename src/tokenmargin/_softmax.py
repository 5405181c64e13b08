"""Softmax of arrays on the host: the one there is (scipy.special's would cost `import tokenmargin` forty modules)."""

from __future__ import annotations

import numpy as np


def softmax(logits: np.ndarray) -> np.ndarray:
    """exp(x) over its sum along the last axis; 0 where x is -inf, which not all of a row may be."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights
