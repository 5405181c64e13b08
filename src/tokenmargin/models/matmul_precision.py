"""Precision of float32 products on an accelerator: in full, in pairs of float16, or rounded to tf32.

A float32 x is the sum of two float16 numbers, high = x rounded and low = the rest rounded, up to 2^-22 of x: eleven
bits each, once all of a matrix is scaled by a power of two to stay in float16's range. With pairs
(a + b)(c + d) = ac + ad + bc but for bd, which is below the last bit. Units for float16 are an order of magnitude
faster than those for float32 and add in float32, so three products of halves take less time than one in full and are
as exact: what a product loses to adding up 2048 terms in float32 is more (tests/models/test_matmul_precision.py).
"""

from __future__ import annotations

from enum import Enum

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._types import AnyArray

Matrices = Float[Array | np.ndarray, "B m n"]
LeftMatrices = Float[Array | np.ndarray, "B m k"]
RightMatrices = Float[Array | np.ndarray, "B k n"]
SquareMatrices = Float[Array | np.ndarray, "B m m"]

#: The largest entry of a matrix is scaled to between half of this and this: a factor four below float16's largest.
LARGEST = 2.0**14


class MatmulPrecision(Enum):
    """The rounding of the operands of float32 matrix products; the value says it in words.

    `FLOAT_32` is the way in which float32 costs least and loses no more than it must. By the kernels of one H100 or
    H200 it is in pairs, whose gradient was nearer to float64's than full float32's (`python -m benchmarks.two_layer
    --gpu`); elsewhere, where pairs as a compiler makes them lose more, and over several GPUs, it is in full.
    """

    FLOAT_32 = "float32: in pairs where our kernels are, operands as they are elsewhere"
    FULL = "operands as they are: the reference"
    FLOAT_16_PAIRS = "operands as sums of two float16 numbers each, three products: float32 but for its last two bits"
    TENSOR_FLOAT_32 = "operands of eleven bits (tf32) where the hardware offers it: faster, gradients off by some 1e-4"

    def product(
        self,
        left: LeftMatrices,
        right: RightMatrices,
        *,
        left_bound: AnyArray | float | None = None,
        right_bound: AnyArray | float | None = None,
    ) -> Matrices:
        """`left @ right`, matrix by matrix.

        Args:
            left: shape (B, m, k).
            right: shape (B, k, n).
            left_bound: no entry is larger, one number or one a matrix, shape (B, 1, 1); a thousand times too large does
                no harm. None looks for the largest entry of every matrix.
            right_bound: the same for the other side.
        """
        if not self._has_pairs(left):
            return jnp.einsum("bmk,bkn->bmn", left, right, precision=self._dot)
        left_scale, right_scale = _scale(left, left_bound), _scale(right, right_bound)
        # All three products as one over an index three times as long: the result is written once.
        three = _product_of_halves(
            "bmkp,bkpn->bmn",
            _three_parts(left * left_scale, axis=3, low_at=2),
            _three_parts(right * right_scale, axis=2, low_at=1),
        )
        return three / left_scale / right_scale

    def gram(self, x: LeftMatrices, *, bound: AnyArray | float | None = None) -> SquareMatrices:
        """`x @ x.T`, matrix by matrix; what a symmetric product needs to form once is formed once."""
        if not self._has_pairs(x):
            return jnp.einsum("bmk,bnk->bmn", x, x, precision=self._dot)
        scale = _scale(x, bound)
        high, low = _pair(x * scale)
        mixed = _product_of_halves("bmk,bnk->bmn", high, low)
        # The small terms are added first.
        small = mixed + jnp.swapaxes(mixed, 1, 2)
        return (small + _product_of_halves("bmk,bnk->bmn", high, high)) / scale / scale

    @property
    def _dot(self) -> jax.lax.Precision:
        return jax.lax.Precision.DEFAULT if self is MatmulPrecision.TENSOR_FLOAT_32 else jax.lax.Precision.HIGHEST

    def _has_pairs(self, x: AnyArray) -> bool:
        return self is MatmulPrecision.FLOAT_16_PAIRS and x.dtype == jnp.float32


def _product_of_halves(indices: str, left: Array, right: Array) -> Array:
    return jnp.einsum(indices, left, right, preferred_element_type=jnp.float32)


def _pair(x: AnyArray) -> tuple[Array, Array]:
    """High and low part of numbers that are at most `LARGEST`."""
    x = jnp.asarray(x)
    # Not a conversion to float16 and back: a compiler that may keep excess precision cancels that, and so the low part.
    high = jax.lax.reduce_precision(x, exponent_bits=5, mantissa_bits=10)
    return high.astype(jnp.float16), (x - high).astype(jnp.float16)


def _three_parts(x: AnyArray, axis: int, low_at: int) -> Array:
    """Twice the high part and once the low, on a new axis: each entry chosen where it is written, nothing stacked."""
    repeated = jnp.broadcast_to(jnp.expand_dims(x, axis), (*x.shape[:axis], 3, *x.shape[axis:]))
    part = jax.lax.broadcasted_iota(jnp.int32, repeated.shape, axis)
    high, low = _pair(repeated)
    return jnp.where(part == low_at, low, high)


def _scale(x: AnyArray, bound: AnyArray | float | None) -> Array:
    """The power of two that makes the largest entry almost `LARGEST`; shape () or (B, 1, 1)."""
    largest = jnp.max(jnp.abs(x), axis=(1, 2), keepdims=True) if bound is None else jnp.asarray(bound, x.dtype)
    _, exponent = jnp.frexp(largest)
    room = jnp.where(largest > 0, int(np.log2(LARGEST)) - exponent, 0)
    # Scales and their inverses stay normal numbers.
    return jnp.ldexp(jnp.ones_like(largest), jnp.clip(room, -120, 120))
