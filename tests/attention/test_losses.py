"""Losses that break the flow are refused in words, before a solver is asked anything."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.instances import fig1b, fig1c
from tokenmargin.attention import (
    AttentionRisk,
    CustomLoss,
    Flow,
    HeadRisk,
    JointRisk,
    LinearHead,
    NormalizedDescent,
    follow,
    logistic,
)
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss
from tokenmargin.papers.maxmargin import toys

BREAKING = {
    "increasing": CustomLoss(lambda u: u),
    "constant": CustomLoss(lambda u: 0.0 * u),
    "a zero tail": CustomLoss(lambda u: jnp.where(u < 0.5, (u - 0.5) ** 2, 0.0)),
    "a minimum inside": CustomLoss(lambda u: (u - 0.5) ** 2),
    "an underflowing slope": CustomLoss(lambda u: jax.nn.softplus(-5000.0 * u) ** 2),
    "not a number": CustomLoss(lambda u: jnp.log(-u)),
}


@pytest.mark.parametrize("loss", BREAKING.values(), ids=BREAKING)
def test_a_loss_that_is_not_decreasing_over_the_scores_is_refused(loss):
    for make in (AttentionRisk, lambda data, loss: HeadRisk(data, LinearHead(data.head), loss)):
        with pytest.raises(InvalidInputError, match="strictly decreasing over the scores"):
            follow(make(fig1c(), loss), [0.0, 0.0], Flow())
        with pytest.raises(InvalidInputError, match="strictly decreasing over the scores"):
            follow(make(fig1b(), loss), [0.0, 0.0], NormalizedDescent(0.1))


@pytest.mark.long
@pytest.mark.parametrize("name", ["increasing", "an underflowing slope", "not a number"])
def test_a_joint_run_with_such_a_loss_ends_in_an_outcome(name):
    """The range of its outputs grows with v, so no loss can be refused beforehand."""
    risk = JointRisk(toys.fig3((0.5, 1.0)), BREAKING[name])
    run = follow(risk, ((-1.0, 0.0), (0.0, -1.0)), Flow(max_steps=200))
    assert run.outcome.value
    assert run.limit.stalled


def test_decreasing_losses_of_ones_own_are_taken():
    for function in (lambda u: jax.nn.softplus(-u), lambda u: jnp.exp(-3 * u), lambda u: -jnp.arctan(u)):
        assert follow(AttentionRisk(fig1c(), CustomLoss(function)), [0.0, 0.0], Flow()).limit.diverges


def test_an_underflowing_slope_is_mended_by_its_logarithm():
    class Steep(Loss):
        def value(self, u):
            return jnp.exp(-2000.0 * u)

        def log_slope(self, u):
            return jnp.log(2000.0) - 2000.0 * u

    with pytest.raises(InvalidInputError, match="give log_slope"):
        follow(AttentionRisk(fig1c(), CustomLoss(lambda u: jnp.exp(-2000.0 * u))), [0.0, 0.0], Flow())
    steep = follow(AttentionRisk(fig1c(), Steep()), [0.0, 0.0], Flow()).limit
    usual = follow(AttentionRisk(fig1c(), logistic), [0.0, 0.0], Flow()).limit
    assert steep.diverges
    assert steep.selection == usual.selection
    np.testing.assert_allclose(steep.velocity, usual.velocity, atol=1e-9)
