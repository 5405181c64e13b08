"""The log-loss of next tokens: against autodiff and loops, past saturation, and to its mixed limit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import references
from tests.data.test_token_graph import LABELS, SEQUENCES, random_rows
from tokenmargin import Descent, Flow, NextTokenRisk, NormalizedDescent, continued, follow
from tokenmargin.attention import LabelLog, LabelSquared, label_log, label_squared
from tokenmargin.attention._lane_field import in_lanes
from tokenmargin.errors import InvalidInputError, TokenMarginError

EMBEDDINGS = np.random.default_rng(7).normal(size=(6, 8))


def published(loss=label_log):
    """Six sequences of four tokens: after token 2, tokens 0 and 5 compete."""
    return NextTokenRisk(SEQUENCES, LABELS, EMBEDDINGS, loss)


def test_value_is_that_of_loops_also_with_repeated_tokens_and_unlike_lengths():
    sequences, labels = random_rows(0, n=12)
    rows = [row[: 2 + j % 4].tolist() for j, row in enumerate(sequences)]
    labels = [row[j % len(row)] for j, row in enumerate(rows)]
    E, W = np.random.default_rng(1).normal(size=(7, 3)), np.random.default_rng(2).normal(size=(3, 3))
    risk = NextTokenRisk(rows, labels, E)
    assert risk.value(W) == pytest.approx(references.next_token_loss(rows, labels, E, W), rel=1e-12)
    np.testing.assert_allclose(risk.attention(W).sum(axis=1), 1.0)


@pytest.mark.parametrize("loss", [label_log, label_squared], ids=["log", "squared"])
def test_gradient_jacobian_and_lanes_are_those_of_autodiff(loss):
    risk = published(loss)
    with jax.enable_x64(True):
        field, _ = risk.in_span  # keys as an array, in the span
        p = 0.3 * np.random.default_rng(3).normal(size=field.keys.shape[2])
        expected = jax.jit(jax.grad(lambda x: field.value(x)))(jnp.asarray(p))
        force, jacobian = jax.jit(lambda x: field.force_and_jacobian(x))(jnp.asarray(p))
        np.testing.assert_allclose(jacobian, jax.jit(jax.jacfwd(lambda x: field.force(x)))(jnp.asarray(p)), atol=1e-12)
        lanes = in_lanes([field, field])
        both = np.stack([p, p], axis=1)
        of_lanes, slopes = jax.jit(lambda x: lanes.force_and_jacobian(x))(both)
        direction, scale = jax.jit(lambda x: lanes.descent_direction(x))(both)
    W = np.random.default_rng(3).normal(size=(8, 8))
    with jax.enable_x64(True):
        by_matrix = jax.jit(jax.grad(lambda x: risk.field.value(x)))(jnp.asarray(W.ravel()))
    np.testing.assert_allclose(risk.gradient(W).ravel(), by_matrix, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(of_lanes[:, 0], force, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(slopes[..., 1], jacobian, atol=1e-12)
    np.testing.assert_allclose(-np.exp(scale[0]) * direction[:, 0], expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("loss", [label_log, label_squared], ids=["log", "squared"])
def test_the_direction_survives_where_attention_underflows_either_way(loss):
    """Two tokens: the gradient's direction is known, however the label is ahead or behind."""
    risk = NextTokenRisk([[0, 1]], [0], np.eye(2), loss)
    for ahead in (-2000.0, -50.0, 0.0, 50.0, 2000.0):
        direction, scale = risk.descent_direction([[0.0, ahead], [0.0, 0.0]])
        unit = direction / np.linalg.norm(direction)
        np.testing.assert_allclose(unit, np.array([[0.0, 1.0], [0.0, -1.0]]) / np.sqrt(2), atol=1e-12)
        # -grad: the others' attention for the log-loss; times the label's and the others' once more for the squared one
        behind = -np.logaddexp(0.0, ahead)
        log_pull = behind if isinstance(loss, LabelLog) else 2 * behind - np.logaddexp(0.0, -ahead)
        assert scale + np.log(abs(direction[0, 1])) == pytest.approx(log_pull, abs=1e-9 * max(1, abs(ahead)))
    value = risk.value([[0.0, -2000.0], [0.0, 0.0]])
    assert value == pytest.approx(2000.0 if isinstance(loss, LabelLog) else 0.5)


def test_the_log_loss_is_convex_and_the_squared_one_is_not():
    rng = np.random.default_rng(0)
    risk, other = published(), NextTokenRisk([[0, 1]], [0], np.eye(2), label_squared)
    for _ in range(20):
        a, b = rng.normal(size=(2, 8, 8)) * 3
        assert risk.value((a + b) / 2) <= (risk.value(a) + risk.value(b)) / 2 + 1e-12
    a, b = np.array([[0.0, -9.0], [0.0, 0.0]]), np.zeros((2, 2))
    assert other.value((a + b) / 2) > (other.value(a) + other.value(b)) / 2


@pytest.fixture(scope="module")
def flow():
    return follow(published(), np.zeros((8, 8)), Flow())


def test_the_flow_ends_in_a_mixed_limit_at_the_floor(flow):
    limit = flow.limit
    assert limit.mixed
    assert limit.selection.chosen.sum(axis=1).tolist() == [1, 2, 1, 2, 1, 1]
    assert limit.blocks["W"].velocity.shape == (8, 8)
    assert flow.risk.value(flow.final) == pytest.approx(2 * np.log(2) / 6, abs=1e-9)
    np.testing.assert_allclose(limit.finite_part, 0.0, atol=1e-12)


@pytest.mark.parametrize("loss", [label_log, label_squared], ids=["log", "squared"])
@pytest.mark.parametrize("n", [5, 7, 9])
def test_a_flow_of_any_number_of_sequences_moves_where_no_label_comes_first(n, loss):
    """Sequences are added up to a number that programs are compiled for: what is added has a finite loss, too."""
    rng = np.random.default_rng(n)
    sequences = np.array([rng.permutation(7)[:5] for _ in range(n)])
    risk = NextTokenRisk(sequences, sequences[:, 1], rng.normal(size=(7, 9)), loss)
    run = follow(risk, np.zeros((9, 9)), Flow())
    assert run.n_steps < 1000
    assert run.limit.diverges or run.limit.mixed, run.limit.reason
    assert risk.value(run.final) < 0.5 * risk.value(np.zeros((9, 9)))


def test_descents_go_the_same_way(flow):
    risk = published()
    for method in (Descent(0.5), NormalizedDescent(0.05)):
        run = follow(risk, np.zeros((8, 8)), method, steps=400)
        assert risk.value(run.final) < risk.value(np.zeros((8, 8)))
        onward = continued(run).limit
        assert onward.mixed
        assert 1 - onward.velocity @ flow.limit.velocity < 1e-8


def test_an_acyclic_graph_diverges():
    risk = NextTokenRisk(SEQUENCES, np.where(LABELS == 0, 5, LABELS), EMBEDDINGS)
    assert risk.graph.is_acyclic
    limit = follow(risk, np.zeros((8, 8)), Flow()).limit
    assert limit.diverges
    assert limit.selection == risk.optimal


def test_wrong_input_is_refused_by_a_sentence():
    with pytest.raises(InvalidInputError, match="row 0, token 5"):
        NextTokenRisk([[0, 1]], [5], np.eye(6))
    with pytest.raises(InvalidInputError, match="a row for each"):
        NextTokenRisk([[0, 1]], [1], np.eye(1))
    with pytest.raises(TokenMarginError):
        NextTokenRisk([[0, 1]], [1], np.eye(2), "log")
    with pytest.raises(InvalidInputError, match="finite"):
        NextTokenRisk([[0, 1]], [1], [[np.inf, 1.0], [0.0, 1.0]])


def test_losses_of_the_label_agree_with_their_derivatives():
    u = np.linspace(0.05, 0.95, 7)
    for loss in (LabelLog(), LabelSquared()):
        with jax.enable_x64(True):
            slope = jax.vmap(jax.grad(loss.value))(jnp.asarray(u))
            bend = jax.vmap(jax.grad(jax.grad(loss.value)))(jnp.asarray(u))
        np.testing.assert_allclose(-np.exp(loss.log_slope(u)), slope, rtol=1e-6)
        np.testing.assert_allclose(loss.log_slope_derivative(u), bend / slope, rtol=1e-6)
        most, steepest = loss.bounds(0.05, 1.0)
        assert np.abs(bend).max() <= most * (1 + 1e-6)
        assert np.abs(slope).max() <= steepest * (1 + 1e-6)
