"""Two more laws for each claim of [M]: problems of small whole numbers, and problems whose parts are far apart.

Keys and scores that are small whole numbers tie, repeat, and have max-margin solutions with duals of 0. Keys whose
inputs differ in scale, far from the origin, with scores that nearly tie, are what a law of N(0, 1) never draws.
Neither asks what our code can decide, nor whether the hypotheses hold: both are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmargin.data import EmbeddedSequences, optimal_selection
from tokenmargin.margin import MarginSolution, Status, att_svm, directional_margin
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims import lemma2_11_feasibility as lemma2
from tokenmargin.papers.maxmargin.claims import lemma3_key, lemma5_correlation, lemma7_cone, lemma8_dominance
from tokenmargin.papers.maxmargin.claims import thm1_4_7_paths as paths
from tokenmargin.papers.maxmargin.claims import thm2_3_convergence as convergence
from tokenmargin.papers.maxmargin.claims.cone_radius import cone_radius, points_of_cone
from tokenmargin.papers.maxmargin.laws import random_problems
from tokenmargin.papers.maxmargin.laws._scored import (
    Stream,
    any_local,
    any_selection,
    numbers,
    of_scores,
    preferred_first,
)
from tokenmargin.theory.claim import Claim, least
from tokenmargin.theory.law import Law, Mutation
from tokenmargin.theory.problem import Problem

Shape = tuple[int, int, int]
Sampler = Callable[[Stream, Shape], EmbeddedSequences]

#: (n, T, d) of whole numbers, and of parts far apart: few shapes, since each is compiled.
WHOLE_SHAPES, APART_SHAPES = ((1, 3, 1), (3, 3, 2)), ((1, 5, 3), (3, 2, 2))

#: The same for flows and descents of a claim, which cost most.
FLOWN_WHOLE, FLOWN_APART = ((1, 3, 1), (3, 3, 2)), ((1, 3, 2), (3, 2, 2))

WHOLE_SAYS = "Whole numbers: keys from -2 to 2, scores 0, 1 or 2 in halves, one class of two in three draws, "
APART_SAYS = (
    "Far apart: keys N(0, I) times 10^-1 to 10 in each input, up to 100 from the origin, scores N(0, 1) times 0.1 to "
    "10 in each input, two of them 10^-6 to 10^-1 apart, "
)


def _labels(rng: Stream, n: int) -> np.ndarray:
    """One class only in two of three draws."""
    return np.ones(n) if rng.random() < 2 / 3 else rng.choice([-1.0, 1.0], size=n)


def whole(rng: Stream, shape: Shape) -> EmbeddedSequences:
    """Small whole keys and halves of scores: ties, repeated tokens and duals of 0 are common."""
    n, T, d = shape
    gamma = rng.integers(0, 5, size=(n, T)) / 2.0
    return of_scores(rng.integers(-2, 3, size=(n, T, d)).astype(float), _labels(rng, n), gamma)


def apart(rng: Stream, shape: Shape) -> EmbeddedSequences:
    """Inputs of different scale, an origin far away, and two scores of each input that nearly tie."""
    n, T, d = shape
    keys = rng.normal(size=(n, T, d)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1, 1))
    keys += rng.normal(size=(n, 1, d)) * 10.0 ** rng.uniform(-1, 2)
    gamma = rng.normal(size=(n, T)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1))
    gamma[:, 1] = gamma[:, 0] + 10.0 ** rng.uniform(-6, -1, size=n)
    return of_scores(keys, rng.choice([-1.0, 1.0], size=n), rng.permuted(gamma, axis=1))


def _two_scores(rng: Stream, data: EmbeddedSequences) -> EmbeddedSequences:
    """The same keys under Assumption B: one token of each input above what the others share, by 10^-3 to 10."""
    n, T = data.mask.shape
    gamma = np.repeat(rng.integers(-1, 2, size=(n, 1)).astype(float), T, axis=1)
    gamma[np.arange(n), rng.integers(T, size=n)] += 10.0 ** rng.uniform(-3, 1, size=n)
    return of_scores(data.keys, data.labels, gamma)


def _pick(rng: Stream, shapes: tuple[Shape, ...]) -> Shape:
    return shapes[int(rng.integers(len(shapes)))]


def _direction(rng: Stream, d: int, in_whole: bool) -> np.ndarray:
    """N(0, I), or small whole numbers, which may be 0."""
    return rng.integers(-2, 3, size=d).astype(float) if in_whole else rng.normal(size=d)


def _within(rng: Stream, solution: MarginSolution, mu: float, radius: float, farthest: float) -> np.ndarray:
    """A point inside the cone, at any angle up to its border, from R to `farthest` times R."""
    border = points_of_cone(solution.direction, mu, np.ones(1), int(rng.integers(2**31)))[0]
    share, norm = rng.random(), radius * 1.001 * farthest ** rng.random()
    inner = solution.direction + share * (border - solution.direction)
    return np.asarray(norm * inner / np.linalg.norm(inner))


# --- The problem of each claim on given sequences ---------------------------------------------------------------------


def _theorem_2(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    start = _direction(rng, data.width, in_whole) * (1.0 if in_whole else 10.0 ** rng.uniform(-1, 2))
    return Problem(sequences=_two_scores(rng, data), start=numbers(start))


def _theorem_3(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    solution = any_local(rng, data)
    if solution is None:
        start = _direction(rng, data.width, in_whole)
        return Problem(sequences=data, selection=any_selection(rng, data), start=numbers(start))
    found = cone_radius(solution)
    start = _within(rng, solution, found.mu, found.theorem_3, 10.0)
    return Problem(sequences=data, selection=solution.selection, start=numbers(start))


def _theorem_4(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    return Problem(sequences=_distinct(rng, data) if in_whole else data, selection=any_selection(rng, data))


def _theorem_7(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    axis = _direction(rng, data.width, in_whole)
    return Problem(sequences=_distinct(rng, data) if in_whole else data, p=numbers(axis))


def _distinct(rng: Stream, data: EmbeddedSequences) -> EmbeddedSequences:
    """The same keys with the scores 0, 1, 2, ... in a random order: with ties Theorem 4 says nothing."""
    n, T = data.mask.shape
    return of_scores(data.keys, data.labels, rng.permuted(np.tile(np.arange(float(T)), (n, 1)), axis=1))


def _lemma_2(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    """Keys that are the tokens, or W x with W of rank 1 and rows 10^-3 to 10^3 long; labels 1."""
    n, _, d = data.keys.shape
    v = _direction(rng, d, in_whole)
    if in_whole:
        return Problem(sequences=EmbeddedSequences(data.keys, np.ones(n), v))
    W = np.outer(rng.normal(size=2) * 10.0 ** rng.uniform(-3, 3, size=2), v)
    return Problem(sequences=EmbeddedSequences(data.keys, np.ones(n), v, keys=data.keys @ W.T))


def _lemma_3(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    """Whole p, whichever token it prefers, or a p that puts the first token 10 to 300 ahead of the others."""
    p, q = _direction(rng, data.width, in_whole), _direction(rng, data.width, in_whole)
    if in_whole:
        return Problem(sequences=data, p=numbers(p), q=numbers(q))
    data, ahead = preferred_first(data, p)
    return Problem(sequences=data, p=numbers(p * 10.0 ** rng.uniform(1.0, 2.5) / ahead), q=numbers(q))


def _lemma_5(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    data, pi = _two_scores(rng, data), float(10.0 ** rng.uniform(-2, 0.5))
    p = _direction(rng, data.width, in_whole)
    best = att_svm(data, optimal_selection(data))
    if best.status is not Status.OPTIMAL or not p.any():
        return Problem(sequences=data, pi=pi, p=numbers(p))
    norm = lemma5_correlation.correlation_radius(data, pi) * rng.uniform(1.001, 3)
    return Problem(sequences=data, pi=pi, p=numbers(norm * p / np.linalg.norm(p)))


def _lemma_7(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    solution = any_local(rng, data)
    if solution is None:
        p, q = (_direction(rng, data.width, in_whole) for _ in range(2))
        return Problem(sequences=data, selection=any_selection(rng, data), p=numbers(p), q=numbers(q))
    constants = cone_constants(solution)
    p, q = (_within(rng, solution, constants.mu, radius, 1e3) for radius in (constants.radius, 1.0))
    return Problem(sequences=data, selection=solution.selection, p=numbers(p), q=numbers(q))


def _lemma_7_l3(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    solution, pi = any_local(rng, data), float(10.0 ** rng.uniform(-3, 0))
    if solution is None:
        p = _direction(rng, data.width, in_whole)
        return Problem(sequences=data, selection=any_selection(rng, data), p=numbers(p), pi=pi)
    constants = cone_constants(solution)
    radius = max(lemma7_cone.comparison_radius(solution, pi), constants.radius)
    p = _within(rng, solution, constants.mu, radius, 1e2)
    return Problem(sequences=data, selection=solution.selection, p=numbers(p), pi=pi)


def _lemma_8(rng: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    u = att_svm(data, any_selection(rng, data))
    near = u.direction if u.status is Status.OPTIMAL else _direction(rng, data.width, in_whole)
    p, q = (near + 0.3 * _direction(rng, data.width, in_whole) for _ in range(2))
    if not (p.any() and q.any()):
        return Problem(sequences=data, q=numbers(q), p=numbers(p))
    p, q = p / np.linalg.norm(p), q / np.linalg.norm(q)
    seen_q, seen_p = (directional_margin(data, x) for x in (q, p))
    if seen_q.margin > seen_p.margin:
        p, q, seen_p, seen_q = q, p, seen_q, seen_p
    alike = seen_q.selection.is_single and seen_q.selection == seen_p.selection and seen_q.margin < seen_p.margin
    case = lemma8_dominance.DominanceCase(data, numbers(q), numbers(p), 1.0)
    radius = lemma8_dominance.dominance_radius(case) if alike else 1.0
    return Problem(sequences=data, q=numbers(q), p=numbers(least(radius, 1e300) * rng.uniform(1.001, 3) * p))


def _alone(_: Stream, data: EmbeddedSequences, in_whole: bool) -> Problem:
    del in_whole
    return Problem(sequences=data)


# --- The laws ---------------------------------------------------------------------------------------------------------

Drawn = Callable[[Stream, EmbeddedSequences, bool], Problem]


def _both(
    claim: Claim[Any, Any],
    draw: Drawn,
    says: tuple[str, str],
    whole_shapes: tuple[Shape, ...] = WHOLE_SHAPES,
    apart_shapes: tuple[Shape, ...] = APART_SHAPES,
    mutations: dict[str, Mutation] | None = None,
) -> tuple[Law, Law]:
    """The two laws of a claim, each with its sentence."""

    def of(sampler: Sampler, shapes: tuple[Shape, ...], in_whole: bool) -> Callable[[Stream], Any]:
        return lambda rng: claim.instance_of(draw(rng, sampler(rng, _pick(rng, shapes)), in_whole))

    told = [f"{' or '.join(str(shape) for shape in shapes)}" for shapes in (whole_shapes, apart_shapes)]
    return (
        Law(claim.key, f"{WHOLE_SAYS}(n, T, d) = {told[0]}{says[0]}.", of(whole, whole_shapes, True), mutations or {}),
        Law(claim.key, f"{APART_SAYS}(n, T, d) = {told[1]}{says[1]}.", of(apart, apart_shapes, False), mutations or {}),
    )


_MUTATIONS = {law.key: dict(law.mutations) for law in random_problems.LAWS}
_ONE_WHOLE, _ONE_APART = ((1, 2, 1), (1, 4, 2)), ((1, 3, 2), (1, 5, 3))

LAWS: tuple[Law, ...] = (
    *_both(paths.THEOREM_1, _alone, ("", "")),
    *_both(
        convergence.THEOREM_2,
        _theorem_2,
        (
            ", two scores 10^-3 to 10 apart, whole start",
            ", two scores 10^-3 to 10 apart, start N(0, I) times 0.1 to 100",
        ),
        FLOWN_WHOLE,
        FLOWN_APART,
        _MUTATIONS[convergence.THEOREM_2.key],
    ),
    *_both(
        convergence.THEOREM_3,
        _theorem_3,
        (", start anywhere in the cone at 1 to 10 R",) * 2,
        FLOWN_WHOLE,
        FLOWN_APART,
        _MUTATIONS[convergence.THEOREM_3.key],
    ),
    *_both(
        paths.THEOREM_4,
        _theorem_4,
        (", scores 0, 1, 2, ..., the axis of random tokens", ", the axis of random tokens"),
        ((1, 4, 2), (2, 3, 2)),
        ((1, 4, 2), (2, 3, 2)),
    ),
    *_both(
        paths.THEOREM_7,
        _theorem_7,
        (", scores 0, 1, 2, ..., a whole axis", ", a random axis"),
        ((1, 4, 2), (2, 3, 2)),
        ((1, 4, 2), (2, 3, 2)),
    ),
    *_both(
        lemma2.LEMMA_2,
        _lemma_2,
        (
            ", the tokens themselves, labels 1, v whole",
            " of the tokens, labels 1, W of rank 1 with rows 10^-3 to 10^3 long",
        ),
        mutations=_MUTATIONS[lemma2.LEMMA_2.key],
    ),
    *_both(
        lemma3_key.LEMMA_3,
        _lemma_3,
        (", p and q whole", ", the token that p prefers first and 10 to 300 ahead"),
        _ONE_WHOLE,
        _ONE_APART,
        {"1% beyond the bound": lambda _, seen: replace(seen, remainder=1.01)},
    ),
    *_both(
        lemma5_correlation.LEMMA_5,
        _lemma_5,
        (
            ", two scores, pi from 0.01 to 3, p whole, at 1 to 3 R_pi",
            ", two scores, pi from 0.01 to 3, p in any direction",
        ),
        _ONE_WHOLE,
        _ONE_APART,
    ),
    *_both(lemma7_cone.LEMMA_7, _lemma_7, (", p and q anywhere in the cone, p at 1 to 1000 R",) * 2),
    *_both(
        lemma7_cone.LEMMA_7_COMPARISON,
        _lemma_7_l3,
        (", pi from 0.001 to 1, p anywhere in the cone at 1 to 100 R_pi",) * 2,
    ),
    *_both(
        lemma8_dominance.LEMMA_8,
        _lemma_8,
        (
            ", two whole directions beside a max-margin one, at 1 to 3 R(.)",
            ", two directions 0.3 N(0, I) from it, at 1 to 3 R(.)",
        ),
        ((1, 4, 3), (2, 3, 2)),
    ),
)
