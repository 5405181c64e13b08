"""Problems with all that makes a difference: two labels, padding, an input of one token, one with margin to spare."""

from __future__ import annotations

import numpy as np

from tokenmargin.data import EmbeddedSequences, Selection


def drawn(seed: int, alone: bool = True) -> tuple[EmbeddedSequences, Selection]:
    """Four inputs of at most four tokens; the selected ones, the first, are separable by label, and by keys."""
    rng = np.random.default_rng([31, seed])
    labels = np.array([1, -1, 1, -1])
    tokens = 0.4 * rng.normal(size=(4, 4, 3))
    tokens[:, 0] += labels[:, None] * np.array([1.5, 0.3, 0.0])
    tokens[1, 0] *= 2.5  # far from the border
    keys = rng.normal(size=(4, 4, 3))
    keys[:, 0] += np.array([1.5, 0.0, 0.5])
    mask = np.ones((4, 4), dtype=bool)
    mask[0, 3] = False
    mask[3, 1:] = not alone
    tokens[~mask], keys[~mask] = 0.0, 0.0
    data = EmbeddedSequences(tokens, labels, [1.0, 0.2, 0.0], keys=keys, mask=mask)
    return data, Selection.from_indices([0, 0, 0, 0], 4)


def whole(seed: int) -> tuple[EmbeddedSequences, Selection]:
    """Whole numbers from -2 to 2, where tokens and keys are often the same."""
    rng = np.random.default_rng([32, seed])
    tokens, keys = rng.integers(-2, 3, size=(2, 3, 3, 2)).astype(float)
    tokens[:, 0] = tokens[:, 0] + [[2.0], [-2.0], [2.0]] * np.array([1.0, 0.0])
    return EmbeddedSequences(tokens, [1, -1, 1], [1.0, 0.0], keys=keys), Selection.from_indices([0, 0, 0], 3)
