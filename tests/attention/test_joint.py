"""Joint training: both gradients against autodiff and long decimals, and the paths they give."""

from __future__ import annotations

from decimal import Decimal, getcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.instances import fig3, random_sphere
from tests.references import exact_logistic_gradient
from tokenmargin.attention import (
    Flow,
    JointRisk,
    NormalizedDescent,
    Outcome,
    continued,
    exponential,
    follow,
    logistic,
)
from tokenmargin.attention._several_blocks import judged_by_rates, path_velocity
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError

A, B = (0.5, 1.0), (0.5, 1.5)
START_V, START_P = (-1.0, 0.0), (0.0, -1.0)
START = (START_V, START_P)
OPTIMAL = Selection.from_indices([1, 1, 1], 2)


def plain_risk(data, loss, v, p):
    """L(v, p) as written."""
    total = 0.0
    for i in range(data.n_inputs):
        present = np.flatnonzero(data.mask[i])
        attention = jax.nn.softmax(data.keys[i][present] @ p)
        total = total + loss.value(data.labels[i] * (v @ (data.tokens[i][present].T @ attention)))
    return total / data.n_inputs


def with_head(data, v):
    return EmbeddedSequences(data.tokens, data.labels, v, data.keys, data.mask)


def unit_directions(risk, v, p):
    """-grad_v L and -grad_p L over their lengths."""
    return [each / np.linalg.norm(each) for each in risk.descent_direction((v, p))[0]]


def exact_head_direction(data, v, p):
    """-grad_v L for the logistic loss in long decimals, as a unit vector."""
    getcontext().prec = 400
    total = [Decimal(0)] * len(v)
    for i in range(data.n_inputs):
        logits = [
            sum(Decimal(float(k)) * Decimal(float(q)) for k, q in zip(row, p, strict=True)) for row in data.keys[i]
        ]
        weights = [(a - max(logits)).exp() for a in logits]
        s = [w / sum(weights) for w in weights]
        label = Decimal(float(data.labels[i]))
        mean = [
            label * sum(a * Decimal(float(x)) for a, x in zip(s, data.tokens[i, :, c], strict=True))
            for c in range(len(v))
        ]
        f = sum(m * Decimal(float(x)) for m, x in zip(mean, v, strict=True))
        total = [t + m / (1 + f.exp()) for t, m in zip(total, mean, strict=True)]
    length = sum(x * x for x in total).sqrt()
    return np.array([float(x / length) for x in total])


@pytest.mark.parametrize("loss", [logistic, exponential], ids=["logistic", "exponential"])
def test_gradients_are_those_of_autodiff_before_saturation(rng, loss):
    masked = random_sphere(rng, n=3, T=4, d=5)
    mask = np.ones((3, 4), dtype=bool)
    mask[1, 2:] = False
    keys = rng.normal(size=(3, 4, 5))
    keys[2, 3] = keys[2, 1]  # two tokens of one key
    data = EmbeddedSequences(masked.tokens, masked.labels, masked.head, keys, mask)
    risk = JointRisk(data, loss)
    reference = jax.jit(jax.value_and_grad(lambda v, p: plain_risk(data, loss, v, p), argnums=(0, 1)))
    for _ in range(5):
        v, p = rng.normal(size=5), rng.normal(size=5)
        value, expected = reference(v, p)
        for ours, theirs in zip(risk.gradient((v, p)), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-15)
        assert risk.value((v, p)) == pytest.approx(float(value), rel=1e-13)


def test_directions_are_exact_where_the_usual_gradients_fail():
    data, risk = fig3(A), JointRisk(fig3(A))
    v, p = np.array([0.3, 300.0]), np.array([97.0, 24.3])
    head, attention = unit_directions(risk, v, p)
    np.testing.assert_allclose(attention, -exact_logistic_gradient(with_head(data, v), p), atol=1e-11)
    np.testing.assert_allclose(head, exact_head_direction(data, v, p), atol=1e-11)
    usual = jax.grad(lambda q: plain_risk(data, logistic, jnp.asarray(v), q))(jnp.asarray(p))
    usual = -np.asarray(usual) / max(float(np.linalg.norm(usual)), 1e-300)
    assert np.linalg.norm(usual - attention) > 0.1


def test_the_usual_gradient_of_v_underflows_and_ours_does_not():
    data, risk = fig3(A), JointRisk(fig3(A))
    v, p = np.array([1.0, 2000.0]), np.array([30.0, 7.0])
    usual = jax.grad(lambda w: plain_risk(data, logistic, w, jnp.asarray(p)))(jnp.asarray(v))
    assert not np.asarray(usual).any()
    np.testing.assert_allclose(unit_directions(risk, v, p)[0], exact_head_direction(data, v, p), atol=1e-11)


def test_inputs_that_attend_to_nothing_do_not_drown_the_rest():
    """When v is slow, p first selects the token at 0 of inputs 0 and 2: their outputs vanish, their |l'| stays 1/2."""
    data, risk = fig3(B), JointRisk(fig3(B))
    v, p = np.array([-2000.0, 2000.0]), np.array([-300.0, -2000.0])
    assert (risk.attention((v, p))[[0, 2], 1] == 0).all()
    weights = risk.field.log_weights(jnp.concatenate([v, p]))[0]
    assert np.isneginf(weights).tolist() == [True, False, True]
    np.testing.assert_allclose(unit_directions(risk, v, p)[0], [-np.sqrt(0.5), np.sqrt(0.5)], atol=1e-12)
    slow = follow(JointRisk(data, speeds=(0.2, 1.0)), START, Flow())
    assert slow.outcome is Outcome.NORM_REACHED
    assert slow.limit.selection == Selection.from_indices([0, 1, 0], 2)


def test_descent_is_the_plain_loop(rng):
    data = fig3(B)
    run = follow(JointRisk(data, speeds=(1.0, 2.0)), START, NormalizedDescent(0.1), steps=20, every=5)
    gradient = jax.jit(jax.grad(lambda v, p: plain_risk(data, logistic, v, p), argnums=(0, 1)))
    v, p = jnp.asarray(START_V), jnp.asarray(START_P)
    for step in range(1, 21):
        g_v, g_p = gradient(v, p)
        v, p = v - 0.1 * g_v / jnp.linalg.norm(g_v), p - 0.2 * g_p / jnp.linalg.norm(g_p)
        if step % 5 == 0:
            np.testing.assert_allclose(run.blocks["v"][step // 5], v, atol=1e-12)
            np.testing.assert_allclose(run.blocks["p"][step // 5], p, atol=1e-12)
    assert run.times.tolist() == [0, 5, 10, 15, 20]
    assert run.outcome is Outcome.STEPS_SPENT


def test_the_flow_is_the_limit_of_small_steps():
    risk = JointRisk(fig3(B), speeds=(1.0, 2.0))
    flow = follow(risk, START, Flow(until_norm=5.0, atol=1e-6))
    length = float(flow.times[-1])
    errors = []
    for steps in (2_000, 4_000):
        run = follow(risk, START, NormalizedDescent(length / steps), steps=steps, every=steps)
        errors.append(np.linalg.norm(run.points[-1] - flow.points[-1]))
    assert errors[1] < 0.02
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.2)  # first order: Euler's method


def test_the_flow_reaches_its_norm_with_the_speeds_asked_for():
    run = follow(JointRisk(fig3(A), speeds=(1.0, 2.0)), START, Flow())
    assert run.outcome is Outcome.NORM_REACHED
    assert np.linalg.norm(run.blocks["v"][-1]) >= 1e6
    assert np.linalg.norm(run.blocks["p"][-1]) / np.linalg.norm(run.blocks["v"][-1]) == pytest.approx(2.0, abs=1e-4)
    assert run.limit.selection == OPTIMAL
    assert run.n_steps < 5_000


def test_the_flow_does_not_run_far_beyond_its_norm():
    """|v| is below the norm before the last step, and no step is longer than the norm, whatever the speed of v."""
    run = follow(JointRisk(fig3(A), speeds=(1000.0, 1000.0)), START, Flow())
    assert run.outcome is Outcome.NORM_REACHED
    assert np.linalg.norm(run.blocks["v"][-1]) < 2e6


def test_velocities_are_those_of_the_second_half_in_time():
    corner = np.array([[0.0, 0.0], [5.0, 0.0], [5.0, 1.0], [5.0, 2.0], [8.0, 2.0]])
    points, times = np.hstack([corner, -corner]), np.array([0.0, 3.0, 4.0, 6.0, 8.0])
    velocity = path_velocity(JointRisk(fig3(A)), points, times)
    along = np.array([3.0, 1.0]) / np.sqrt(10)
    np.testing.assert_allclose(velocity, np.concatenate([along, -along]))


def test_numbers_of_single_precision_are_followed_in_double():
    data = fig3(B)
    single = EmbeddedSequences(*(x.astype(np.float32) for x in (data.tokens, data.labels, data.head)))
    same = EmbeddedSequences(*(x.astype(np.float32).astype(float) for x in (data.tokens, data.labels, data.head)))
    run, double = (follow(JointRisk(each), START, NormalizedDescent(0.1), steps=100) for each in (single, same))
    assert run.points.dtype == np.float64
    np.testing.assert_array_equal(run.points, double.points)


def test_token_order_and_units_of_labels_do_not_matter(rng):
    data = fig3(B)
    swapped = EmbeddedSequences(data.tokens[:, ::-1], data.labels, data.head)
    flipped = EmbeddedSequences(data.tokens, -data.labels, data.head)
    one = follow(JointRisk(data), START, NormalizedDescent(0.1), steps=100)
    two = follow(JointRisk(swapped), START, NormalizedDescent(0.1), steps=100)
    three = follow(JointRisk(flipped), ((1.0, 0.0), START_P), NormalizedDescent(0.1), steps=100)
    np.testing.assert_allclose(two.points, one.points, atol=1e-10)
    np.testing.assert_allclose(three.blocks["p"], one.blocks["p"], atol=1e-10)
    np.testing.assert_allclose(three.blocks["v"], -one.blocks["v"], atol=1e-10)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: follow(JointRisk(fig3(A)), ((1.0,), START_P), Flow()), "v has shape.*width 2"),
        (lambda: follow(JointRisk(fig3(A)), (START_V, (1.0,)), Flow()), "width 2"),
        (lambda: follow(JointRisk(fig3(A)), [0.0, 1.0], Flow()), r"tuple \(v, p\)"),
        (lambda: JointRisk(fig3(A), speeds=(0.0, 1.0)), "speed of v"),
        (lambda: JointRisk(fig3(A), speeds=(1.0, -1.0)), "speed of p"),
        (lambda: JointRisk(fig3(A), speeds=(1.0,)), "two numbers"),
        (lambda: follow(JointRisk(fig3(A)), START, NormalizedDescent(0.1), steps=10, every=3), "divisor"),
    ],
)
def test_wrong_input_is_named(run, words):
    with pytest.raises(InvalidInputError, match=words):
        run()


def test_a_point_is_a_tuple_or_one_vector_and_many_are_a_list():
    risk = JointRisk(fig3(A))
    one = follow(risk, START, NormalizedDescent(0.1), steps=5)
    whole = follow(risk, np.concatenate([START_V, START_P]), NormalizedDescent(0.1), steps=5)
    many = follow(risk, [START, ((1.0, 0.5), (0.2, 0.1))], NormalizedDescent(0.1), steps=5)
    np.testing.assert_array_equal(whole.points, one.points)
    assert len(many) == 2
    np.testing.assert_array_equal(many[0].points[-1], one.points[-1])
    assert len(many[0].points) == 2


def test_the_limit_of_a_joint_run_is_certified_by_its_rates():
    """At |v| = 1e6 all that carries weight loses it at one rate; after a thousand steps nothing can be said yet."""
    for third, speeds in ((A, (1.0, 1.0)), (B, (1.0, 1.0)), (B, (1.0, 2.0)), (B, (3.0, 1.0))):
        risk = JointRisk(fig3(third), speeds=speeds)
        limit = follow(risk, START, Flow()).limit
        assert limit.diverges
        assert limit.selection == OPTIMAL
        assert max(*limit.spreads, -limit.least_excess) <= 1e-6
        descent = follow(risk, START, NormalizedDescent(0.1))
        assert descent.limit.stalled
        assert continued(descent).limit.diverges


def test_a_joint_limit_off_its_velocity_is_not_certified():
    run = follow(JointRisk(fig3(A)), START, Flow())
    tilted = run.limit.blocks["p"].velocity + np.array([0.0, 0.01])
    velocity = np.concatenate([run.limit.blocks["v"].velocity, tilted / np.linalg.norm(tilted)])
    limit = judged_by_rates(run.risk, run.points[-1], velocity)
    assert limit.stalled
    assert "different rates" in limit.reason


def test_a_token_of_higher_score_that_keeps_its_distance_is_no_joint_limit_however_little_it_weighs():
    """Along (0, 1) token 0, of twice the score, stays as far behind token 1 as token 2; from (0, 0.5) p goes to it."""
    risk = JointRisk(EmbeddedSequences([[[2.0], [1.0], [0.0]]], [1], [0.0], keys=[[(1, 0), (0, 1), (0, 0)]]))
    runs = follow(risk, [([1.0], [0.0, 0.5]), ([1.0], [-40.0, 0.5])], Flow())
    assert [run.limit.kind.value for run in runs] == ["diverges", "stalled"]
    assert "higher score" in runs[1].limit.reason


def test_a_joint_run_that_never_moved_is_stalled():
    """Keys in units of 1e-6, from a v that is as long as the flow goes: no pair has lost any weight."""
    data = fig3(B)
    small = EmbeddedSequences(1e-6 * data.tokens, data.labels, data.head)
    assert follow(JointRisk(small), ([-1e6, 0.0], [0.0, -1e6]), Flow()).limit.stalled
