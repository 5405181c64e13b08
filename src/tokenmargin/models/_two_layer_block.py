"""One block of documents through the two-layer model and back, in Gram form: embeddings enter twice and leave once.

With X the embeddings of the U distinct tokens of a document, G = XX', A = Softmax(G + log c), B = A + I and
a = X[p v 1/d], every token H = BX that LayerNorm sees needs only H[p v 1/d] = Ba and |H_t|^2 = (BGB')_tt. So X is
read for G and once more for the gradient dX = (dG + dG')X + da[p v 1/d]', and no other array of its size exists
[E, (36)]. Gain and bias of the LayerNorm are absorbed: p and v here are gain*p and gain*v less their means.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenmargin._types import ScalarJ
from tokenmargin.models.matmul_precision import MatmulPrecision

BlockEmbeddings = Float[Array | np.ndarray, "B U d"]
BlockPairs = Float[Array | np.ndarray, "B U U"]
BlockNumbers = Float[Array | np.ndarray, "B U"]
BlockOverlaps = Float[Array | np.ndarray, "B U 3"]
BlockOutputs = Float[Array | np.ndarray, "B"]
EmbeddingTable = Float[Array | np.ndarray, "V d"]
Overlaps = Float[Array | np.ndarray, "V 3"]
Readers = Float[Array | np.ndarray, "3 d"]
Diagonal = Bool[Array, "1 U U"]

#: No entry of A + I is larger.
MIXING_BOUND = 2.0


class SoftmaxScales(NamedTuple):
    """Factors of the scores of each softmax: 1 as [E, (36)] is printed, d^(-1/2) in libraries."""

    mixing: float = 1.0  #: of the first layer, Softmax(c XX')
    scores: float = 1.0  #: of the second, Softmax(c p'E'_X')


#: The printed formulas.
AS_PRINTED = SoftmaxScales()


class TableRead(NamedTuple):
    """Products of the embedding table that every document needs, from one pass over it."""

    overlaps: Overlaps  # what p, v and 1/d read of each token
    bound: ScalarJ  # the largest entry of the table


class BlockForward(NamedTuple):
    """Arrays of the forward pass that the backward pass needs; letters as at the top of the file."""

    attention: BlockPairs  # A
    mixing: BlockPairs  # B = A + I
    mixed_gram: BlockPairs  # C = BG
    overlaps: BlockOverlaps  # a
    query_overlap: BlockNumbers  # H p
    head_overlap: BlockNumbers  # H v
    mean: BlockNumbers  # H 1/d
    scale: BlockNumbers  # r = (variance + epsilon)^(-1/2)
    weights: BlockNumbers  # w, the second softmax
    spread: BlockNumbers  # y_t - sum_s w_s y_s for the values y = r H v
    outputs: BlockOutputs  # f without the bias term


class BlockBackward(NamedTuple):
    """Gradients of a block: in the embeddings `pairs` + `overlaps` @ readers, in the readers `overlaps`' @ embeddings.

    Both products with `overlaps` are left to the caller: summed over the occurrences of a token first, they cost one
    pass over the embedding table instead of one over every document.
    """

    pairs: BlockEmbeddings  # (dG + dG')X
    overlaps: BlockOverlaps  # da


def read_by_product(E: EmbeddingTable, readers: Readers) -> TableRead:
    """E[p v 1/d] as a CPU likes it."""
    overlaps = jnp.einsum("vd,kd->vk", E, readers, precision=jax.lax.Precision.HIGHEST)
    return TableRead(overlaps, jnp.max(jnp.abs(E)))


def read_by_sums(E: EmbeddingTable, readers: Readers) -> TableRead:
    """Four sums over rows, which XLA makes one pass of; a product with three columns wastes a matrix unit."""
    overlaps = [jnp.sum(E * readers[k, None, :], axis=1) for k in range(3)]
    return TableRead(jnp.stack(overlaps, axis=1), jnp.max(jnp.max(jnp.abs(E), axis=1)))


def block_forward(
    embeddings: BlockEmbeddings,
    overlaps: BlockOverlaps,
    log_counts: BlockNumbers,
    bound: ScalarJ,
    epsilon: float,
    precision: MatmulPrecision,
    scales: SoftmaxScales = AS_PRINTED,
) -> BlockForward:
    """Outputs f = Softmax(p'E'')E'v of a block of documents, with all that its gradient needs.

    No entry of the embeddings is larger than `bound`. The scale of the second softmax is in the overlaps already.
    """
    gram = precision.gram(embeddings, bound=bound)
    return forward_from_gram(gram, overlaps, log_counts, embeddings.shape[-1], bound, epsilon, precision, scales)


def forward_from_gram(
    gram: BlockPairs,
    overlaps: BlockOverlaps,
    log_counts: BlockNumbers,
    width: int,
    bound: ScalarJ,
    epsilon: float,
    precision: MatmulPrecision,
    scales: SoftmaxScales = AS_PRINTED,
) -> BlockForward:
    """`block_forward` from G on: all of it but the first product."""
    attention = jax.nn.softmax(scales.mixing * gram + log_counts[:, None, :], axis=-1)
    mixing = attention + _diagonal(gram).astype(gram.dtype)
    mixed_gram = precision.product(mixing, gram, left_bound=MIXING_BOUND, right_bound=width * bound**2)
    squared_norm = jnp.sum(mixing * mixed_gram, axis=-1)
    # Three sums over rows of one matrix: XLA makes one pass of them, and a product with three columns would not.
    query_overlap, head_overlap, mean = (jnp.sum(mixing * overlaps[:, None, :, k], axis=-1) for k in range(3))
    variance = jnp.maximum(squared_norm / width - mean**2, 0)
    scale = jax.lax.rsqrt(variance + epsilon)
    logits = scale * query_overlap + log_counts
    weights = jax.nn.softmax(logits, axis=-1)
    values = scale * head_overlap
    # Differences to the value of the top token: past saturation y_t - sum w y would cancel to noise there.
    top = jnp.take_along_axis(values, jnp.argmax(logits, axis=-1, keepdims=True), axis=-1)
    from_top = values - top
    shift = jnp.sum(weights * from_top, axis=-1, keepdims=True)
    return BlockForward(
        attention=attention,
        mixing=mixing,
        mixed_gram=mixed_gram,
        overlaps=overlaps,
        query_overlap=query_overlap,
        head_overlap=head_overlap,
        mean=mean,
        scale=scale,
        weights=weights,
        spread=from_top - shift,
        outputs=(top + shift)[:, 0],
    )


def block_backward(
    embeddings: BlockEmbeddings,
    forward: BlockForward,
    slopes: BlockOutputs,
    bound: ScalarJ,
    precision: MatmulPrecision,
    scales: SoftmaxScales = AS_PRINTED,
) -> BlockBackward:
    """Gradients of sum_i slope_i f_i, derived by hand."""
    symmetric, overlaps = backward_to_gram(forward, slopes, embeddings.shape[-1], precision, scales)
    return BlockBackward(precision.product(symmetric, embeddings, right_bound=bound), overlaps)


def backward_to_gram(
    forward: BlockForward,
    slopes: BlockOutputs,
    width: int,
    precision: MatmulPrecision,
    scales: SoftmaxScales = AS_PRINTED,
) -> tuple[BlockPairs, BlockOverlaps]:
    """dG + dG' and da: all of `block_backward` but the last product."""
    query, head, mean, square = _layer_norm_backward(forward, slopes, width)
    by_overlap = (query, head, mean)
    overlaps = jnp.stack([jnp.sum(forward.mixing * g[:, :, None], axis=1) for g in by_overlap], axis=-1)
    scores = _scores_backward(forward, by_overlap, square)
    weighted = jnp.swapaxes(forward.mixing * square[:, :, None], 1, 2)
    largest = jnp.max(jnp.abs(square), axis=1)[:, None, None]
    quadratic = precision.product(weighted, forward.mixing, left_bound=MIXING_BOUND * largest, right_bound=MIXING_BOUND)
    one_sided = scales.mixing * scores + quadratic
    return one_sided + jnp.swapaxes(one_sided, 1, 2), overlaps


def _layer_norm_backward(
    forward: BlockForward, slopes: BlockOutputs, width: int
) -> tuple[BlockNumbers, BlockNumbers, BlockNumbers, BlockNumbers]:
    """Gradients in H p, H v, the mean and the squared norm of every token."""
    values = slopes[:, None] * forward.weights
    logits = values * forward.spread
    scale = logits * forward.query_overlap + values * forward.head_overlap
    variance = -0.5 * forward.scale**3 * scale
    return logits * forward.scale, values * forward.scale, -2 * forward.mean * variance, variance / width


def _scores_backward(
    forward: BlockForward, by_overlap: tuple[BlockNumbers, BlockNumbers, BlockNumbers], square: BlockNumbers
) -> BlockPairs:
    """Gradient in the scores of the first softmax, in differences to the token itself: the top one when saturated."""
    own = jnp.sum(jnp.where(_diagonal(forward.mixed_gram), forward.mixed_gram, 0), axis=-1)
    from_own = 2 * square[:, :, None] * (forward.mixed_gram - own[:, :, None])
    for k, gradient in enumerate(by_overlap):
        overlap = forward.overlaps[..., k]
        from_own += gradient[:, :, None] * (overlap[:, None, :] - overlap[:, :, None])
    shift = jnp.sum(forward.attention * from_own, axis=-1, keepdims=True)
    return forward.attention * (from_own - shift)


def _diagonal(pairs: BlockPairs) -> Diagonal:
    return jnp.eye(pairs.shape[-1], dtype=bool)[None]
