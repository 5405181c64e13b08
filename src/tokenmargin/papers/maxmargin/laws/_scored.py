"""Problems of random keys and scores, of which most laws draw."""

from __future__ import annotations

import numpy as np

from tokenmargin.data import EmbeddedSequences

Stream = np.random.Generator


def scored(rng: Stream, n: int, T: int, d: int, gamma: np.ndarray | None = None) -> EmbeddedSequences:
    """Keys N(0, I) of width d beside scores gamma, N(0, 1) when absent, and random labels."""
    keys, labels = rng.normal(size=(n, T, d)), rng.choice([-1.0, 1.0], size=n)
    values = rng.normal(size=(n, T)) if gamma is None else gamma
    tokens = np.concatenate([keys, (labels[:, None] * values)[:, :, None]], axis=2)
    return EmbeddedSequences(tokens, labels, np.eye(d + 1)[d], keys=keys)
