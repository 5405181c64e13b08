"""Theorems 5 and 6, Assumption C, and the regimes between the strict and the relaxed problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import fig3
from tokenmargin.attention import Flow, NormalizedDescent, Outcome, follow, joint_path
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import rate_direction, relaxed_svm, relaxing_rate
from tokenmargin.theory import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.maxmargin.assumption_c import assumption_c, on_support
from tokenmargin.theory.maxmargin.thm5_6_joint import THEOREM_5, THEOREM_6

OPTIMAL = Selection.from_indices([1, 1, 1], 2)
START_V, START_P = (-1.0, 0.0), (0.0, -1.0)
A, B = (0.5, 1.0), (0.5, 1.5)


@pytest.mark.parametrize("rate_v", [0.1, 0.5, 5.0])
def test_theorem_5_holds_at_any_rate(rate_v):
    assert THEOREM_5.check(replace(THEOREM_5.inside(), rate_v=rate_v)).holds


def test_theorem_6_as_printed_is_false():
    """All printed hypotheses hold when |v| = |p|/2, and the limit is not the relaxed direction."""
    slow = THEOREM_6.outside()
    assert slow.selects
    assert assumption_c(*on_support(slow.sequences, slow.selection)).applies is Applies.YES
    assert THEOREM_6.conclude(slow, THEOREM_6.observe(slow)).holds is False
    direction = slow.trajectory.velocity_p
    np.testing.assert_allclose(direction, [0.995, 0.099], atol=5e-4)
    assert one_minus_cosine(direction, [1.25, 0.25]) > 1e-3


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8, 1.0, 3.0])
def test_the_flow_goes_where_the_rates_say(rate):
    data = fig3(B)
    run = follow(JointRisk(data, speeds=(rate, 1.0)), ((0.1, 1.0), (1.0, 0.1)), Flow())
    assert run.selection == OPTIMAL
    assert one_minus_cosine(run.velocity_p, rate_direction(data, OPTIMAL, rate)) <= SAME_DIRECTION


def test_growth_is_measured_in_label_margins():
    """Tokens twice as long beside the same keys: half the growth of |v| does the same."""
    data = fig3(B)
    longer = EmbeddedSequences(2 * data.tokens, data.labels, data.head, data.keys)
    assert relaxing_rate(longer, OPTIMAL) == pytest.approx(0.5, abs=1e-12)
    run = follow(JointRisk(longer, speeds=(0.25, 1.0)), ((0.1, 1.0), (1.0, 0.1)), Flow())
    assert one_minus_cosine(run.velocity_p, rate_direction(data, OPTIMAL, 0.5)) <= SAME_DIRECTION
    assert one_minus_cosine(run.velocity_p, rate_direction(longer, OPTIMAL, 0.25)) <= SAME_DIRECTION


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_so_do_the_minimisers_under_norm_constraints(rate):
    """The regularisation path itself, of which the theorems speak: with |v| = |p|/2 it is not relaxed either."""
    radii = 2.0 ** np.arange(17)
    for third in (A, B):
        data = fig3(third)
        path = joint_path(JointRisk(data), START_V, START_P, rate * radii, radii)
        assert path.outcome is Outcome.NORM_REACHED
        assert one_minus_cosine(path.points[-1], rate_direction(data, OPTIMAL, rate)) <= SAME_DIRECTION
        assert one_minus_cosine(path.heads[-1], [0, 1]) <= SAME_DIRECTION


def test_descent_at_equal_steps_goes_to_the_relaxed_direction():
    run = follow(JointRisk(fig3(B)), (START_V, START_P), NormalizedDescent(0.1), steps=1000)
    assert one_minus_cosine(run.points[-1], relaxed_svm(fig3(B), OPTIMAL).p) <= 1e-4
    assert one_minus_cosine(run.heads[-1], [0, 1]) <= 1e-4


def test_a_run_that_selects_other_tokens_is_outside():
    other = replace(THEOREM_5.inside(), selection=Selection.from_indices([0, 1, 1], 2))
    assert THEOREM_5.check(other).applies is Applies.NO
