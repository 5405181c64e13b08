"""Random instances for the claims of [M]: of each law, the problem and the points that the claim speaks of.

Instances are made by the claim's own `of_problem`, the way of a user's problem. A law draws what the theorem
quantifies over; it does not see to it that the hypotheses hold, beyond what makes them likely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tokenmargin.attention.limit import LimitKind
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection
from tokenmargin.margin import MarginSolution, Status, att_svm, directional_margin, relaxing_rate, selected_label_svm
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims import lemma2_11_feasibility as lemma2
from tokenmargin.papers.maxmargin.claims import lemma3_key, lemma5_correlation, lemma7_cone, lemma8_dominance
from tokenmargin.papers.maxmargin.claims import thm1_4_7_paths as paths
from tokenmargin.papers.maxmargin.claims import thm2_3_convergence as convergence
from tokenmargin.papers.maxmargin.claims import thm5_6_joint as joint
from tokenmargin.papers.maxmargin.claims import thm8_lemma14_heads as heads
from tokenmargin.papers.maxmargin.claims.cone_radius import cone_radius, points_of_cone
from tokenmargin.papers.maxmargin.laws._far_starts import FAR_SHAPES, applies_far_along
from tokenmargin.papers.maxmargin.laws._scored import Stream, any_local, any_selection, numbers, preferred_first, scored
from tokenmargin.theory.claim import Claim
from tokenmargin.theory.law import Aside, Law, Mutation, orthogonal
from tokenmargin.theory.problem import Problem

#: (n, T, d) of the problems that are followed: few shapes, since each is compiled.
SHAPES = ((1, 4, 2), (2, 3, 3))


def _shape(rng: Stream) -> tuple[int, int, int]:
    return SHAPES[int(rng.integers(len(SHAPES)))]


def _unit(rng: Stream, d: int) -> np.ndarray:
    drawn = rng.normal(size=d)
    return np.asarray(drawn / np.linalg.norm(drawn))


def two_scores(rng: Stream, n: int, T: int, d: int) -> EmbeddedSequences:
    """Assumption B: in each input one token scores 0.2 to 1.2 more than all others, which share one score."""
    rest = rng.uniform(-1, 1, size=(n, 1)) * np.ones((n, T))
    rest[np.arange(n), rng.integers(T, size=n)] += rng.uniform(0.2, 1.2, size=n)
    return scored(rng, n, T, d, rest)


def _theorem_2(rng: Stream) -> Problem:
    n, T, d = _shape(rng)
    return Problem(sequences=two_scores(rng, n, T, d), start=numbers(rng.normal(size=d)))


def _turned_aside(run: convergence.Run, limits: Any) -> Any:
    """The first limit in another direction, of which the theorem speaks with one input only."""
    if run.sequences.n_inputs > 1 or limits[0] is None:
        return None
    return (replace(limits[0], velocity=orthogonal(limits[0].velocity)), *limits[1:])


def _bounded(_: Any, limits: Any) -> Any:
    return None if limits[0] is None else (replace(limits[0], kind=LimitKind.FINITE), *limits[1:])


def _local(rng: Stream, shape: tuple[int, int, int]) -> tuple[EmbeddedSequences, MarginSolution | None]:
    data = scored(rng, *shape)
    return data, any_local(rng, data)


def _theorem_3(rng: Stream) -> Problem:
    data, solution = _local(rng, _shape(rng))
    if solution is None:
        return Problem(sequences=data, selection=any_selection(rng, data), start=numbers(rng.normal(size=data.width)))
    found = cone_radius(solution)
    norms = found.theorem_3 * rng.uniform(1.001, 10.0, size=1)
    start = points_of_cone(solution.direction, found.mu, norms, int(rng.integers(2**31)))[0]
    return Problem(sequences=data, selection=solution.selection, start=numbers(start))


def _another_limit(_: Any, seen: convergence.InCone) -> convergence.InCone:
    return replace(seen, limit=replace(seen.limit, velocity=orthogonal(seen.limit.velocity)))


def _theorem_4(rng: Stream) -> Problem:
    data = scored(rng, *((1, 4, 2), (2, 3, 2))[int(rng.integers(2))])
    return Problem(sequences=data, selection=any_selection(rng, data))


def _theorem_7(rng: Stream) -> Problem:
    data = scored(rng, *((1, 4, 2), (2, 3, 2))[int(rng.integers(2))])
    return Problem(sequences=data, p=numbers(_unit(rng, 2)))


def _theorem_5(rng: Stream) -> Problem:
    data = toys.random_sphere(rng, 2, 3, 2)
    tokens = data.tokens.copy()
    tokens[:, 1:] *= rng.uniform(0.2, 0.8, size=(2, 2, 1))
    data, chosen = EmbeddedSequences(tokens, data.labels, data.head), Selection.from_indices([0, 0], 3)
    return _joint(rng, data, chosen, 10.0 ** rng.uniform(-0.5, 0.5))


def _theorem_6(rng: Stream, slowest: float = 1.0, fastest: float = 3.0) -> Problem:
    labels = rng.choice([-1.0, 1.0], size=3)
    data = EmbeddedSequences(rng.normal(size=(3, 2, 2)), labels, [0.0, 1.0])
    choices = [Selection.from_indices(list(choice), 2) for choice in product(range(2), repeat=3)]
    best = max(choices, key=lambda choice: np.nan_to_num(selected_label_svm(data, choice).label_margin))
    solved = selected_label_svm(data, best).status is Status.OPTIMAL
    rate = relaxing_rate(data, best) if solved else float("nan")
    return _joint(rng, data, best, rate * rng.uniform(slowest, fastest) if rate > 0 else 1.0)


def _joint(rng: Stream, data: EmbeddedSequences, chosen: Selection, rate: float) -> Problem:
    """A start near the tokens asked for, so that many runs select them."""
    label, attention = selected_label_svm(data, chosen), att_svm(data, chosen)
    v = label.direction if label.status is Status.OPTIMAL else np.zeros(len(data.head))
    p = attention.direction if attention.status is Status.OPTIMAL else np.zeros(data.width)
    v, p = v + 0.3 * rng.normal(size=len(v)), p + 0.3 * rng.normal(size=len(p))
    return Problem(sequences=data, selection=chosen, start_v=numbers(v), start=numbers(p), speeds=(float(rate), 1.0))


def _heads(rng: Stream) -> Problem:
    tokens, keys = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 2))
    factor = 0.4 * rng.normal(size=(3, 3))
    data = EmbeddedSequences(tokens, np.ones(2), rng.normal(size=3), keys=keys)
    return Problem(sequences=data, head_matrix=factor @ factor.T)


def _lemma_2(rng: Stream) -> Problem:
    n, T, d, rank = int(rng.integers(1, 6)), int(rng.integers(2, 5)), 4, int(rng.integers(1, 4))
    tokens, v = rng.normal(size=(n, T, d)), rng.normal(size=d)
    W = rng.normal(size=(3, rank)) @ np.vstack([v, rng.normal(size=(rank - 1, d))])
    return Problem(sequences=EmbeddedSequences(tokens, np.ones(n), v, keys=tokens @ W.T))


def _too_long(data: EmbeddedSequences, seen: MarginSolution) -> MarginSolution | None:
    separator = lemma2.separator_from_head(data)
    return None if separator is None else replace(seen, p=1.01 * separator)


def _lemma_3(rng: Stream) -> Problem:
    T, d = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    data, p = scored(rng, 1, T, d), rng.normal(size=d)
    data, ahead = preferred_first(data, p)  # which is token 1 of the lemma
    return Problem(sequences=data, p=numbers(p * rng.uniform(5, 8) / ahead), q=numbers(rng.normal(size=d)))


def _without_first_order(_: lemma3_key.KeyLemmaCase, seen: lemma3_key.KeyLemmaTerms) -> lemma3_key.KeyLemmaTerms:
    """The covariance itself in place of what is left of it beside the sum of first order."""
    return replace(seen, remainder=seen.covariance)


def _lemma_5(rng: Stream) -> Problem:
    data, pi = two_scores(rng, 1, int(rng.integers(2, 5)), 3), float(rng.uniform(0.05, 1.0))
    best = att_svm(data, optimal_selection(data))
    if best.status is not Status.OPTIMAL:
        return Problem(sequences=data, pi=pi, p=numbers(_unit(rng, 3)))
    p = best.direction + 10.0 ** rng.uniform(-3, 0) * rng.normal(size=3)  # where the two descents are nearly the same
    norm = lemma5_correlation.correlation_radius(data, pi) * rng.uniform(1.001, 3)
    return Problem(sequences=data, pi=pi, p=numbers(norm * p / np.linalg.norm(p)))


def _lemma_7(rng: Stream) -> Problem:
    data, solution = _local(rng, ((1, 4, 3), (2, 3, 3))[int(rng.integers(2))])
    if solution is None:
        return Problem(sequences=data, selection=any_selection(rng, data), p=numbers(_unit(rng, 3)), q=(1.0, 0.0, 0.0))
    constants = cone_constants(solution)
    norms = np.array([constants.radius * rng.uniform(1.001, 10.0), 1.0, 1.0, 1.0])
    p, _, _, q = points_of_cone(solution.direction, constants.mu, norms, int(rng.integers(2**31)))
    return Problem(sequences=data, selection=solution.selection, p=numbers(p), q=numbers(q))


def _lemma_7_l3(rng: Stream) -> Problem:
    data, solution = _local(rng, ((1, 4, 3), (2, 3, 3))[int(rng.integers(2))])
    pi = float(rng.uniform(0.02, 1.0))
    if solution is None:
        return Problem(sequences=data, selection=any_selection(rng, data), p=numbers(_unit(rng, 3)), pi=pi)
    constants = cone_constants(solution)
    norms = max(lemma7_cone.comparison_radius(solution, pi), constants.radius) * rng.uniform(1.001, 10.0, size=1)
    p = points_of_cone(solution.direction, constants.mu, norms, int(rng.integers(2**31)))[0]
    return Problem(sequences=data, selection=solution.selection, p=numbers(p), pi=pi)


def _lemma_8(rng: Stream) -> Problem:
    data = scored(rng, *((1, 4, 3), (2, 3, 3))[int(rng.integers(2))])
    u = att_svm(data, any_selection(rng, data))
    near = u.direction if u.status is Status.OPTIMAL else _unit(rng, 3)
    p, q = (x / np.linalg.norm(x) for x in near + 0.3 * rng.normal(size=(2, 3)))
    seen = [directional_margin(data, x) for x in (q, p)]
    if seen[0].margin > seen[1].margin:
        p, q, seen = q, p, seen[::-1]
    alike = seen[0].selection.is_single and seen[0].selection == seen[1].selection
    case = lemma8_dominance.DominanceCase(data, numbers(q), numbers(p), 1.0)
    radius = lemma8_dominance.dominance_radius(case) if alike and seen[0].margin < seen[1].margin else 1.0
    return Problem(sequences=data, q=numbers(q), p=numbers(np.fmin(radius, 1e9) * rng.uniform(1.001, 3) * p))


def _law(
    claim: Claim[Any, Any],
    says: str,
    draw: Callable[[Stream], Problem],
    mutations: dict[str, Mutation] | None = None,
    asides: tuple[Aside, ...] = (),
) -> Law:
    """A law of problems, of which the claim makes its instances."""
    times = 2 if claim in _BRACKETED else 1
    return Law(claim.key, says, lambda rng: claim.instance_of(draw(rng)), mutations or {}, times, asides)


_SCORED = "keys N(0, I), scores N(0, 1), random labels, "
_LOCAL = _SCORED + "one of the locally optimal selections with a neighbour in every input, "

#: Claims on global minimisers, which are bracketed rather than found: twice as many are drawn.
_BRACKETED = (joint.THEOREM_5, joint.THEOREM_6, joint.THEOREM_6_ONLY_IF)

LAWS: tuple[Law, ...] = (
    _law(paths.THEOREM_1, _SCORED + "(n, T, d) = (2, 3, 2).", lambda rng: Problem(sequences=scored(rng, 2, 3, 2))),
    _law(
        convergence.THEOREM_2,
        "keys N(0, I), one token of each input 0.2 to 1.2 above the shared score of the rest, random labels, (n, T, d) "
        "= (1, 4, 2) or (2, 3, 3), start N(0, I).",
        _theorem_2,
        {"|p| stays bounded": _bounded, "another direction (n = 1)": _turned_aside},
    ),
    _law(
        convergence.THEOREM_3,
        _LOCAL + "(n, T, d) = (1, 4, 2) or (2, 3, 3), start on the border of its cone at 1 to 10 R.",
        _theorem_3,
        {"another direction": _another_limit},
        tuple(applies_far_along(shape) for shape in FAR_SHAPES),
    ),
    _law(
        paths.THEOREM_4,
        _SCORED + "(n, T, d) = (1, 4, 2) or (2, 3, 2), the axis is the max-margin direction of random tokens.",
        _theorem_4,
    ),
    _law(
        joint.THEOREM_5,
        "tokens on the circle, n = d = 2, T = 3, others 0.2 to 0.8 times as long as the first, which is selected, "
        "start 0.3 N(0, I) from the max-margin directions, |v| growing 10^(-1/2) to 10^(1/2) times as fast as |p|.",
        _theorem_5,
    ),
    _law(
        joint.THEOREM_6,
        "tokens N(0, I), n = 3, T = d = 2, the selection of largest label margin, start 0.3 N(0, I) from the "
        "max-margin directions, |v| growing at 1 to 3 times the relaxing rate.",
        _theorem_6,
    ),
    _law(joint.FLOW_5, "as for Theorem 5.", _theorem_5),
    _law(joint.FLOW_6, "as for Theorem 6.", _theorem_6),
    _law(
        joint.THEOREM_6_ONLY_IF,
        "as for Theorem 6, |v| growing at 0.2 to 0.9 times the relaxing rate.",
        lambda rng: _theorem_6(rng, 0.2, 0.9),
    ),
    _law(
        paths.THEOREM_7, _SCORED + "(n, T, d) = (1, 4, 2) or (2, 3, 2), the axis is a random unit vector.", _theorem_7
    ),
    _law(
        heads.THEOREM_8,
        "psi(z) = |G z|^2 + b'z with G 0.4 N(0, 1) and b N(0, I), tokens N(0, I) of width 3, keys N(0, I) of width 2, "
        "n = 2, T = 3, labels 1.",
        _heads,
    ),
    _law(
        lemma2.LEMMA_2,
        "tokens N(0, I) of width 4, n from 1 to 5, T from 2 to 4, v N(0, I), W of rank 1 to 3 with v in its row space.",
        _lemma_2,
        {"no separator": lambda _, seen: replace(seen, status=Status.INFEASIBLE), "1% too long": _too_long},
    ),
    _law(
        lemma3_key.LEMMA_3,
        "one input of 2 to 5 tokens, keys N(0, I) of width 1 to 3, scores N(0, 1), p in a random direction, the "
        "token that it prefers first and 5 to 8 ahead of the next, q N(0, I).",
        _lemma_3,
        {
            "last display as printed": lambda _, seen: replace(seen, display=seen.printed_display),
            "no sum of first order": _without_first_order,
        },
    ),
    _law(
        lemma5_correlation.LEMMA_5,
        "one input of 2 to 4 tokens of two scores, keys N(0, I) of width 3, pi from 0.05 to 1, p 0.001 to 1 times "
        "N(0, I) from the max-margin direction, at 1 to 3 R_pi.",
        _lemma_5,
    ),
    _law(
        lemma7_cone.LEMMA_7,
        _LOCAL + "(n, T, d) = (1, 4, 3) or (2, 3, 3), p at 1 to 10 R and q, both on the border of the cone.",
        _lemma_7,
    ),
    _law(
        lemma7_cone.LEMMA_7_COMPARISON,
        _LOCAL + "(n, T, d) = (1, 4, 3) or (2, 3, 3), pi from 0.02 to 1, p on the border of the cone at 1 to 10 R_pi.",
        _lemma_7_l3,
    ),
    _law(
        lemma8_dominance.LEMMA_8,
        _SCORED
        + "(n, T, d) = (1, 4, 3) or (2, 3, 3), two directions 0.3 N(0, I) from a max-margin one, at 1 to 3 R(.).",
        _lemma_8,
    ),
    _law(heads.LEMMA_14, "as for Theorem 8.", _heads),
)
