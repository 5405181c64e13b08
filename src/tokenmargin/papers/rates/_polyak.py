"""Descent with Polyak's step, the excess of the risk over its infimum divided by the squared gradient."""

from __future__ import annotations

import jax.numpy as jnp

from tokenmargin._checks import positive
from tokenmargin._types import AnyArray
from tokenmargin.attention.method import Excess, Gradient, Method
from tokenmargin.norms import L2

#: Longest step: at tokens whose risk is not the least, the excess stays while the gradient vanishes.
LONGEST = 1e6


class Polyak(Method):
    """p <- p - scale (L - L*) grad L / |grad L|^2, in logarithms, so that both may underflow.

    A step longer than `LONGEST` is not taken: the run stays where it is.
    """

    scale: float = 1.0
    geometry = L2()

    def __check_init__(self) -> None:
        """Check the scale."""
        positive(self.scale, "scale")

    def step(self, gradient: Gradient, excess: Excess, state: tuple[()], p: AnyArray) -> tuple[AnyArray, tuple[()]]:
        """Along minus the gradient, by the excess over its length; nothing where the excess is not positive."""
        moving = (excess.sign > 0) & jnp.isfinite(gradient.log_norm)
        log_reach = jnp.where(moving, excess.log_size - gradient.log_norm, -jnp.inf)
        reach = jnp.exp(jnp.where(log_reach <= jnp.log(LONGEST), log_reach, -jnp.inf))
        return p - self.scale * reach * gradient.unit, state
