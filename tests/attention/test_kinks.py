"""Flows behind heads with kinks: known answers on the line and in the plane, enumeration, plain descent, named ends."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from tests.kinked_problems import LAWS, AbsoluteHead, Descent
from tests.torture.kinks import drawn
from tokenmargin import EmbeddedSequences, Flow, HeadRisk, compare, follow
from tokenmargin.attention import KinkedHead, least_gradient
from tokenmargin.attention._kinks import at_pattern, least_norm, pattern_at
from tokenmargin.attention.heads import ReLUHead

#: Two tokens of one input on a line: z = tanh(p/2 . key difference) moves from one to the other.
LINE = np.array([[[-1.0], [1.0]]])

#: Laws of which a few problems are tried in every run; `python -m tests.torture kinks` tries all ten.
SAMPLED = ("plane", "two layers")


def on_line(hidden, bias, output) -> HeadRisk:
    """One input whose z runs from -1 to 1 as p does from -inf to inf, behind a ReLU head."""
    return HeadRisk(EmbeddedSequences(LINE, [1], [1.0]), ReLUHead(np.reshape(hidden, (-1, 1)), bias, output))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_least_norm_is_that_of_every_face(k, rng):
    """All 3^k choices of 0, 1 and free, each solved without bounds: the least of those within bounds."""
    for trial in range(20):
        rows, force = rng.normal(size=(k, 3)), rng.normal(size=3)
        if trial % 2 and k > 1:
            rows[1] = rows[0] * rng.choice([-2.0, 0.5])  # dependent
        best = np.inf
        for face in itertools.product((0.0, 1.0, None), repeat=k):
            free = [j for j in range(k) if face[j] is None]
            theta = np.array([0.0 if one is None else one for one in face])
            if free:
                theta[free] = np.linalg.lstsq(rows[free].T, force - theta @ rows, rcond=None)[0]
            if ((theta >= -1e-12) & (theta <= 1 + 1e-12)).all():
                best = min(best, float(np.linalg.norm(force - theta @ rows)))
        theta, velocity = least_norm(force, rows)
        assert ((theta >= 0) & (theta <= 1)).all()
        np.testing.assert_allclose(velocity, force - theta @ rows, atol=1e-12)
        assert np.linalg.norm(velocity) == pytest.approx(best, abs=1e-9)


def test_a_kink_that_attracts_is_an_end_with_the_share_worked_out_by_hand():
    """psi = z - 3 relu(z) rises to z = 0 and falls beyond: there 1 - 3 theta = 0."""
    risk = on_line([1.0, -1.0, 1.0], [0.0, 2.0, 2.0], [-3.0, -0.5, 0.5])
    run = follow(risk, [-2.0], Flow())
    assert run.limit.finite
    assert abs(run.final[0]) < 1e-12
    (kink,) = run.limit.kinks
    assert (kink.input, kink.unit) == (0, 0)
    assert kink.share == pytest.approx(1 / 3, abs=1e-9)
    assert "unit 0 on input 0 (share 0.333)" in repr(run.limit)
    found = least_gradient(risk, run.final)
    np.testing.assert_allclose(found.vector, 0.0, atol=1e-12)
    assert found.kinks == run.limit.kinks
    assert np.abs(risk.gradient(run.final - 1e-6)) > 0.1
    assert np.abs(risk.gradient(run.final + 1e-6)) > 0.1


def test_a_kink_that_only_bends_is_crossed():
    """psi = z - relu(z)/2 rises on both sides."""
    risk = on_line([1.0, -1.0, 1.0], [0.0, 2.0, 2.0], [-0.5, -0.5, 0.5])
    run = follow(risk, [-2.0], Flow())
    assert run.limit.diverges
    assert run.final[0] > 1e5
    assert run.limit.kinks == ()


@pytest.mark.parametrize("start", [-1e-3, 1e-3])
def test_a_kink_that_repels_is_left_to_the_side_of_the_start(start):
    risk = on_line([1.0, -1.0], [0.0, 0.0], [1.0, 1.0])  # psi = |z|
    run = follow(risk, [start], Flow())
    assert run.limit.diverges
    assert np.sign(run.final[0]) == np.sign(start)


def test_a_start_on_a_kink_that_repels_follows_the_convention():
    """Towards the steeper side, and on where neither is."""
    assert follow(on_line([1.0, -1.0], [0.0, 0.0], [1.0, 1.0]), [0.0], Flow()).final[0] > 0
    assert follow(on_line([1.0, -1.0], [0.0, 0.0], [1.0, 3.0]), [0.0], Flow()).final[0] < 0


class Valley(KinkedHead):
    """psi = z_2 - |z_1|: slide to z_1 = 0, and then along it."""

    @property
    def width(self):
        return 2

    def through(self, z, relu):
        return z[1] - relu(z[0]) - relu(-z[0])


def test_a_flow_slides_along_a_kink_while_the_rest_diverges():
    """Keys that make z_1 and z_2 feel a coordinate each: two inputs, the first of the valley, both of the slope."""
    tokens = np.array([[[-1.0, 0.0], [1.0, 0.0]], [[0.0, -1.0], [0.0, 1.0]]])
    keys = np.array([[[-1.0, 0.5], [1.0, -0.5]], [[0.0, -1.0], [0.0, 1.0]]])
    risk = HeadRisk(EmbeddedSequences(tokens, [1, 1], np.ones(2), keys=keys), Valley())
    run = follow(risk, [1.0, 0.2], Flow())
    limit = run.limit
    assert limit.mixed
    np.testing.assert_allclose(limit.velocity, np.array([1.0, 2.0]) / np.sqrt(5), atol=1e-9)
    assert {(kink.input, kink.unit) for kink in limit.kinks} == {(0, 0), (0, 1)}
    assert sum(kink.share for kink in limit.kinks) == pytest.approx(1.0)
    assert compare(limit).is_gmm
    slid = np.abs(run.points @ [1.0, -0.5]) < 1e-8
    assert 5 < slid.sum() < len(slid)


def test_units_of_one_surface_are_one_kink(rng):
    """|u| as two units, and an input that stands twice, end where relu and one input do."""
    tokens, hidden = rng.normal(size=(1, 3, 2)), rng.normal(size=(2, 2))
    once = EmbeddedSequences(tokens, [1], np.ones(2))
    twice = EmbeddedSequences(np.repeat(tokens, 2, axis=0), [1, 1], np.ones(2))
    head = AbsoluteHead(hidden, np.array([0.2, -0.1]), np.array([-1.0, -2.0]))
    ends = [follow(HeadRisk(data, head), [0.4, 0.2], Flow()) for data in (once, twice)]
    first, second = (run.limit for run in ends)
    assert first.mixed
    assert second.mixed
    np.testing.assert_allclose(first.velocity, second.velocity, atol=1e-9)
    np.testing.assert_allclose(first.finite_part, second.finite_part, atol=1e-9)
    assert len(ends[1].limit.kinks) == 2 * len(ends[0].limit.kinks) > 0


@pytest.fixture(scope="module")
def sample():
    """Three problems of each of two laws, with their flows and the risk after 20,000 steps of descent."""
    found = {}
    for law in SAMPLED:
        problems = drawn(law, range(3))
        descent = Descent(problems)
        runs = [follow(one.risk, one.start, Flow()) for one in problems]
        found[law] = runs, descent.values(descent.run(0.05, 20_000))
    return found


@pytest.mark.parametrize("law", SAMPLED)
def test_ends_are_no_higher_than_those_of_descent(law, sample):
    runs, below = sample[law]
    for run, lowest in zip(runs, below, strict=True):
        assert run.risk.value(run.final) <= lowest + 1e-9
        assert not run.limit.stalled or "Neither" not in run.limit.reason


def test_the_risk_never_rises_along_a_flow(sample):
    for runs, _ in sample.values():
        for run in runs:
            values = np.array([run.risk.value(p) for p in run.points[:: max(1, len(run.points) // 40)]])
            assert (np.diff(values) <= 1e-6).all()


def test_where_a_flow_rests_on_kinks_no_direction_descends(sample):
    """Beside a finite end the risk rises in 200 directions, and by hardly less than a step: kinks are no saddles."""
    rests = [run for runs, _ in sample.values() for run in runs if run.limit.finite and run.limit.kinks]
    assert rests
    for run in rests:
        field, coordinates = run.risk.in_span
        del field
        here, rng = run.risk.value(run.final), np.random.default_rng(0)
        for step in coordinates.velocity(coordinates.along(rng.normal(size=(200, len(run.final))))):
            assert run.risk.value(run.final + 1e-3 * step / np.linalg.norm(step)) > here - 1e-13


def test_a_law_draws_what_its_name_says():
    """A sweep over no problems would pass."""
    assert len(LAWS) == 10
    one = drawn("repeated", range(1))[0]
    assert (one.tokens[:2] == one.tokens[2:]).all()


def test_a_unit_at_its_kink_on_a_token_keeps_its_sign_past_saturation():
    """psi = relu(z_1) at a token of z_1 = 0: on by what is left of a token beside it, however little that is."""
    tokens, keys = [[[0.0, 1.0], [1.0, 0.0]]], [[[1.0, 0.0], [0.0, 0.0]]]
    head = ReLUHead([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], [0.5, 1.0])
    field = HeadRisk(EmbeddedSequences(tokens, [1], np.ones(2), keys=keys), head).field
    for length in (10.0, 1e3, 1e6):
        assert pattern_at(field, np.array([length, 0.0])).tolist() == [[1.0, 1.0]]
        assert at_pattern(field, np.array([length, 0.0])).seen(np.array([length, 0.0])).scores[0, 1] == pytest.approx(
            -0.5
        )


def test_where_every_unit_turns_off_p_stays():
    """psi = -relu(z): from z > 0 the flow reaches z = 0, beyond which nothing pulls."""
    limit = follow(on_line([1.0], [0.0], [-1.0]), [1.0], Flow()).limit
    assert limit.finite
    assert abs(limit.point[0]) < 1e-9


@pytest.mark.parametrize("p", [[0.3, -0.2], [3.0, 1.0]])
def test_a_piece_is_the_head_itself_at_its_own_pattern(p, rng):
    head = ReLUHead(rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=4))
    z = jnp.asarray(p)
    u = head.units(z)
    value, again = head.piece(z, (u > 0).astype(float), jnp.zeros(4))
    assert float(value) == pytest.approx(float(head(z)), rel=1e-14)
    np.testing.assert_array_equal(u, again)
    assert head.n_units == 4


@pytest.mark.parametrize("number", [6, 104, 139, 174])
def test_what_slides_along_a_curved_surface_for_ever_is_a_mixed_limit(number):
    """An input rests on top of its head, on a curve: two of its tokens stay level for ever, the rest is a margin."""
    from tests.report.test_playground_page import bent_problems

    *_, (keys, scores, head, start) = bent_problems(number + 1, seed=4)
    data = EmbeddedSequences(scores[..., None], np.ones(len(keys), int), np.ones(1), keys=keys)
    limit = follow(HeadRisk(data, head), start, Flow()).limit
    assert limit.mixed
    (kink,) = limit.kinks
    assert kink.share == pytest.approx(1.0 / head.by, abs=1e-6)
    held = limit.selection.chosen[kink.input]
    assert held.sum() == 2
    low, high = sorted(scores[kink.input][held])
    assert low < head.at < high
    assert abs(limit.velocity @ np.diff(keys[kink.input][held], axis=0)[0]) < 1e-9
    assert compare(limit).velocity_error < 1e-9


def test_inputs_of_opposite_labels_hold_p_where_the_head_is_zero():
    """psi = z from -1 to 1 and the same input with either label: p rests where z = 0, as nothing else pulls."""
    head = ReLUHead([[1.0], [-1.0]], [2.0, 2.0], [0.5, -0.5])
    data = EmbeddedSequences(np.repeat(LINE, 2, axis=0), [1, -1], [1.0])
    limit = follow(HeadRisk(data, head), [1.3], Flow()).limit
    assert limit.finite
    assert abs(limit.point[0]) < 1e-9


def test_a_head_that_bends_nowhere_may_be_a_kinked_head():
    class Smooth(KinkedHead):
        @property
        def width(self):
            return 1

        def through(self, z, relu):
            return jnp.tanh(z[0])

    limit = follow(HeadRisk(EmbeddedSequences(LINE, [1], [1.0]), Smooth()), [-0.3], Flow()).limit
    assert limit.diverges
    assert limit.kinks == ()
