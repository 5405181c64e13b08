"""The contract of a method: written outside the package, followed like those inside, right past saturation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.instances import fig1b, fig1c
from tokenmargin.attention import (
    AttentionRisk,
    Descent,
    Flow,
    HeadRisk,
    JointRisk,
    LinearHead,
    Method,
    NormalizedDescent,
    QuadraticHead,
    continued,
    correlation,
    exponential,
    follow,
    follow_all,
    logistic,
)
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.norms import L2
from tokenmargin.papers.maxmargin import toys


class Adam(Method):
    lr: float
    b1: float = 0.9
    b2: float = 0.999

    def init(self, p):
        return jnp.zeros_like(p), jnp.zeros_like(p), jnp.zeros((), p.dtype)

    def step(self, gradient, excess, state, p):
        first, second, t = state
        first = self.b1 * first + (1 - self.b1) * gradient.value
        second = self.b2 * second + (1 - self.b2) * gradient.value**2
        t = t + 1
        move = (first / (1 - self.b1**t)) / (jnp.sqrt(second / (1 - self.b2**t)) + 1e-8)
        return p - self.lr * move, (first, second, t)


class Polyak(Method):
    geometry = L2()

    def init(self, p):
        return ()

    def step(self, gradient, excess, state, p):
        return p - jnp.exp(excess.log_size - gradient.log_norm) * gradient.unit, state


def wide(rng, n=2, T=3, d=20):
    return EmbeddedSequences(rng.normal(size=(n, T, d)), np.ones(n), rng.normal(size=d))


def test_adam_written_outside_is_the_loop(rng):
    risk = AttentionRisk(wide(rng))
    start = 0.1 * rng.normal(size=20)
    run = follow(risk, start, Adam(lr=0.05), steps=30, every=10)
    p, first, second = start.copy(), np.zeros(20), np.zeros(20)
    for t in range(1, 31):
        g = risk.gradient(p)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        p = p - 0.05 * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        if t % 10 == 0:
            np.testing.assert_allclose(run.points[t // 10], p, atol=1e-12)
    assert len(run.points) == 4


def test_adam_sees_the_coordinates_of_the_keys_and_descent_does_not(rng):
    """In rotated keys the path of descent is the rotated path; that of Adam is another one."""
    data = wide(rng, d=4)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    turned = EmbeddedSequences(data.tokens, data.labels, data.head, keys=data.keys @ turn)
    for method, is_same in ((Descent(0.5), True), (Polyak(), True), (Adam(0.1), False)):
        one, other = (follow(AttentionRisk(x), np.zeros(4), method, steps=20).final for x in (data, turned))
        assert np.allclose(one @ turn, other, atol=1e-9) == is_same


@pytest.mark.parametrize("loss", [logistic, exponential, correlation], ids=["logistic", "exponential", "correlation"])
def test_polyak_is_its_formula_before_saturation(loss):
    data = fig1c()
    risk = AttentionRisk(data, loss)
    best = float(np.mean(np.asarray(loss.value(jnp.ones(3)))))  # every optimal token scores 1
    p = np.array([-1.0, 0.5])
    run = follow(risk, p, Polyak(), steps=3)  # later the plain formula has lost its digits
    for reached in run.points[1:]:
        g = risk.gradient(p)
        p = p - (risk.value(p) - best) / (g @ g) * g
        np.testing.assert_allclose(reached, p, rtol=1e-9)


def test_polyak_goes_on_where_risk_and_gradient_have_underflowed():
    risk = AttentionRisk(fig1c())
    run = follow(risk, [0.0, 0.0], Polyak(), steps=2000)
    assert not risk.gradient(run.final).any()
    assert run.norms[-1] > 1000
    assert run.limit.diverges


def test_excess_is_the_same_from_attention_and_from_a_linear_head(rng):
    data = wide(rng, n=3, T=4, d=3)
    points = rng.normal(size=(5, 3)) * np.array([0.1, 1.0, 10.0, 100.0, 1000.0])[:, None]
    sign, size, log_q = AttentionRisk(data).log_excess(points)
    again = HeadRisk(data, LinearHead(data.head)).log_excess(points, AttentionRisk(data).optimal)
    np.testing.assert_allclose(size, again[1], rtol=1e-12)
    assert (sign == 1).all()
    assert (log_q <= 0).all()
    gamma = np.where(data.mask, data.tokens @ data.head, -np.inf).max(axis=1)
    direct = AttentionRisk(data).value(points[0]) - float(np.mean(np.logaddexp(0, -gamma)))
    assert np.exp(size[0]) == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize("offset", [2.0**20, 2.0**32])
def test_an_exact_offset_of_the_keys_changes_no_digit_of_the_excess(rng, offset):
    """Keys on a grid of 2^-16: a common offset rounds nothing, so that nothing may change, the last bit included."""
    keys = np.round(rng.normal(size=(3, 4, 3)) * 2.0**16) / 2.0**16
    gamma, points = rng.normal(size=(3, 4)), rng.normal(size=(4, 3)) * np.array([0.1, 1.0, 30.0, 1000.0])[:, None]
    here, there = (AttentionRisk(EmbeddedSequences.from_scores(k, gamma)) for k in (keys, keys + offset))
    np.testing.assert_array_equal(there.log_excess(points), here.log_excess(points))
    behind = [HeadRisk(risk.sequences, QuadraticHead([[0.3]], [1.0])) for risk in (here, there)]
    for p in points:
        assert behind[1].value(p) == behind[0].value(p)
        np.testing.assert_array_equal(behind[1].gradient(p), behind[0].gradient(p))


def test_excess_that_a_step_is_told_is_that_of_the_risk(rng):
    data = wide(rng, n=3, T=4, d=3)
    risk = AttentionRisk(data)
    for field in (risk.field, HeadRisk(data, LinearHead(data.head)).field):
        for scale in (0.1, 3.0, 300.0):
            p = scale * np.array([1.0, -0.5, 0.2])
            _, size = field.log_excess(p)
            assert float(size) == pytest.approx(float(risk.log_excess(p[None])[1][0]), rel=1e-9)


def test_another_learning_rate_compiles_nothing():
    risk = AttentionRisk(fig1c())
    follow(risk, [0.0, 0.0], Adam(lr=0.1), steps=4)
    with jax.log_compiles(False):
        before = _descend_cache()
        follow(risk, [0.0, 0.0], Adam(lr=0.2), steps=4)
        follow(risk, [1.0, 0.0], NormalizedDescent(0.1), steps=4)
        after = _descend_cache()
        follow(risk, [1.0, 0.0], NormalizedDescent(0.3, 1e-6), steps=4)
        assert _descend_cache() == after <= before + 1


def _descend_cache():
    from tokenmargin.attention.descent import _descend

    return _descend._cached._cache_size()


@pytest.mark.long
def test_every_risk_is_followed_and_anything_else_is_refused_in_words():
    data = toys.fig3((0.5, 1.0))
    for risk, start in (
        (AttentionRisk(data), [0.0, -1.0]),
        (HeadRisk(data, LinearHead(data.head)), [0.0, -1.0]),
        (JointRisk(data), ([-1.0, 0.0], [0.0, -1.0])),
    ):
        for method in (Adam(0.1), Polyak(), Descent(0.1), NormalizedDescent(0.1), Flow()):
            run = follow(risk, start, method)
            assert run.limit.kind.value in ("diverges", "finite", "stalled")
    for thing in (None, data, np.zeros(3), "risk"):
        with pytest.raises(InvalidInputError, match="AttentionRisk, a HeadRisk or a JointRisk"):
            follow(thing, [0.0, 0.0], Flow())


def test_many_starts_are_each_start_alone():
    risk = AttentionRisk(fig1b())
    starts = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, -1.5]])
    for method in (Flow(), NormalizedDescent(0.1), Adam(0.1)):
        together = follow(risk, starts, method)
        kept = follow(risk, starts, method, keep_path=True)
        for start, run, path in zip(starts, together, kept, strict=True):
            alone = follow(risk, start, method)
            assert len(run.points) == 2
            np.testing.assert_array_equal(run.points[0], start)
            np.testing.assert_allclose(path.points, alone.points, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(run.final, alone.final, rtol=1e-12, atol=1e-12)


def test_a_descent_is_continued_by_the_flow():
    risk = AttentionRisk(fig1b())
    descent = follow(risk, [0.0, -1.0], NormalizedDescent(0.1), steps=200)
    assert descent.limit.stalled
    onward = continued(descent)
    np.testing.assert_array_equal(onward.start, descent.final)
    assert onward.limit.diverges
    assert onward.limit.selection.indices.tolist() == [1]
    assert continued(descent, Flow(until_norm=100.0)).limit.stalled


class Sideways(Method):
    def init(self, p):
        return ()

    def step(self, gradient, excess, state, p):
        return jnp.concatenate([p, p]), state


class Silent(Method):
    def init(self, p):
        return ()

    def step(self, gradient, excess, state, p):
        return p


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda risk: follow(risk, [0.0, 0.0], Sideways()), "must return"),
        (lambda risk: follow(risk, [0.0, 0.0], Silent()), "must return"),
        (lambda risk: follow(risk, [0.0, 0.0], "adam"), "Method of your own"),
        (lambda risk: follow(risk, [0.0, 0.0], Adam), "Method of your own"),
        (lambda risk: follow(risk, [0.0, 0.0], Flow(), every=2), "every accepted step"),
        (lambda risk: follow(risk, [0.0, 0.0], Flow(), steps=2), "its own steps"),
        (lambda risk: follow(risk, [[0.0, 0.0]], Descent(0.1), every=2), "keep_path=True"),
        (lambda risk: follow_all([risk], [[0.0, 0.0]], Descent(0.1), every=2), "keep_path=True"),
        (lambda risk: follow(risk, np.zeros((0, 2)), Descent(0.1)), "at least one"),
        (lambda risk: follow(risk, [[0.0, 0.0, 0.0]], Descent(0.1)), "width 2"),
    ],
)
def test_what_would_be_ignored_or_cannot_be_is_refused(run, words):
    with pytest.raises(InvalidInputError, match=words):
        run(AttentionRisk(fig1b()))


def test_an_abstract_method_cannot_be_made():
    class Half(Method):
        def init(self, p):
            return ()

    with pytest.raises(TypeError, match="abstract"):
        Half()
