"""How exactly float32 products are formed: in full, in three products of ten-bit numbers, or in one (tf32)."""

from __future__ import annotations

from enum import Enum

import jax
import jax.numpy as jnp
from jaxtyping import Array

from tokenmargin._types import AnyArray

#: Keeps sign, exponent and the ten leading bits of a float32, which is what a tf32 unit reads.
TEN_BITS = 0xFFFFE000

#: Half of the last of these bits: added before the others are cut off, it makes cutting rounding.
HALF_OF_TEN_BITS = 0x1000


class MatmulPrecision(Enum):
    """The rounding of the operands of float32 matrix products; the value says it in words.

    Only accelerators have units for tf32: on a CPU, and for float64, all members mean the same but for the last bits.
    """

    FULL = "operands as they are: the reference"
    TENSOR_FLOAT_32_TIMES_3 = "operands split into two tf32 numbers each, three products: float32 but for its last bits"
    TENSOR_FLOAT_32 = "operands rounded to tf32 where the hardware offers it: faster, gradients off by some 1e-4"

    def product(self, indices: str, left: AnyArray, right: AnyArray) -> Array:
        """`jnp.einsum(indices, left, right)` of two operands at this precision."""
        if self is not MatmulPrecision.TENSOR_FLOAT_32_TIMES_3 or left.dtype != jnp.float32:
            exact = jax.lax.Precision.DEFAULT if self is MatmulPrecision.TENSOR_FLOAT_32 else jax.lax.Precision.HIGHEST
            return jnp.einsum(indices, left, right, precision=exact)
        (high, low), (right_high, right_low) = _split(jnp.asarray(left)), _split(jnp.asarray(right))
        # The product of both rests is below the last bit. The small terms are added first.
        small = _rounded(indices, high, right_low) + _rounded(indices, low, right_high)
        return small + _rounded(indices, high, right_high)

    def gram(self, x: AnyArray) -> Array:
        """`x @ x.T` over the last two axes; what a symmetric product needs to form once is formed once."""
        indices = "...ud,...vd->...uv"
        if self is not MatmulPrecision.TENSOR_FLOAT_32_TIMES_3 or x.dtype != jnp.float32:
            return self.product(indices, x, x)
        high, low = _split(jnp.asarray(x))
        mixed = _rounded(indices, high, low)
        return (mixed + jnp.swapaxes(mixed, -1, -2)) + _rounded(indices, high, high)


def _rounded(indices: str, left: Array, right: Array) -> Array:
    return jnp.einsum(indices, left, right, precision=jax.lax.Precision.DEFAULT)


def _split(x: Array) -> tuple[Array, Array]:
    """x as the sum of itself rounded to ten bits and an exact rest, of which ten bits more leave 2^-23 of x at most."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32) + jnp.uint32(HALF_OF_TEN_BITS)
    high = jax.lax.bitcast_convert_type(bits & jnp.uint32(TEN_BITS), jnp.float32)
    return high, x - high
