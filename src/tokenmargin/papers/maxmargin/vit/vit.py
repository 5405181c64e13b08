"""A vision transformer: patches of a picture and [CLS], pre-norm blocks, a class read off [CLS] [M, Sec. 4].

    x <- x + Attention(LayerNorm(x)),   x <- x + MLP(LayerNorm(x)),   output = head(LayerNorm(x)[CLS])

Arrays in, arrays out. Parameters are float32 or float64; on an accelerator products and activations are bfloat16.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._checks import check_fields, checked, whole_number
from tokenmargin._module import Module
from tokenmargin._types import AnyArray, ScalarJ
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import BatchSums, Model
from tokenmargin.papers.maxmargin.vit._block import (
    BlockParameters,
    HeadAttention,
    block,
    cls_block,
    initial_block,
    layer_norm,
    scaled,
)
from tokenmargin.papers.maxmargin.vit._half_block import half_blocks

Pictures = Float[Array | np.ndarray, "B side side 3"]
ClassLabels = Int[Array | np.ndarray, "B"]
ClassOutputs = Float[Array | np.ndarray, "B classes"]
ClsQueries = Float[Array | np.ndarray, "L B heads k"]
TokenKeys = Float[Array | np.ndarray, "L B heads T k"]
ClsMaps = Float[Array | np.ndarray, "L B heads T"]

#: Fused attention wants sequences of a multiple of this; the places beyond the last token are masked.
LENGTH_STEP = 8

#: Width, blocks and heads of the usual sizes.
SIZES = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12)}


class VitParameters(Module):
    """The arrays of the model.

    Args:
        patches: from the numbers of a patch to its token, shape (3 patch^2, d).
        patch_bias: shape (d,).
        cls: the token [CLS], shape (d,).
        positions: added to [CLS] and the patches, shape (T, d).
        blocks: one after the other.
        gain: gain of the last LayerNorm, shape (d,).
        bias: bias of the last LayerNorm, shape (d,).
        head: shape (d, classes).
        head_bias: shape (classes,).
    """

    patches: AnyArray
    patch_bias: AnyArray
    cls: AnyArray
    positions: AnyArray
    blocks: tuple[BlockParameters, ...]
    gain: AnyArray
    bias: AnyArray
    head: AnyArray
    head_bias: AnyArray


class ImageBatch(Module):
    """B pictures.

    Args:
        images: numbers of the order of one, shape (B, side, side, 3).
        labels: classes, shape (B,); -1 marks a row that is no picture and adds nothing to loss or gradient.
    """

    images: Pictures
    labels: ClassLabels


class ClsAttention(Module):
    """Queries and keys of the attention of [CLS]: one query and T keys for each layer, picture and head.

    Args:
        queries: queries of [CLS], divided by the root of their width as the softmax sees them, shape (L, B, heads, k).
        keys: keys of [CLS] and the patches, shape (L, B, heads, T, k).
    """

    queries: ClsQueries
    keys: TokenKeys

    @property
    def logits(self) -> ClsMaps:
        """Scores before the softmax, shape (L, B, heads, T)."""
        return jnp.einsum("lbhk,lbhtk->lbht", self.queries, self.keys, precision=jax.lax.Precision.HIGHEST)

    @property
    def maps(self) -> ClsMaps:
        """Attention of [CLS] to itself and to the patches, shape (L, B, heads, T)."""
        return jax.nn.softmax(self.logits, axis=-1)


class Vit(Model, Module):
    """The size of a vision transformer, and what of it is trained.

    Args:
        width: d.
        depth: blocks.
        heads: number of heads of each block; they divide the width.
        side: pixels of a picture along a side.
        patch: pixels of a patch along a side; 2 on 32 gives the 16 x 16 patches of [M].
        hidden: width of the MLP, in multiples of d.
        trains_attention: True if the weights of queries and keys are trained. Without, they stay as they were drawn.
        half: True if an accelerator computes in bfloat16. A CPU computes in the parameters' own precision.
    """

    width: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    heads: int = eqx.field(static=True)
    side: int = eqx.field(static=True, default=32)
    patch: int = eqx.field(static=True, default=2)
    hidden: int = eqx.field(static=True, default=4)
    trains_attention: bool = eqx.field(static=True, default=True)
    half: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        """Sizes that fit each other."""
        check_fields(self)
        for name in ("width", "depth", "heads", "side", "patch", "hidden"):
            whole_number(getattr(self, name), name, 1)
        if self.width % self.heads or self.side % self.patch:
            raise InvalidInputError(
                f"heads must divide the width and patch the side: {self.heads} heads of a width of {self.width}, "
                f"patches of {self.patch} on a side of {self.side}."
            )

    @classmethod
    @checked
    def of_size(cls, name: str, **options: Any) -> Vit:
        """One of the usual sizes: "tiny", "small" or "base"."""
        if name not in SIZES:
            raise InvalidInputError(f"the sizes of a vision transformer are {', '.join(SIZES)}; got {name!r}.")
        width, depth, heads = SIZES[name]
        return cls(width, depth, heads, **options)

    @property
    def n_tokens(self) -> int:
        """T: the patches and [CLS]."""
        return (self.side // self.patch) ** 2 + 1

    def initial(self, key: Array, size: int, dtype: Any = jnp.float32) -> VitParameters:
        """Return matrices, positions and [CLS] ~ N(0, 0.02^2) cut off at two deviations, gains 1, biases 0.

        `size` is the number of classes.
        """
        return _initial(self, key, size, jnp.dtype(dtype).name)

    def outputs(self, parameters: VitParameters, images: Pictures) -> ClassOutputs:
        """A number for each class, whose softmax is its probability, shape (B, classes)."""
        return _forward(self, parameters, images, reads=False)[0]

    def cls_attention(self, parameters: VitParameters, images: Pictures) -> ClsAttention:
        """Queries of [CLS] and keys of every layer and head, in the precision of the parameters on any device."""
        readings = _forward(replace(self, half=False), parameters, images, reads=True)[1]
        return ClsAttention(jnp.stack([each.queries for each in readings]), jnp.stack([each.keys for each in readings]))

    def loss_and_gradients(self, parameters: VitParameters, batch: ImageBatch) -> tuple[BatchSums, VitParameters]:
        """Return the mean cross entropy of a batch and its gradients; None for what is not trained."""
        trained = _is_trained(self, parameters)
        free, kept = eqx.partition(parameters, trained)
        (_, sums), gradients = jax.value_and_grad(_loss, has_aux=True)(free, kept, self, batch)
        return sums, gradients


def _is_trained(model: Vit, parameters: VitParameters) -> Any:
    """Return True for the leaves that are trained."""
    names = () if model.trains_attention else ("query", "query_bias", "key", "key_bias")
    all_free = jax.tree.map(lambda _: True, parameters)
    where = [(k, name) for k in range(model.depth) for name in names]
    if not where:
        return all_free
    return eqx.tree_at(
        lambda tree: [getattr(tree.blocks[k], name) for k, name in where], all_free, [False] * len(where)
    )


def _loss(free: VitParameters, kept: VitParameters, model: Vit, batch: ImageBatch) -> tuple[ScalarJ, BatchSums]:
    outputs = model.outputs(eqx.combine(free, kept), batch.images)
    there = (batch.labels >= 0).astype(outputs.dtype)
    logs = jax.nn.log_softmax(outputs, axis=-1)
    own = jnp.take_along_axis(logs, jnp.maximum(batch.labels, 0)[:, None], axis=-1)[:, 0]
    total = jnp.sum(there)
    loss = -jnp.sum(own * there) / total
    correct = jnp.sum((jnp.argmax(outputs, axis=-1) == batch.labels).astype(outputs.dtype))
    return loss, BatchSums(loss, correct, total)


def _forward(
    model: Vit, parameters: VitParameters, images: Pictures, reads: bool
) -> tuple[ClassOutputs, list[HeadAttention]]:
    """Outputs, and where `reads`, what each block's [CLS] attended with."""
    shape = (model.side, model.side, 3)
    if images.shape[1:] != shape:
        raise InvalidInputError(f"pictures must have shape (B, {', '.join(map(str, shape))}), got {images.shape}.")
    exact = jnp.asarray(parameters.patches).dtype
    dtype = jnp.bfloat16 if model.half and jax.default_backend() != "cpu" else exact
    x = _tokens(model, parameters, images, dtype)
    readings: list[HeadAttention] = []
    if dtype == jnp.bfloat16 and not reads:
        x = half_blocks(parameters.blocks[:-1], x, model.heads, model.n_tokens)
    else:
        for weights in parameters.blocks[:-1]:
            x, reading = block(weights, x, model.heads, model.n_tokens)
            readings += [reading] if reads else []
    last, reading = cls_block(parameters.blocks[-1], x, model.heads, model.n_tokens)
    readings += [reading] if reads else []
    cls = layer_norm(last, parameters.gain, parameters.bias).astype(exact)
    return jnp.dot(cls, parameters.head, precision=jax.lax.Precision.HIGHEST) + scaled(
        parameters.head_bias, cls
    ), readings


def _tokens(model: Vit, parameters: VitParameters, images: Pictures, dtype: Any) -> Array:
    """[CLS], the patches row by row, and zeros up to a multiple of `LENGTH_STEP`, shape (B, T', d)."""
    B, p = images.shape[0], model.patch
    g = model.side // p
    cut = jnp.asarray(images, dtype).reshape(B, g, p, g, p, 3).transpose(0, 1, 3, 2, 4, 5).reshape(B, g * g, 3 * p * p)
    patches = jnp.dot(cut, parameters.patches.astype(dtype))
    patches = patches + (parameters.patch_bias[None, :] + parameters.positions[1:]).astype(dtype)[None]
    first = jnp.broadcast_to((parameters.cls + parameters.positions[0]).astype(dtype), (B, 1, model.width))
    none = jnp.zeros((B, -model.n_tokens % LENGTH_STEP, model.width), dtype)
    return jnp.concatenate([first, patches, none], axis=1)


@eqx.filter_jit
def _initial(model: Vit, key: Array, classes: int, dtype: str) -> VitParameters:
    d, numbers = model.width, 3 * model.patch**2
    keys = jax.random.split(key, model.depth + 4)

    def small(k: int, *shape: int) -> Array:
        return 0.02 * jax.random.truncated_normal(keys[k], -2.0, 2.0, shape, dtype)

    # The map of patches has few rows: the usual deviation of 0.02 would drown the picture in the positions.
    patches = small(0, numbers, d) / (0.02 * math.sqrt(numbers))
    blocks = tuple(initial_block(each, d, model.hidden * d, dtype) for each in keys[4:])
    zeros, ones = jnp.zeros(d, dtype), jnp.ones(d, dtype)
    head, head_bias = small(3, d, classes), jnp.zeros(classes, dtype)
    return VitParameters(
        patches, zeros, small(1, d), small(2, model.n_tokens, d), blocks, ones, zeros + 0, head, head_bias
    )
