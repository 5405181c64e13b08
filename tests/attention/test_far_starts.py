"""Starts of any norm: the limit is that of a slow exact flow, or stalled; and what is not a limit is not called one."""

import numpy as np
import pytest

from tests.instances import fig1b
from tests.references import ExactFlow
from tokenmargin import AttentionRisk, Flow, HeadRisk, follow
from tokenmargin.attention import Outcome, follow_all, limits_of
from tokenmargin.attention._exact_logits import exact_logits, is_clear, shifted_gaps
from tokenmargin.attention.heads import LinearHead
from tokenmargin.data import EmbeddedSequences

#: 1 - cos of two velocities that are one; a wrong limit is off by 1e-4 and more.
ONE_DIRECTION = 1e-8

KEYS, GAMMA = [[(1, 0), (0, 2)], [(0, 1), (0, 0)]], [(1.0, 0.0), (1.0, 0.0)]
TRUE = np.array([3.0, 1.0]) / np.sqrt(10)


def refuses_its_first_token() -> AttentionRisk:
    """From (N, 1) the second input moves p along (0, 1) until, at N/3, the first pulls it back to its own token."""
    return AttentionRisk(EmbeddedSequences.from_scores(KEYS, GAMMA))


def generic(rng, n, T, d):
    return rng.normal(size=(n, T, d)), rng.normal(size=(n, T))


def shared(rng, n, T, d):
    """Inputs that draw their tokens' keys from one vocabulary."""
    vocabulary = rng.normal(size=(4, d))
    return vocabulary[np.stack([rng.permutation(4)[:T] for _ in range(n)])], rng.normal(size=(n, T))


def tied(rng, n, T, d):
    """Whole numbers: scores tie, keys repeat, and logits of axes tie too."""
    return rng.integers(-2, 3, size=(n, T, d)).astype(float), rng.integers(0, 3, size=(n, T)).astype(float)


def of_two_scales(rng, n, T, d):
    return rng.normal(size=(n, T, d)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1, 1)), rng.normal(size=(n, T))


def drawn(law, seed, count, shape=(2, 3, 2)):
    """(risks, directions in units of the keys): every third along an axis, where logits may tie exactly."""
    rng = np.random.default_rng(seed)
    risks, directions = [], []
    for k in range(count):
        risks.append(AttentionRisk(EmbeddedSequences.from_scores(*law(rng, *shape))))
        u = rng.normal(size=shape[2])
        u = np.eye(shape[2])[k % shape[2]] if k % 3 == 2 else u / np.linalg.norm(u)
        directions.append(u / risks[-1].in_span[1].kappa)
    return risks, directions


def is_one(a, b) -> bool:
    """Whether two limits are the same; what nothing pulls on stays where it started."""
    if a.finite and b.finite and "so no p moves at all" in a.reason:
        return a.reason == b.reason
    if a.finite and b.finite:
        inward = a.risk.in_span[1].inward  # what is orthogonal to all differences stays as well
        return bool(np.linalg.norm(inward(a.point) - inward(b.point)) <= 1e-5 * (1 + np.linalg.norm(inward(b.point))))
    if a.kind is not b.kind or a.finite:
        return a.kind is b.kind and bool(np.linalg.norm(a.point - b.point) <= 1e-5 * (1 + np.linalg.norm(b.point)))
    return 0.5 * np.sum((a.velocity - b.velocity) ** 2) <= ONE_DIRECTION


@pytest.mark.parametrize("norm", [1e5, 1e6, 1e7, 1e10, 1e12])
@pytest.mark.parametrize("below", [1.0, -0.3])
def test_a_start_of_any_norm_is_followed_to_where_its_flow_goes(norm, below):
    """(1e6, 1) was said to diverge to (0, 1): the tokens that its velocity selects, and that it does not."""
    limit = follow(refuses_its_first_token(), [norm, below if below > 0 else below * norm], Flow()).limit
    assert limit.diverges
    np.testing.assert_allclose(limit.velocity, TRUE, atol=1e-7)


def test_no_step_passes_by_a_token_that_is_about_to_carry_weight():
    """From (1e4, -3e3) a step of 1e6 along (0, 1) landed where the first input weighs nothing again."""
    limit = follow(refuses_its_first_token(), [1e4, -3e3], Flow()).limit
    np.testing.assert_allclose(limit.velocity, TRUE, atol=1e-7)


def test_the_slow_flow_agrees():
    flow = ExactFlow(KEYS, GAMMA)
    for start in ([1e4, -3e3], [1e6, 1.0]):
        np.testing.assert_allclose(flow.velocity(start, 5.0), TRUE, atol=1e-4)


@pytest.mark.parametrize("norm", [1e15, 1e100, 1e300])
def test_beyond_float64_s_logits_a_start_is_followed_from_nearer_or_not_at_all(norm):
    risk = refuses_its_first_token()
    clear = follow(risk, [norm, norm / 10], Flow())
    assert clear.limit.diverges
    np.testing.assert_allclose(clear.limit.velocity, TRUE, atol=1e-7)
    np.testing.assert_array_equal(clear.start, [norm, norm / 10])
    assert clear.norms[-1] >= norm
    np.testing.assert_array_equal(clear.limit.point, clear.final)
    # A gap of 1 beside logits of 1e15: what becomes of it cannot be told.
    nearly_tied = follow(risk, [norm, 1.0], Flow())
    assert nearly_tied.outcome is Outcome.OUT_OF_REACH
    assert nearly_tied.limit.stalled
    assert "rounding" in nearly_tied.limit.reason


def test_a_finite_limit_is_reached_from_far_out():
    risk = AttentionRisk(EmbeddedSequences.from_scores([[(1,), (0,)], [(0,), (1,)]], [[1.0, 0.0], [1.0, 0.0]]))
    for start in (1e3, 1e8, 1e20):
        limit = follow(risk, [start], Flow()).limit
        assert limit.finite
        np.testing.assert_allclose(limit.point, 0.0, atol=1e-6)


@pytest.fixture(scope="module")
def runs():
    """Limits of one law from norms 1e5 to 1e14 along the same directions."""
    risks, directions = drawn(generic, 3, 32)
    norms = (1e5, 1e6, 1e8, 1e11, 1e14)
    return {norm: [run.limit for run in follow_all(risks, [norm * u for u in directions], Flow())] for norm in norms}


def test_along_one_direction_the_limit_is_the_same_from_every_norm(runs):
    """Far out the flow from N u is N times one flow, whatever N is: nothing sets a scale."""
    near = runs[1e5]
    for norm, limits in runs.items():
        assert all(far.stalled or is_one(far, one) for far, one in zip(limits, near, strict=True)), norm
        assert sum(not far.stalled for far in limits) >= 30, norm


@pytest.mark.long
@pytest.mark.parametrize("law", [generic, shared, tied, of_two_scales])
@pytest.mark.parametrize("shape", [(1, 4, 2), (2, 3, 2), (2, 3, 3), (3, 2, 4)])
def test_many_directions_of_many_laws(law, shape):
    risks, directions = drawn(law, 11, 64, shape)
    near = [run.limit for run in follow_all(risks, [1e5 * u for u in directions], Flow())]
    decided = 0
    for norm in 10.0 ** np.arange(6, 15):
        limits = [run.limit for run in follow_all(risks, [norm * u for u in directions], Flow())]
        for far, one in zip(limits, near, strict=True):
            assert far.stalled or one.stalled or is_one(far, one)
            decided += not far.stalled
    # Degenerate problems of whole numbers stall from any norm, at saddles and flat directions: norms are compared.
    assert decided >= 0.97 * 9 * sum(not one.stalled for one in near)


@pytest.mark.long
@pytest.mark.parametrize("law", [generic, shared, tied, of_two_scales])
def test_starts_that_nearly_tie_go_where_the_slow_flow_goes(law):
    """N u plus a number of order one: what is small beside N may decide."""
    lengths = 5000.0 if law is of_two_scales else 50.0  # short keys move p slowly
    rng = np.random.default_rng(5)
    risks, directions = drawn(law, 17, 6)
    for risk, u in zip(risks, directions, strict=True):
        flow = ExactFlow(risk.sequences.keys, risk.field.scores)
        start = 10.0 ** rng.integers(4, 13) * u + rng.normal(size=2) / risk.in_span[1].kappa
        limit = follow(risk, start, Flow()).limit
        if limit.diverges:
            np.testing.assert_allclose(flow.velocity(start, lengths), limit.velocity, atol=1e-4)


class TestForged:
    """Points where the velocity certifies a direction that p does not go to: none is called a limit."""

    def test_p_selects_another_token_than_its_velocity(self):
        risk = refuses_its_first_token()
        points = [[norm, level] for norm in (1e4, 1e6, 1e9, 1e12) for level in (30.0, 1e2, norm / 10)]
        for limit in limits_of([risk] * len(points), points):
            np.testing.assert_allclose(limit.velocity, [0.0, 1.0], atol=1e-9)
            assert limit.stalled
            assert "selects other tokens" in limit.reason

    def test_tokens_of_different_scores_level_along_the_velocity(self):
        """The first input's tokens differ along (1, 0) alone: its weight is constant, and the other's falls below."""
        keys = [[(1, 0), (0, 0)], [(0, 1), (0, 0)]]
        risk = AttentionRisk(EmbeddedSequences.from_scores(keys, GAMMA))
        (limit,) = limits_of([risk], [[1e6, 1e2]])
        assert limit.stalled
        assert "level" in limit.reason

    def test_a_softmax_that_still_mixes(self):
        keys = [[(1, 0), (0, -2)], [(0, 1), (0, 0)]]
        risk = AttentionRisk(EmbeddedSequences.from_scores(keys, GAMMA))
        (mixing, decided) = limits_of([risk] * 2, [[1e6, 1.0], [1e6, 50.0]])
        assert mixing.stalled
        assert "clearly" in mixing.reason
        assert decided.diverges

    def test_a_step_of_newton_s_is_short_in_logits_not_beside_the_norm(self):
        """At |p| = 1e10 a step of 1e3 is nothing beside |p|, and everything to a softmax."""
        risk = AttentionRisk(EmbeddedSequences.from_scores([[(1,), (0,)], [(0,), (1,)]], [[1.0, 0.0], [1.0, 0.0]]))
        assert all(limit.stalled for limit in limits_of([risk] * 3, [[0.1], [1.0], [1e10]]))

    @pytest.mark.parametrize("law", [generic, pytest.param(tied, marks=pytest.mark.long)])
    def test_random_points_are_certified_only_where_the_flow_from_them_goes(self, law):
        """Far points in the plane, most of which select other tokens than their velocities."""
        risks, directions = drawn(law, 23, 64)
        points = [1e7 * u for u in directions]
        certified = 0
        for limit, run in zip(limits_of(risks, points), follow_all(risks, points, Flow()), strict=True):
            if limit.diverges:
                certified += 1
                assert is_one(limit, run.limit)
        assert 0 < certified < 48


class TestInvariance:
    @pytest.mark.parametrize("power", [-980, -515, 340, 511, 980])
    def test_keys_of_any_scale(self, power):
        """By a power of two nothing but the unit of p changes, to the last bit."""
        plain, unit = 2.0 ** np.sign(power) * 1024.0 ** np.sign(power), 2.0**power
        for start in ([0.5, -1.5], [1e7, 1.0]):
            runs = [
                follow(
                    AttentionRisk(EmbeddedSequences.from_scores(np.array(KEYS) * one, GAMMA)),
                    np.array(start) / one,
                    Flow(),
                )
                for one in (plain, unit)
            ]
            assert runs[0].limit.diverges
            assert runs[1].limit.diverges
            np.testing.assert_array_equal(runs[1].final * unit, runs[0].final * plain)
            np.testing.assert_array_equal(runs[1].limit.velocity, runs[0].limit.velocity)
            np.testing.assert_array_equal(runs[1].norms * unit, runs[0].norms * plain)
            np.testing.assert_array_equal(runs[1].limit.direction, runs[0].limit.direction)

    def test_scores_of_any_scale_have_an_answer(self):
        for power in (-300, -100, 3, 100, 300):
            risk = AttentionRisk(EmbeddedSequences.from_scores(KEYS, np.array(GAMMA) * 10.0**power))
            limit = follow(risk, [1.0, 1.0], Flow(max_steps=500)).limit
            assert limit.stalled or np.allclose(limit.velocity, TRUE, atol=1e-7)

    def test_shifted_rotated_and_reordered(self, rng):
        turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
        keys, gamma = np.array(KEYS, float), np.array(GAMMA)
        start = np.array([1e7, 1.0])
        for other, scores, at, back in (
            (keys + 3.0, gamma, start, np.eye(2)),
            (keys @ turn, gamma, start @ turn, turn),
            (keys[::-1], gamma[::-1], start, np.eye(2)),
            (keys[:, ::-1], gamma[:, ::-1], start, np.eye(2)),
            (np.concatenate([keys, keys]), np.concatenate([gamma, gamma]), start, np.eye(2)),
        ):
            limit = follow(AttentionRisk(EmbeddedSequences.from_scores(other, scores)), at, Flow()).limit
            assert limit.diverges
            np.testing.assert_allclose(back @ limit.velocity, TRUE, atol=1e-6)

    def test_behind_a_linear_head_it_is_the_same(self):
        data = fig1b()
        for norm in (1e7, 1e15):
            start = norm * np.array([0.8, 0.6])
            plain = follow(AttentionRisk(data), start, Flow()).limit
            head = follow(HeadRisk(data, LinearHead(data.head)), start, Flow()).limit
            assert plain.diverges
            assert is_one(plain, head)


class TestExactLogits:
    def test_a_difference_is_rounded_once(self):
        keys = np.array([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [0.0, 0.0]]])
        whole, unit = exact_logits(keys, np.array([1e20, 0.5]))
        assert [[int(x * unit) if x * unit == int(x * unit) else float(x * unit) for x in row] for row in whole] == [
            [10**20, 1],
            [0.5, 0],
        ]

    def test_gaps_are_shifted_together(self):
        """Only differences matter once all are saturated: 1e20 + 30 and 1e20 are 90 and 60."""
        keys = np.array([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]])
        gaps, shift = shifted_gaps(keys, np.ones((2, 2), bool), np.array([[1.0, 0.0]] * 2), np.array([1e20, 30.0]))
        np.testing.assert_array_equal(gaps, [[0, 60], [0, 90]])
        assert shift == pytest.approx(1e20)

    def test_directions_at_any_norm_are_those_of_the_field(self, rng):
        risk = AttentionRisk(EmbeddedSequences.from_scores(*generic(rng, 2, 3, 3)))
        points = rng.normal(size=(4, 3)) * np.array([1.0, 10.0, 1e3, 1e6])[:, None]
        directions, log_scale = risk.descent_directions(points)
        for p, D, c in zip(points, directions, log_scale, strict=True):
            own, scale = risk.descent_direction(p)
            np.testing.assert_allclose(D / np.linalg.norm(D), own / np.linalg.norm(own), atol=1e-8)
            np.testing.assert_allclose(c + np.log(np.linalg.norm(D)), scale + np.log(np.linalg.norm(own)), rtol=1e-12)

    def test_clear_is_far_apart_or_equal(self):
        keys = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
        there = np.ones((1, 3), bool)
        assert is_clear(keys, there, np.array([1e6, 1e5]), 60.0)
        assert is_clear(keys, there, np.array([1e6, 1e6]), 60.0)
        assert not is_clear(keys, there, np.array([1e6, 1e6 + 1]), 60.0)
