"""Float32 products in three products of ten-bit numbers: as good as float32, and far better than one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.models.matmul_precision import TEN_BITS, MatmulPrecision, _split

RNG = np.random.default_rng(0)
A, B = (RNG.normal(size=(3, 40, 64)).astype(np.float32) * 10.0 ** RNG.integers(-3, 3, (3, 40, 64)) for _ in range(2))
A, B = jnp.asarray(A, jnp.float32), jnp.asarray(B, jnp.float32)

#: What three products drop of a term: the product of both rests, and the last bits of either rest, 2^-20 each.
LAST_BITS = 3 * 2.0**-20


def ten_bits(x):
    """What a tf32 unit makes of an operand, with truncation for rounding."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(TEN_BITS)
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def relative_error(found):
    exact = np.einsum("bud,bvd->buv", np.asarray(A, np.float64), np.asarray(B, np.float64))
    scale = np.einsum("bud,bvd->buv", np.abs(np.asarray(A, np.float64)), np.abs(np.asarray(B, np.float64)))
    return float((np.abs(np.asarray(found, np.float64) - exact) / scale).max())


def test_the_two_parts_add_up_and_the_first_has_ten_bits():
    high, low = _split(A)
    assert (high + low == A).all()
    assert (ten_bits(high) == high).all()
    assert (np.abs(low) <= 2.0**-10 * np.abs(A)).all()


@pytest.mark.parametrize("precision", MatmulPrecision)
def test_every_precision_is_float32_on_a_cpu(precision):
    assert relative_error(precision.product("bud,bvd->buv", A, B)) < 1e-6


def test_three_products_of_ten_bit_operands_recover_float32(monkeypatch):
    """The accelerator's unit, imitated: every operand of a product that is not exact loses all but ten bits."""
    plain = jnp.einsum

    def unit(indices, left, right, precision):
        if precision == jax.lax.Precision.DEFAULT:
            left, right = ten_bits(left), ten_bits(right)
        return plain(indices, left, right, precision=jax.lax.Precision.HIGHEST)

    monkeypatch.setattr(jnp, "einsum", unit)
    one = relative_error(MatmulPrecision.TENSOR_FLOAT_32.product("bud,bvd->buv", A, B))
    three = relative_error(MatmulPrecision.TENSOR_FLOAT_32_TIMES_3.product("bud,bvd->buv", A, B))
    assert one > 1e-5
    assert three < LAST_BITS


def test_float64_is_left_alone():
    a, b = jnp.asarray(A, jnp.float64), jnp.asarray(B, jnp.float64)
    for precision in MatmulPrecision:
        assert relative_error(precision.product("bud,bvd->buv", a, b)) < 64 * np.finfo(np.float64).eps


@pytest.mark.parametrize("precision", MatmulPrecision)
def test_gram_is_the_product_with_itself(precision, monkeypatch):
    assert np.allclose(precision.gram(A), precision.product("bud,bvd->buv", A, A), rtol=1e-5, atol=1e-3)
