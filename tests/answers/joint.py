"""Brackets of the minimisers over two balls: every number that goes into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from tests.answers._drawn import drawn
from tests.instances import fig3
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.papers.maxmargin.claims import _joint_bracket as module

#: (R, log r): small, saturated, and beyond what a float holds.
RADII = ((12.0, np.log(96.0)), (30.0, np.log(60.0)), (300.0, np.log(150.0)), (1e3, 2e3))


def problems() -> dict[str, Callable[[], Any]]:
    """By name."""
    first = Selection.from_indices([1, 1, 1], 2)
    drawings = {f"drawn {seed}": partial(drawn, seed) for seed in range(6)}
    drawings |= {"fig3a": lambda: (fig3((0.5, 1.0)), first), "fig3b": lambda: (fig3((0.5, 1.5)), first)}
    found: dict[str, Callable[[], Any]] = {"opening": openings}
    for name, draw in drawings.items():
        found[f"{name} spared"] = lambda draw=draw: module.attention_spared(*draw())
        found |= {f"{name} at {R:g}, {log_r:.4g}": partial(bracketed, draw, R, log_r) for R, log_r in RADII}
    return found | {f"least log sum at {R:g}": partial(least, R) for R in (0.5, 5.0, 500.0)}


def bracketed(draw: Callable[[], tuple[EmbeddedSequences, Selection]], R: float, log_r: float) -> dict[str, Any]:
    """The bracket and what it is made of."""
    data, alpha = draw()
    own = module._Saturated(data, alpha, 0.5, R, log_r)
    said = {key: getattr(own, key) for key in ("head", "log_own", "log_u", "log_Z", "longest", "least")}
    said |= {key: getattr(own, key) for key in ("gap", "spare", "inputs", "rows", "gamma", "is_solved")}
    said["second order"] = [own._second_order(np.full(len(alpha.chosen), share)) for share in (0.01, 0.1, 0.4)]
    said["beats"] = [own._beats_the_rest(above) for above in (-5.0, 0.0, 5.0, 40.0, 140.0)]
    if (bracket := own.bracket()) is not None:
        said |= {key.name: getattr(bracket, key.name) for key in fields(bracket) if key.name != "selection"}
        said["above"] = own._log_excess_above(bracket.point)
        aim = np.arange(1.0, 1.0 + data.width)
        said["errors"] = [
            bracket.direction_error(aim), bracket.least_direction_error(aim), bracket.head_error(aim),
        ]  # fmt: skip
    return said


def least(R: float) -> list[Any]:
    """The least of a log-sum on a sphere; Newton's steps from elsewhere, also where the force points inward."""
    rng = np.random.default_rng(33)
    rows, beta = rng.normal(size=(5, 3)) + np.array([0.6, 0.0, 0.0]), 3 * rng.normal(size=5)
    point = R * np.array([0.6, 0.8, 0.0])
    steps = [module._newton(rows, beta, R, p, heat) for p in (point, -point) for heat in (1.0, 30.0)]
    return [module.least_log_sum(rows, beta, R), steps]


def openings() -> list[float]:
    """Half angles of balls."""
    return [module._opening(share) for share in (0.0, 0.5, 0.999999, 1.0, 2.0)]
