"""Verdicts on where a path goes, finite parts, and what a certificate file says of a limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.answers._drawn import drawn
from tests.attention.test_mixed import problem
from tests.instances import random_sphere
from tests.theory.test_finite_part import random_risk
from tokenmargin import AttentionRisk
from tokenmargin.attention import Risk, _ends, _judging, limits_of, logistic
from tokenmargin.attention._stacks import stacks
from tokenmargin.data import tie_widths
from tokenmargin.theory import finite_part
from tokenmargin.theory._certificate_limits import content_of_limit

#: Ends of flows, put down once: to follow them would take seconds.
POINTS = json.loads(Path(__file__).with_name("points.json").read_text(encoding="utf-8"))

#: Less than this is rounding in what is nothing at a limit.
NOTHING = 1e-7


def _still() -> Risk:
    """Four inputs that pull on two of four coordinates, and two whose first token is best and ahead in the others."""
    rng = np.random.default_rng(0)
    still = np.concatenate([rng.normal(size=(4, 3, 2)), np.zeros((4, 3, 2))], axis=2)
    ahead = np.abs(rng.normal(size=(2, 3, 2))) * np.array([0, -1, -1])[None, :, None]
    keys = np.concatenate([still, np.concatenate([rng.normal(size=(2, 3, 2)), ahead], axis=2)])
    gamma = rng.normal(size=(6, 3))
    gamma[4:, 0] = 3.0
    return AttentionRisk(problem(gamma, keys), logistic)


RISKS: dict[str, Callable[[], Risk]] = {
    **{
        f"sphere {seed}": partial(
            lambda seed: AttentionRisk(random_sphere(np.random.default_rng([36, seed]), n=3, T=5, d=3)), seed
        )
        for seed in range(3)
    },
    "drawn 0": lambda: AttentionRisk(drawn(0)[0]),
    "mixed": lambda: AttentionRisk(problem([(2.0, 0.0), (1.0, 0.0), (1.0, 0.0)])),
    "part held": _still,
    "next": lambda: random_risk(2),
    "held for ever": lambda: AttentionRisk(problem([(2.0, 0.0), (1.0, 0.0), (1.0, 1.0)])),
}


def problems() -> dict[str, Callable[[], Any]]:
    """By name: at the end of a flow, a little off it, and nearer to where it began."""
    found: dict[str, Callable[[], Any]] = {
        f"verdicts {name}": partial(verdicts, name) for name in ("sphere 0", "drawn 0")
    }
    for name in RISKS:
        found |= {f"limits {name}": partial(limits, name), f"ends {name}": partial(ends, name)}
    found |= {f"file {name}": partial(certificate, name) for name in ("sphere 1", "drawn 0", "mixed", "next")}
    return found | {f"finite part {seed}": partial(finite, seed) for seed in range(4)}


def points_of(name: str) -> list[np.ndarray]:
    """Where a problem is judged."""
    end = np.array(POINTS.get(name, [0.0] * 2))
    aside = np.random.default_rng(37).normal(size=len(end))
    if name == "next":
        return [end, 1e-3 * end + 0.3 * aside]
    return [end, 1e-3 * end + 0.3 * aside, 1e-2 * end, 0.5 * aside, 1e9 * end + aside]


def limits(name: str) -> list[Any]:
    """Every number of a limit; what is nothing but rounding counts as nothing."""
    risk = RISKS[name]()
    told = []
    for limit in limits_of([risk] * len(points_of(name)), points_of(name)):
        own = {one.name: getattr(limit, one.name) for one in fields(limit) if one.name not in ("risk", "norm", "kinks")}
        own["selection"] = limit.selection.chosen
        for nothing in ("spreads", "adverse_weight", "newton_step"):
            own[nothing] = np.maximum(own[nothing], NOTHING)
        told.append({key: value for key, value in own.items() if key != "onward"})
    if name != "next":  # the last is too long for anything but that to be said
        told[-1] = told[-1]["reason"]
    return told


def ends(name: str) -> list[Any]:
    """What the dynamics says, and how tokens separate along the velocity and along another."""
    risk, points = RISKS[name](), points_of(name)
    # Where part of p is held its force is rounding, as all of it is where p is too long.
    points = points[name in ("mixed", "part held", "next") : 4]
    (own,) = _ends.ends_of([risk] * len(points), stacks([risk] * len(points))[0], points)
    said = [own.norm, own.most_spread, own.order, own.present, own.scores]
    other = np.random.default_rng(38).normal(size=own.force.shape)
    unit = own.force / np.where(own.speed > 0, own.speed, 1.0)[:, None]
    # Scores that tie but for rounding, and just beyond; velocities at which all gaps are small.
    tie = tie_widths(np.ones_like(own.scores))[:, :, None] * np.array([0.0, 0.5, 1.5, -0.5, -1.5])
    tied = replace(own, scores=1.0 + tie[:, :, : own.scores.shape[2]])
    for some, u in ((own, unit), (own, other), (own, 1e-7 * other), (tied, other)):
        found = _ends.separation(some, some.signed, u)
        kept = {one.name: getattr(found, one.name) for one in fields(found)}
        said.append({key: np.where(np.abs(value) > NOTHING, value, 0.0) for key, value in kept.items()})
        said.append([found.support(b, own.order[b]) for b in range(len(u)) if found.held_back[b].any()])
        said.append(_judging._come_back(some, found))
    return said


def verdicts(name: str) -> list[str]:
    """On one point at the limit, and on it with one number after the other across what decides."""
    risk = RISKS[name]()
    (own,) = _ends.ends_of([risk], stacks([risk])[0], points_of(name)[:1])
    unit = own.force / own.speed[:, None]
    along, one = _ends.separation(own, own.signed, unit), np.ones(1)
    far, newton, top = np.array([True]), 1e-3 * one, -one
    found = [_judging._verdicts(own, along, far, newton, top)]
    for share in (0.99, 1.01):
        for field, value in (
            ("spread", _ends.SPREAD_TOLERANCE * share), ("excess", -_ends.GAP_TOLERANCE * share),
            ("adverse", _ends.WEIGHT_FLOOR * share),
        ):  # fmt: skip
            found.append(_judging._verdicts(own, replace(along, **{field: value * one}), far, newton, top))
        long = replace(own, norm=share / (_ends.ROUNDING_FACTOR * float(np.finfo(float).eps)) * one)
        found.append(_judging._verdicts(long, along, far, newton, top))
        for step, curve in (
            (_judging.NEWTON_TOLERANCE * share, -1.0), (0.0, -_judging.CURVATURE_TOLERANCE * share),
            (0.5 * _judging.NEWTON_TOLERANCE, -1.0),
        ):  # fmt: skip
            found.append(_judging._verdicts(own, along, ~far, step * one, curve * one))
        near = replace(own, norm=(share * _judging.LONGEST_NEWTON_STEP / 1e-10 - 1) * one)
        found.append(_judging._verdicts(near, along, ~far, 1e-10 * one, top))
    found.append(_judging._verdicts(replace(own, force=own.force * np.nan), along, far, newton, top))
    found.append(_judging._verdicts(replace(own, speed=0 * one, signed=0 * own.signed), along, far, newton, top))
    found.append(_judging._verdicts(replace(own, speed=0 * one), along, ~far, newton, top))
    return [reason[:40] for ((_, reason),) in found]


def certificate(name: str) -> Any:
    """The content of a certificate file, as numbers; without what is the rounding of a box."""
    (limit,) = limits_of([RISKS[name]()], points_of(name)[:1])
    content = content_of_limit(limit)
    for rounded in ("sine_square", "half", "factor"):
        content["proof"].pop(rounded, None)
    return numbers(content)


def numbers(value: Any) -> Any:
    """Texts that are numbers, as numbers."""
    if isinstance(value, dict):
        return {key: numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [numbers(one) for one in value]
    try:
        return float.fromhex(value) if "x" in value else int(value.split("/")[0]) / int((value + "/1").split("/")[1])
    except OverflowError:
        return "large"
    except (TypeError, ValueError):
        return value


def finite(seed: int) -> dict[str, Any]:
    """W_fin with all that leads to it."""
    risk, steps = random_risk(seed), []
    part = finite_part(risk, progress=lambda done, *_: steps.append(done))
    told: dict[str, Any] = {"matrix": part.matrix, "floor": part.floor}
    aside = np.random.default_rng(39).normal(size=part.matrix.shape)
    told |= {
        "projected": part.projected(aside.reshape(-1)),
        "odds": part.log_odds(risk, 1, 2, 3),
        "rank": len(part.basis),
    }
    return told | {"steps": steps, "proven": part.proof is not None and part.proof.is_proven}
