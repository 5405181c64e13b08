"""One pre-norm block of a vision transformer: attention, then an MLP, each added to what it reads."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._types import AnyArray

Stream = Float[Array, "B places d"]
Heads = Float[Array, "B places heads k"]
QueryHeads = Float[Array, "B queries heads k"]
ClsStream = Float[Array, "B d"]
Rows = Float[Array, "rows d"]

BlockQueries = Float[Array | np.ndarray, "B heads k"]
BlockKeys = Float[Array | np.ndarray, "B heads T k"]

LAYER_NORM_EPSILON = 1e-6

#: Products of float32 in full float32: accelerators round factors to fewer bits unless told otherwise.
FULL = jax.lax.Precision.HIGHEST


class BlockParameters(eqx.Module):
    """Weights of a block; each matrix is of shape (in, out), heads one after the other along `out`."""

    attention_gain: AnyArray
    attention_norm_bias: AnyArray
    query: AnyArray
    query_bias: AnyArray
    key: AnyArray
    key_bias: AnyArray
    value: AnyArray
    value_bias: AnyArray
    out: AnyArray
    out_bias: AnyArray
    mlp_gain: AnyArray
    mlp_norm_bias: AnyArray
    up: AnyArray
    up_bias: AnyArray
    down: AnyArray
    down_bias: AnyArray


class HeadAttention(eqx.Module):
    """Queries of [CLS] in a block, divided by the root of their width, and the keys of all tokens."""

    queries: BlockQueries
    keys: BlockKeys


def initial_block(key: Array, width: int, hidden: int, dtype: str) -> BlockParameters:
    """Matrices ~ N(0, 0.02^2) cut off at two deviations, gains 1, biases 0."""
    shapes = [(width, width)] * 4 + [(width, hidden), (hidden, width)]
    keys = jax.random.split(key, len(shapes))
    q, k, v, out, up, down = (
        0.02 * jax.random.truncated_normal(each, -2.0, 2.0, shape, dtype)
        for each, shape in zip(keys, shapes, strict=True)
    )

    def zeros(size: int = width) -> Array:
        return jnp.zeros(size, dtype)

    def ones() -> Array:
        return jnp.ones(width, dtype)

    first = (ones(), zeros(), q, zeros(), k, zeros(), v, zeros(), out, zeros())
    return BlockParameters(*first, ones(), zeros(), up, zeros(hidden), down, zeros())


def block(weights: BlockParameters, x: Stream, heads: int, n_tokens: int) -> tuple[Stream, HeadAttention]:
    """x after attention and MLP; the places from `n_tokens` on are no tokens and nobody attends to them."""
    B, places, d = x.shape
    # Rows of one matrix: products and sums over pictures and places together are then plain ones, a sixth quicker.
    rows = x.reshape(B * places, d)
    read = layer_norm(rows, weights.attention_gain, weights.attention_norm_bias)
    # One product for all three: the stream is read once.
    together = jnp.concatenate([weights.query, weights.key, weights.value], axis=1)
    biases = jnp.concatenate([weights.query_bias, weights.key_bias, weights.value_bias])
    both = _linear(read, together, biases).reshape(B, places, 3, heads, d // heads)
    q, k, v = both[:, :, 0], both[:, :, 1], both[:, :, 2]
    mixed = attention(q, k, v, n_tokens).reshape(B * places, d)
    return _added(weights, rows, mixed).reshape(B, places, d), _readings(q[:, 0], k, n_tokens)


def cls_block(weights: BlockParameters, x: Stream, heads: int, n_tokens: int) -> tuple[ClsStream, HeadAttention]:
    """[CLS] alone after a last block: nobody reads the other tokens, so their queries and MLP are left out."""
    B, places, d = x.shape
    read = layer_norm(x.reshape(B * places, d), weights.attention_gain, weights.attention_norm_bias)
    q = _linear(read.reshape(B, places, d)[:, 0], weights.query, weights.query_bias).reshape(B, heads, d // heads)
    together = jnp.concatenate([weights.key, weights.value], axis=1)
    both = _linear(read, together, jnp.concatenate([weights.key_bias, weights.value_bias]))
    k, v = (both.reshape(B, places, 2, heads, d // heads)[:, :, place] for place in (0, 1))
    mixed = plain_attention(q[:, None], k, v, n_tokens).reshape(B, d)
    return _added(weights, x[:, 0], mixed), _readings(q, k, n_tokens)


def _added(weights: BlockParameters, rows: Rows, mixed: Rows) -> Rows:
    """Return the rows with the mixture of attention, and then the MLP, added to them."""
    rows = rows + _linear(mixed, weights.out, weights.out_bias)
    read = layer_norm(rows, weights.mlp_gain, weights.mlp_norm_bias)
    hidden = jax.nn.gelu(_linear(read, weights.up, weights.up_bias), approximate=False)
    return rows + _linear(hidden, weights.down, weights.down_bias)


def _readings(q: Array, k: Array, n_tokens: int) -> HeadAttention:
    scale = jnp.asarray(1.0 / math.sqrt(q.shape[-1]), q.dtype)
    return HeadAttention(q * scale, k[:, :n_tokens].transpose(0, 2, 1, 3))


def attention(q: Heads, k: Heads, v: Heads, n_tokens: int) -> Heads:
    """Softmax(q k'/sqrt(width)) v over the first `n_tokens` places, by cuDNN's fused kernel where there is one."""

    def fused(q: Array, k: Array, v: Array) -> Array:
        lengths = jnp.full(q.shape[0], n_tokens, jnp.int32)
        return jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=lengths, implementation="cudnn")

    def plain(q: Array, k: Array, v: Array) -> Array:
        return plain_attention(q, k, v, n_tokens)

    if q.dtype != jnp.bfloat16:
        return plain(q, k, v)
    return jax.lax.platform_dependent(q, k, v, cuda=fused, default=plain)


def plain_attention(q: QueryHeads, k: Heads, v: Heads, n_tokens: int) -> QueryHeads:
    """The same as two products and a softmax, of float32 at least."""
    wide = jnp.promote_types(q.dtype, jnp.float32)
    logits = jnp.einsum("bqhk,bthk->bhqt", q, k, precision=FULL, preferred_element_type=wide) / math.sqrt(q.shape[-1])
    there = (jnp.arange(k.shape[1]) < n_tokens)[None, None, None, :]
    weights = jax.nn.softmax(jnp.where(there, logits, -jnp.inf), axis=-1).astype(q.dtype)
    return jnp.einsum("bhqt,bthk->bqhk", weights, v, precision=FULL)


def layer_norm(x: AnyArray, gain: AnyArray, bias: AnyArray) -> Array:
    """(x - mean)/deviation * gain + bias along the last axis, in float32 at least."""
    wide = jnp.asarray(x, jnp.promote_types(x.dtype, jnp.float32))
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    root = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + LAYER_NORM_EPSILON)
    return (centred * root * scaled(gain, wide) + scaled(bias, wide)).astype(x.dtype)


def scaled(vector: AnyArray, like: AnyArray) -> Array:
    """A vector with the rank and dtype of an array whose last axis it belongs to."""
    return jnp.asarray(vector, like.dtype).reshape((1,) * (like.ndim - 1) + (-1,))


def _linear(x: AnyArray, matrix: AnyArray, bias: AnyArray) -> Any:
    # Products of bfloat16 are added in float32 whatever is asked for: nothing is asked for.
    precision = None if x.dtype == jnp.bfloat16 else FULL
    return jnp.dot(x, matrix.astype(x.dtype), precision=precision) + scaled(bias, x)
