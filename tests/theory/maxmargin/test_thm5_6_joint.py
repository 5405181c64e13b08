"""Theorems 5 and 6, Assumption C, and the regimes between the strict and the relaxed problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import fig3, random_sphere
from tokenmargin.attention import Flow, NormalizedDescent, Outcome, follow, joint_path
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import label_svm, rate_direction, relaxed_svm, relaxing_rate
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


def sampled_nu(data, selection, rng, count=400):
    """The largest nu that no sampled attention contradicts; attention is sampled freely, which only lowers it."""
    best = np.inf
    gamma = label_svm(data.tokens[np.arange(data.n_inputs), selection.indices], data.labels).label_margin
    for _ in range(count):
        attention = rng.dirichlet(np.full(data.n_places, rng.choice([0.1, 0.5, 2.0])), size=data.n_inputs)
        mixed = 1 - attention[selection.chosen].min()
        margin = label_svm(np.einsum("nt,ntk->nk", attention, data.tokens), data.labels).label_margin
        best = min(best, (gamma - margin) / mixed)
    return best


class TestAssumptionC:
    def test_the_papers_example(self, rng):
        a, labels = np.array([1.0, 2.0]), np.array([1, -1, 1, 1])
        tokens = rng.normal(size=(4, 3, 2))
        tokens *= 0.9 * np.linalg.norm(a) / np.linalg.norm(tokens, axis=-1, keepdims=True)
        tokens[:, 0] = labels[:, None] * a
        selection, papers_nu = Selection.from_indices([0] * 4, 3), 0.1 * np.linalg.norm(a)
        found = assumption_c(EmbeddedSequences(tokens, labels, a), selection)
        assert found.applies is Applies.YES
        assert found.nu >= papers_nu * (1 - 1e-9)  # tokens that point elsewhere leave room for more
        tokens[:, 1:] = 0.9 * tokens[:, :1]  # tokens that do not: the paper's nu is the best there is
        tight = assumption_c(EmbeddedSequences(tokens, labels, a), selection)
        assert tight.nu == pytest.approx(papers_nu, rel=1e-9)

    def test_figure_3(self):
        holds = assumption_c(fig3(A), OPTIMAL)
        assert holds.applies is Applies.YES
        assert 0 < holds.nu < holds.label_margin
        fails = assumption_c(fig3(B), OPTIMAL)
        assert fails.applies is Applies.NO
        assert fails.violation is not None
        assert assumption_c(*on_support(fig3(B), OPTIMAL)).applies is Applies.YES

    def test_the_ray_refutes_every_nu(self):
        data, found = fig3(B), assumption_c(fig3(B), OPTIMAL)
        rates = []
        for scale in (5.0, 10.0, 15.0):
            attention = JointRisk(data).attention(scale * found.violation)
            margin = label_svm(np.einsum("nt,ntk->nk", attention, data.tokens), data.labels).label_margin
            rates.append((found.label_margin - margin) / (1 - attention[:, 1].min()))
        assert rates[0] > rates[1] > rates[2]
        assert rates[2] < 1e-3

    def test_a_certified_nu_is_never_contradicted(self, rng):
        proved = 0
        for _ in range(30):
            data = random_sphere(rng, n=2, T=3, d=3)
            tokens = data.tokens.copy()
            tokens[:, 1:] *= 0.4
            data = EmbeddedSequences(tokens, data.labels, data.head)
            selection = Selection.from_indices([0, 0], 3)
            found = assumption_c(data, selection)
            if found.applies is Applies.YES:
                proved += 1
                assert sampled_nu(data, selection, rng, 30) >= found.nu - 1e-9
        assert proved >= 10

    def test_a_better_token_refutes_it(self):
        data = fig3(A)
        tokens = np.concatenate([data.tokens, 3 * data.tokens[:, 1:]], axis=1)
        longer = EmbeddedSequences(tokens, data.labels, data.head)
        found = assumption_c(longer, Selection.from_indices([1, 1, 1], 3))
        assert found.applies is Applies.NO
        assert found.violation is not None

    def test_inseparable_labels_refute_it(self):
        assert assumption_c(fig3(A), Selection.from_indices([0, 1, 1], 2)).applies is Applies.NO
        with pytest.raises(InvalidInputError, match="support"):
            on_support(fig3(A), Selection.from_indices([0, 1, 1], 2))

    def test_undecided_is_said(self):
        """Mixing in a copy of the selected token costs nothing, on a support vector: neither proof sees it."""
        tokens = np.array([[[0.0, 1.0], [0.0, 1.0]], [[0.0, -1.0], [0.0, -0.5]]])
        keys = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
        data = EmbeddedSequences(tokens, [1, -1], [0.0, 1.0], keys)
        assert assumption_c(data, Selection.from_indices([0, 0], 2)).applies is Applies.NOT_DECIDED

    def test_wrong_trial_points_are_named(self):
        with pytest.raises(InvalidInputError, match="trial_points"):
            assumption_c(fig3(A), OPTIMAL, np.zeros((2, 5)))
