"""Half precision as libraries mix it: does it put a floor under the losses of [E, App. E]?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tokenmargin.models.factored_gradient import gradient_entries, is_gradient
from tokenmargin.models.model import BatchSums, CompilerOptions, Model
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.models.two_layer import TwoLayer
from tokenmargin.training.batches import batch_factory

#: Below the first number float16 has whole multiples of the second alone.
NORMAL, LEAST = 2.0**-14, 2.0**-24


@dataclass(frozen=True)
class InHalf(Model):
    """A model in mixed precision: parameters are read as float16, and gradients written as float16, none scaled up.

    What is smaller than 2^-25 becomes 0, so that training may stop at a loss. AdamW's own numbers stay float32.
    """

    model: OneLayer | TwoLayer

    @property
    def width(self) -> int:
        """Width of the embeddings."""
        return self.model.width

    @property
    def compiler_options(self) -> CompilerOptions:
        """Options of the model's."""
        return self.model.compiler_options

    def initial(self, key: jax.Array, size: int, dtype: Any) -> Any:
        """Start as the model does."""
        return self.model.initial(key, size, dtype)

    def loss_and_gradients(self, parameters: Any, batch: Any) -> tuple[BatchSums, Any]:
        """Return the model's sums and gradients at rounded parameters, the gradients rounded."""
        sums, gradients = self.model.loss_and_gradients(jax.tree.map(_in_float16, parameters), batch)
        return sums, jax.tree.map(lambda g: _in_float16(gradient_entries(g)), gradients, is_leaf=is_gradient)

    def recorded(self, parameters: Any, posterior: Any) -> dict[str, Any]:
        """Return what the model records."""
        return self.model.recorded(parameters, posterior)


batch_factory.register(InHalf, lambda model: batch_factory(model.model))


def _in_float16(x: Any) -> Any:
    """The nearest float16, subnormal ones included; a compiler may drop a conversion there and back, and not this."""
    rounded = jax.lax.reduce_precision(x, exponent_bits=5, mantissa_bits=10)
    return jnp.where(jnp.abs(x) < NORMAL, jnp.round(x / LEAST) * LEAST, rounded)
