"""The squared loss asks half the margin where the label has all attention; and the official local runs are ours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin import Flow, NextTokenRisk, NormalizedDescent, compare, follow
from tokenmargin.attention import label_squared
from tokenmargin.papers.next_token.claims.squared_loss import two_last_tokens, with_one_margin
from tokenmargin.papers.next_token.figures.local_convergence import general_head


@pytest.fixture(scope="module")
def case():
    return two_last_tokens()


def test_the_limit_is_the_one_of_closed_form(case):
    """With orthonormal vectors each last token has its own columns: (1, 1, -2)/3 asks 1, (2, -1, -1)/6 asks 1/2."""
    W = np.zeros((6, 6))
    W[:3, 2], W[[4, 5, 3], 3] = np.array([1, 1, -2]) / 3, np.array([2, -1, -1]) / 6
    limit = case.limit
    assert limit.mixed
    np.testing.assert_allclose(limit.blocks["W"].velocity, W / np.linalg.norm(W), atol=1e-10)
    np.testing.assert_allclose(limit.asked, [1, 1, 0.5])
    agreement = compare(limit)
    assert agreement.agrees
    assert agreement.velocity_error < 1e-12
    assert with_one_margin(case, limit) is not None  # one margin for all is another direction


def test_plain_steps_of_descent_widen_the_one_gap_at_half_the_speed_of_the_other(case):
    """No judge and no order of a loss: logits of a run, at two times."""
    run = follow(case.risk, np.zeros((6, 6)), NormalizedDescent(0.05), steps=8000, every=4000)
    early, late = run.points.reshape(-1, 6, 6)[1:]
    assert (late - early)[4, 3] - (late - early)[5, 3] == pytest.approx(
        ((late - early)[0, 2] - (late - early)[2, 2]) / 2, rel=0.02
    )


def test_the_log_loss_asks_one_of_all(case):
    rows = case.risk.rows
    limit = follow(NextTokenRisk(rows.padded()[0], rows.labels, np.eye(6)), np.zeros((6, 6)), Flow()).limit
    assert (limit.asked == 1).all()
    assert compare(limit).agrees


@pytest.mark.parametrize("ahead", [60.0, 900.0])
def test_the_jacobian_is_that_of_autodiff_where_attention_underflows(ahead):
    """Shares of what is left of attention: their ratios survive, though each of them is 0."""
    risk = NextTokenRisk([[0, 1, 2, 3]], [0], np.eye(4), label_squared)
    with jax.enable_x64(True):
        field, coordinates = risk.in_span
        W = np.zeros((4, 4))
        W[:, 3] = [ahead, 1.0, 0.0, 0.5]
        y = jnp.asarray(coordinates.inward(W.reshape(-1)))
        _, jacobian = jax.jit(lambda x: field.force_and_jacobian(x))(y)
        expected = jax.jit(jax.jacfwd(lambda x: field.force(x)))(y)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(jacobian, expected, atol=1e-10)


def test_the_head_of_the_official_runs_is_their_loss():
    """(1 - softmax(E X's)_y)^2 / 2, written out."""
    plain, risk = general_head(3)
    E, rows = plain.embeddings, plain.rows
    W = np.random.default_rng(0).normal(size=(8, 8))
    total = 0.0
    for row, label in zip(rows.padded()[0], rows.labels, strict=True):
        logits = E[row] @ W @ E[row[-1]]
        share = np.exp(logits - logits.max())
        read = E @ (E[row].T @ (share / share.sum()))
        total += (1 - np.exp(read)[label] / np.exp(read).sum()) ** 2 / 2
    assert risk.value(W) == pytest.approx(total / len(rows.labels), rel=1e-12)
