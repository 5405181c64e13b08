"""A NaN decides nothing: in no bound does it pass a comparison, or get lost in a minimum.

Python's `max(0.0, nan)` is 0.0 and its `min(1.0, nan)` 1.0, so that an error that could not be computed was no error.
"""

from __future__ import annotations

import ast
import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenmargin
from tokenmargin.theory.claim import largest, least
from tokenmargin.theory.registry import claims

THEORY = Path(tokenmargin.__file__).parent / "theory"

#: What a claim looks at; the quick ones first, those that follow a flow or a path are long.
LOOKED_AT = {
    "maxmargin-lemma2": ("p",),
    "maxmargin-lemma3": ("remainder", "display"),
    "maxmargin-lemma5": ("",),
    "maxmargin-lemma7": ("direction", "log_scale", "log_slope", "log_missing"),
    "maxmargin-lemma7-l3": ("direction",),
    "maxmargin-thm5": ("point", "radius", "head", "head_radius"),
    "maxmargin-thm6": ("point", "radius", "head", "head_radius"),
    "transformers_as_svms-rank": ("p", "duals"),
    "optimiser_geometry-steepest": ("path",),
    "embeddings-lemma2": ("eta0", "token_errors"),
    "embeddings-lemma3": ("p", "duals"),
    "embeddings-lemma12": ("left", "right"),
    "embeddings-lemma17": ("total", "leading"),
    "embeddings-lemma20": ("p",),
    "embeddings-lemma21": ("p",),
}
LOOKED_AT_LONG = {
    "next_token-global": ("velocity", "finite_part"),
    "next_token-reach": ("velocity",),
    "next_token-linear": ("velocity", "finite_part"),
    "next_token-convex": ("",),
    "next_token-squared": ("velocity",),
    "maxmargin-thm1": ("bounds", "off", "excess", "competitor", "probe_sign", "probe_excess", "probe_q"),
    "maxmargin-thm2": ("0.velocity", "1.velocity", "2.velocity"),
    "maxmargin-thm3": ("limit.velocity", "descent.turn", "descent.leave"),
    "maxmargin-thm5-flow": ("head", "attention"),
    "maxmargin-thm6-flow": ("head", "attention"),
    "maxmargin-thm6-below": ("point", "radius"),
    "maxmargin-thm8": ("bounds", "off", "excess", "competitor", "probe_sign", "probe_excess", "probe_q"),
    "maxmargin-lemma8": ("0.size", "1.size"),
    "maxmargin-lemma14": ("sign", "log_excess", "log_q"),
    "transformers_as_svms-frobenius": ("velocity",),
    "transformers_as_svms-nuclear": ("K", "Q"),
    "transformers_as_svms-several": ("",),
    "mirror_descent-lp": ("",),
    "rates-adaptive": ("",),
    "optimiser_geometry-adam": ("path",),
    "embeddings-thm5": ("velocity",),
    "embeddings-lemma6": ("with_gradient", "with_limit"),
    "embeddings-lemma13": ("least_gap", "least_descent"),
    "embeddings-lemma14": ("velocity",),
    "embeddings-lemma18": ("velocity",),
    "embeddings-lemma19": ("velocity",),
}


def with_nan(seen: Any, where: str) -> Any:
    """An observation with a NaN at the end of one of its arrays, or for one of its numbers."""
    first, _, rest = where.partition(".")
    if isinstance(seen, tuple):
        return tuple(with_nan(one, rest) if str(j) == first else one for j, one in enumerate(seen))
    if where and dataclasses.is_dataclass(seen):
        return dataclasses.replace(seen, **{first: with_nan(getattr(seen, first), rest)})
    if isinstance(seen, np.ndarray):
        return np.append(seen.ravel()[:-1], np.nan).reshape(seen.shape)
    return float("nan")


@cache
def inside(key: str) -> tuple[Any, Any]:
    instance = claims()[key].inside()
    return instance, claims()[key].observe(instance)


def assert_decides_nothing(key: str, where: str) -> None:
    instance, seen = inside(key)
    assert claims()[key].conclude(instance, seen).holds
    assert not claims()[key].conclude(instance, with_nan(seen, where)).holds


@pytest.mark.parametrize(("key", "where"), [(key, where) for key, some in LOOKED_AT.items() for where in some])
def test_a_claim_does_not_hold_by_a_nan(key, where):
    assert_decides_nothing(key, where)


@pytest.mark.long
@pytest.mark.parametrize(("key", "where"), [(key, where) for key, some in LOOKED_AT_LONG.items() for where in some])
def test_a_claim_about_a_flow_does_not_hold_by_a_nan(key, where):
    assert_decides_nothing(key, where)


def test_every_claim_but_those_of_no_number_is_asked():
    """Thms 4 and 7 are told by a flag whether their path stays bounded, and retrieval by flags of tokens."""
    flags = {"maxmargin-thm4", "maxmargin-thm7", "next_token-retrieval"}
    assert LOOKED_AT.keys() | LOOKED_AT_LONG.keys() | flags == claims().keys()


def test_the_largest_and_the_least_keep_a_nan():
    for numbers in ((0.0, np.nan), (np.nan, 0.0), (np.nan, np.inf)):
        assert np.isnan(largest(*numbers))
        assert np.isnan(least(*numbers))
    assert (largest(0.0, -1.0, 2.0), least(0.0, -1.0, 2.0)) == (2.0, -1.0)


def test_no_bound_is_taken_by_a_minimum_that_drops_a_nan():
    """Python's own `min` and `max` are for whole numbers: `max(0.0, error)` is how a NaN came to hold."""
    calls = [
        (path.name, node)
        for path in sorted(THEORY.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
    ]
    found = [
        f"{name}: {ast.unparse(node)}"
        for name, node in calls
        if any(isinstance(one, ast.Constant) and isinstance(one.value, float) for one in node.args)
    ]
    assert len(calls) > 5
    assert not found, "use `largest` and `least` of theory/claim.py"
