"""The bracket of the global minimisers over two balls, against minimisers that were found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.instances import fig3
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import att_svm, rate_direction, relaxed_svm
from tokenmargin.papers.maxmargin.claims._joint_bracket import (
    JointBracket,
    _Saturated,
    attention_spared,
    least_log_sum,
)
from tokenmargin.papers.maxmargin.claims.joint_balls import JointBalls, joint_minimiser, joint_path
from tokenmargin.papers.maxmargin.claims.thm5_6_joint import BRACKET_TOLERANCE

OPTIMAL = Selection.from_indices([1, 1, 1], 2)
A, B = (0.5, 1.0), (0.5, 1.5)


def found_path(data: EmbeddedSequences, rate: float, R: float):
    """The minimiser that projected steps find, from the max-margin directions at radius 1 on."""
    radii = np.geomspace(1.0, R, 12)
    start = att_svm(data, OPTIMAL).direction
    return joint_path(JointRisk(data), [0.0, 1.0], start, rate * radii, radii)


@pytest.mark.parametrize("rate", [0.5, 2.0])
@pytest.mark.parametrize("third", [A, B])
def test_the_minimiser_found_by_projected_steps_lies_in_the_bracket(third, rate):
    data, R = fig3(third), 300.0
    bracket = joint_minimiser(data).bracket(R, np.log(rate * R))
    path = found_path(data, rate, R)
    assert path.found
    assert bracket.selection == OPTIMAL
    away = np.linalg.norm(path.points[-1] - bracket.point)
    assert away <= bracket.radius + 1e-7 * R
    assert np.linalg.norm(path.heads[-1] / (rate * R) - bracket.head) <= bracket.head_radius + 1e-7


def test_wrong_constants_would_be_seen():
    """Without the weights of the inputs p_0 is outside of where the minimiser was found."""
    data, R, rate = fig3(B), 300.0, 0.5
    bracket = joint_minimiser(data).bracket(R, np.log(rate * R))
    rows = data.keys[:, 1] - data.keys[:, 0]
    unweighted, _ = least_log_sum(rows, np.zeros(3), R)
    assert np.linalg.norm(unweighted - bracket.point) > 1e3 * bracket.radius
    assert np.linalg.norm(found_path(data, rate, R).points[-1] - unweighted) > 1e3 * bracket.radius


def test_the_second_order_takes_no_more_than_is_allowed_for():
    """Z - |z(p)| >= (1 - xi) v_*'Delta/r as attention outside goes up to kappa, where the other token lies aside."""
    tokens, kappa = np.array([[[0.0, 1.0], [1.0, 0.7]]]), 0.25
    data = EmbeddedSequences(tokens, [1], [0.0, 1.0], keys=np.array([[[1.0], [0.0]]]))
    xi = _Saturated(data, Selection.from_indices([0], 2), 1.0, 1e3, np.log(1e3))._second_order(np.array([kappa]))
    q = np.linspace(0.01, kappa, 25)
    attended = (1 - q)[:, None] * tokens[0, 0] + q[:, None] * tokens[0, 1]
    taken = 1 - (1 - np.linalg.norm(attended, axis=1)) / (1 - attended[:, 1])
    assert taken.max() <= xi < 2 * taken.max() < 1


@pytest.mark.parametrize(("aside", "beats"), [(-1e-6, True), (1e-6, False)])
def test_the_selection_beats_the_rest_exactly_where_its_risk_is_lower(aside, beats):
    """With no label margin outside of A the risk there is log(2)/n at least, and at most exp(-r)(1 + e^above) here."""
    r, elsewhere = 60.0, np.log(2.0) / 3
    above = np.log(elsewhere * np.exp(r) - 1) + aside
    assert (np.exp(-r) * (1 + np.exp(above)) < elsewhere) == beats
    assert _Saturated(fig3(A), OPTIMAL, 1.0, 1e3, np.log(r))._beats_the_rest(float(above)) == beats


@pytest.mark.parametrize(("R", "rate"), [(12.0, 8.0), (20.0, 8.0), (30.0, 2.0)])
@pytest.mark.parametrize("third", [A, B])
def test_the_radius_is_that_of_what_the_excess_leaves_open(third, rate, R):
    """A p whose log-excess is within [below, above] has (eta/2) |p - p_0|^2 <= above - below; rounding adds little."""
    data, log_r = fig3(third), np.log(rate * R)
    found = joint_minimiser(data)
    bracket, own = found.bracket(R, log_r), _Saturated(data, OPTIMAL, found.mixtures.clearance, R, log_r)
    below, above = bracket.log_excess
    beta = log_r + own.log_u[own.inputs] + np.log(own.gap)
    logits = beta - own.rows @ bracket.point
    eta = float(np.exp(logits - logsumexp(logits)) @ own.rows @ bracket.point) / R**2
    assert above - below > 1e-8
    open_ = eta / 2 * bracket.radius**2
    assert above - below <= open_
    assert open_ <= 1.01 * (above - below) + 1e-9
    assert below <= logsumexp(logits) <= above  # the first order at p_0 itself is allowed


@pytest.mark.parametrize("R", [1e3, 1e6])
def test_the_unit_of_the_keys_scales_the_bracket(R):
    """At 1e6 the radius is all rounding, which is that of logits and so of no unit."""
    data = fig3(B)
    here = joint_minimiser(data).bracket(R, np.log(R))
    for k in (-20, 20):
        scaled = EmbeddedSequences(data.tokens, data.labels, data.head, 2.0**k * data.keys)
        there = joint_minimiser(scaled).bracket(R / 2.0**k, np.log(R))
        assert 2.0**k * there.radius == pytest.approx(here.radius, rel=1e-9)
        np.testing.assert_allclose(2.0**k * there.point, here.point, rtol=1e-9)
        np.testing.assert_allclose(there.outside, here.outside, rtol=1e-6)


def test_least_log_sum_is_the_minimum_over_the_ball(rng):
    rows, beta, R = rng.normal(size=(5, 3)) + np.array([2.0, 0.0, 0.0]), rng.normal(size=5), 50.0
    p, force = least_log_sum(rows, beta, R)
    assert np.linalg.norm(p) == pytest.approx(R)
    np.testing.assert_allclose(force / np.linalg.norm(force), p / R, atol=1e-9)
    others = rng.normal(size=(2000, 3))
    others *= (R * rng.random(2000) ** (1 / 3) / np.linalg.norm(others, axis=1))[:, None]
    others[1000:] = p + 0.1 * rng.normal(size=(1000, 3))
    others *= np.minimum(1.0, R / np.linalg.norm(others, axis=1))[:, None]
    values = logsumexp(beta - others @ rows.T, axis=1)
    least = logsumexp(beta - rows @ p)
    # f(p) >= f(p_0) + (eta/2) |p - p_0|^2 on the ball, with -grad f(p_0) = eta p_0
    eta = np.linalg.norm(force) / R
    assert (values >= least + eta / 2 * ((others - p) ** 2).sum(axis=1) - 1e-9).all()


@pytest.mark.parametrize(("rate", "relaxes"), [(0.9, False), (0.999, False), (1.0, True), (2.0, True), (np.inf, True)])
def test_figure_3b_relaxes_from_rate_one_on_and_not_below(rate, relaxes):
    """All global minimisers, at R times the margin of 1e6: the relaxed direction, or provably not."""
    data = fig3(B)
    bracket = JointBalls(data, OPTIMAL, rate).bracket
    relaxed = relaxed_svm(data, OPTIMAL).direction
    if relaxes:
        assert bracket.direction_error(relaxed) <= BRACKET_TOLERANCE
    else:
        assert bracket.least_direction_error(relaxed) > 1e-9
        assert bracket.direction_error(rate_direction(data, OPTIMAL, rate)) <= 1e-9
        assert bracket.direction_error(rate_direction(data, OPTIMAL, rate)) < bracket.least_direction_error(relaxed)
    assert bracket.head_error(np.array([0.0, 1.0])) <= 1e-9


def test_the_distance_to_the_limit_falls_like_the_square_of_the_radius():
    data, found = fig3(B), joint_minimiser(fig3(B))
    limit = rate_direction(data, OPTIMAL, 0.5)
    errors = [found.bracket(R, np.log(0.5 * R)).direction_error(limit) for R in (1e3, 1e4, 1e5)]
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(100, rel=0.1)


def test_too_small_radii_are_not_bracketed():
    found = joint_minimiser(fig3(A))
    assert found.bracket(10.0, np.log(10.0)) is None
    assert found.bracket(1e3, np.log(1e3)) is not None


def test_a_copy_of_a_selected_token_is_not_decided():
    """Its attention costs nothing, so where the minimisers attend cannot be told from label margins."""
    data = fig3(A)
    tokens, keys = (np.concatenate([x, x[:, 1:] + away], axis=1) for x, away in ((data.tokens, 0.0), (data.keys, 1.0)))
    found = joint_minimiser(EmbeddedSequences(tokens, data.labels, data.head, keys))
    assert not found.is_selected
    assert "worth as much" in found.because
    assert found.bracket(1e6, np.log(1e6)) is None
    assert attention_spared(data, OPTIMAL) is not None


def test_tokens_that_no_classifier_separates_have_no_selection():
    data = fig3(A)
    same = EmbeddedSequences(np.ones((2, 2, 2)), [1, -1], data.head, data.keys[:2])
    found = joint_minimiser(same)
    assert found.selection is None
    assert "separable" in found.because


def bracket_of(radius: float, head_radius: float) -> JointBracket:
    """Around p_0 = (2, 0) and the head (1, 0)."""
    return JointBracket(
        OPTIMAL, 2.0, 1.0, np.array([2.0, 0.0]), radius, np.array([1.0, 0.0]), head_radius, np.zeros(3), (0.0, 0.0)
    )


def test_errors_of_direction_are_those_of_the_cone_around_the_ball():
    """A ball of half its distance is seen under 30 degrees on each side; one that holds 0 on all sides."""
    one, up, ahead = bracket_of(1.0, 0.5), np.array([0.0, 3.0]), np.array([5.0, 0.0])
    assert one.direction_error(up) == pytest.approx(1 - np.cos(np.radians(120)), rel=1e-12)
    assert one.least_direction_error(up) == pytest.approx(1 - np.cos(np.radians(60)), rel=1e-12)
    assert one.head_error(up) == pytest.approx(1 - np.cos(np.radians(120)), rel=1e-12)
    assert one.least_direction_error(ahead) == 0.0
    assert one.direction_error(-ahead) == pytest.approx(2.0, rel=1e-12)
    assert one.least_direction_error(-ahead) == pytest.approx(1 - np.cos(np.radians(150)), rel=1e-12)
    whole = bracket_of(2.5, 1.5)
    assert whole.direction_error(ahead) == whole.head_error(ahead) == pytest.approx(2.0, rel=1e-12)
    assert whole.least_direction_error(-ahead) == 0.0
    sharp = bracket_of(2e-9, 1e-9)
    assert sharp.direction_error(ahead) == pytest.approx(0.5e-18, rel=1e-6)
    assert sharp.head_error(ahead) == pytest.approx(0.5e-18, rel=1e-6)


def test_attention_that_is_spared_is_what_the_gaps_and_the_spare_margin_allow():
    """v_mm = (1, 0), Gamma = 1, X = |(1, -1/2)| and 3, a = 1 and 3.

    On the support vector half of Gamma over 3 (1 + X/a); on the other, of spare margin 2, half way from 2/3 to 1. Where
    the spare margin is all of the gap nothing is spared.
    """
    first, alone = [[1.0, 0.0], [0.0, 0.5]], [[4.0, 0.0], [9.0, 9.0]]
    keys = np.zeros((3, 2, 1))

    def spared(other: float, unit: float = 1.0) -> np.ndarray | None:
        tokens = unit * np.array([first, [[3.0, 0.0], [other, 0.0]], alone])
        mask = np.array([[True, True], [True, True], [True, False]])
        data = EmbeddedSequences(tokens, [1, 1, 1], [1.0, 0.0], keys=keys, mask=mask)
        return attention_spared(data, Selection.from_indices([0, 0, 0], 2))

    strict = 0.5 / 3 / (1 + np.hypot(1, 0.5))
    for unit in (1.0, 1e-3, 1e3):
        np.testing.assert_allclose(spared(0.0, unit), [strict, 5 / 6, 1 / 2], rtol=1e-9)
    assert spared(1.0) is None
    assert spared(0.999) is not None


def one_input(*others: list[float]) -> _Saturated:
    """An input whose first token (1, 0) is selected, with keys 3, 2, 1, 0 in turn, at r = R = 1000."""
    tokens = np.array([[[1.0, 0.0], *others]])
    keys = np.arange(3.0, 2.0 - len(others), -1.0)[None, :, None]
    mask = np.ones((1, 1 + len(others)), dtype=bool)
    data = EmbeddedSequences(tokens, [1], [1.0, 0.0], keys=keys, mask=mask)
    return _Saturated(data, Selection.from_indices([0], 1 + len(others)), 0.5, 1e3, np.log(1e3))


def test_only_tokens_behind_are_bracketed():
    """A token as good as the selected one, a better one, and none at all: there is nothing to bound."""
    own = one_input([0.0, 0.5], [0.5, 0.0])
    np.testing.assert_array_equal(own.rows, [[1.0], [2.0]])
    np.testing.assert_allclose(own.gap, [1.0, 0.5])
    assert own.bracket() is not None
    assert one_input([1.0, 5.0]).bracket() is None
    assert one_input([0.0, 0.5], [2.0, 0.0]).bracket() is None
    assert one_input().bracket() is None


@pytest.mark.parametrize("unit", [0.1, 1.0, 10.0])
def test_margins_are_large_enough_in_units_of_outputs(unit):
    """log(1 + e^-m) is e^-m from m = 50 on, m being r times the label margin; A has the label margin 1."""
    data = fig3(A)
    tokens = EmbeddedSequences(unit * data.tokens, data.labels, data.head, data.keys)
    own = [_Saturated(tokens, OPTIMAL, 5.0 * unit, 1e3, np.log(m / unit)).bracket() for m in (49.0, 51.0)]
    assert own[0] is None
    assert own[1] is not None


@pytest.mark.parametrize("xi", [1.0, 1.5, float("inf")])
def test_a_second_order_that_takes_all_leaves_no_bracket(xi, monkeypatch):
    assert one_input([0.0, 0.5]).bracket() is not None
    monkeypatch.setattr(_Saturated, "_second_order", lambda *_: xi)
    assert one_input([0.0, 0.5]).bracket() is None


@pytest.mark.parametrize("R", [12.0, 20.0])
def test_the_excess_from_below_loses_the_second_order_and_the_attention_outside(R):
    """(1 - xi)(1 - max kappa) e^f, with the attention outside that the last pass left."""
    data, log_r = fig3(A), np.log(8.0 * R)
    found = joint_minimiser(data)
    bracket, own = found.bracket(R, log_r), _Saturated(data, OPTIMAL, found.mixtures.clearance, R, log_r)
    f = logsumexp(log_r + own.log_u[own.inputs] + np.log(own.gap) - own.rows @ bracket.point)
    kappa = bracket.outside
    xi = own._second_order(kappa)
    expected = -np.log1p(-xi) - np.log1p(-kappa.max())
    assert min(xi, kappa.max()) > 0.1 * expected > 0
    assert (1 - 1e-6) * expected <= f - bracket.log_excess[0] <= 1.03 * expected  # with bounds a pass older


def test_the_radius_allows_for_rounding_of_logits_and_of_their_sum():
    data, R = fig3(B), 1e6
    bracket = joint_minimiser(data).bracket(R, np.log(R))
    own = _Saturated(data, OPTIMAL, 1.0, R, np.log(R))
    logits = np.log(R) + own.log_u[own.inputs] + np.log(own.gap) - own.rows @ bracket.point
    eta = float(np.exp(logits - logsumexp(logits)) @ own.rows @ bracket.point) / R**2
    size = R * np.linalg.norm(own.rows, axis=1).max() + abs(logsumexp(logits))
    assert eta / 2 * bracket.radius**2 >= 16 * np.finfo(float).eps * size * (1 - 1e-9)
