"""Heads: values, shapes, what is known of their curvature; and the risk behind them, with and without saturation."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.instances import fig1b, fig1c
from tokenmargin import AttentionRisk, Descent, EmbeddedSequences, NormalizedDescent, follow
from tokenmargin.attention import logistic
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import (
    Curvature,
    Head,
    LinearHead,
    QuadraticHead,
    ReLUHead,
    head_scores,
)
from tokenmargin.data import Selection, optimal_selection, scores
from tokenmargin.errors import InvalidInputError

WIDTH = 4


class TransformerHead(Head):
    """A head of a user's own: z is cut into two pieces that attend to each other [M, App. D]."""

    query: jax.Array
    value: jax.Array
    output: jax.Array

    @classmethod
    def random(cls, key, width):
        keys, w = jax.random.split(key, 3), width // 2
        return cls(*(jax.random.normal(one, shape) for one, shape in zip(keys, ((w, w), (w, w), (w,)), strict=True)))

    @property
    def width(self):
        return 2 * len(self.output)

    def __call__(self, z):
        pieces = jnp.reshape(z, (2, -1))
        mixed = pieces + jax.nn.softmax(pieces @ self.query @ pieces.T) @ pieces @ self.value
        return jnp.mean(jnp.tanh(mixed) @ self.output)


HEADS = {
    "linear": LinearHead(np.arange(1.0, 5.0)),
    "quadratic": QuadraticHead(np.outer(np.arange(4.0), np.ones(4)), np.ones(WIDTH), 0.3),
    "relu": ReLUHead.random(jax.random.key(0), WIDTH, 5),
    "transformer": TransformerHead.random(jax.random.key(1), WIDTH),
}


slope_of = eqx.filter_jit(lambda head, z: jax.grad(head)(z))


def data(rng) -> EmbeddedSequences:
    """One shape for all tests: what is compiled for a head is compiled once."""
    tokens, keys = rng.normal(size=(3, 4, WIDTH)), rng.normal(size=(3, 4, 3))
    return EmbeddedSequences(tokens, [1, -1, 1], np.ones(WIDTH), keys=keys)


def one_input(rng) -> EmbeddedSequences:
    """One input, standing three times: the risk is that of one."""
    whole = data(rng)
    return EmbeddedSequences(whole.tokens[[0, 0, 0]], [1, 1, 1], whole.head, keys=whole.keys[[0, 0, 0]])


def textbook_risk(sequences, head, loss, p):
    """(83) as written, for autodiff."""

    def one(X, K, Y):
        return loss.value(Y * head(X.T @ jax.nn.softmax(K @ p)))

    return jnp.mean(jax.vmap(one)(*map(jnp.asarray, (sequences.tokens, sequences.keys, sequences.labels))))


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
class TestEveryHead:
    def test_maps_a_token_to_a_number(self, head, rng):
        z = rng.normal(size=WIDTH)
        assert isinstance(head, Head)
        assert head.width == WIDTH
        assert eqx.filter_jit(head)(z).shape == ()
        assert slope_of(head, jnp.asarray(z)).shape == (WIDTH,)

    def test_scores_tokens_one_by_one(self, head, rng):
        sequences = data(rng)
        gamma = eqx.filter_jit(head_scores)(head, sequences.tokens, sequences.labels)
        assert gamma[1, 2] == pytest.approx(-float(eqx.filter_jit(head)(sequences.tokens[1, 2])), rel=1e-12)

    def test_gradient_is_that_of_the_textbook_before_saturation(self, head, rng):
        sequences, p = data(rng), jnp.asarray([0.3, -0.2, 0.5])
        risk = HeadRisk(sequences, head, logistic)
        value, gradient = jax.jit(jax.value_and_grad(lambda q: textbook_risk(sequences, head, logistic, q)))(p)
        assert risk.value(p) == pytest.approx(float(value), rel=1e-12)
        np.testing.assert_allclose(risk.gradient(p), gradient, rtol=1e-10, atol=1e-14)

    def test_gradient_keeps_its_direction_past_saturation(self, head, rng):
        """Far out one pair of tokens outweighs the rest: the field is Cov_s for the two, of known direction."""
        sequences = one_input(rng)
        risk = HeadRisk(sequences, head)
        p = 400.0 * np.array([1.0, 2.0, -1.0])
        order = np.argsort(-(sequences.keys[0] @ p))[:2]
        (x1, x2), (k1, k2) = sequences.tokens[0, order], sequences.keys[0, order]
        pull = sequences.labels[0] * float(jnp.dot(slope_of(head, jnp.asarray(x1)), x1 - x2))
        direction, log_scale = risk.descent_direction(p)
        expected = np.sign(pull) * (k1 - k2) / np.linalg.norm(k1 - k2)
        np.testing.assert_allclose(direction / np.linalg.norm(direction), expected, atol=1e-12)
        gap = float((k1 - k2) @ p)
        slope = float(logistic.log_slope(jnp.asarray(float(risk.scores[0, order[0]]))))
        log_norm = slope - gap + np.log(abs(pull) * np.linalg.norm(k1 - k2))
        assert gap > 100
        assert log_scale + np.log(np.linalg.norm(direction)) == pytest.approx(log_norm, rel=1e-10)


def test_curvature_is_what_the_weights_say(rng):
    z, w = rng.normal(size=(2, WIDTH))
    assert HEADS["linear"].curvature is Curvature.AFFINE
    assert QuadraticHead(np.zeros((4, 4)), np.ones(4)).curvature is Curvature.AFFINE
    assert HEADS["relu"].curvature is Curvature.UNKNOWN
    assert HEADS["transformer"].curvature is Curvature.UNKNOWN
    assert QuadraticHead(np.diag([1.0, -1, 0, 0]), np.ones(4)).curvature is Curvature.UNKNOWN
    convex = [
        QuadraticHead(np.outer(z, z), np.ones(4)),
        ReLUHead(rng.normal(size=(3, WIDTH)), np.zeros(3), [1.0, 0.0, 2.0]),
    ]
    concave = [
        QuadraticHead(-np.outer(z, z), np.ones(4)),
        ReLUHead(rng.normal(size=(3, WIDTH)), np.zeros(3), [-1.0, 0.0, -2.0]),
    ]
    for head, sign, curvature in [(h, 1, Curvature.CONVEX) for h in convex] + [
        (h, -1, Curvature.CONCAVE) for h in concave
    ]:
        assert head.curvature is curvature
        assert sign * (float(head(z) + head(w)) / 2 - float(head((z + w) / 2))) >= 0


def test_a_linear_head_is_the_attention_risk():
    for sequences in (fig1c(),):
        risk, linear = AttentionRisk(sequences), HeadRisk(sequences, LinearHead(sequences.head))
        np.testing.assert_allclose(linear.scores, scores(sequences), rtol=1e-12)
        for p in ([0.3, -0.4], [30.0, 20.0], [300.0, 200.0]):
            assert linear.value(p) == pytest.approx(risk.value(p), rel=1e-13)
            np.testing.assert_allclose(linear.gradient(p), risk.gradient(p), rtol=1e-9, atol=0)


@pytest.mark.parametrize("method", [Descent(0.5), NormalizedDescent(0.5, epsilon=1e-3)])
def test_descent_with_a_linear_head_is_descent(method):
    sequences = fig1c()
    path = follow(HeadRisk(sequences, LinearHead(sequences.head)), [-1.0, 0.5], method, steps=40).points
    reference = follow(AttentionRisk(sequences), [-1.0, 0.5], method, steps=40)
    np.testing.assert_allclose(path, reference.points, rtol=1e-9, atol=1e-12)


def test_descent_with_a_nonlinear_head_decreases_the_risk(rng):
    risk = HeadRisk(data(rng), HEADS["relu"])
    path = follow(risk, np.zeros(3), Descent(0.05), steps=40).points
    values = [risk.value(p) for p in path[::10]]
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0]


@pytest.mark.parametrize("name", ["quadratic", "transformer"])
def test_log_excess_is_the_risk_difference(name, rng):
    sequences = data(rng)
    risk = HeadRisk(sequences, HEADS[name])
    alpha = optimal_selection(sequences)
    points = rng.normal(size=(5, 3))
    base = float(jnp.mean(logistic.value(jnp.asarray(risk.scores[np.arange(3), alpha.indices]))))
    sign, size, log_q = risk.log_excess(points, alpha)
    np.testing.assert_allclose(sign * np.exp(size), [risk.value(p) - base for p in points], rtol=1e-9)
    attention = AttentionRisk(sequences).attention(points[0])
    assert np.exp(log_q[0]) == pytest.approx(1 - attention[np.arange(3), alpha.indices].min(), rel=1e-12)


def test_log_excess_far_out_is_the_first_order_term(rng):
    """n = 1, p = R u: excess = |l'(gamma_1)| psi'(x_1)'(x_1 - x_2) exp(-R gap) up to smaller logistics."""
    sequences = one_input(rng)
    for head in (HEADS["quadratic"], HEADS["transformer"]):
        risk = HeadRisk(sequences, head)
        u = np.array([1.0, 2.0, -1.0])
        order = np.argsort(-(sequences.keys[0] @ u))[:2]
        (x1, x2), (k1, k2) = sequences.tokens[0, order], sequences.keys[0, order]
        pull = float(jnp.dot(slope_of(head, jnp.asarray(x1)), x1 - x2))
        slope = float(logistic.log_slope(jnp.asarray(float(risk.scores[0, order[0]]))))
        points = np.repeat(1e4 * u[None], 5, axis=0)
        sign, size, log_q = risk.log_excess(points, Selection.from_indices(np.repeat(order[:1], 3), 4))
        assert sign[0] == np.sign(pull)
        assert log_q[0] == pytest.approx(-1e4 * float((k1 - k2) @ u), rel=1e-12)
        assert size[0] - log_q[0] == pytest.approx(slope + np.log(abs(pull)), abs=1e-7)


def test_an_input_whose_tokens_are_all_allowed_costs_nothing(rng):
    risk = HeadRisk(data(rng), HEADS["quadratic"])
    sign, size, log_q = risk.log_excess(np.ones((5, 3)), Selection(np.ones((3, 4), dtype=bool)))
    assert (sign[0], size[0], log_q[0]) == (0.0, -np.inf, -np.inf)


def test_masked_tokens_have_no_say(rng):
    whole, head, p = data(rng), HEADS["transformer"], jnp.asarray([0.3, -0.2, 0.5])
    hidden = np.broadcast_to(np.arange(4) == 3, (3, 4))
    tokens = np.where(hidden[:, :, None], np.nan, whole.tokens)
    padded = EmbeddedSequences(tokens, whole.labels, whole.head, keys=whole.keys, mask=~hidden)
    short = EmbeddedSequences(whole.tokens[:, :3], whole.labels, whole.head, keys=whole.keys[:, :3])
    value, gradient = jax.jit(jax.value_and_grad(lambda q: textbook_risk(short, head, logistic, q)))(p)
    assert HeadRisk(padded, head).value(p) == pytest.approx(float(value), rel=1e-13)
    np.testing.assert_allclose(HeadRisk(padded, head).gradient(p), gradient, rtol=1e-10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearHead([[1.0]]),
        lambda: LinearHead([np.nan]),
        lambda: QuadraticHead(np.eye(3), [1.0]),
        lambda: ReLUHead(np.eye(3), np.ones(2), np.ones(3)),
        lambda: HeadRisk(fig1b(), LinearHead([1.0])),
        lambda: HeadRisk(fig1b(), LinearHead(np.ones(3))).log_excess(np.ones(2), Selection([[True, True, True]])),
        lambda: follow(HeadRisk(fig1b(), LinearHead(np.ones(3))), [0.0, 0.0], Descent(1.0), steps=0),
    ],
)
def test_wrong_input_is_refused(make):
    with pytest.raises(InvalidInputError):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda bad: LinearHead([1.0, bad]),
        lambda bad: QuadraticHead([[bad]], [1.0]),
        lambda bad: QuadraticHead([[1.0]], [bad]),
        lambda bad: QuadraticHead([[1.0]], [1.0], bad),
        lambda bad: ReLUHead([[1.0]], [bad], [1.0]),
    ],
    ids=["linear", "matrix", "weights", "offset", "bias"],
)
def test_weights_that_are_not_finite_are_refused_in_words(make, bad):
    with pytest.raises(InvalidInputError, match="holds NaN or infinity: give finite weights"):
        make(bad)
