"""Random instances for the claims of [S] on flows: problems, and the W or the factors K and Q from which they start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tokenmargin.data import CrossSequences
from tokenmargin.papers.transformers_as_svms.claims.frobenius_limit import FROBENIUS, Started
from tokenmargin.papers.transformers_as_svms.claims.nuclear_limit import (
    NUCLEAR,
    EndOfFactors,
    FactoredStart,
)
from tokenmargin.papers.transformers_as_svms.problems import uneven_problem, unit_problem, whole_problem
from tokenmargin.theory.law import Law, Mutation, orthogonal

Stream = np.random.Generator
Draw = Callable[[Stream], CrossSequences]

#: One shape for each law, since each is compiled.
_DRAWN: tuple[tuple[str, Draw], ...] = (
    (
        "tokens, queries and head uniform on the sphere, (n, T, d) = (2, 3, 2)",
        lambda rng: unit_problem(rng, 2, 3, 2),
    ),
    (
        "tokens, queries and head of whole numbers from -2 to 2, which tie and repeat, (n, T, d) = (2, 4, 2)",
        lambda rng: whole_problem(rng, 2, 4, 2),
    ),
    (
        "as the first with coordinates and queries from 1/10 to 10 times as long, (n, T, d) = (3, 3, 2)",
        lambda rng: uneven_problem(rng, 3, 3, 2),
    ),
)


def _aside(_: Started, limit: object) -> object:
    velocity = np.ravel(limit.velocity)  # type: ignore[attr-defined]
    turned = orthogonal(velocity).reshape(np.shape(limit.velocity))  # type: ignore[attr-defined]
    return replace(limit, velocity=turned)  # type: ignore[type-var]


def _first_pair(case: FactoredStart, seen: EndOfFactors) -> EndOfFactors | None:
    """The end with one singular pair alone, where the solution has more."""
    del case
    W = seen.K @ seen.Q.T
    left, values, right = np.linalg.svd(W)
    if values[1] < 0.1 * values[0]:
        return None
    return EndOfFactors(left[:, :1] * values[0], right[:1].T)


_OF_W: dict[str, Mutation] = {"another direction": _aside}
_OF_FACTORS: dict[str, Mutation] = {
    "the other way": lambda _, seen: replace(seen, K=-seen.K),
    "the first singular pair alone": _first_pair,
}


def _from_w(draw: Draw) -> Callable[[Stream], Started]:
    return lambda rng: Started(data := draw(rng), 0.3 * rng.normal(size=data.shape))


def _from_factors(draw: Draw) -> Callable[[Stream], FactoredStart]:
    def drawn(rng: Stream) -> FactoredStart:
        data = draw(rng)
        d, e = data.shape
        return FactoredStart(data, 0.3 * rng.normal(size=(d, min(d, e))), 0.3 * rng.normal(size=(e, min(d, e))))

    return drawn


LAWS: tuple[Law, ...] = (
    *(Law(FROBENIUS.key, f"{says}, W of 0.3 N(0, 1).", _from_w(draw), _OF_W) for says, draw in _DRAWN),
    *(Law(NUCLEAR.key, f"{says}, K and Q of 0.3 N(0, 1).", _from_factors(draw), _OF_FACTORS) for says, draw in _DRAWN),
)
