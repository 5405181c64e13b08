"""What lies between the products of a vision transformer: kernels, plain formulas and the usual block agree."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.papers.maxmargin.vit import _kernels as kernels
from tokenmargin.papers.maxmargin.vit._block import BlockParameters, block, layer_norm
from tokenmargin.papers.maxmargin.vit._half_block import half_blocks
from tokenmargin.papers.maxmargin.vit._kernels import biased_gelu, normalised_sum
from tokenmargin.papers.maxmargin.vit.vit import Vit

#: Both sides are float64 and differ in the order of additions.
ROUNDING = 1e-11

#: What the polynomial leaves of the error function, and so of u Phi(u) and of its slope at |u| < 6.
POLYNOMIAL = 1e-6

MODEL = Vit(width=24, depth=3, heads=3, side=8)


def agree(ours, theirs, tolerance=ROUNDING):
    for own, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        scale = max(1.0, float(np.abs(other).max()))
        np.testing.assert_allclose(own, other, rtol=0, atol=tolerance * scale)


@pytest.fixture
def rows(rng):
    """Neither rows nor columns fill the last block."""
    return tuple(jnp.asarray(rng.normal(size=(37, 300))) for _ in range(3))


def with_slopes(compute, slopes, *given):
    """What is computed, and the gradients in what is given."""
    found, back = jax.vjp(compute, *given)
    return found, back(slopes)


def plainly_normalised(x, change, bias):
    total = x + change + bias[None]
    return total, layer_norm(total, jnp.ones(x.shape[1]), jnp.zeros(x.shape[1]))


@pytest.mark.parametrize("interpret", [True, False], ids=["kernel", "plain"])
def test_sum_and_layer_norm(rng, rows, interpret):
    x, change, slope = rows
    bias, straight = jnp.asarray(rng.normal(size=300)), jnp.asarray(rng.normal(size=x.shape))
    ours = jax.jit(partial(with_slopes, partial(normalised_sum, interpret=interpret)))
    found = ours((straight, slope), x, change, bias)
    agree(found, with_slopes(plainly_normalised, (straight, slope), x, change, bias))


@pytest.mark.parametrize("interpret", [True, False], ids=["kernel", "plain"])
def test_bias_and_gelu(rng, rows, interpret):
    x, _, slope = rows
    x, bias = 2 * x, jnp.asarray(rng.normal(size=300))
    usual = partial(with_slopes, lambda x, bias: jax.nn.gelu(x + bias[None], approximate=False))
    ours = jax.jit(partial(with_slopes, partial(biased_gelu, interpret=interpret)))
    agree(ours(slope, x, bias), usual(slope, x, bias), POLYNOMIAL)


def test_gelu_has_its_tails():
    """Nothing is left of u far below, and u itself far above; the slope goes to 0 and to 1."""
    x = jnp.asarray([[-40.0, -8.0, 0.0, 8.0, 40.0]])
    value, (slope, _) = with_slopes(partial(biased_gelu, interpret=True), jnp.ones((1, 5)), x, jnp.zeros(5))
    np.testing.assert_allclose(value, [[0, 0, 0, 8, 40]], atol=1e-6)
    np.testing.assert_allclose(slope, [[0, 0, 0.5, 1, 1]], atol=1e-6)


def drawn(key=0):
    """Parameters with gains and biases away from 1 and 0, so that a test can see them."""
    leaves, structure = jax.tree.flatten(MODEL.initial(jax.random.key(key), 5, jnp.float64))
    keys = jax.random.split(jax.random.key(key + 1), len(leaves))
    moved = [x + 0.3 * jax.random.normal(k, x.shape, x.dtype) for x, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, moved)


@pytest.mark.parametrize("interpret", [True, False], ids=["kernel", "plain"])
def test_blocks_in_fewer_passes_are_the_usual_blocks(rng, interpret):
    """Outputs and all gradients; that in the bias of the keys is 0, which by the usual way is rounding."""
    blocks = drawn().blocks
    x = jnp.asarray(rng.normal(size=(2, 24, MODEL.width)))
    slope = jnp.asarray(rng.normal(size=x.shape)).at[:, MODEL.n_tokens :].set(0.0)

    def usual(blocks, x):
        for weights in blocks:
            x, _ = block(weights, x, MODEL.heads, MODEL.n_tokens)
        return x

    ours = partial(half_blocks, heads=MODEL.heads, n_tokens=MODEL.n_tokens, interpret=interpret)
    found, (own, own_x) = jax.jit(partial(with_slopes, ours))(slope, blocks, x)
    expected, (other, other_x) = jax.jit(partial(with_slopes, usual))(slope, blocks, x)
    agree(found[:, : MODEL.n_tokens], expected[:, : MODEL.n_tokens], POLYNOMIAL)
    agree((own, own_x), (other, other_x), 10 * POLYNOMIAL)
    assert all(not np.any(each.key_bias) for each in own)
    # The test can see each of them: without its gradient it would fail.
    names = [field.name for field in fields(BlockParameters) if field.name != "key_bias"]
    assert all(np.abs(getattr(each, name)).max() > 1e-3 for each in other for name in names)


def test_no_blocks_change_nothing(rng):
    x = jnp.asarray(rng.normal(size=(2, 24, 6)))
    assert np.array_equal(half_blocks((), x, 2, 17), x)


def test_kernels_are_lowered_for_a_gpu():
    """As far as is possible where there is none: to Triton's language, forwards and backwards."""
    rows, bias = jnp.zeros((40, 24), jnp.bfloat16), jnp.zeros(24, jnp.float32)
    checks = [jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")]
    for compute, given in ((normalised_sum, (rows, rows, bias)), (biased_gelu, (rows, bias))):
        step = jax.jit(partial(with_slopes, compute))
        slopes = jax.eval_shape(compute, *given)
        found = jax.export.export(step, platforms=["cuda"], disabled_checks=checks)(slopes, *given)
        assert found.mlir_module().count("__gpu$xla.gpu.triton") == 2


def test_kernels_are_cut_by_powers_of_two():
    cuts = kernels.NORM, kernels.NORM_BACK, kernels.GELU, kernels.GELU_BACK
    assert all(size & (size - 1) == 0 < size for cut in cuts for size in cut)
