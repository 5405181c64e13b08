"""[M, Lemma 6]: the smoothness constant bounds every Hessian; [M, (25)]: descent with lr <= 1/L_p descends."""

import jax
import numpy as np
import pytest

from tests.instances import fig1c, random_sphere
from tests.references import risk
from tokenmargin import AttentionRisk, Descent, EmbeddedSequences, follow
from tokenmargin.attention import CustomLoss, correlation, exponential, logistic
from tokenmargin.errors import InvalidInputError


@pytest.mark.parametrize("loss", [logistic, exponential, correlation], ids=["logistic", "exponential", "correlation"])
def test_never_exceeded_by_a_sampled_hessian(loss, rng):
    closest = 0.0
    for trial in range(6):
        data = random_sphere(rng, n=2, T=3, d=3)
        if trial % 2:  # keys beside X: the form of (29)
            data = EmbeddedSequences(data.tokens, data.labels, data.head, keys=rng.normal(size=(2, 3, 4)))
        bound = AttentionRisk(data, loss).smoothness
        hessian = jax.jit(jax.vmap(jax.hessian(lambda p, data=data: risk(data, loss, p))))
        points = rng.normal(size=(200, data.width)) * rng.uniform(0, 6, size=(200, 1))
        largest = np.abs(np.linalg.eigvalsh(np.asarray(hessian(points)))).max()
        assert largest <= bound
        closest = max(closest, largest / bound)
    assert closest > 1e-3  # the bound is a bound of this problem, not of another


def test_by_hand_with_keys_tied_and_beside(rng):
    data = random_sphere(rng, n=3, T=4, d=5)
    size = np.linalg.norm(data.tokens, ord=2, axis=(1, 2))
    head = np.linalg.norm(data.head)
    assert AttentionRisk(data).smoothness == pytest.approx(np.mean(0.25 * head**2 * size**4 + 3 * head * size**3))
    beside = EmbeddedSequences(data.tokens, data.labels, data.head, keys=data.tokens)
    gamma = np.linalg.norm(data.tokens @ data.head, axis=1)
    assert AttentionRisk(beside).smoothness == pytest.approx(np.mean(0.25 * gamma**2 * size**2 + 3 * gamma * size**2))
    assert AttentionRisk(beside).smoothness <= AttentionRisk(data).smoothness


def test_descent_at_one_over_smoothness_never_increases_the_risk():
    objective = AttentionRisk(fig1c())
    path = follow(objective, [-1.5, 0.0], Descent(1 / objective.smoothness), steps=300, every=10)
    values = [objective.value(p) for p in path.points]
    assert (np.diff(values) <= 0).all()


def test_a_custom_loss_must_bring_its_bounds():
    objective = AttentionRisk(fig1c(), CustomLoss(lambda u: -u))
    with pytest.raises(InvalidInputError, match="curvature_bound"):
        _ = objective.smoothness
    with_bounds = AttentionRisk(fig1c(), CustomLoss(lambda u: -u, curvature_bound=0.0, slope_bound=1.0))
    assert with_bounds.smoothness == AttentionRisk(fig1c(), correlation).smoothness
