"""Theorems 2 and 3 of [M] as they are stated: descent with a step of 1/L_p, and a cone of the theorem's own radius."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.instances import fig1a, fig1b, planar, random_sphere
from tokenmargin.attention import AttentionRisk, Flow, exponential, follow, logistic
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import att_svm, local_margins
from tokenmargin.papers.maxmargin._cones import cone_constants, in_cone
from tokenmargin.papers.maxmargin.claims.cone_radius import (
    POINTS,
    cone_radius,
    descent_in_cone,
    needed_radius,
    points_of_cone,
)
from tokenmargin.papers.maxmargin.claims.thm2_3_convergence import (
    IS_THE_FLOW,
    THEOREM_2,
    THEOREM_3,
    Run,
    descent_limits,
    hessian_norm,
)
from tokenmargin.theory import one_minus_cosine
from tokenmargin.theory.claim import Applies


def far_beyond_lemma_7() -> EmbeddedSequences:
    """Token 0 is locally optimal; just beyond R of (39), on the axis of its cone, descent goes to token 3."""
    return planar([[(1, -1), (0, -2), (0, -0.999), (-1.05, 5)]], [[0.0, -1.0, -0.01, 1.0]])


def solved(data=None, token=0):
    data = far_beyond_lemma_7() if data is None else data
    return att_svm(data, Selection.from_indices([token], data.n_places))


def in_the_plane(solution, norm, share):
    """A point of that norm at a share of the half-angle of the cone."""
    angle, u = share * np.arccos(1 - cone_constants(solution).mu), solution.direction
    return tuple((norm * (np.cos(angle) * u + np.sin(angle) * np.array([-u[1], u[0]]))).tolist())


class TestRadius:
    def test_lemma_7_s_radius_is_not_enough(self):
        solution = solved()
        found = cone_radius(solution)
        assert found.lemma_7 == pytest.approx(24.95, abs=0.01)
        start = 1.01 * found.lemma_7 * solution.direction
        assert in_cone(start, solution.p, found.mu, found.lemma_7)
        limit = follow(AttentionRisk(solution.sequences), start, Flow()).limit
        assert limit.diverges
        assert limit.selection == Selection.from_indices([3], 4)
        assert THEOREM_3.check(Run(solution.sequences, tuple(start.tolist()), solution.selection)).applies is Applies.NO

    def test_terms_by_hand(self):
        """Theta = 1, A = |k_3|, T = 4, Gamma = 2, smallest gap 0.01, delta = .525: (46), (49) and its companion."""
        found, A = cone_radius(solved()), np.hypot(1.05, 5)
        mu = (0.5 / A) ** 2 / 8
        assert found.mu == pytest.approx(mu)
        pi = mu / (2 - mu)
        ratio, nu = 4 * 2 * A / (pi * 0.01), pi**2 / (64 * A**2)
        assert found.perturbation == pytest.approx(2 * np.log(96 * ratio))
        assert found.aside == pytest.approx(np.log(8 * ratio) / nu)
        slopes = 1 / (1 + np.exp(np.array([-1.0, 1.0])))
        assert found.uneven == pytest.approx(np.log(8 * 4 * ratio * slopes[0] / slopes[1]) / (pi / 2 + 2 * nu))
        assert found.theorem_3 == found.aside == pytest.approx(8.3e10, rel=0.01)

    def test_58_by_hand_and_in_the_unit_of_the_keys(self):
        """C = 2 max|l'| 1 and c = min|l'| .01/8; with 2|p| kept in (54b), R e^(R/2) = Z/2."""
        solution = solved()
        found, keys = cone_radius(solution), solution.sequences.keys[0]
        spread = max(np.linalg.norm(a - b) for a in keys for b in keys)
        slopes = 1 / (1 + np.exp(np.array([-1.0, 1.0])))
        C, c = 2 * slopes.max(), slopes.min() * 0.01 / 8
        L = AttentionRisk(solution.sequences).smoothness
        Z = (2 - found.mu) / found.mu * (1 - found.mu) * (spread * C) ** 2 / c * 4 / L
        assert found.step_as_printed == pytest.approx(2 * np.log(Z))
        assert found.step * np.exp(found.step / 2) == pytest.approx(Z / 2)
        assert found.theorem_3 <= found.theorem_3_as_printed

    def test_57_at_its_smallest_constant_is_39_and_the_closing_display_omits_49(self):
        """C_0 = 64 mu/(2 - mu) in (57) leaves 64 T Gamma A/gap; with the C_0 that (46) needs it is still 1e9 short."""
        for data, token in ((far_beyond_lemma_7(), 0), (fig1b(), 1)):
            solution = solved(data, token)
            constants, found = cone_constants(solution), cone_radius(solution)
            ratio = data.n_places * constants.score_spread * constants.key_norm / constants.score_gap
            scale = max(2.0, 1 / constants.delta) / constants.margin

            def display(C_0, scale=scale, ratio=ratio, mu=found.mu):
                return scale * np.log((2 - mu) / mu * C_0 * ratio)

            assert display(64 * found.mu / (2 - found.mu)) == pytest.approx(found.lemma_7)
            closing = max(display(96.0), scale * found.step_as_printed * constants.margin / 2)
            assert closing < 1e-6 * found.aside

    @pytest.mark.parametrize("k", [-40, -7, 13, 40])
    def test_keys_in_another_unit_scale_every_radius(self, k):
        solution = solved()
        data = solution.sequences
        scaled = EmbeddedSequences(data.tokens, data.labels, data.head, keys=2.0**k * data.keys)
        here, there = cone_radius(solution), cone_radius(solved(scaled))
        for name in ("lemma_7", "perturbation", "aside", "uneven", "step"):
            assert 2.0**k * getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-9), name


class TestDescentInTheCone:
    @pytest.mark.parametrize("loss", [logistic, exponential])
    def test_53_and_55_hold_beyond_the_radius(self, loss, rng):
        """On random problems too, at norms where p is rounded by more than a step of descent."""
        seen = 0
        while seen < 5:
            for solution in local_margins(random_sphere(rng, n=2, T=3, d=3)):
                if cone_constants(solution).every_input_has_neighbors:
                    found = cone_radius(solution, loss)
                    norms = found.theorem_3 * np.geomspace(1, 10, POINTS)
                    points = points_of_cone(solution.direction, found.mu, norms)
                    assert all(in_cone(p, solution.p, found.mu, 0.999 * found.theorem_3) for p in points)
                    descent = descent_in_cone(solution, found.mu, points, loss)
                    assert not descent.turn.any()
                    assert not descent.leave.any()
                    assert not descent.stationary.any()
                    seen += 1

    def test_they_fail_closer_in(self):
        """Just beyond (39) descent turns away from the axis, and closer still it is uphill along it."""
        solution = solved()
        found = cone_radius(solution)
        points = points_of_cone(solution.direction, found.mu, np.full(30, 1.01 * found.lemma_7))
        assert (descent_in_cone(solution, found.mu, points).turn > 0).any()
        origin = descent_in_cone(solution, found.mu, points_of_cone(solution.direction, found.mu, np.full(30, 0.1)))
        assert origin.stationary.all()
        assert np.isinf(origin.turn).all()

    def test_no_descent_along_the_axis_is_stationary(self):
        """p on the third axis, along which no key lies: all are attended to alike, and nothing pulls along p_mm."""
        keys = np.array([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 1.0, 0.0]]])
        solution = solved(EmbeddedSequences.from_scores(keys, np.array([[0.0, -1.0, 0.0]])))
        np.testing.assert_array_equal(solution.direction, [1.0, 0.0, 0.0])
        descent = descent_in_cone(solution, 0.01, np.array([[0.0, 0.0, 2.0]]))
        assert descent.stationary.all()
        assert np.isinf(descent.turn).all()
        assert np.isinf(descent.leave).all()

    def test_they_are_the_gradient_s_where_that_is_a_number(self):
        """At norm 8 nothing underflows: the textbook's gradient and one step of descent say the same."""
        solution = solved(fig1b(), 1)
        mu, risk = cone_radius(solution).mu, AttentionRisk(fig1b())
        eta, epsilon = 1 / risk.smoothness, mu / 2
        points = points_of_cone(solution.direction, mu, np.full(12, 8.0))
        descent = descent_in_cone(solution, mu, points)
        for p, turn, leave in zip(points, descent.turn, descent.leave, strict=True):
            down = -risk.gradient(p)
            along = down @ solution.direction
            assert turn == pytest.approx(max(0.0, (1 - epsilon) * down @ p / 8.0 / along - 1), abs=1e-12)
            rho = along / (1 - epsilon)
            room = np.log(rho * (mu - epsilon)) - np.log(eta * (1 - mu) * down @ down / (2 * 8.0))
            assert leave == pytest.approx(max(0.0, -room), abs=1e-9)

    def test_what_would_do_is_far_less(self):
        solution = solved()
        found = cone_radius(solution)
        needed = needed_radius(solution, found)
        assert needed.lemma_7 < found.lemma_7 < needed.theorem_3 < 1e-6 * found.theorem_3
        points = points_of_cone(solution.direction, found.mu, np.full(51, needed.theorem_3))
        assert not descent_in_cone(solution, found.mu, points, logistic).stationary.any()


class TestTheorem3:
    @pytest.mark.parametrize("share", [-0.999, 0.0, 0.999])
    def test_the_flow_from_the_border_of_the_true_cone(self, share):
        solution = solved()
        start = in_the_plane(solution, 1.001 * cone_radius(solution).theorem_3, share)
        outcome = THEOREM_3.check(Run(solution.sequences, start, solution.selection))
        assert outcome.applies is Applies.YES
        assert outcome.holds is True

    def test_descent_that_left_the_cone_would_refute_it(self):
        run = THEOREM_3.inside()
        seen = THEOREM_3.observe(run)
        for name in ("turn", "leave"):
            off = replace(seen, descent=replace(seen.descent, **{name: np.full(POINTS, 1e-6)}))
            assert THEOREM_3.conclude(run, off).holds is False

    @given(st.integers(-40, 40))
    @example(-40)
    @example(40)
    @settings(max_examples=3)
    def test_the_unit_of_the_keys_changes_no_verdict(self, k):
        for run in (THEOREM_3.inside(), THEOREM_3.outside()):
            data = run.sequences
            scaled = EmbeddedSequences(data.tokens, data.labels, data.head, keys=2.0**k * data.keys)
            start = tuple((np.array(run.start) / 2.0**k).tolist())
            here, there = THEOREM_3.check(run), THEOREM_3.check(replace(run, sequences=scaled, start=start))
            assert (there.applies, there.holds) == (here.applies, here.holds)


class TestTheorem2:
    def problem(self, rng, n):
        """Assumption B: one optimal token an input, the others of one score; separable for d >= n (T - 1)."""
        gamma = np.where(np.arange(3) == 0, 1.0, np.repeat(rng.normal(size=(n, 1)) - 2, 3, axis=1))
        return EmbeddedSequences.from_scores(rng.normal(size=(n, 3, 6)), gamma)

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_descent_at_both_steps_and_the_flow_agree_from_any_start(self, rng, n):
        descended = 0
        for scale in (0.0, 0.3, 2.0, 10.0):
            run = Run(self.problem(rng, n), tuple((scale * rng.normal(size=6)).tolist()))
            outcome = THEOREM_2.check(run)
            assert outcome.applies is Applies.YES
            assert outcome.holds is True
            limits = descent_limits(run)
            for limit in limits:
                assert limit.selection == limits[-1].selection
                assert one_minus_cosine(limit.velocity, limits[-1].velocity) < 1e-12
            risk = AttentionRisk(run.sequences)
            descended += hessian_norm(risk, np.array(run.start)) / risk.smoothness > IS_THE_FLOW
        assert descended >= 1  # else descent is the flow from the start on, and nothing was tried

    def test_one_way_that_turns_back_refutes_it(self):
        run = Run(fig1a(), (0.0, -1.5))
        limits = descent_limits(run)
        assert THEOREM_2.conclude(run, limits).holds is True
        for j in range(len(limits)):
            other = list(limits)
            other[j] = replace(limits[j], velocity=-limits[j].velocity)
            assert THEOREM_2.conclude(run, tuple(other)).holds is False

    def test_descent_that_never_becomes_the_flow_decides_nothing(self):
        assert not THEOREM_2.settled((None, *descent_limits(Run(fig1a(), (0.0, -1.5)))[1:]))

    def test_the_hessian_is_that_of_the_risk(self, rng):
        risk = AttentionRisk(self.problem(rng, 2))
        p, h = rng.normal(size=6), 1e-5
        columns = [(risk.gradient(p + h * e) - risk.gradient(p - h * e)) / (2 * h) for e in np.eye(6)]
        assert hessian_norm(risk, p) == pytest.approx(np.linalg.norm(np.array(columns), ord=2), rel=1e-7)
        assert hessian_norm(risk, p) <= risk.smoothness
