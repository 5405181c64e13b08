"""Bounds on how far minimisers are from max-margin, and what is looked at to test them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from tests.answers._drawn import drawn
from tests.instances import fig1b, fig1c
from tests.papers.maxmargin.claims.test_path_bound import tilted_path
from tokenmargin.attention import Loss, correlation, exponential, logistic
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import LinearHead
from tokenmargin.data import EmbeddedSequences, optimal_selection
from tokenmargin.papers.maxmargin.claims import _path_bound as module
from tokenmargin.papers.maxmargin.claims.thm1_4_7_paths import PathCase


def wide(seed: int) -> module.BoundedPath:
    """A drawn problem with the sandwich of its score gaps."""
    data = drawn(seed)[0]
    risk, best = HeadRisk(data, LinearHead(data.head), logistic), optimal_selection(data)
    sandwich = module.score_gap_sandwich(risk, best)
    assert sandwich is not None
    return module.BoundedPath(risk, best, *sandwich)


LINE = EmbeddedSequences([[[1.0], [0.25]]], [1], [1.0])

PATHS = {
    "fig1b": lambda: PathCase(fig1b()).bounded,
    "fig1c": lambda: PathCase(fig1c()).bounded,
    "tilted": tilted_path,
    "line": lambda: PathCase(LINE).bounded,
    "drawn 0": lambda: wide(0),
    "drawn 1": lambda: wide(1),
}


def problems() -> dict[str, Callable[[], Any]]:
    """By name."""
    found: dict[str, Callable[[], Any]] = {"sandwich of nothing": partial(sandwich, nothing, logistic)}
    for seed in range(3):
        for loss in (logistic, exponential, correlation):
            found[f"sandwich {seed} {type(loss).__name__}"] = partial(sandwich, partial(drawn, seed), loss)
    for name in PATHS:
        found[f"bounds {name}"] = partial(bounds, name)
    found |= {f"values {name}": partial(values, name) for name in ("fig1b", "drawn 0")}
    found |= {f"look {name}": partial(looked, name) for name in ("line", "fig1b", "drawn 0")}
    return found | {"search": searched, "levels": levels, "misses": misses, "each from": from_each}


def nothing() -> tuple[EmbeddedSequences, None]:
    """One token."""
    return EmbeddedSequences([[[1.0]]], [1], [1.0]), None


def sandwich(draw: Callable[[], Any], loss: Loss) -> tuple[float, float] | None:
    """From score gaps."""
    data = draw()[0]
    return module.score_gap_sandwich(HeadRisk(data, LinearHead(data.head), loss), optimal_selection(data))


def bounds(name: str) -> dict[str, Any]:
    """What is computed without a gradient."""
    path, levels = PATHS[name](), (0.5, 1.0, 2.0, 3.0, 10.0, 1e2, 1e3, 1e4, 1e6)
    said: dict[str, Any] = {"unit": path.unit, "choices": path.choices}
    said["shortfalls"] = [path.shortfall(level) for level in levels]
    said["bounds"] = [path.bound(level) for level in levels]
    axes = path.solution.minimisers * path.solution.margin
    if len(axes) == 1 or name == "tilted":
        said["probes"] = [module._probes(np.random.default_rng(1), axes, 7.0, bound) for bound in (0.05, 1.0)]
    return said


def values(name: str) -> dict[str, Any]:
    """Risk and attention at a few points."""
    path = PATHS[name]()
    points = 50 * np.random.default_rng(34).normal(size=(4, path.risk.sequences.width))
    seen = module._values(path, points)
    told: dict[str, Any] = {key.name: getattr(seen, key.name) for key in fields(seen)}
    return told | {"off": path.off(points, np.array([1.0, 10.0, 100.0, 1e3]))}


def looked(name: str) -> dict[str, Any]:
    """What is seen, and what wrong constants are told."""
    path = PATHS[name]()
    seen = module.look(path, levels=(1e2, 1e3), seed=1)
    told = {key.name: getattr(seen, key.name) for key in fields(seen)}
    shares = ((1.0, 1.0), (3.0, 1.0), (1.0, 0.2))
    told["misses"] = [seen.miss(lower * path.lower, upper * path.upper) for lower, upper in shares]
    return told | {"twice": seen.twice_as_far().miss(path.lower, path.upper)}


def searched() -> list[Any]:
    """Newton's method on spheres of two and three dimensions, from points that are no minimisers."""
    rng = np.random.default_rng(2)
    plane = [module._on_sphere(tilted_path(), rng.normal(size=(3, 2)), R) for R in (0.7, 5.0)]
    # In space the values alone: where they are nearly level, points are known to half the digits.
    return plane + [module._on_sphere(PATHS["drawn 0"](), rng.normal(size=(3, 3)), R)[1] for R in (0.7, 5.0)]


def levels() -> list[Any]:
    """Which levels are known."""
    asked = ((tilted_path(), (1e2, 1e6)), (tilted_path(), (1e2, 1e9, 1e12)), (PATHS["drawn 0"](), (1e2, 7e7, 1e8)))
    return [module.known_levels(path, some) for path, some in asked]


def misses() -> list[float]:
    """Of a point that is as good as the competitor but for rounding, of one that is better than best, of none known."""
    one, level = np.ones(2), np.array([100.0, 1000.0])
    seen = module.PathSeen(
        level, np.eye(2), True, bounds=np.array([0.01, 0.001]), off=np.array([0.005, 0.0005]), excess=-level,
        competitor=-level, probe_levels=level, probe_off=np.array([0.005, 0.0025]), probe_sign=one, probe_excess=-level,
        probe_q=-level,
    )  # fmt: skip
    rounded = replace(seen, excess=seen.competitor + module.SAME_LOG_EXCESS)
    cases = [seen, rounded, replace(seen, probe_sign=0 * one), replace(seen, probe_sign=np.array([1.0, np.nan]))]
    cases += [replace(seen, probe_q=seen.probe_q + x) for x in (-0.5, 0.5)]
    cases += [replace(seen, probe_excess=seen.probe_excess + np.array([0.0, x])) for x in (1e-7, 1e-5)]
    return [case.miss(0.9, 1.2) for case in cases]


def from_each() -> list[Any]:
    """The search from the max-margin directions, where what was found before is worse, and where it is better."""
    path, goals = PATHS["drawn 0"](), np.array([50.0, 200.0])
    axes = path.solution.minimisers * path.solution.margin
    return [module._each_from(path, goals, axes, (np.ones((2, 3)), np.full(2, x))) for x in (1e3, -1e3)]
