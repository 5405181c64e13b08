"""Judging points side by side: the numbers of each are those of slow twins that see one point."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from tests import references
from tests.instances import random_sphere
from tokenmargin import AttentionRisk, Flow
from tokenmargin.attention import _ends, _stationary, follow_all, limits_of
from tokenmargin.attention._stacks import stacks
from tokenmargin.data import EmbeddedSequences


def problems(rng, count):
    """Random problems of one shape, tokens masked here and there."""
    made = []
    for _ in range(count):
        data = random_sphere(rng, n=3, T=5, d=3)
        mask = rng.random((3, 5)) < 0.8
        mask[:, :2] = True
        made.append(AttentionRisk(EmbeddedSequences(data.tokens, data.labels, data.head, mask=mask)))
    return made


@pytest.fixture(scope="module")
def judged():
    """(risks, points): ends of flows, the same a little way off, and points where nothing is decided."""
    rng = np.random.default_rng(5)
    risks = problems(rng, 40)
    ends = np.stack([run.final for run in follow_all(risks, np.zeros((40, 3)), Flow())])
    return risks * 3, np.concatenate([ends, ends * 1e-4 + 1e-3, rng.normal(size=(40, 3))])


def test_separation_of_many_points_is_that_of_each(judged):
    risks, points = judged
    (ends,) = _ends.ends_of(risks, stacks(risks)[0], list(points))
    unit = ends.force / ends.speed[:, None]
    found = _ends.separation(ends, ends.signed, unit)
    certified = 0
    for b in range(len(points)):
        arrays = ends.keys[b], ends.present[b], ends.signed[b], ends.scores[b], unit[b]
        chosen, held_back, *numbers = references.separation(*arrays, _ends.GAP_TOLERANCE)
        np.testing.assert_array_equal(found.chosen[b], chosen)
        np.testing.assert_allclose(found.held_back[b], held_back, atol=1e-14)
        np.testing.assert_allclose(found.adverse[b], numbers[2], atol=1e-12)
        if ends.speed[b] > 1e-6:  # else gaps are measured in units of rounding
            np.testing.assert_allclose((found.spread[b], found.excess[b]), numbers[:2], rtol=1e-9, atol=1e-12)
        certified += found.spread[b] < _ends.SPREAD_TOLERANCE
    assert 0 < certified < len(points)


def test_limits_of_many_points_are_those_of_each_alone(judged):
    risks, points = judged
    together = limits_of(risks, list(points))
    assert len({limit.kind for limit in together}) >= 2
    for risk, p, limit in list(zip(risks, points, together, strict=True))[::7]:
        (alone,) = limits_of([risk], [p])
        assert (alone.kind, alone.support, alone.reason) == (limit.kind, limit.support, limit.reason)
        assert alone.selection == limit.selection
        np.testing.assert_allclose(alone.support_weights, limit.support_weights, atol=1e-9)
        if limit.diverges:
            np.testing.assert_allclose(alone.velocity, limit.velocity, atol=1e-12)


def test_a_settled_velocity_is_orthogonal_to_what_weighted_pairs_differ_by(rng):
    """Two steady pairs in one problem, three in the other: G loses what would drive their log-weights apart."""
    keys, force = rng.normal(size=(2, 1, 4, 5)), rng.normal(size=(2, 5))
    signed = np.zeros((2, 1, 4, 4))
    signed[0, 0, 0, 1:3] = 0.5
    signed[1, 0, 0, 1:] = 1 / 3
    signed[0, 0, 0, 3] = 1e-8  # not steady, and not felt
    differences = [keys[b, 0, 2 : 1 + count] - keys[b, 0, 1] for b, count in enumerate((2, 3))]
    for b, apart in enumerate(differences):  # as rounding leaves it: nearly orthogonal
        force[b] -= (1 - 1e-5) * np.linalg.pinv(apart) @ (apart @ force[b])
    velocity = _stationary.settled_velocity(keys, signed, force)
    np.testing.assert_allclose(np.linalg.norm(velocity, axis=1), 1.0)
    for b, apart in enumerate(differences):
        np.testing.assert_allclose(apart @ velocity[b], 0.0, atol=1e-12)
        kept = force[b] - np.linalg.pinv(apart) @ (apart @ force[b])
        np.testing.assert_allclose(velocity[b], kept / np.linalg.norm(kept), atol=1e-12)


def test_stationarity_of_many_points_is_that_of_each(rng):
    """Full span, a flat one, no span, no Jacobian with and without a force, tokens masked; and a field overflown."""
    keys, force = rng.normal(size=(7, 2, 3, 3)), rng.normal(size=(7, 3))
    jacobian, norm = rng.normal(size=(7, 3, 3)), rng.uniform(0, 9, size=7)
    jacobian -= 3 * np.eye(3)
    present = np.ones((7, 2, 3), bool)
    present[0, :, 2] = False
    keys[1, ..., 2] = 0.0
    force[1, 2] = 0.0
    keys[2] = 0.0
    jacobian[3:5] = 0.0
    force[4] = 0.0
    jacobian[6, 0, 0] = np.inf
    newton, largest = _stationary.stationarity(keys, present, force, jacobian, norm)
    for b in range(6):
        expected = references.stationarity(
            keys[b][present[b]], force[b], jacobian[b], norm[b], _stationary.SPAN_TOLERANCE
        )
        np.testing.assert_allclose((newton[b], largest[b]), expected, rtol=1e-10)
    assert np.isnan(newton[6])
    assert np.isnan(largest[6])


def test_no_point_on_its_way_to_infinity_is_a_local_minimum_because_its_keys_came_in_single_precision():
    """In float32 logits of 1e3 are rounded to 1e-4: some runs then ended where the rounded gradient vanishes."""
    rng = np.random.default_rng(5)
    risks = problems(rng, 40)
    single = [
        AttentionRisk(
            EmbeddedSequences(
                risk.sequences.tokens.astype(np.float32),
                risk.sequences.labels,
                risk.sequences.head.astype(np.float32),
                mask=risk.sequences.mask,
            )
        )
        for risk in risks
    ]
    kinds = [[run.limit.kind for run in follow_all(each, np.zeros((40, 3)), Flow())] for each in (single, risks)]
    assert kinds[0] == kinds[1]
    assert len(set(kinds[1])) == 2


@pytest.mark.parametrize("across", [-25.0, -40.0])
def test_a_token_of_higher_score_that_keeps_its_distance_is_no_limit_however_little_it_weighs(across):
    """Along (0, 1) token 0 stays as far behind token 1 as token 2 does, and pulls with exp(across) of its weight.

    At p = (a, z) with z large, da/dz = e^a: p turns to token 0 where z is of the order of exp(-across).
    """
    risk = AttentionRisk(EmbeddedSequences.from_scores([[(1, 0), (0, 1), (0, 0)]], [[1.0, 0.5, 0.0]]))
    (run,) = follow_all([risk], [[across, 0.5]], Flow())
    assert run.limit.stalled
    assert "higher score" in run.limit.reason


def test_inputs_that_share_tokens_may_pull_both_ways_and_still_have_a_limit():
    """The first input wants token 0 by 1, the second token 1 by 0.4: what is left of the difference separates them."""
    keys = [[(1, 0), (0, 0)], [(1, 0), (0, 0)]]
    risk = AttentionRisk(EmbeddedSequences.from_scores(keys, [[1.0, 0.0], [0.0, 0.4]]))
    (run,) = follow_all([risk], [[0.0, 0.0]], Flow())
    assert run.limit.diverges
    np.testing.assert_allclose(run.limit.velocity, [1.0, 0.0])


def test_an_input_of_long_keys_that_weighs_nothing_does_not_loosen_what_is_settled():
    """Rounding is that of the logits that carry weight: input 1 has keys 1e4 times as long, and is decided at once.

    At the end of the run the gaps of the first input still differ by 6e-6, and the velocity is off by 6e-3.
    """
    keys = [
        [(-0.305, -1.111), (-0.699, 1.179), (-0.21, -1.079)],
        [(-19476.89, -5933.753), (-1525.935, -1644.324), (9211.338, 26740.984)],
    ]
    risk = AttentionRisk(EmbeddedSequences.from_scores(keys, [[-0.298, -0.271, -1.886], [-1.871, -1.085, -0.321]]))
    near, far = (follow_all([risk], [[0.5, 0.5]], Flow(until_norm=norm))[0].limit for norm in (1e6, 1e10))
    assert far.diverges
    assert near.stalled or 1 - near.velocity @ far.velocity < 1e-8


@pytest.mark.parametrize("angle", [0.0, 0.7, 2.0])
def test_inputs_that_share_a_pair_of_tokens_go_along_its_difference_however_it_is_rounded(angle):
    """Both pairs of weight are k_0 - k_1 = (-1, 0), up to rounding once turned: what the two differ in is noise."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    keys = np.array([[(0.0, 0.0), (-1.0, 0.0), (2.0, -2.0)], [(-1.0, -2.0), (2.0, -1.0), (0.0, -2.0)]])
    risk = AttentionRisk(EmbeddedSequences.from_scores(keys @ turn.T, [[-1.0, 1.0, 2.0], [0.0, -1.0, -1.0]]))
    (run,) = follow_all([risk], [turn @ [3.0, 9.5]], Flow())
    assert run.limit.diverges
    np.testing.assert_allclose(run.limit.velocity, turn @ [-1.0, 0.0], atol=1e-9)


def most_spread(keys, carries, norm: float, speed: float, present=None) -> float:
    """Of one point with two tokens an input, whose keys have these lengths."""
    keys, weight = np.array(keys, dtype=float)[None, :, :, None], np.array(carries, dtype=float)
    shown = np.ones(keys.shape[:3], dtype=bool) if present is None else np.array(present)[None]
    signed = weight[None, :, None, None] * np.array([[0.0, 1.0], [-1.0, 0.0]])
    told = SimpleNamespace(
        keys=keys, present=shown, signed=signed, norm=np.array([norm]), speed=np.array([speed]),
    )  # fmt: skip
    (found,) = inspect.unwrap(_ends.Ends.most_spread.fget)(told)
    return float(found)


def test_the_spread_that_is_settled_is_that_of_rounded_logits():
    """32 eps |p| / |G|^2, between 1e-7 and 1/20; where inputs of short keys alone carry weight, their scale cubed."""
    eps, one = 2.0**-52, [[1.0, 0.0]]
    assert most_spread(one, [1.0], 1e6, 1e-2) == pytest.approx(32 * eps * 1e6 / 1e-4, rel=1e-12)
    assert most_spread(one, [1.0], 1e6, 1.0) == 1e-7
    assert most_spread(one, [1.0], 1e6, 1e-9) == most_spread(one, [1.0], 1e6, 0.0) == 0.05
    short = [[0.0625, 0.0], [1.0, 0.0]]
    assert most_spread(short, [1.0, 0.0], 1e8, 1e-2) == pytest.approx(32 * eps * 1e8 / 1e-4 / 16**3, rel=1e-12)
    assert most_spread(short, [1.0, 1.0], 1e6, 1e-2) == most_spread(one, [1.0], 1e6, 1e-2)
    eighth = [[0.125, 0.0], [1.0, 0.0]]
    assert most_spread(eighth, [1.0, 0.0], 1e6, 1e-2) == most_spread(one, [1.0], 1e6, 1e-2)
    masked = most_spread([[0.0625, 1e9]], [1.0], 1e6, 1e-2, present=[[True, False]])
    assert masked == most_spread(one, [1.0], 1e6, 1e-2)
