"""Theorems 1 and 4 of [M] on paths, their hypotheses, and certificates of global optimality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.instances import fig1b, fig1c, planar, random_sphere, theorem2_counterexample
from tokenmargin.attention import AttentionRisk, CustomLoss, correlation
from tokenmargin.attention.regularization_path import local_path, regularization_path
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import TooLargeError
from tokenmargin.margin import att_svm_batch, feasible_selections, global_margin, is_locally_optimal, local_margins
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.claims.thm1_4_7_paths import (
    STAYS_AWAY,
    THEOREM_1,
    THEOREM_4,
    THEOREM_7,
    LocalPathCase,
    PathCase,
    converges_to_axis,
    decay_exponent,
    has_distinct_scores,
    in_general_position,
    share_to_lose,
)
from tokenmargin.theory import one_minus_cosine
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.path_optimality import PathVerdict, certify_path, enumerated_path

RADII = (1e2, 1e3, 1e4, 1e5)


@pytest.fixture(scope="module")
def narrow():
    """A problem whose globally optimal selection owns 5e-5 of the sphere."""
    return random_sphere(np.random.default_rng(0), 3, 4, 3)


class TestTheorem1:
    def test_decay_without_any_hint(self):
        path = regularization_path(fig1c(), radii=RADII)
        distances = [one_minus_cosine(p, global_margin(fig1c()).direction) for p in path.points]
        assert decay_exponent(path.radii[2:], distances[2:]) == pytest.approx(-2, abs=0.02)

    def test_decay_is_exponential_with_one_support_pair(self):
        path = regularization_path(fig1b(), radii=RADII)
        distances = [one_minus_cosine(p, global_margin(fig1b()).direction) for p in path.points]
        assert max(distances[1:]) < 1e-19  # R^-2 would leave 1e-10

    def test_negative_scores_do_no_harm(self):
        # The printed proof divides by the highest score; the conclusion does not need it to be positive.
        data = planar(fig1b().keys, [[-1.0, -1.1, -2.0]])
        outcome = THEOREM_1.check(PathCase(data))
        assert outcome.applies is Applies.YES
        assert outcome.holds

    def test_needs_one_best_token(self):
        outcome = THEOREM_1.check(PathCase(planar(fig1b().keys, [[1.0, 1.0, 0.0]])))
        assert outcome.applies is Applies.NO
        assert "share" in outcome.because

    def test_a_minimiser_that_was_not_found_decides_nothing(self):
        case = PathCase(fig1b())
        seen = THEOREM_1.observe(case)
        outcome = THEOREM_1.conclude(case, replace(seen, excess=seen.competitor + 1.0))
        assert outcome.applies is Applies.NOT_DECIDED
        assert outcome.holds is None
        assert "did not converge" in outcome.because

    def test_a_loss_of_unknown_slope_is_not_decided(self):
        outcome = THEOREM_1.check(PathCase(fig1b(), CustomLoss(lambda u: -u)))
        assert outcome.applies is Applies.NOT_DECIDED

    def test_on_random_problems_in_any_dimension(self):
        rng, widths = np.random.default_rng(2023), []
        while len(widths) < 4:
            shape = (2, 3, 2) if rng.random() < 1 / 2 else (3, 4, 4)
            case = PathCase(toys.random_sphere(rng, *shape))
            outcome = THEOREM_1.check(case)
            assert outcome.holds is not False
            if outcome.applies is Applies.YES:
                widths.append(case.sequences.width)
                assert THEOREM_1.conclude(case, THEOREM_1.mutate(THEOREM_1.observe(case))).holds is False
        assert max(widths) == 4

    def test_where_the_keys_lie_and_point_changes_no_verdict(self):
        data = fig1b()
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
        here = THEOREM_1.check(PathCase(data))
        for keys in (data.keys + 4.0, data.keys @ turn):
            moved = EmbeddedSequences(data.tokens, data.labels, data.head, keys=keys)
            there = THEOREM_1.check(PathCase(moved))
            assert (there.applies, there.holds) == (here.applies, here.holds)


@pytest.mark.parametrize("claim", [THEOREM_4, THEOREM_7], ids=["Thm 4", "Thm 7"])
def test_a_local_path_that_was_not_found_decides_nothing(claim):
    case = claim.inside()
    path = claim.observe(case)
    assert claim.conclude(case, path).holds
    outcome = claim.conclude(case, replace(path, converged=np.zeros(len(path.radii), dtype=bool)))
    assert outcome.applies is Applies.NOT_DECIDED
    assert outcome.holds is None
    onto_axis = claim.mutate(path)
    assert claim.conclude(case, onto_axis).holds is False
    assert claim.conclude(case, replace(onto_axis, converged=~onto_axis.converged)).holds is None


class TestTheorem4:
    def test_on_random_problems(self, narrow):
        rng = np.random.default_rng(5)
        selections = feasible_selections(narrow)
        solutions = att_svm_batch([narrow] * len(selections), selections)
        axes = [solution.direction for solution in solutions if not is_locally_optimal(solution)][:3]
        axes += list(rng.normal(size=(3, 3)))
        for axis in axes:
            outcome = THEOREM_4.check(LocalPathCase(narrow, tuple(axis.tolist())))
            assert outcome.applies is Applies.YES
            assert outcome.holds

    def test_the_same_check_sees_convergence_where_it_is(self, narrow):
        found = max(local_margins(narrow), key=lambda solution: solution.margin)
        path = local_path(narrow, found.direction, 1e-3, RADII, 50.0)
        assert converges_to_axis(path) > 0.9
        assert not path.is_bounded
        assert decay_exponent(path.radii, path.distances) < -1.9

    def test_hypotheses_are_checked(self, narrow):
        tied = planar(fig1b().keys, [[1.0, 0.5, 0.5]])
        axis = (-1.0, -1.0)
        assert THEOREM_4.check(LocalPathCase(tied, axis)).applies is Applies.NO
        on_a_line = planar([[(0, 0), (1, 1), (2, 2)]], [[1.0, 0.5, 0.2]])
        assert THEOREM_4.check(LocalPathCase(on_a_line, axis)).applies is Applies.NO
        lmm = local_margins(narrow)[0].direction
        assert THEOREM_4.check(LocalPathCase(narrow, tuple(lmm.tolist()))).applies is Applies.NO


def in_units(case, k):
    """The same case with keys 2^k times as large."""
    data = case.sequences
    scaled = EmbeddedSequences(data.tokens, data.labels, data.head, keys=2.0**k * data.keys, mask=data.mask)
    return replace(case, sequences=scaled)


@pytest.mark.parametrize("claim", [THEOREM_1, THEOREM_4, THEOREM_7], ids=lambda claim: claim.label)
@given(st.integers(-40, 40))
@example(-40)
@example(40)
@settings(max_examples=2)
def test_the_unit_of_the_keys_changes_no_verdict(claim, k):
    for case in (claim.inside(), claim.outside()):
        here, there = claim.check(case), claim.check(in_units(case, k))
        assert (there.applies, there.holds) == (here.applies, here.holds)
        # That of Theorem 1 is all of its tolerance but for rounding, which the unit of the keys may change.
        rounding = claim.tolerance if claim is THEOREM_1 else 0.0
        assert there.slack == pytest.approx(here.slack, rel=1e-6, abs=rounding, nan_ok=True)
    scaled = in_units(claim.inside(), k)
    assert not claim.conclude(scaled, claim.mutate(claim.observe(scaled))).holds


class TestHypotheses:
    def test_distinct_scores(self):
        assert has_distinct_scores(fig1b())
        assert not has_distinct_scores(fig1c())

    def test_masked_tokens_do_not_count(self):
        data = fig1b()
        mask = np.array([[True, False, True]])
        twice = planar(data.keys, [[1.0, 0.0, 0.0]])
        assert not has_distinct_scores(twice)
        assert has_distinct_scores(EmbeddedSequences(twice.tokens, [1], twice.head, keys=twice.keys, mask=mask))

    def test_general_position(self):
        rng = np.random.default_rng(1)
        assert in_general_position(random_sphere(rng, 2, 3, 3)) is True
        assert in_general_position(random_sphere(rng, 2, 3, 3), limit=5) is None

    @pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
    def test_general_position_in_any_unit(self, unit, narrow):
        for data in (narrow, fig1b(), planar([[(0, 0), (1, 1), (2, 2)]], [[1.0, 0.5, 0.2]])):
            gamma = np.zeros(data.mask.shape)
            scaled = EmbeddedSequences.from_scores(unit * data.keys, gamma)
            assert in_general_position(scaled) is in_general_position(EmbeddedSequences.from_scores(data.keys, gamma))

    def test_ones_in_the_range_are_not_general(self):
        # Three differences to token 0 on the line x + y = 1: one p has margin 1 over all of them.
        keys = [[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.3, 0.7)]]
        assert in_general_position(planar(keys, [[1.0, 0.9, 0.8, 0.7]])) is False
        moved = [[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.3, 0.5)]]
        assert in_general_position(planar(moved, [[1.0, 0.9, 0.8, 0.7]])) is True


class TestSlowConvergence:
    """A path that converges, however slowly, is told from one that stays away."""

    @staticmethod
    def along(distances):
        """A local path in the plane with these 1 - cos to its axis at the radii of the study."""
        path = THEOREM_4.observe(THEOREM_4.inside())
        tilt = np.arccos(1 - np.asarray(distances, dtype=float)) + np.arctan2(path.axis[1], path.axis[0])
        points = path.radii[:, None] * np.stack([np.cos(tilt), np.sin(tilt)], axis=1)
        everywhere = np.ones(len(path.radii), dtype=bool)
        return replace(path, points=points, at_radius=everywhere, converged=everywhere)

    @pytest.mark.parametrize("exponent", [0.05, 0.2, 0.5, 1.0, 2.0])
    def test_a_power_of_the_radius_converges(self, exponent):
        path = self.along(0.01 * np.array(RADII) ** -exponent)
        assert converges_to_axis(path) > 0.99
        assert THEOREM_4.conclude(THEOREM_4.inside(), path).holds is False

    def test_so_does_one_over_a_logarithm(self):
        assert converges_to_axis(self.along(0.01 / np.log(RADII))) > STAYS_AWAY

    @pytest.mark.parametrize(
        "distances",
        [
            (0.01, 0.01, 0.01, 0.01),
            (0.00493625, 0.00232303, 0.00210114, 0.00207936),  # a random direction of the study, beside an LMM one
            (0.001, 0.002, 0.003, 0.0031),
        ],
        ids=["on the border", "to another direction", "rising"],
    )
    def test_a_constant_stays_away(self, distances):
        path = self.along(distances)
        assert converges_to_axis(path) < 0.01
        assert THEOREM_4.conclude(THEOREM_4.inside(), path).holds

    def test_a_turn_decides_nothing(self):
        path = self.along((0.001, 0.001, 0.002, 0.001))
        assert np.isnan(converges_to_axis(path))
        assert THEOREM_4.conclude(THEOREM_4.inside(), path).applies is Applies.NOT_DECIDED
        # Of the study at the paper's size: it just left the border of its cone, for an LMM direction inside.
        begun = self.along((0.01, 0.01, 0.0099846056, 0.0099209731))
        assert np.isnan(converges_to_axis(begun))
        short = replace(path, radii=path.radii[:2], points=path.points[:2], converged=path.converged[:2])
        assert np.isnan(converges_to_axis(short))

    def test_what_is_lost_of_a_geometric_sequence(self):
        # Exponents e, e/10, e/100, ... to the power of 10: the last step fell by 10^-.01, the rest by 10^(-.01/9).
        distances = 10.0 ** -np.array([0.0, 0.1, 0.11])
        assert share_to_lose([1.0, 10.0, 100.0], distances) == pytest.approx(1 - 10 ** (-0.01 / 9))


class TestDecayExponent:
    def test_power_law(self):
        radii = np.geomspace(1, 1e3, 7)
        assert decay_exponent(radii, 3 * radii**-2) == pytest.approx(-2)

    def test_rounding_is_left_out(self):
        assert decay_exponent([1.0, 10.0, 100.0], [1e-4, 1e-6, 1e-30]) == pytest.approx(-2)
        assert decay_exponent([1.0, 10.0], [1e-30, 0.0]) == -np.inf
        assert np.isnan(decay_exponent([1.0, 1.0], [1e-3, 1e-3]))


class TestCertificates:
    def test_a_global_path_is_certified(self):
        certificate = certify_path(regularization_path(fig1b(), radii=RADII))
        assert certificate.certified
        assert certificate.path_loss == pytest.approx(np.log1p(np.exp(-1.0)))

    def test_a_local_path_is_refuted(self):
        path = regularization_path(fig1b(), radii=RADII)
        certificate = certify_path(replace(path, points=path.radii[:, None] * np.array([1.0, 0.0])))
        assert certificate.verdict is PathVerdict.REFUTED
        assert certificate.best_selection == global_margin(fig1b()).selection

    def test_it_is_the_last_point_that_is_judged(self):
        path = regularization_path(fig1b(), radii=RADII)
        local = path.radii[:, None] * np.array([1.0, 0.0])
        last, others = np.arange(len(RADII)) == len(RADII) - 1, np.arange(len(RADII)) < len(RADII) - 1
        assert certify_path(replace(path, points=np.where(last[:, None], path.points, local))).certified
        turned = certify_path(replace(path, points=np.where(others[:, None], path.points, local)))
        assert turned.verdict is PathVerdict.REFUTED

    def test_losses_are_compared_on_their_own_scale(self):
        """Scores a millionth as large: the local path is as much worse, in its own units."""
        path, data = regularization_path(fig1b(), radii=RADII), fig1b()
        small = EmbeddedSequences(data.tokens, data.labels, 1e-6 * data.head, data.keys)
        local = replace(path, risk=AttentionRisk(small, correlation), points=path.radii[:, None] * np.array([1.0, 0.0]))
        assert certify_path(local).verdict is PathVerdict.REFUTED

    def test_a_finite_path_is_not_certified(self):
        certificate = certify_path(regularization_path(theorem2_counterexample(), radii=(1.0, 10.0)))
        assert certificate.verdict is PathVerdict.NOT_CERTIFIED
        assert not certificate.certified

    def test_the_value_of_a_finite_path_is_its_last(self):
        """Two inputs that pull against each other, one a little harder."""
        keys, gamma = [[[1.0], [0.0]], [[0.0], [1.0]]], [[1.0, 0.0], [0.9, 0.0]]
        path = regularization_path(EmbeddedSequences.from_scores(keys, gamma), radii=(0.01, 0.1, 20.0))
        assert path.is_bounded
        assert path.values[0] > path.values[1] > path.values[2]
        assert certify_path(path).path_loss == path.values[2]

    def test_too_small_a_radius_is_not_certified(self):
        certificate = certify_path(regularization_path(fig1c(), radii=(1.0, 10.0, 20.0, 40.0)))
        assert certificate.verdict is PathVerdict.NOT_CERTIFIED
        assert "larger radius" in certificate.reason

    def test_enumeration_finds_what_random_starts_miss(self, narrow):
        path = enumerated_path(narrow, RADII)
        assert certify_path(path).certified
        assert (path.values <= regularization_path(narrow, radii=RADII).values * (1 + 1e-14)).all()

    def test_too_many_selections(self):
        with pytest.raises(TooLargeError):
            enumerated_path(fig1c(), RADII, limit=3)
