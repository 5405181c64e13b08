"""Random instances of linear next-token prediction: contexts that are normal, of whole numbers, and orthogonal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tokenmargin.papers.next_token.claims.linear_contexts import LINEAR, Contexts
from tokenmargin.theory.law import Law

Stream = np.random.Generator

#: Contexts, their width, tokens, and how often something follows a context.
CONTEXTS, WIDTH, TOKENS, FOLLOWED = 3, 4, 5, 4


def _counts(rng: Stream) -> np.ndarray:
    """Four times a context is followed by one of three tokens of its own."""
    counts = np.zeros((CONTEXTS, TOKENS), dtype=np.int64)
    for own in counts:
        np.add.at(own, rng.choice(rng.permutation(TOKENS)[:3], size=FOLLOWED), 1)
    return counts


def _normal(rng: Stream) -> Contexts:
    return Contexts(rng.normal(size=(CONTEXTS, WIDTH)), _counts(rng))


def _whole(rng: Stream) -> Contexts:
    return Contexts(rng.integers(-2, 3, size=(CONTEXTS, WIDTH)).astype(float), _counts(rng))


def _orthogonal(rng: Stream) -> Contexts:
    vectors = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0][:CONTEXTS]
    return Contexts(vectors * 2.0 ** rng.integers(-2, 3, size=(CONTEXTS, 1)), _counts(rng))


DRAWS: dict[str, Callable[[Stream], Contexts]] = {
    "Three normal contexts in four dimensions, each followed four times by some of three tokens out of five.": _normal,
    "The same with contexts of whole numbers from -2 to 2, which may be dependent.": _whole,
    "The same with contexts at right angles, of lengths from 1/4 to 4.": _orthogonal,
}

LAWS = tuple(Law(LINEAR.key, says, draw) for says, draw in DRAWS.items())
