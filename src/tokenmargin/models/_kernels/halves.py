"""Float32 numbers as sums of one or two float16 numbers and a power of two, inside kernels.

With `matmul_precision` as the slow twin: there a matrix has one scale, here every row has its own, so that a row of
small numbers loses nothing to one of large ones.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

#: Numbers are scaled to below 2^14: a factor four below float16's largest.
LARGEST_EXPONENT = 14

#: Exponents of float32 are stored with this added.
EXPONENT_BIAS = 127

#: The largest scale is 2^113: its inverse is a normal number, and so is what it makes of the smallest one.
LARGEST_SCALE = 113


def power_of_two_below(largest: Array) -> tuple[Array, Array]:
    """(scale, 1/scale) with scale a power of two and scale * largest in [2^13, 2^14), for positive float32 numbers.

    By the bits of the exponent: kernels have no frexp.
    """
    stored = jax.lax.bitcast_convert_type(largest, jnp.int32) >> 23
    exponent = jnp.clip(LARGEST_EXPONENT - 1 + EXPONENT_BIAS - stored, -EXPONENT_BIAS + 1, LARGEST_SCALE)
    return _two_to(exponent), _two_to(-exponent)


def in_parts(x: Array, parts: int) -> list[Array]:
    """Float32 numbers below 2^14 as `parts` (one or two) float16 numbers, largest first."""
    if parts == 1:
        return [x.astype(jnp.float16)]
    # Rounded to eleven bits in float32, ties to even: a conversion there and back is one that compilers may cancel.
    bits = jax.lax.bitcast_convert_type(x, jnp.int32)
    odd = (bits >> 13) & 1
    high = jax.lax.bitcast_convert_type((bits + 0xFFF + odd) & -0x2000, jnp.float32)
    return [high.astype(jnp.float16), (x - high).astype(jnp.float16)]


def _two_to(exponent: Array) -> Array:
    return jax.lax.bitcast_convert_type((exponent + EXPONENT_BIAS) << 23, jnp.float32)
