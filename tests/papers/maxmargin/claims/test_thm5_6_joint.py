"""Theorems 5 and 6, Assumption C, and the regimes between the strict and the relaxed problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import fig3
from tokenmargin.attention import Flow, NormalizedDescent, follow
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import rate_direction, relaxed_svm, relaxing_rate
from tokenmargin.papers.maxmargin.claims.assumption_c import assumption_c, on_support
from tokenmargin.papers.maxmargin.claims.joint_balls import (
    joint_path,
    random_below_the_rate,
    random_equal_margins,
    random_spare_margins,
)
from tokenmargin.papers.maxmargin.claims.thm5_6_joint import (
    FLOW_5,
    FLOW_6,
    THEOREM_5,
    THEOREM_6,
    THEOREM_6_ONLY_IF,
    JointLimit,
)
from tokenmargin.theory import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies

OPTIMAL = Selection.from_indices([1, 1, 1], 2)
START_V, START_P = (-1.0, 0.0), (0.0, -1.0)
A, B = (0.5, 1.0), (0.5, 1.5)


@pytest.mark.parametrize("rate", [0.1, 0.5, 5.0, np.inf])
def test_theorem_5_holds_at_any_rate(rate):
    assert THEOREM_5.check(replace(THEOREM_5.inside(), rate=rate)).holds


def test_the_flow_of_theorem_5_at_another_rate():
    assert FLOW_5.check(replace(FLOW_5.inside(), rate_v=0.5)).holds


def test_theorem_6_as_printed_is_false():
    """All printed hypotheses hold when r = R/2, and no global minimiser goes to the relaxed direction."""
    slow = replace(THEOREM_6.inside(), rate=0.5)
    assert THEOREM_6.check(slow).applies is Applies.NO
    assert slow.selected[0] is Applies.YES
    assert assumption_c(*on_support(slow.sequences, slow.selection)).applies is Applies.YES
    assert THEOREM_6.conclude(slow, THEOREM_6.observe(slow)).holds is False
    assert THEOREM_6_ONLY_IF.check(slow).holds
    assert slow.bracket.least_direction_error(np.array([1.0, 0.0])) > 1e-3
    assert slow.bracket.least_direction_error(np.array([1.25, 0.25])) > 1e-3
    run = FLOW_6.outside()
    assert run.selects
    velocity = run.trajectory.limit.blocks["p"].velocity
    np.testing.assert_allclose(velocity, slow.bracket.point / slow.bracket.R, atol=1e-6)
    np.testing.assert_allclose(velocity, [0.995, 0.099], atol=5e-4)


DRAWS = {
    THEOREM_5: random_equal_margins,
    THEOREM_6: random_spare_margins,
    THEOREM_6_ONLY_IF: random_below_the_rate,
}


@pytest.fixture(scope="module", params=DRAWS, ids=lambda claim: claim.key)
def drawn(request):
    """A claim, and five instances inside its hypotheses, of one of its laws; a hundred are for the evidence."""
    claim, rng, found = request.param, np.random.default_rng(2023), []
    while len(found) < 5:
        case = DRAWS[claim](rng)
        if claim.hypotheses(case)[0] is Applies.YES:
            found.append(case)
    return claim, found


class TestRandomProblems:
    def test_the_claim_holds_and_its_mutations_fail(self, drawn):
        claim, cases = drawn
        for case in cases:
            bracket = claim.observe(case)
            assert claim.conclude(case, bracket).holds
            assert claim.conclude(case, claim.mutate(bracket)).holds is False
            assert claim.conclude(case, replace(bracket, head=-bracket.head)).holds is False
            other = Selection(np.roll(case.selection.chosen, 1, axis=1))
            assert claim.conclude(case, replace(bracket, selection=other)).holds is False
            assert claim.conclude(case, None).applies is Applies.NOT_DECIDED

    @pytest.mark.parametrize("change", ["shifted", "turned", "scaled"])
    def test_the_frame_of_the_keys_changes_no_verdict(self, drawn, change):
        claim, (case, *_) = drawn
        data, d = case.sequences, case.sequences.width
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
        keys = {"shifted": data.keys + 4.0, "turned": data.keys @ turn, "scaled": 2.0**30 * data.keys}[change]
        rate = case.rate * (2.0**30 if change == "scaled" else 1.0)
        moved = replace(case, sequences=EmbeddedSequences(data.tokens, data.labels, data.head, keys), rate=rate)
        here, there = claim.check(case), claim.check(moved)
        assert (there.applies, there.holds) == (here.applies, here.holds)
        assert moved.bracket.selection == case.bracket.selection
        assert there.slack == pytest.approx(here.slack, abs=1e-2 * claim.tolerance)


def test_a_bracket_too_wide_to_tell_decides_nothing():
    balls = THEOREM_5.inside()
    wide = replace(balls.bracket, radius=0.1 * balls.bracket.R)
    assert THEOREM_5.conclude(balls, wide).applies is Applies.NOT_DECIDED
    turned = replace(wide, point=balls.bracket.point[::-1])
    assert THEOREM_5.conclude(balls, turned).holds is False


def test_below_the_rate_minimisers_at_the_relaxed_direction_fail_however_near_it_is():
    """At .999 of the rate the two directions are nearer to one another than the tolerance."""
    balls = THEOREM_6_ONLY_IF.inside()
    relaxed = relaxed_svm(balls.sequences, balls.selection).direction
    between = rate_direction(balls.sequences, balls.selection, balls.rate)
    assert one_minus_cosine(relaxed, between) < THEOREM_6_ONLY_IF.tolerance
    there = replace(balls.bracket, point=balls.bracket.R * relaxed)
    assert THEOREM_6_ONLY_IF.conclude(balls, there).holds is False
    wide = replace(balls.bracket, radius=2e-3 * balls.bracket.R)  # holds both
    assert THEOREM_6_ONLY_IF.conclude(balls, wide).applies is Applies.NOT_DECIDED


def test_what_must_fail_is_a_little_aside_and_on_a_line_turned_back():
    """The nearer to the truth the mutation is, the more the tolerance says."""
    for attention in (np.array([3.0, 4.0]), np.array([0.0, -2.0, 0.0])):
        turned = FLOW_5.mutate(JointLimit(np.ones(2), attention)).attention
        assert one_minus_cosine(turned, attention) == pytest.approx(0.001**2 / 2, rel=1e-3)
    line = FLOW_5.mutate(JointLimit(np.ones(2), np.array([3.0]))).attention
    assert one_minus_cosine(line, [1.0]) == 2.0


def test_other_tokens_are_refused():
    """The theorems' tokens are not told to the search: others than those of the minimisers fail, or do not apply."""
    balls = THEOREM_5.inside()
    wrong = replace(balls, selection=Selection.from_indices([0, 1, 1], 2))
    assert THEOREM_5.check(wrong).applies is Applies.NO
    assert THEOREM_5.conclude(wrong, balls.bracket).holds is False


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8, 1.0, 3.0])
def test_the_flow_goes_where_the_rates_say(rate):
    data = fig3(B)
    run = follow(JointRisk(data, speeds=(rate, 1.0)), ((0.1, 1.0), (1.0, 0.1)), Flow())
    assert run.limit.selection == OPTIMAL
    assert one_minus_cosine(run.limit.blocks["p"].velocity, rate_direction(data, OPTIMAL, rate)) <= SAME_DIRECTION


def test_growth_is_measured_in_label_margins():
    """Tokens twice as long beside the same keys: half the growth of |v| does the same."""
    data = fig3(B)
    longer = EmbeddedSequences(2 * data.tokens, data.labels, data.head, data.keys)
    assert relaxing_rate(longer, OPTIMAL) == pytest.approx(0.5, abs=1e-12)
    run = follow(JointRisk(longer, speeds=(0.25, 1.0)), ((0.1, 1.0), (1.0, 0.1)), Flow())
    assert one_minus_cosine(run.limit.blocks["p"].velocity, rate_direction(data, OPTIMAL, 0.5)) <= SAME_DIRECTION
    assert one_minus_cosine(run.limit.blocks["p"].velocity, rate_direction(longer, OPTIMAL, 0.25)) <= SAME_DIRECTION


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_so_do_the_minimisers_under_norm_constraints(rate):
    """The regularisation path itself, of which the theorems speak: with |v| = |p|/2 it is not relaxed either."""
    radii = 2.0 ** np.arange(17)
    for third in (A, B):
        data = fig3(third)
        path = joint_path(JointRisk(data), START_V, START_P, rate * radii, radii)
        assert path.found
        assert one_minus_cosine(path.points[-1], rate_direction(data, OPTIMAL, rate)) <= SAME_DIRECTION
        assert one_minus_cosine(path.heads[-1], [0, 1]) <= SAME_DIRECTION


def test_descent_at_equal_steps_goes_to_the_relaxed_direction():
    run = follow(JointRisk(fig3(B)), (START_V, START_P), NormalizedDescent(0.1), steps=1000)
    assert one_minus_cosine(run.blocks["p"][-1], relaxed_svm(fig3(B), OPTIMAL).p) <= 1e-4
    assert one_minus_cosine(run.blocks["v"][-1], [0, 1]) <= 1e-4


def test_a_run_that_selects_other_tokens_is_outside():
    other = replace(FLOW_5.inside(), selection=Selection.from_indices([0, 1, 1], 2))
    assert FLOW_5.check(other).applies is Applies.NO
