"""Random instances for the claim on the rank of [S]: problems of several shapes, with the tokens of highest score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tokenmargin.data import CrossSequences
from tokenmargin.papers.transformers_as_svms.claims import rank_bound
from tokenmargin.papers.transformers_as_svms.problems import (
    uneven_problem,
    unit_problem,
    whole_problem,
    with_optimal_selection,
)
from tokenmargin.theory.law import Law, Mutation

Stream = np.random.Generator

_MUTATIONS: dict[str, Mutation] = {
    "all singular values larger by 1e-5 of the first": lambda _, seen: rank_bound._blurred(seen),
    "multipliers of 1% more": lambda _, seen: _larger_duals(seen),
}


def _larger_duals(seen: Any) -> Any:
    from dataclasses import replace

    return replace(seen, duals=1.01 * seen.duals)


def _law(says: str, draw: Callable[[Stream], CrossSequences]) -> Law:
    claim = rank_bound.RANK
    return Law(claim.key, says, lambda rng: claim.instance_of(with_optimal_selection(draw(rng))), _MUTATIONS)


LAWS: tuple[Law, ...] = (
    _law(
        "tokens, queries and head uniform on the sphere, (n, T, d) = (4, 4, 5), the tokens of highest score.",
        lambda rng: unit_problem(rng, 4, 4, 5),
    ),
    _law(
        "tokens, queries and head of whole numbers from -2 to 2, which tie and repeat, (n, T, d) = (3, 3, 3).",
        lambda rng: whole_problem(rng, 3, 3, 3),
    ),
    _law(
        "as the first with coordinates and queries from 1/10 to 10 times as long, (n, T, d) = (5, 3, 6).",
        lambda rng: uneven_problem(rng, 5, 3, 6),
    ),
)
