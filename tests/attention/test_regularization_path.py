"""Regularisation paths against brute force in the plane, their KKT conditions, and how they transform."""

from __future__ import annotations

import numpy as np
import pytest

from tests.instances import fig1b, fig1c, planar, random_sphere, theorem2_counterexample
from tokenmargin.attention import AttentionRisk, correlation
from tokenmargin.attention._projected import STATIONARY_ROUNDING
from tokenmargin.attention.regularization_path import local_path, regularization_path
from tokenmargin.data import EmbeddedSequences, scores
from tokenmargin.errors import InvalidInputError

RADII = (1.0, 10.0, 100.0, 1e4)

#: A grid of this many angles misses the minimiser by at most 2 pi/GRID, so its risk by that times R times the slope.
GRID = 6_000

#: KKT residuals are solved for to 1e-11, or to the rounding of logits of size R = 1e4 over |G| (margins down to 0.05).
KKT = 1e-9


def log_excess(data, points):
    """(loss of the selected tokens, signed log of the excess over it) from the definition, one point at a time."""
    gamma, found = scores(data), []
    for p in points:
        logits = data.keys @ p
        top = logits.argmax(axis=1)
        best = gamma[np.arange(len(gamma)), top]
        log_s = logits - logits.max(axis=1, keepdims=True)
        log_s = log_s - np.log(np.exp(log_s).sum(axis=1, keepdims=True))
        outputs = (np.exp(log_s) * gamma).sum(axis=1)
        ahead = best[:, None] - gamma
        log_w = np.where(ahead != 0, log_s + np.log(np.where(ahead != 0, abs(ahead), 1)), -np.inf)
        log_w = log_w - np.log1p(np.exp(outputs))[:, None]  # |l'| of the logistic loss
        unit = log_w.max()
        total = (np.sign(ahead) * np.exp(log_w - unit)).sum() / len(gamma)
        found.append((np.log1p(np.exp(-best)).mean(), np.sign(total), unit + np.log(abs(total))))
    return found


def plain_risk(data, points):
    gamma = scores(data)
    logits = np.einsum("ntd,md->mnt", data.keys, points)
    s = np.exp(logits - logits.max(axis=-1, keepdims=True))
    s /= s.sum(axis=-1, keepdims=True)
    return np.log1p(np.exp(-(s * gamma).sum(axis=-1))).mean(axis=-1)


def circle(radius, angles):
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


PLANAR = {"fig1b": fig1b, "fig1c": fig1c, "random": lambda: random_sphere(np.random.default_rng(3), 3, 4, 2)}


@pytest.fixture(scope="module", params=PLANAR)
def solved(request):
    data = PLANAR[request.param]()
    return data, regularization_path(data, radii=RADII)


class TestAgainstBruteForce:
    def test_no_point_of_a_polar_grid_is_better(self, solved):
        data, path = solved
        angles = np.linspace(0, 2 * np.pi, GRID // 6, endpoint=False)
        for R, value in zip(path.radii, path.values, strict=True):
            grid = np.concatenate([circle(R * share, angles) for share in np.linspace(0.01, 1, 40)])
            assert value <= plain_risk(data, grid).min() * (1 + 1e-13)

    def test_is_as_good_as_the_best_angle_in_log_space(self, solved):
        data, path = solved
        angles = np.linspace(0, 2 * np.pi, GRID, endpoint=False)
        for R, point, bound in zip(path.radii, path.points, path.at_radius, strict=True):
            if not bound or R < 100:  # before saturation the loss of the selected tokens says little, the risk all
                continue
            keys = [(loss, sign, sign * log) for loss, sign, log in log_excess(data, circle(R, angles))]
            best = circle(R, angles[[min(range(GRID), key=lambda j: keys[j])]])[0]
            (ours, sign, log), (theirs, _, grid_log) = log_excess(data, [point, best])
            assert ours == pytest.approx(theirs, abs=1e-14)
            assert sign * (log - grid_log) <= 1e-9 * abs(log)
            spacing = 2 * np.pi / GRID
            assert np.linalg.norm(point / R - best / R) <= max(2 * spacing, 20 / R)

    def test_reported_excess_is_the_definition(self, solved):
        data, path = solved
        for point, sign, log in zip(path.points, path.excess_signs, path.log_excess, strict=True):
            _, expected_sign, expected = log_excess(data, [point])[0]
            assert sign == expected_sign
            assert log == pytest.approx(expected, rel=1e-9)

    def test_local_path_against_a_grid_of_the_cone(self):
        data, epsilon, inner = fig1b(), 0.05, 2.0
        for tilt in (0.0, 1.0, 2.5, 4.0):
            axis = np.array([np.cos(tilt), np.sin(tilt)])
            path = local_path(data, axis, epsilon, RADII[1:], inner)
            half = np.arccos(1 - epsilon)
            for R, value, point in zip(path.radii, path.values, path.points, strict=True):
                grid = [circle(r, tilt + np.linspace(-half, half, 101)) for r in np.geomspace(inner, R, 60)]
                assert value <= plain_risk(data, np.concatenate(grid)).min() * (1 + 1e-13)
                assert point @ axis >= (1 - epsilon - 1e-14) * np.linalg.norm(point)
                assert inner * (1 - 1e-14) <= np.linalg.norm(point) <= R * (1 + 1e-14)
            assert path.converged.all()


class TestStationarity:
    def test_gradient_is_parallel_to_p_on_the_sphere(self, solved):
        data, path = solved
        assert path.converged.all()
        longest = np.linalg.norm(data.keys[:, :, None] - data.keys[:, None], axis=-1).max()  # the unit that paths have
        for point, bound, residual in zip(path.points, path.at_radius, path.residuals, strict=True):
            force, u = path.risk.force(point), point / np.linalg.norm(point)
            if bound:
                assert force @ u > 0
                pull = np.linalg.norm(force)
                # Logits of a long p are rounded: how far the force can be brought down is in units of p, not of itself.
                rounding = STATIONARY_ROUNDING * np.finfo(float).eps * np.linalg.norm(point) * longest**2 / pull
                assert np.linalg.norm(force - (force @ u) * u) / pull <= max(KKT, rounding)
                assert residual <= max(KKT, rounding)
            else:
                assert np.linalg.norm(force) <= KKT

    def test_risk_decreases_along_the_path(self, solved):
        _, path = solved
        assert (np.diff(path.values) <= 0).all()
        assert (path.norms <= path.radii * (1 + 1e-13)).all()

    def test_a_finite_minimiser_is_found_and_stays(self):
        path = regularization_path(theorem2_counterexample(), radii=(1.0, 10.0, 100.0))
        assert path.is_bounded
        assert not path.at_radius.any()
        np.testing.assert_allclose(path.points, 0, atol=1e-10)

    def test_nothing_to_minimise(self):
        path = regularization_path(EmbeddedSequences([[[1.0]], [[2.0]]], [1, 1], [1.0]), radii=(1.0, 10.0))
        assert path.converged.all()
        assert path.is_bounded
        assert (path.log_excess == -np.inf).all()

    def test_the_border_of_a_cone_is_named(self):
        data = fig1b()
        toward = local_path(data, [-0.1, 1.0], 0.01, (100.0, 1000.0), 50.0)
        assert not toward.on_mantle.any()
        assert toward.at_radius.all()
        assert toward.distances[-1] < 1e-12
        aside = local_path(data, [-0.5, 1.0], 0.01, (100.0, 1000.0), 50.0)
        assert aside.on_mantle.all()
        np.testing.assert_allclose(aside.distances, 0.01, rtol=1e-9)


class TestTransformations:
    def test_units_of_the_keys(self):
        data = fig1b()
        scaled = EmbeddedSequences(data.tokens, data.labels, data.head, keys=1000 * data.keys)
        here = regularization_path(data, radii=RADII)
        there = regularization_path(scaled, radii=np.array(RADII) / 1000)
        np.testing.assert_allclose(1000 * there.points, here.points, rtol=1e-8, atol=1e-8)

    def test_more_dimensions_than_differences(self):
        data = fig1b()
        basis = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]
        wide = EmbeddedSequences(data.tokens, data.labels, data.head, keys=data.keys @ basis.T)
        here = regularization_path(data, radii=RADII)
        there = regularization_path(wide, radii=RADII)
        np.testing.assert_allclose(there.points, here.points @ basis.T, rtol=1e-7, atol=1e-7)

    def test_another_loss(self):
        data = planar([[(0, 0), (1, 1)], [(0, 0), (1, -1)]], [[0.0, 2.0], [0.0, 1.0]])
        path = regularization_path(AttentionRisk(data, correlation), radii=(10.0, 1000.0))
        # -grad L balances 2 exp(-p1 - p2) against exp(-p1 + p2), with p2 of order log 2 and the pull along p1.
        assert path.points[-1][1] == pytest.approx(0.5 * np.log(2), rel=2e-3)
        assert path.values[-1] == pytest.approx(AttentionRisk(data, correlation).value(path.points[-1]))

    def test_given_starts_are_used(self):
        data = fig1b()
        path = regularization_path(data, [[-0.1, 1.0]], (1e3,), random_starts=1)
        np.testing.assert_allclose(path.directions[0], np.array([-0.1, 1.0]) / np.sqrt(1.01), atol=1e-9)


class TestInvalidInput:
    @pytest.mark.parametrize("radii", [(), (0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (1.0, np.inf), (np.nan,), 3.0])
    def test_radii(self, radii):
        with pytest.raises(InvalidInputError, match="radii"):
            regularization_path(fig1b(), radii=radii)

    @pytest.mark.parametrize("starts", [[1.0, 0.0], [[1.0, 0.0, 0.0]], [[0.0, 0.0]], [[np.nan, 1.0]]])
    def test_starts(self, starts):
        with pytest.raises(InvalidInputError, match="starts"):
            regularization_path(fig1b(), starts, (1.0,))

    def test_number_of_random_starts(self):
        with pytest.raises(InvalidInputError, match="random_starts"):
            regularization_path(fig1b(), radii=(1.0,), random_starts=0)

    @pytest.mark.parametrize("epsilon", [0.0, -0.1, 1.0, 1e-13, np.nan])
    def test_cones_without_angle(self, epsilon):
        with pytest.raises(InvalidInputError, match="no cone"):
            local_path(fig1b(), [1.0, 0.0], epsilon, (10.0,))

    @pytest.mark.parametrize(
        ("axis", "radii", "inner", "match"),
        [
            ([0.0, 0.0], (10.0,), 1.0, "zero vector"),
            ([1.0, 0.0], (10.0,), 10.0, "empty"),
            ([1.0, 0.0], (10.0,), 0.0, "inner_radius"),
            ([1.0], (10.0,), 1.0, "axis"),
        ],
    )
    def test_regions(self, axis, radii, inner, match):
        with pytest.raises(InvalidInputError, match=match):
            local_path(fig1b(), axis, 0.1, radii, inner)


@pytest.mark.parametrize("unit", [2.0**-10, 1.0, 2.0**10])
@pytest.mark.parametrize(("axis", "ends"), [(-1.0, (-5.0, -5.0)), (1.0, (100.0, 1000.0))])
def test_a_local_path_on_a_line(axis, ends, unit):
    """Keys 1 and 0, the first better: the risk falls with p, so the best of [-R, -5] is -5 and of [5, R] it is R."""
    data = EmbeddedSequences.from_scores([[[unit], [0.0]]], [[1.0, 0.0]])
    path = local_path(data, [axis], 0.01, (100.0 / unit, 1000.0 / unit), 5.0 / unit)
    np.testing.assert_allclose(path.points[:, 0] * unit, ends, rtol=1e-12)
    assert path.converged.all()
    assert path.is_bounded == (axis < 0)
    assert not path.on_mantle.any()
    np.testing.assert_array_equal(path.distances, 0.0)
