"""Gradient, field and Jacobian: equal to autodiff and loops where those are right, and right where those are not."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.instances import fig1b, fig1c, random_sphere
from tests.references import exact_logistic_gradient, field_by_pairs, risk, usual_gradient
from tokenmargin import AttentionRisk, EmbeddedSequences
from tokenmargin.attention import CustomLoss, PairField, correlation, exponential, logistic
from tokenmargin.attention.attention_risk import ties_made_equal

CUSTOM = CustomLoss(lambda u: jnp.log1p(jnp.exp(-2 * u)) - 0.1 * u)
LOSSES = {"logistic": logistic, "exponential": exponential, "correlation": correlation, "custom": CUSTOM}
ROUNDING = 1e-11


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_value_and_gradient_equal_autodiff_before_saturation(loss, rng):
    for d in (1, 2, 7):
        data = random_sphere(rng, n=3, T=5, d=d)
        objective, slope = AttentionRisk(data, loss), jax.jit(jax.grad(partial(risk, data, loss)))
        for scale in (0.0, 1.0, 5.0):
            p = scale * rng.normal(size=d)
            assert objective.value(p) == pytest.approx(float(risk(data, loss, p)), rel=1e-12)
            truth = np.asarray(slope(p))
            np.testing.assert_allclose(objective.gradient(p), truth, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_field_equals_the_loop_over_pairs(loss, rng):
    data = random_sphere(rng, n=3, T=5, d=4)
    objective = AttentionRisk(data, loss)
    for scale in (0.0, 1.0, 10.0):
        p = scale * rng.normal(size=4)
        np.testing.assert_allclose(objective.force(p), field_by_pairs(data, loss, p), atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_jacobian_equals_autodiff_and_finite_differences(loss, scale, rng):
    data = random_sphere(rng, n=3, T=4, d=3)
    objective = AttentionRisk(data, loss)
    p = scale * rng.normal(size=3)
    ours = objective.jacobian(p)
    auto = np.asarray(jax.jit(jax.jacfwd(objective.field.force))(jnp.asarray(p)))
    np.testing.assert_allclose(ours, auto, atol=1e-11)
    step = 1e-6
    differences = [(objective.force(p + step * e) - objective.force(p - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(ours, np.transpose(differences), atol=1e-8)


def test_gradient_field_and_normaliser_are_one_thing(rng):
    objective = AttentionRisk(random_sphere(rng, d=5))
    field: PairField = objective.field
    for scale in (0.0, 3.0, 60.0):
        p = jnp.asarray(scale * rng.normal(size=5))
        signed, log_total = field.pair_weights(p)
        np.testing.assert_allclose(np.abs(signed).sum() / 2, 1.0, rtol=1e-14)
        np.testing.assert_allclose(signed, -np.swapaxes(signed, 1, 2), atol=0)
        np.testing.assert_allclose(objective.gradient(p), -np.exp(log_total) * objective.force(p), rtol=1e-9)


@pytest.mark.parametrize(("dtype", "norm"), [(np.float64, 120.0), (np.float32, 60.0)], ids=["float64", "float32"])
def test_the_usual_gradient_fails_where_ours_holds(dtype, norm):
    """Past a logit gap of 37 (float64) or 17 (float32) autodiff's direction is noise; ours equals long decimals."""
    wrong = 0
    for data, direction in ((fig1c(), (0.980088, 0.198566)), (fig1b(), (0.3, 1.0)), (fig1b(), (1.0, -0.2))):
        data = EmbeddedSequences(
            data.tokens.astype(dtype), data.labels, data.head.astype(dtype), keys=data.keys.astype(dtype)
        )
        p = (norm * np.array(direction) / np.linalg.norm(direction)).astype(dtype)
        truth = exact_logistic_gradient(data, p)
        written = jax.tree.map(lambda x: x.astype(dtype), AttentionRisk(data).field)
        ours, field = -np.asarray(written.gradient(p), dtype=float), np.asarray(written.force(p))
        assert field.dtype == dtype
        ours = field.astype(float) if not ours.any() else ours
        tolerance = 1e4 * np.finfo(dtype).eps
        np.testing.assert_allclose(ours / np.linalg.norm(ours), -truth, atol=tolerance)
        np.testing.assert_allclose(field / np.linalg.norm(field), -truth, atol=tolerance)
        usual = np.asarray(usual_gradient(data, logistic, p), dtype=float)
        size = np.linalg.norm(usual)
        wrong += size == 0 or np.abs(usual / size - truth).max() > 1e-2
    assert wrong == 3


def test_field_at_norms_where_every_exponential_underflows():
    objective = AttentionRisk(fig1c())
    for norm in (1e3, 1e6, 1e9):
        p = norm * np.array([0.9, 0.3])
        assert not objective.gradient(p).any()  # smaller than any float
        field = objective.force(p)
        assert np.isfinite(field).all()
        assert np.linalg.norm(field) > 0.1


def test_top_token_form_equals_pair_form_for_hundreds_of_tokens(rng):
    objective = AttentionRisk(random_sphere(rng, n=2, T=300, d=6))
    for scale in (0.0, 5.0, 200.0):
        p = jnp.asarray(scale * rng.normal(size=6))
        direction, log_scale = objective.field.descent_direction(p)
        _, log_total = objective.field.pair_weights(p)
        field = objective.force(p)
        np.testing.assert_allclose(direction * np.exp(log_scale - log_total), field, atol=1e-11)


@given(st.integers(0, 10**6), st.sampled_from(["logistic", "exponential", "correlation"]))
def test_invariances(seed, name):
    """Token order, label and head flipped together, a repeated input, keys shifted, a change of basis."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[name]
    data = random_sphere(rng, n=3, T=4, d=3)
    p = 3 * rng.normal(size=3)
    base = AttentionRisk(data, loss).gradient(p)
    order = rng.permutation(4)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    variants = [
        EmbeddedSequences(data.tokens[:, order], data.labels, data.head),
        EmbeddedSequences(data.tokens, -data.labels, -data.head),
        EmbeddedSequences(np.tile(data.tokens, (2, 1, 1)), np.tile(data.labels, 2), data.head),
        EmbeddedSequences(data.tokens, data.labels, data.head, keys=data.keys + rng.normal(size=(3, 1, 3))),
    ]
    for other in variants:
        np.testing.assert_allclose(AttentionRisk(other, loss).gradient(p), base, atol=1e-12)
    turned = EmbeddedSequences(data.tokens @ turn, data.labels, data.head @ turn)
    np.testing.assert_allclose(AttentionRisk(turned, loss).gradient(p @ turn), base @ turn, atol=1e-12)


def test_repeated_and_masked_tokens_are_exact(rng):
    """A token that stands twice, also with two different scores, and a padded place: autodiff agrees."""
    keys = rng.normal(size=(2, 4, 3))
    keys[0, 2] = keys[0, 0]
    tokens = np.concatenate([keys, rng.normal(size=(2, 4, 1))], axis=2)
    mask = np.array([[True] * 4, [True, True, False, True]])
    data = EmbeddedSequences(tokens, [1, -1], [0, 0, 0, 1.0], keys=keys, mask=mask)
    objective = AttentionRisk(data)
    for scale in (1.0, 8.0):
        p = scale * rng.normal(size=3)
        truth = np.asarray(jax.grad(lambda q: risk(data, logistic, q))(p))
        np.testing.assert_allclose(objective.gradient(p), truth, atol=1e-12)
        np.testing.assert_allclose(objective.attention(p).sum(axis=1), 1.0)
        assert objective.attention(p)[1, 2] == 0


def test_float64_whatever_the_users_jax_setting():
    import subprocess
    import sys

    code = (
        "import jax, numpy as np, tokenmargin as tm;"
        "d = tm.EmbeddedSequences([[[1., 0.], [0., 1.]]], [1], [1., 0.]);"
        "r = tm.AttentionRisk(d);"
        "assert not jax.config.jax_enable_x64;"
        "assert r.gradient([.1, .2]).dtype == np.float64;"
        "assert tm.follow(r, [0., 0.], tm.Flow()).limit.diverges;"
        "assert jax.numpy.ones(1).dtype == 'float32'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_ties_are_made_equal_input_by_input_in_a_batch_too():
    scores = np.array([[[0.3, 1.0, 0.1 + 0.2, -1.0], [2.0, 0.3, 0.4, 2.0 + 1e-15]], [[0.0, 1.0, 2.0, 3.0]] * 2])
    equal = ties_made_equal(scores, np.full((2, 2, 1), 1e-12))
    assert [[len(set(row)) for row in problem] for problem in equal.tolist()] == [[3, 3], [4, 4]]
    np.testing.assert_allclose(equal, scores, rtol=0, atol=1e-12)
