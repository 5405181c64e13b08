"""Random instances of linear next-token prediction: contexts that are normal, of whole numbers, and orthogonal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tokenmargin.attention import Limit
from tokenmargin.papers.next_token.claims.linear_contexts import LINEAR, Contexts
from tokenmargin.papers.next_token.laws.random_sequences import aside
from tokenmargin.theory.law import NO_TRAINING, Law, Mutation

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


def _even_odds(case: Contexts, limit: Limit) -> Limit | None:
    """The limit with all tokens of a support at even odds; None where they are."""
    if limit.finite_part is None or all(len(set(own[own > 0].tolist())) == 1 for own in case.counts):
        return None
    return replace(limit, finite_part=np.zeros_like(limit.finite_part))


def _not_trained(_: Contexts, limit: Limit) -> Limit:
    """W = 0, which nothing moves."""
    return replace(limit, velocity=np.zeros_like(limit.velocity), finite_part=np.zeros_like(limit.point))


MUTATIONS: dict[str, Mutation] = {"at right angles": aside, "even odds": _even_odds, NO_TRAINING: _not_trained}

LAWS = tuple(Law(LINEAR.key, says, draw, MUTATIONS) for says, draw in DRAWS.items())
