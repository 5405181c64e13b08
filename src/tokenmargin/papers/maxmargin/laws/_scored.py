"""Problems of random keys and scores, of which most laws draw, and parts that several laws draw alike."""

from __future__ import annotations

import numpy as np

from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import MarginSolution, local_margins
from tokenmargin.papers.maxmargin._cones import cone_constants

Stream = np.random.Generator


def of_scores(keys: np.ndarray, labels: np.ndarray, gamma: np.ndarray) -> EmbeddedSequences:
    """Keys (n, T, d) beside scores gamma (n, T)."""
    tokens = np.concatenate([keys, (labels[:, None] * gamma)[:, :, None]], axis=2)
    return EmbeddedSequences(tokens, labels, np.eye(keys.shape[2] + 1)[-1], keys=keys)


def scored(rng: Stream, n: int, T: int, d: int, gamma: np.ndarray | None = None) -> EmbeddedSequences:
    """Keys N(0, I) of width d beside scores gamma, N(0, 1) when absent, and random labels."""
    keys, labels = rng.normal(size=(n, T, d)), rng.choice([-1.0, 1.0], size=n)
    return of_scores(keys, labels, rng.normal(size=(n, T)) if gamma is None else gamma)


def preferred_first(data: EmbeddedSequences, p: np.ndarray) -> tuple[EmbeddedSequences, float]:
    """One input with the token first that p prefers, and how far ahead of the next it is."""
    first = np.argsort(-(data.keys[0] @ p))
    data = EmbeddedSequences(data.tokens[:, first], data.labels, data.head, keys=data.keys[:, first])
    return data, float((data.keys[0, 0] - data.keys[0, 1]) @ p)


def any_selection(rng: Stream, data: EmbeddedSequences) -> Selection:
    """One token of each input."""
    return Selection.from_indices(rng.integers(data.n_places, size=data.n_inputs), data.n_places)


def any_local(rng: Stream, data: EmbeddedSequences) -> MarginSolution | None:
    """One of the locally optimal solutions every input of which has a neighbour, if there is any."""
    fit = [one for one in local_margins(data) if cone_constants(one).every_input_has_neighbors]
    return fit[int(rng.integers(len(fit)))] if fit else None


def numbers(vector: np.ndarray) -> tuple[float, ...]:
    """A vector as a problem holds it."""
    return tuple(np.asarray(vector, dtype=float).tolist())
