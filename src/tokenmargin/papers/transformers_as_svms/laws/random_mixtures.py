"""Random instances for the claim of [S] on several kept tokens: concave heads, labels 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tokenmargin.data import CrossSequences
from tokenmargin.papers.transformers_as_svms.claims.several_tokens import SEVERAL, Mixing
from tokenmargin.papers.transformers_as_svms.problems import uneven_problem, unit_problem, whole_problem
from tokenmargin.theory.law import NO_TRAINING, Law, Mutation

Stream = np.random.Generator

_MUTATIONS: dict[str, Mutation] = {
    NO_TRAINING: lambda _, path: 0.0 * path,
    "twice as far at the end": lambda _, path: SEVERAL.mutate(path),
    "without its finite part": lambda case, path: _level(case, path),
}

#: Least log-odds of kept tokens without which attention is no longer the predicted one.
TOLD = 0.2


def _level(case: Mixing, path: np.ndarray) -> np.ndarray | None:
    """The path with kept tokens level; None where they are so, or nearly."""
    return path - case.finite if np.abs(case.held_rows @ case.finite.ravel()).max() > TOLD else None


def random_mixing(rng: Stream, data: CrossSequences, whole: bool = False) -> Mixing:
    """A problem with labels 1 behind psi(z) = z'A z + b'z, A = -BB'/k for a square B of normal or whole numbers."""
    k = data.tokens.shape[2]
    B, b = rng.normal(size=(k, k)), rng.normal(size=k)
    if whole:
        B, b = np.round(B), np.round(b)
    # A head that bends as much over long tokens as over short ones: else the best mixture is one token or a corner.
    size = np.linalg.norm(data.tokens, axis=2).max()
    best = CrossSequences(data.tokens, queries=data.queries, labels=np.ones(len(data.labels)), head=data.head)
    return Mixing(best, -B @ B.T / (k * size**2), b / size)


def _law(says: str, draw: Callable[[Stream], CrossSequences], whole: bool = False) -> Law:
    said = f"{says}, behind a random concave head."
    return Law(SEVERAL.key, said, lambda rng: random_mixing(rng, draw(rng), whole), _MUTATIONS)


LAWS: tuple[Law, ...] = (
    _law("tokens and queries uniform on the sphere, (n, T, d) = (2, 3, 3)", lambda rng: unit_problem(rng, 2, 3, 3)),
    _law(
        "tokens, queries and head of whole numbers, (n, T, d) = (2, 3, 3)",
        lambda rng: whole_problem(rng, 2, 3, 3),
        True,
    ),
    _law(
        "as the first with coordinates and queries from 1/2 to 2 times as long, (n, T, d) = (2, 3, 3)",
        lambda rng: uneven_problem(rng, 2, 3, 3, most=2.0),
    ),
)
