"""Attention behind nonlinear heads: when mixing hurts, and where the regularisation path goes [M, App. D]."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attention.test_heads import TransformerHead
from tests.instances import fig1c
from tokenmargin import EmbeddedSequences, NormalizedDescent, global_margin
from tokenmargin.attention import follow
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import LinearHead, QuadraticHead, ReLUHead
from tokenmargin.data import Selection, optimal_selection
from tokenmargin.margin.any_of import att_svm_any
from tokenmargin.papers.maxmargin.claims._convex_heads import mixing_by_convexity
from tokenmargin.papers.maxmargin.claims._path_bound import BoundedPath, look
from tokenmargin.papers.maxmargin.claims.thm8_lemma14_heads import (
    LEMMA_14,
    THEOREM_8,
    HeadCase,
    mixing_constants,
    mixing_hurts,
    random_head_case,
    two_ways,
)
from tokenmargin.theory.claim import Applies


def best_tokens(sequences: EmbeddedSequences, head) -> HeadCase:
    risk = HeadRisk(sequences, head)
    return HeadCase(risk, Selection(risk.scores == risk.scores.max(axis=1, keepdims=True)))


def appendix_d() -> HeadCase:
    """Keys 1 and -1 optimal, 0 not: minimisers +1 and -1."""
    tokens = [[[1.0], [1.0], [0.5]]]
    sequences = EmbeddedSequences(tokens, [1], [1.0], keys=[[[1.0], [-1.0], [0.0]]])
    return HeadCase(HeadRisk(sequences, LinearHead([1.0])), Selection([[True, True, False]]))


def mixing_helps() -> HeadCase:
    """psi(z) = 1 - z^2 of tokens 0.5 and -0.6: the mixture 0 beats both."""
    sequences = EmbeddedSequences([[[0.5], [-0.6]]], [1], [1.0], keys=[[[1.0], [0.0]]])
    return best_tokens(sequences, QuadraticHead([[-1.0]], [0.0], 1.0))


def test_the_path_approaches_one_of_two_minimisers_like_one_over_the_norm():
    case = two_ways()
    solution = att_svm_any(case.risk.sequences, case.allowed)
    np.testing.assert_allclose(np.sort(solution.minimisers[:, 0]), [-0.75, 0.75], rtol=1e-9)
    np.testing.assert_allclose(solution.minimisers[:, 1], [5 / 6, 5 / 6], rtol=1e-9)
    seen = THEOREM_8.observe(case)
    distances = [solution.distance(p / level) for p, level in zip(seen.points, seen.levels, strict=True)]
    assert distances[0] / distances[1] == pytest.approx(10, rel=0.05)
    assert distances[1] / distances[2] == pytest.approx(10, rel=0.05)
    assert seen.unaided


def test_the_path_is_a_minimiser_of_the_risk_itself(rng):
    """At a moderate norm the risk is a number one can compare directly."""
    case, R = two_ways(), 6.0
    constants = mixing_constants(case)
    path = BoundedPath(case.risk, case.allowed, constants.lower, constants.upper)
    best = case.risk.value(look(path, levels=(R * path.solution.margin,)).points[0])
    points = rng.normal(size=(200, 2))
    points *= (R * np.sqrt(rng.random(200)) / np.linalg.norm(points, axis=1))[:, None]
    assert best < min(case.risk.value(p) for p in points)


def test_a_linear_head_gives_theorem_1():
    case = best_tokens(fig1c(), LinearHead(fig1c().head))
    assert case.allowed == optimal_selection(fig1c())
    assert THEOREM_8.check(case).holds is True
    last = THEOREM_8.observe(case).points[-1]
    np.testing.assert_allclose(last / np.linalg.norm(last), global_margin(fig1c()).direction, atol=1e-3)


def test_in_one_dimension_the_path_may_go_either_way():
    case = appendix_d()
    outcome = THEOREM_8.check(case)
    assert outcome.applies is Applies.YES
    assert outcome.holds is True
    assert np.abs(THEOREM_8.observe(case).points[0]).tolist() == [100.0]


def test_a_convex_relu_head_is_decided_and_a_transformer_is_not(rng):
    sequences = EmbeddedSequences(rng.normal(size=(2, 3, 2)), [1, 1], [1.0, 1.0])
    relu = ReLUHead(rng.normal(size=(4, 2)), rng.random(4), rng.random(4) + 0.1)
    assert mixing_hurts(best_tokens(sequences, relu))[0] is Applies.YES
    transformer = TransformerHead.random(jax.random.key(3), 2)
    shifted = best_tokens(sequences, transformer)
    assert mixing_constants(shifted) is None
    assert mixing_hurts(shifted)[0] is not Applies.YES
    assert THEOREM_8.check(shifted).applies is not Applies.YES


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_lemma_14_sandwiches_the_risk_of_convex_heads(seed):
    rng = np.random.default_rng(seed)
    sequences = EmbeddedSequences(rng.normal(size=(2, 3, 2)), [1, 1], [1.0, 1.0])
    factor = rng.normal(size=(2, 2))
    case = best_tokens(sequences, QuadraticHead(factor @ factor.T, rng.normal(size=2), 5.0))
    constants = mixing_constants(case)
    assert constants is not None
    sign, size, log_q = case.risk.log_excess(rng.normal(size=(64, 2)) * 10, case.allowed)
    assert (sign > 0).all()
    assert (np.log(constants.lower) - 1e-9 <= size - log_q).all()
    assert (size - log_q <= np.log(constants.upper) + 1e-9).all()


@pytest.mark.parametrize("beyond", [0.0, 0.5, 2.0])
def test_a_risk_outside_the_sandwich_is_a_miss_by_as_much_on_either_side(beyond):
    """Shifted as a whole, so that Assumption D, which compares risks with one another, still holds."""
    case = two_ways()
    seen, constants = LEMMA_14.observe(case), mixing_constants(case)
    share = seen.log_excess - seen.log_q
    low = np.log(constants.lower) - share.min() - beyond
    high = np.log(constants.upper) - share.max() + beyond
    for shift in (low, high):
        shifted = replace(seen, log_excess=seen.log_excess + shift)
        assert LEMMA_14.error(case, shifted) == pytest.approx(beyond, abs=1e-12)


def test_where_mixing_helps_the_lemma_is_silent_and_descent_stays_finite():
    case = mixing_helps()
    assert LEMMA_14.check(case).applies is Applies.NO
    assert THEOREM_8.check(case).applies is Applies.NO
    path = follow(case.risk, [5.0], NormalizedDescent(0.05), steps=400).points
    # z = 0.5 s - 0.6 (1 - s) = 0 at s = 6/11, a logit of log(6/5)
    assert path[-1, 0] == pytest.approx(np.log(6 / 5), abs=0.05)


#: How much of the slack may be rounding.
ROUNDING_OF = {LEMMA_14.key: 0.0, THEOREM_8.key: THEOREM_8.tolerance}


def in_units(case: HeadCase, unit: float) -> HeadCase:
    """The same case with keys `unit` times as large."""
    data = case.risk.sequences
    scaled = EmbeddedSequences(data.tokens, data.labels, data.head, keys=unit * data.keys, mask=data.mask)
    return HeadCase(HeadRisk(scaled, case.risk.head), case.allowed)


@pytest.mark.parametrize("k", [-20, 20])
@pytest.mark.parametrize("claim", [LEMMA_14, THEOREM_8], ids=["Lemma 14", "Thm 8"])
def test_the_unit_of_the_keys_changes_no_verdict(claim, k):
    for case in (two_ways(), two_ways(rest_score=0.8), two_ways(rest_score=0.76), appendix_d(), mixing_helps()):
        here, there = claim.check(case), claim.check(in_units(case, 2.0**k))
        assert (there.applies, there.holds) == (here.applies, here.holds)
        # That of Theorem 8 is all of its tolerance but for rounding.
        np.testing.assert_allclose(there.slack, here.slack, rtol=1e-6, atol=ROUNDING_OF[claim.key])
    assert claim.check(in_units(two_ways(), 0.01)).holds
    scaled = in_units(two_ways(), 2.0**k)
    assert not claim.conclude(scaled, claim.mutate(claim.observe(scaled))).holds


@pytest.mark.parametrize(("claim", "step"), [(LEMMA_14, 1), (THEOREM_8, 40)], ids=["Lemma 14", "Thm 8"])
def test_every_power_of_two_as_the_unit_of_the_keys(claim, step):
    """The keys' unit is a power of two, which rounds nothing, so that what is left of the tolerance is the same."""
    here = claim.check(two_ways())
    assert here.holds
    for k in range(-40, 41, step):
        there = claim.check(in_units(two_ways(), 2.0**k))
        assert (there.applies, there.holds) == (here.applies, here.holds), k
        assert there.slack == pytest.approx(here.slack, rel=1e-9), k


def test_lemma_14_where_nothing_can_be_separated_is_not_decided():
    """(85) holds, but no p drives the attention outside O_i down, so no pair of points tests Assumption D."""
    outcome = LEMMA_14.check(two_ways(second_key=(0.05, -0.4)))
    assert outcome.applies is Applies.NOT_DECIDED
    assert outcome.holds is None


@pytest.mark.parametrize(
    ("case", "applies"),
    [
        (lambda: HeadCase(two_ways().risk, Selection(np.ones((2, 3), dtype=bool))), Applies.NO),
        (lambda: best_tokens(two_ways().risk.sequences, LinearHead([0.0, -1.0, 0.0])), Applies.NO),
        (lambda: two_ways(rest_score=0.74), Applies.YES),
        (lambda: two_ways(rest_score=0.76), Applies.NO),
    ],
    ids=["everything optimal", "negative scores", "just below", "just above"],
)
def test_hypotheses_of_lemma_14(case, applies):
    assert mixing_hurts(case())[0] is applies


def test_a_head_not_constant_between_optimal_tokens_is_not_accepted():
    """z_2^2 gives both optimal tokens the same score and their midpoint another."""
    case = two_ways()
    bent = HeadRisk(case.risk.sequences, QuadraticHead(np.diag([1.0, 0.0, 0.1]), [0.0, 1.0, 0.0]))
    assert bent.scores[0, 0] == bent.scores[0, 1]
    assert mixing_constants(HeadCase(bent, case.allowed)) is None


def test_theorem_8_in_three_dimensions():
    """Random problems of a named law; doubled distances fail, and so do constants that are not those of Lemma 14."""
    rng, held = np.random.default_rng(2023), 0
    while held < 3:
        case = random_head_case(rng)
        outcome = THEOREM_8.check(case)
        assert outcome.holds is not False
        if outcome.applies is not Applies.YES:
            continue
        held += 1
        assert case.risk.sequences.width == 3
        seen, constants = THEOREM_8.observe(case), mixing_constants(case)
        assert THEOREM_8.conclude(case, THEOREM_8.mutate(seen)).holds is False
        assert seen.miss(constants.upper, constants.lower) > 1


def test_theorem_8_needs_a_proof_of_85():
    """A head that is not known to be convex has no constants, so nothing is concluded from a search."""
    rng = np.random.default_rng(3)
    sequences = EmbeddedSequences(rng.normal(size=(1, 3, 2)), [1], [1.0, 1.0])
    head = ReLUHead(rng.normal(size=(4, 2)), rng.random(4), [1.0, 1.0, 1.0, -0.01])
    assert THEOREM_8.check(best_tokens(sequences, head)).applies is not Applies.YES


def test_theorem_8_where_only_the_search_of_the_simplex_proves_85():
    """Heads that bend either way: no convexity, one optimal token an input; yes, no and undecided all occur."""
    said = dict.fromkeys(Applies, 0)
    for number in range(12):
        rng = np.random.default_rng([8, number])
        matrix = 0.3 * rng.normal(size=(3, 3))
        sequences = EmbeddedSequences(
            rng.normal(size=(2, 3, 3)),
            rng.choice([-1.0, 1.0], size=2),
            rng.normal(size=3),
            keys=rng.normal(size=(2, 3, 2)),
        )
        risk = HeadRisk(sequences, QuadraticHead(matrix + matrix.T, sequences.head))
        case = HeadCase(risk, risk.optimal)
        outcome = THEOREM_8.check(case)
        said[outcome.applies] += 1
        if outcome.applies is Applies.YES:
            assert mixing_by_convexity(risk, case.allowed) is None
            assert outcome.holds
            assert THEOREM_8.error(case, THEOREM_8.mutate(THEOREM_8.observe(case))) > THEOREM_8.tolerance
    assert said[Applies.YES] >= 2
    assert said[Applies.NOT_DECIDED] < 12 - said[Applies.YES]
