"""Float32 products in pairs of float16: as good as float32, and far better than one product of rounded operands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.models.matmul_precision import LARGEST, MatmulPrecision, _pair, _scale

FULL, PAIRS = MatmulPrecision.FULL, MatmulPrecision.FLOAT_16_PAIRS


def matrices(rng, shape, spread):
    """Entries over so many orders of magnitude, each matrix with a size of its own."""
    sizes = 10.0 ** rng.uniform(-6, 6, (shape[0], 1, 1))
    entries = rng.normal(size=shape) * 10.0 ** rng.uniform(-spread, 0, shape) * sizes
    return jnp.asarray(entries, jnp.float32)


def error(found, left, right):
    """Largest error in units of what the entries of a product are made of, |left||right|."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    return float((np.abs(np.asarray(found, np.float64) - left @ right) / (np.abs(left) @ np.abs(right))).max())


@pytest.mark.parametrize("spread", [0, 3])
@pytest.mark.parametrize("width", [64, 2048])
def test_pairs_are_as_exact_as_float32(rng, spread, width):
    a, b = matrices(rng, (4, 40, width), spread), matrices(rng, (4, width, 30), spread)
    full, pairs = error(FULL.product(a, b), a, b), error(PAIRS.product(a, b), a, b)
    one = error(jnp.asarray(a, jnp.bfloat16) @ jnp.asarray(b, jnp.bfloat16), a, b)
    # The rounding of both operands to 22 bits, and what adding in float32 loses to full products as well.
    assert pairs < 2 * 2.0**-22 + 2 * full
    assert pairs < one / 500


def test_gram_is_the_product_with_itself(rng):
    x = matrices(rng, (3, 40, 512), 2)
    for precision in MatmulPrecision:
        gram = precision.gram(x)
        assert error(gram, x, jnp.swapaxes(x, 1, 2)) < 2.0**-20
        assert (gram == jnp.swapaxes(gram, 1, 2)).all() or precision is not PAIRS


@pytest.mark.parametrize("loose", [1.0, 1000.0])
def test_bounds_may_be_loose(rng, loose):
    a, b = matrices(rng, (3, 20, 128), 1), matrices(rng, (3, 128, 20), 1)
    found = PAIRS.product(
        a, b, left_bound=loose * jnp.max(jnp.abs(a), (1, 2), keepdims=True), right_bound=jnp.max(jnp.abs(b))
    )
    for k in range(3):
        # One bound for all matrices on the right: those a million times smaller than the largest lose digits.
        size = float(jnp.max(jnp.abs(b[k])) / jnp.max(jnp.abs(b)))
        assert error(found[k : k + 1], a[k : k + 1], b[k : k + 1]) < 2.0**-20 + 2.0**-36 / size


def test_the_two_parts_add_up(rng):
    x = matrices(rng, (5, 30, 30), 4)
    scaled = x * _scale(x, None)
    assert (jnp.max(jnp.abs(scaled), (1, 2)) <= LARGEST).all()
    assert (jnp.max(jnp.abs(scaled), (1, 2)) >= LARGEST / 2).all()
    high, low = (np.asarray(part, np.float64) for part in _pair(scaled))
    scaled = np.asarray(scaled, np.float64)
    assert (np.abs(high + low - scaled) <= np.maximum(2.0**-22 * np.abs(scaled), 2.0**-25)).all()


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e38])
def test_ends_of_the_range(size):
    x = jnp.full((1, 4, 4), size, jnp.float32)
    scaled = x * _scale(x, None)
    assert jnp.isfinite(scaled).all()
    assert (jnp.abs(scaled) <= LARGEST).all() or size == 1e38
    assert (PAIRS.product(x, x / max(size, 1.0)) >= 0).all()


def test_float64_is_left_alone(rng):
    a, b = rng.normal(size=(3, 20, 64)), rng.normal(size=(3, 64, 20))
    for precision in MatmulPrecision:
        assert error(precision.product(jnp.asarray(a), jnp.asarray(b)), a, b) < 64 * np.finfo(np.float64).eps


def test_no_number_goes_to_float16_and_back():
    """Compilers for accelerators may drop such a round trip, and did: the low part was zero and the product tf32's."""
    traced = jax.make_jaxpr(_pair)(jnp.ones((2, 2), jnp.float32))
    names = [equation.primitive.name for equation in traced.jaxpr.eqns]
    assert "reduce_precision" in names
    back = [e for e in traced.jaxpr.eqns if e.primitive.name == "convert_element_type"]
    assert {e.params["new_dtype"] for e in back} == {jnp.dtype("float16")}
