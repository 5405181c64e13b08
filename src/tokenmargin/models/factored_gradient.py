"""A gradient kept as a product of two thin factors: what reaches a table of embeddings through a few overlaps of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._module import Module
from tokenmargin._types import AnyArray
from tokenmargin.models._kernels import RowsGradient

LeftFactor = Float[Array | np.ndarray, "rows r"]
RightFactor = Float[Array | np.ndarray, "r columns"]
Product = Float[Array | np.ndarray, "rows columns"]


class FactoredGradient(Module):
    """left @ right, shape (rows, columns), of rank r.

    A loss that sees E only through E[p v] has the gradient R[p v]' in E, of rank two. An optimiser reads its entries
    while it updates E; as an array of its own it would cost as much traffic as E itself.

    Args:
        left: shape (rows, r).
        right: shape (r, columns).
    """

    left: LeftFactor
    right: RightFactor

    def entries(self) -> Product:
        """The product as a sum of r broadcast outer products, which the compiler fuses into whatever reads it."""
        outer = [self.left[:, k, None] * self.right[None, k, :] for k in range(self.left.shape[1])]
        return sum(outer[1:], start=outer[0])

    def after(self, computed_first: AnyArray) -> FactoredGradient:
        """The same gradient, not ready before `computed_first` (a scalar) is.

        Without an order the compiler must allow for E to be overwritten while another product still reads it, and
        copies E in every step: two more passes over memory, and a third more of it. A barrier does not survive to where
        that is decided; a term 0 * x does, because 0 * x is not 0 for every float.
        """
        return FactoredGradient(self.left + 0.0 * computed_first, self.right)


def gradient_entries(gradient: FactoredGradient | RowsGradient | AnyArray) -> AnyArray:
    """A gradient as an array, whichever form it comes in."""
    return gradient.entries() if isinstance(gradient, FactoredGradient | RowsGradient) else jnp.asarray(gradient)


def is_gradient(node: object) -> bool:
    """True if a node of a tree of gradients is one gradient, for `jax.tree.map(..., is_leaf=is_gradient)`."""
    return isinstance(node, FactoredGradient | RowsGradient | jax.Array | np.ndarray | jax.ShapeDtypeStruct)
