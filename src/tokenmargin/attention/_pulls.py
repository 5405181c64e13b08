"""The negative gradient as a sum over tokens, each term with a logarithm of its own.

-grad L = sum_it c_it (k_it - k_i*), with * the token of largest attention in input i. The coefficients spread over
hundreds of orders of magnitude. A step along the gradient feels the largest; the sign of an entry, or a singular
direction, may be that of a term which is 1e-300 of them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tokenmargin._module import Module
from tokenmargin._types import AnyArray
from tokenmargin.attention._outer_keys import FieldKeys, OuterKeys, diagonal_blocks, pulled
from tokenmargin.attention._scaled import ScaledVector, length


class Pulls(Module):
    """-grad L = sum_it sign_it exp(log_weight_it) key_it, with keys relative to the top token of their input."""

    keys: FieldKeys
    top: AnyArray  #: the top token of each input, shape (n, 1)
    sign: AnyArray  #: shape (n, T)
    log_weight: AnyArray  #: shape (n, T); -inf where a token does not pull, as the top one
    log_scale: AnyArray  #: the largest log_weight, but for the size of scores

    @property
    def total(self) -> ScaledVector:
        """-grad L in units of its largest weight."""
        return ScaledVector(pulled(self.keys, self._weights), self.log_scale)

    @property
    def net(self) -> AnyArray:
        """Coefficients of all keys, shape (n, T), over half the sum of their moduli; those of an input sum to 0."""
        weights = self._weights
        others = jnp.sum(weights, axis=-1, keepdims=True)
        is_top = jnp.arange(weights.shape[1])[None] == self.top
        net = jnp.where(is_top, -others, weights)
        size = jnp.sum(jnp.abs(net)) / 2
        return net / jnp.where(size > 0, size, 1.0)

    @property
    def _weights(self) -> AnyArray:
        return self.sign * jnp.exp(self.log_weight - self.log_scale)

    @property
    def in_blocks(self) -> Pulls:
        """The same sum for one block-diagonal matrix, where there are several heads."""
        assert isinstance(self.keys, OuterKeys)
        return Pulls(self.keys.in_blocks(), self.top, self.sign, self.log_weight, self.log_scale)

    @property
    def rows(self) -> tuple[AnyArray, AnyArray]:
        """(g of shape (n, d), log scale of shape (n,)): the terms of -grad L = sum_i exp(scale_i) g_i z_i'."""
        assert isinstance(self.keys, OuterKeys)
        largest = jnp.max(self.log_weight, axis=1)
        largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
        weights = self.sign * jnp.exp(self.log_weight - largest[:, None])
        rows = jnp.einsum("nt,ntd->nd", weights, self.keys.tokens)
        return rows, jnp.where(length(rows.T) > 0, largest, -jnp.inf)

    @property
    def entries(self) -> tuple[AnyArray, AnyArray]:
        """(sign, log of the size) of each entry of -grad L, shape (d,): no entry underflows beside another."""
        if isinstance(self.keys, OuterKeys):
            if self.keys.heads > 1:
                sign, log_size = self.in_blocks.entries
                shape = self.keys.heads * self.keys.matrix[1], -1
                apart = (diagonal_blocks(one.reshape(shape), self.keys.heads).reshape(-1) for one in (sign, log_size))
                return tuple(apart)  # type: ignore[return-value]
            tokens, queries = self.keys.tokens, self.keys.queries
            sign = self.sign[:, :, None] * jnp.sign(tokens)
            sign, log_size = signed_sum(sign, self.log_weight[:, :, None], tokens, 1)
            sign = sign[:, :, None] * jnp.sign(queries)[:, None]
            sign, log_size = signed_sum(sign, log_size[:, :, None], queries[:, None], 0)
            return sign.reshape(-1), log_size.reshape(-1)
        both = self.sign[:, :, None] * jnp.sign(self.keys), self.log_weight[:, :, None], self.keys
        sign, log_size = signed_sum(*both, 1)
        return signed_sum(sign, log_size, jnp.ones_like(sign), 0)


def signed_sum(sign: AnyArray, log_weight: AnyArray, factor: AnyArray, axis: int) -> tuple[AnyArray, AnyArray]:
    """(sign, log of the size) of the sum along an axis of numbers sign * exp(log_weight) * |factor|."""
    size = jnp.abs(factor)
    log_size = log_weight + jnp.where(size > 0, jnp.log(jnp.where(size > 0, size, 1.0)), -jnp.inf)
    total, sign = jax.nn.logsumexp(log_size, axis=axis, b=sign, return_sign=True)
    return sign, total
