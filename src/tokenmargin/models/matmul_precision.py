"""How exactly float32 products are formed: in full, in three products of ten-bit numbers, or in one (tf32)."""

from __future__ import annotations

from enum import Enum

import jax
import jax.numpy as jnp
from jaxtyping import Array

from tokenmargin._types import AnyArray

#: Keeps sign, exponent and the ten leading bits of a float32, which is what a tf32 unit reads.
TEN_BITS = 0xFFFFE000


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

        def rounded(a: Array, b: Array) -> Array:
            return jnp.einsum(indices, a, b, precision=jax.lax.Precision.DEFAULT)

        # The product of both rests is below the last bit. The small terms are added first.
        return (rounded(high, right_low) + rounded(low, right_high)) + rounded(high, right_high)


def _split(x: Array) -> tuple[Array, Array]:
    """x as the sum of its ten leading bits and an exact rest."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(TEN_BITS)
    high = jax.lax.bitcast_convert_type(bits, jnp.float32)
    return high, x - high
