"""Random instances for the claim of [L]: problems of three laws, and the exponent of mirror descent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tokenmargin.data import CrossSequences
from tokenmargin.papers.mirror_descent.claims.lp_margin import MIRROR, Mirrored
from tokenmargin.papers.transformers_as_svms.problems import uneven_problem, unit_problem, whole_problem
from tokenmargin.theory.law import Law, Mutation

Stream = np.random.Generator

#: Exponents: each is compiled.
EXPONENTS = (1.75, 2.0, 3.0)


def _first_entries(case: Mirrored, path: np.ndarray) -> np.ndarray:
    """A W of which the first row alone was trained."""
    del case
    kept = np.zeros_like(path)
    kept[:, :1] = path[:, :1]
    return kept


_MUTATIONS: dict[str, Mutation] = {"the other way": lambda _, path: -path, "the first row alone": _first_entries}


def _law(says: str, draw: Callable[[Stream], CrossSequences]) -> Law:
    return Law(
        MIRROR.key,
        f"{says}, q = 1.75, 2 or 3, from W = 0.",
        lambda rng: Mirrored(draw(rng), float(rng.choice(EXPONENTS))),
        _MUTATIONS,
    )


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
