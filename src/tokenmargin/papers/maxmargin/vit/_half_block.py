"""A block of a vision transformer in bfloat16: the function of `_vit_block`, with fewer passes over the stream.

Gains and biases of a LayerNorm go into the product that reads it: x -> (x' gain + bias) W is x' (gain W) + bias W for
the normalised x'. A bias of the keys adds the same number to all scores of a query and drops out of the softmax; a bias
of the values is added to what is mixed, as weights sum to one, and goes into that of the next product. What a product
adds to the stream is added where the stream is next normalised (`_vit_kernels`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from tokenmargin._types import AnyArray
from tokenmargin.papers.maxmargin.vit._block import FULL, BlockParameters, Stream, attention
from tokenmargin.papers.maxmargin.vit._kernels import Rows, Vector, biased_gelu, normalised_sum


class Sum(NamedTuple):
    """A stream that is still to be added up: x + change + bias, of B pictures one after the other."""

    x: Rows
    change: Rows
    bias: Vector


def half_blocks(
    blocks: tuple[BlockParameters, ...], x: Stream, heads: int, n_tokens: int, *, interpret: bool = False
) -> Stream:
    """x after these blocks; tokens from `n_tokens` on are no tokens, and nobody attends to them."""
    B, places, d = x.shape
    rows = x.reshape(B * places, d)
    stream = Sum(rows, jnp.zeros_like(rows), jnp.zeros(d, x.dtype))
    for weights in blocks:
        stream = _half_block(weights, stream, B, heads, n_tokens, interpret)
    return (stream.x + stream.change + stream.bias.astype(x.dtype)[None]).reshape(B, places, d)


def _half_block(w: BlockParameters, stream: Sum, B: int, heads: int, n_tokens: int, interpret: bool) -> Sum:
    d = stream.x.shape[1]
    rows, read = normalised_sum(*stream, interpret)
    (query, query_bias), (key, _), (value, value_bias) = (
        _behind_norm(w.attention_gain, w.attention_norm_bias, *each)
        for each in ((w.query, w.query_bias), (w.key, w.key_bias), (w.value, w.value_bias))
    )
    q = _product(read, query) + query_bias.astype(read.dtype)[None]
    q, k, v = (each.reshape(B, -1, heads, d // heads) for each in (q, _product(read, key), _product(read, value)))
    mixed = attention(q, k, v, n_tokens).reshape(-1, d)
    out_bias = w.out_bias + jnp.dot(value_bias, w.out, precision=FULL)
    rows, read = normalised_sum(rows, _product(mixed, w.out), out_bias, interpret)
    up, up_bias = _behind_norm(w.mlp_gain, w.mlp_norm_bias, w.up, w.up_bias)
    return Sum(rows, _product(biased_gelu(_product(read, up), up_bias, interpret), w.down), jnp.asarray(w.down_bias))


def _behind_norm(gain: AnyArray, norm_bias: AnyArray, matrix: AnyArray, bias: AnyArray) -> tuple[Array, Array]:
    """A product that reads what was normalised instead of what LayerNorm makes of it."""
    matrix = jnp.asarray(matrix)
    return jnp.asarray(gain)[:, None] * matrix, jnp.asarray(bias) + jnp.dot(norm_bias, matrix, precision=FULL)


def _product(x: Rows, matrix: AnyArray) -> Array:
    # Products of bfloat16 are added in float32 whatever is asked for.
    precision = None if x.dtype == jnp.bfloat16 else jax.lax.Precision.HIGHEST
    return jnp.dot(x, matrix.astype(x.dtype), precision=precision)
