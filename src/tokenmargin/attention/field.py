"""The contract of a field: a risk as pure JAX, with a gradient that survives saturation.

Everything that follows a risk sees its field alone, as a function of one vector y: all blocks of a point one after the
other (`Risk.blocks` names them). A field is a tree of arrays, so that fields of one structure and shape run together.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import jax.numpy as jnp

from tokenmargin._module import Module
from tokenmargin._types import AnyArray
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention.method import Excess, Gradient


class Field(Module):
    """A risk L(y) to subclass: `value` and `descent` make it followed by any method, `log_weights` makes it judged.

    `KeyField` has the rest in closed form for a risk of one query over fixed keys.
    """

    #: True if tokens score the same at every point, as they do behind a linear head. The field is then smooth, fast
    #: layouts are known for it, and a limit of which a part stays finite can be taken apart.
    has_fixed_scores: ClassVar[bool] = False

    @abstractmethod
    def value(self, y: AnyArray) -> AnyArray:
        """L(y), a scalar."""

    @abstractmethod
    def descent(self, y: AnyArray) -> tuple[Gradient, Excess]:
        """-grad L(y) block by block in log scale, and how far L(y) is above the least that it can be."""

    def moved(self, before: AnyArray, after: AnyArray) -> AnyArray:
        """The point that a step from `before` to `after` leads to: `after`, unless blocks have speeds of their own."""
        del before
        return after

    def force(self, y: AnyArray) -> AnyArray:
        """The velocity of the flow at y, of order one: each block of -grad L over its own length, unless overridden."""
        return jnp.concatenate([block.unit for block in self.descent(y)[0].descent])

    def log_weights(self, y: AnyArray) -> tuple[AnyArray, ...]:
        """Logarithms of the weights of which -grad L is the sum, for each block; -inf for those that pull nothing.

        Pairs of tokens have shape (n, T, T). Empty where the field does not say: then no limit is judged.
        """
        del y
        return ()

    def in_span(self) -> tuple[Any, Coordinates] | None:
        """The same field in the span outside which nothing moves, with the way there and back; None for none."""
        return None
