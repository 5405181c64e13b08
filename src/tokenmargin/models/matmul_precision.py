"""How exactly float32 products are formed: in full, or with the operands rounded to ten bits (tf32)."""

from __future__ import annotations

from enum import Enum

import jax


class MatmulPrecision(Enum):
    """The rounding of the operands of float32 matrix products; the value says it in words.

    Only accelerators have the second kind of unit: on a CPU, and for float64, both members mean the same.
    """

    FULL = "operands as they are: the reference"
    TENSOR_FLOAT_32_TIMES_3 = "operands split into two tf32 numbers each, three products: float32 but for its last bits"
    TENSOR_FLOAT_32 = "operands rounded to tf32 where the hardware offers it: faster, gradients off by some 1e-4"

    @property
    def lax(self) -> jax.lax.Precision | jax.lax.DotAlgorithmPreset:
        """The name of this precision in JAX."""
        if self is MatmulPrecision.TENSOR_FLOAT_32_TIMES_3:
            return jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
        return jax.lax.Precision.HIGHEST if self is MatmulPrecision.FULL else jax.lax.Precision.DEFAULT
