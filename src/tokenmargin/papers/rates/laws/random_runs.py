"""Random instances for the claim of [R]: problems of three laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tokenmargin.data import CrossSequences
from tokenmargin.papers.rates.claims.adaptive_steps import ADAPTIVE, Raced
from tokenmargin.papers.transformers_as_svms.problems import uneven_problem, unit_problem, whole_problem
from tokenmargin.theory.law import Law, Mutation

Stream = np.random.Generator

_MUTATIONS: dict[str, Mutation] = {
    "descent for normalised descent": lambda _, ends: ends[[1, 0, 2]],
    "Polyak's steps the other way": lambda _, ends: ends * np.array([1.0, 1.0, -1.0])[:, None, None],
}


def _law(says: str, draw: Callable[[Stream], CrossSequences]) -> Law:
    return Law(ADAPTIVE.key, f"{says}, from W = 0.", lambda rng: Raced(draw(rng)), _MUTATIONS)


LAWS: tuple[Law, ...] = (
    _law(
        "tokens, queries and head uniform on the sphere, (n, T, d) = (3, 4, 3)", lambda rng: unit_problem(rng, 3, 4, 3)
    ),
    _law(
        "tokens, queries and head of whole numbers from -2 to 2, which tie and repeat, (n, T, d) = (2, 3, 3)",
        lambda rng: whole_problem(rng, 2, 3, 3),
    ),
    _law(
        "as the first with coordinates and queries from 1/10 to 10 times as long, (n, T, d) = (2, 4, 3)",
        lambda rng: uneven_problem(rng, 2, 4, 3),
    ),
)
