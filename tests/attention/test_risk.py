"""Risks written outside the package: a matrix as a point, two queries at once, and runs in norms without a judge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.instances import fig1b, fig1c, random_sphere
from tokenmargin.attention import (
    AttentionRisk,
    Block,
    Excess,
    Field,
    Flow,
    Gradient,
    Method,
    NormalizedDescent,
    PairField,
    Risk,
    ScaledVector,
    continued,
    follow,
    follow_all,
    limits_of,
    logistic,
)
from tokenmargin.attention.blocks import as_written, by_block
from tokenmargin.data import EmbeddedSequences, scores
from tokenmargin.errors import InvalidInputError
from tokenmargin.norms import L2, Norm
from tokenmargin.theory import compare, one_minus_cosine


@dataclass(frozen=True, eq=False)
class BilinearRisk(Risk):
    """L(W) with logits x'Wz: a query z for each input, and a matrix as a point."""

    tokens: EmbeddedSequences
    queries: np.ndarray  # (n, e)

    @cached_property
    def sequences(self):
        keys = np.einsum("ntd,ne->ntde", self.tokens.keys, self.queries)
        return EmbeddedSequences.from_scores(keys.reshape(*keys.shape[:2], -1), scores(self.tokens))

    @property
    def blocks(self):
        return {"W": Block((self.tokens.width, self.queries.shape[1]))}

    @cached_property
    def field(self):
        return AttentionRisk(self.sequences).field


class TwoQueryField(Field):
    """L(p, q) of two attentions whose outputs are added."""

    one: PairField
    d: int = eqx.field(static=True)

    def seen(self, y):
        parts = y[: self.d], y[self.d :]
        logs = [self.one.log_attention(part) for part in parts]
        return parts, logs, sum(jnp.sum(jnp.exp(log_s) * self.one.scores, axis=1) for log_s in logs)

    def value(self, y):
        return jnp.mean(logistic.value(self.seen(y)[2]))

    def descent(self, y):
        parts, _, output = self.seen(y)
        blocks = []
        for part in parts:
            _, pull = jax.vjp(lambda p: jnp.sum(jnp.exp(self.one.log_attention(p)) * self.one.scores, axis=1), part)
            slope = logistic.log_slope(output)
            (along,) = pull(jnp.exp(slope - jnp.max(slope)) / len(output))
            blocks.append(ScaledVector(along, jnp.max(slope)))
        value = self.value(y)
        return Gradient(tuple(blocks)), Excess(jnp.sign(value), jnp.log(value))


class JudgedField(TwoQueryField):
    def log_weights(self, y):
        _, logs, output = self.seen(y)
        apart = jnp.abs(self.one.scores[:, :, None] - self.one.scores[:, None])
        slope = logistic.log_slope(output)[:, None, None]
        return tuple(
            jnp.where(
                apart > 0, slope + s[:, :, None] + s[:, None] + jnp.log(jnp.where(apart > 0, apart, 1.0)), -jnp.inf
            )
            for s in logs
        )


@dataclass(frozen=True, eq=False)
class TwoQueryRisk(Risk):
    sequences: EmbeddedSequences
    kind: type = TwoQueryField

    @property
    def blocks(self):
        return {"p": Block((2,)), "q": Block((2,))}

    @cached_property
    def field(self):
        return self.kind(AttentionRisk(self.sequences).field, 2)


class SignDescent(Method):
    lr: float

    def init(self, p):
        return ()

    def step(self, gradient, excess, state, p):
        return p - self.lr * jnp.sign(gradient.unit), state


class Largest(Norm):
    """The largest modulus of an entry."""

    name = "linf"

    @property
    def dual(self):
        return self

    def value(self, array):
        return abs(array).max()

    def steepest(self, gradient):
        return np.sign(gradient)


class NamedSignDescent(SignDescent):
    geometry = Largest()


@pytest.fixture
def bilinear(rng):
    data = random_sphere(rng, n=3, T=4, d=3)
    return BilinearRisk(data, rng.normal(size=(3, 2)))


def test_a_matrix_is_one_point_and_an_axis_more_is_many(bilinear, rng):
    start = 0.1 * rng.normal(size=(3, 2))
    one = follow(bilinear, start, Flow())
    assert one.start.shape == one.final.shape == (3, 2)
    assert one.blocks["W"].shape == (len(one.times), 3, 2)
    np.testing.assert_array_equal(one.start, start)
    many = follow(bilinear, np.stack([start, 2 * start]), Flow())
    assert len(many) == 2
    np.testing.assert_array_equal(many[0].final, one.final)
    assert bilinear.gradient(start).shape == (3, 2)
    for wrong in (np.zeros((2, 3)), np.zeros(5), np.zeros((1, 1, 3, 2))):
        with pytest.raises(InvalidInputError, match=r"shape \(3, 2\)"):
            follow(bilinear, wrong, Flow())


def test_a_matrix_is_judged_and_compared_like_the_vector_of_its_entries(bilinear):
    run = follow(bilinear, np.zeros((3, 2)), Flow())
    flat = follow(AttentionRisk(bilinear.sequences), np.zeros(6), Flow())
    assert run.limit.kind is flat.limit.kind
    np.testing.assert_array_equal(run.limit.blocks["W"].velocity, flat.limit.velocity.reshape(3, 2))
    agreement = compare(run.limit)
    assert agreement.agrees
    assert agreement.blocks["W"].predicted.shape == (3, 2)
    step = follow(bilinear, np.zeros((3, 2)), NormalizedDescent(0.1), steps=3)
    np.testing.assert_allclose(
        step.final,
        -0.1 * sum(bilinear.gradient(W) / np.linalg.norm(bilinear.gradient(W)) for W in step.blocks["W"][:-1]),
    )


def test_a_risk_without_a_span_is_followed_and_its_limit_says_what_is_missing():
    risk = TwoQueryRisk(fig1c())
    start = ([0.1, 0.0], [0.0, 0.2])
    y = risk.point(start)
    np.testing.assert_allclose(risk.point(risk.gradient(start)), jax.jit(jax.grad(risk.field.value))(y), rtol=1e-10)
    descent = follow(risk, start, NormalizedDescent(0.1), steps=50)
    assert risk.value(descent.final) < risk.value(start)
    assert descent.limit.stalled
    assert "log_weights" in descent.limit.reason
    assert "log_weights" in compare(descent.limit).explain()
    with pytest.raises(InvalidInputError, match="judged along a path"):
        limits_of([risk], [y])


def test_a_risk_without_a_span_is_judged_by_its_weights_and_says_that_no_problem_is_known_for_two_queries():
    run = follow(TwoQueryRisk(fig1c(), JudgedField), ([0.1, 0.0], [0.0, 0.2]), Flow(until_norm=30.0))
    assert len(run.limit.spreads) == 2
    assert run.limit.stalled  # 30 is not far enough to tell
    from dataclasses import replace

    from tokenmargin.attention import LimitKind

    asked = compare(replace(run.limit, kind=LimitKind.DIVERGES))
    assert not asked.is_compared
    assert "p and q together" in asked.explain()


@pytest.mark.parametrize(("method", "words"), [(SignDescent(0.1), "names no norm"), (NamedSignDescent(0.1), "linf")])
def test_a_run_in_a_norm_without_a_judge_is_not_judged_as_a_flow(method, words):
    """Sign descent goes to the largest margin in the norm of the largest entry, which is not that of the flow."""
    risk = AttentionRisk(fig1c())
    run = follow(risk, [0.0, 0.0], method, steps=20_000, every=1000)
    flow = follow(risk, [0.0, 0.0], Flow()).limit
    assert one_minus_cosine(run.final, flow.velocity) > 1e-3
    assert run.limit.stalled
    assert words in run.limit.reason
    assert one_minus_cosine(run.limit.velocity, run.final) < 1e-4  # its own, and not that of the flow from its end
    assert not compare(run.limit).is_compared
    with pytest.raises(InvalidInputError, match=words):
        continued(run)
    assert follow(risk, run.final, Flow()).limit.diverges  # asked for by its name


def test_a_finite_limit_is_one_in_every_norm():
    risk = AttentionRisk(EmbeddedSequences.from_scores([[(1.0,), (0.0,)], [(-1.0,), (0.0,)]], [[2.0, 0.0], [1.0, 0.0]]))
    at = follow(risk, [0.0], Flow()).final
    run = follow(risk, at, SignDescent(1e-12), steps=1)
    assert run.limit.finite


def test_a_norm_that_a_risk_does_not_know_is_said():
    class Unknown(AttentionRisk):
        def limit_norm(self, moved):
            return None

    limit = follow(Unknown(fig1b()), [0.0, -1.0], Flow()).limit
    assert limit.stalled
    assert "Unknown moves under Flow" in limit.reason
    assert "limit_norm" in limit.reason


def test_risks_of_all_kinds_run_together_in_their_order(bilinear):
    plain = AttentionRisk(fig1b())
    two = TwoQueryRisk(fig1c())
    runs = follow_all(
        [two, plain, bilinear], [np.zeros(4), [0.0, -1.0], np.zeros((3, 2))], NormalizedDescent(0.1), steps=5
    )
    assert [type(run.risk) for run in runs] == [TwoQueryRisk, AttentionRisk, BilinearRisk]
    flows = follow_all([two, plain], [np.zeros(4) + 0.1, [0.0, -1.0]], Flow(until_norm=20.0))
    assert flows[1].limit.selection == follow(plain, [0.0, -1.0], Flow(until_norm=20.0)).limit.selection


def test_blocks_are_taken_apart_and_put_together():
    blocks = {"v": Block((2,)), "W": Block((2, 3))}
    vector = np.arange(16.0).reshape(2, 8)
    parts = by_block(blocks, vector)
    assert parts["W"].shape == (2, 2, 3)
    v, W = as_written(blocks, vector[1])
    np.testing.assert_array_equal(np.concatenate([v, W.ravel()]), vector[1])


def test_a_risk_without_a_field_cannot_be_made():
    class Half(Risk):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Half()


def test_the_norm_of_the_flow_is_that_of_descent():
    assert Flow().geometry == NormalizedDescent(0.1).geometry == L2()
