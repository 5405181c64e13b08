"""Vectors whose size may underflow while their direction does not, and lengths that do neither."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tokenmargin._module import Module
from tokenmargin._types import AnyArray


class ScaledVector(Module):
    """A vector, exp(log_scale) times direction, whose size may underflow while its direction does not."""

    direction: AnyArray
    log_scale: AnyArray

    @property
    def value(self) -> AnyArray:
        """The vector itself, zero once it underflows."""
        return jnp.exp(self.log_scale) * self.direction

    @property
    def unit(self) -> AnyArray:
        """The vector over its length; zeros for a vector that is exactly zero."""
        return unit(self.direction)

    @property
    def log_norm(self) -> AnyArray:
        """Logarithm of its length; -inf for a vector that is exactly zero."""
        size = length(self.direction)
        return jnp.where(size > 0, self.log_scale + jnp.log(jnp.where(size > 0, size, 1.0)), -jnp.inf)


def unit(vector: AnyArray) -> AnyArray:
    """x/|x|, zeros for zero, with a derivative that is finite there; its square neither under- nor overflows."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(vector)))
    moving = largest > 0
    scaled = vector / jnp.where(moving, largest, 1.0)
    return jnp.where(moving, scaled / jnp.sqrt(jnp.where(moving, jnp.sum(scaled**2), 1.0)), 0.0)


def length(vectors: AnyArray) -> AnyArray:
    """|x| along the first axis, also where the square of an entry under- or overflows."""
    plain = jnp.sqrt(jnp.sum(vectors**2, axis=0))
    largest = jnp.max(jnp.abs(vectors), axis=0)
    scaled = vectors / jnp.where(largest > 0, largest, 1.0)[None]
    careful = largest * jnp.sqrt(jnp.sum(scaled**2, axis=0))
    return jnp.where((plain > 0) & jnp.isfinite(plain), plain, careful)
