"""Documents in few widths, and the parameters of the two-layer model [E, (36)].

Also what p, v, gain and bias are to the Gram form, and the gradients from there back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._module import Module
from tokenmargin._types import AnyArray, ScalarJ, VectorJ
from tokenmargin.models._two_layer_block import Readers, SoftmaxScales

EmbeddingTable = Float[Array | np.ndarray, "V d"]
DocumentIds = Int[Array | np.ndarray, "B U"]
DocumentNumbers = Float[Array | np.ndarray, "B U"]
DocumentLabels = Float[Array | np.ndarray, "B"]
ReaderGradients = Float[Array | np.ndarray, "2 d"]
RaggedIds = Int[Array | np.ndarray, "nonzeros"]
RaggedNumbers = Float[Array | np.ndarray, "nonzeros"]
PlacesInBlocks = Int[Array | np.ndarray, "blocks b"]
LabelsInBlocks = Float[Array | np.ndarray, "blocks b"]

T = TypeVar("T")


class TwoLayerParameters(Module):
    """All that is trained, and, as the same class, the gradients of it.

    Args:
        embeddings: E, shape (V, d).
        query: p, shape (d,).
        head: v, shape (d,).
        gain: gain of the LayerNorm, shape (d,), or None for a LayerNorm without.
        bias: bias of the LayerNorm, shape (d,), or None for a LayerNorm without.
    """

    embeddings: EmbeddingTable
    query: VectorJ
    head: VectorJ
    gain: VectorJ | None = None
    bias: VectorJ | None = None


class SmallGradients(NamedTuple):
    """Gradients in all parameters but the embeddings; None for parameters that a model does not have."""

    query: VectorJ
    head: VectorJ
    gain: VectorJ | None
    bias: VectorJ | None


class DocumentShelf(Module):
    """Documents as their distinct tokens, padded to one width; a batch is one shelf or several of different widths.

    Args:
        ids: distinct token ids, shape (B, U); padding holds any valid id.
        log_counts: logarithm of the count of each, shape (B, U); -inf at padding. Every row needs a finite entry.
        labels: -1 or +1, shape (B,); 0 marks a row that is no document and adds nothing to loss or gradient.
        most_lengths: most distinct tokens that each document can have, where that is less than U for some:
            kernels ask for no more programs than these need.
    """

    ids: DocumentIds
    log_counts: DocumentNumbers
    labels: DocumentLabels
    most_lengths: tuple[int, ...] = eqx.field(static=True, default=())


class DocumentBlocks(Module):
    """Documents, the longest first, in blocks of a few, each with the narrowest of few widths that holds it.

    Which blocks have which width is known on the device only: a width is compiled once, whatever batches there will be.

    Args:
        ids: distinct token ids of one document after the other, shape (nonzeros,).
        log_counts: logarithm of the count of each, same shape.
        begins: where each document begins, shape (blocks, b).
        lengths: its distinct tokens, same shape; 0 for a row that is no document.
        labels: -1 or +1, same shape; 0 for a row that is no document.
        widths: the widest first, which holds every document.
        documents: rows of the batch, of which the last block may hold more.
    """

    ids: RaggedIds
    log_counts: RaggedNumbers
    begins: PlacesInBlocks
    lengths: PlacesInBlocks
    labels: LabelsInBlocks
    widths: tuple[int, ...] = eqx.field(static=True)
    documents: int = eqx.field(static=True)

    def fold(self, add: Callable[[T, AnyArray, DocumentShelf], T], total: T) -> T:
        """`add(total, number, block)` over all blocks that hold a document, in their order.

        Every width has a loop of its own: where the choice is made inside of one loop, XLA copies the total every time.
        """
        longest = jnp.max(self.lengths, axis=1)
        edges = [jnp.sum(longest > width, dtype=jnp.int32) for width in (*self.widths, 0)]
        for width, begin, end in zip(self.widths, edges[:-1], edges[1:], strict=True):
            cut = partial(self._block, width=width)
            total = jax.lax.fori_loop(begin, end, lambda k, total, cut=cut: add(total, k, cut(k)), total)
        return total

    def _block(self, number: AnyArray, width: int) -> DocumentShelf:
        """The documents of one block, padded to a width."""
        begins, lengths, labels = (x[number] for x in (self.begins, self.lengths, self.labels))
        place = jnp.arange(width, dtype=begins.dtype)[None, :]
        at = begins[:, None] + place
        log_counts = jnp.asarray(self.log_counts).at[at].get(mode="clip")
        return DocumentShelf(
            ids=jnp.asarray(self.ids).at[at].get(mode="clip"),
            log_counts=jnp.where(place < jnp.maximum(lengths, 1)[:, None], log_counts, -jnp.inf),
            labels=labels,
        )


def readers_of(parameters: TwoLayerParameters, scales: SoftmaxScales) -> Readers:
    """Return what multiplies every token: gain*c*p and gain*v less their means, as LayerNorm asks, and 1/d."""
    pair = jnp.stack([scales.scores * parameters.query, parameters.head])
    if parameters.gain is not None:
        pair = pair * parameters.gain[None, :]
    width = pair.shape[1]
    return jnp.concatenate([_centred(pair), jnp.full((1, width), 1 / width, pair.dtype)])


def bias_output(parameters: TwoLayerParameters) -> ScalarJ:
    """Return the part of every output that is the bias; in the logits it is a constant, which a softmax ignores."""
    if parameters.bias is None:
        return jnp.zeros((), parameters.head.dtype)
    return jnp.sum(parameters.bias * parameters.head)


def small_gradients(
    parameters: TwoLayerParameters, by_reader: ReaderGradients, slope: ScalarJ, scales: SoftmaxScales
) -> SmallGradients:
    """Return the gradients in all but E, from those in the effective p and v."""
    query, head = _centred(by_reader)
    query = scales.scores * query
    gain = bias = None
    if parameters.gain is not None:
        gain = parameters.query * query + parameters.head * head
        query, head = parameters.gain * query, parameters.gain * head
    if parameters.bias is not None:
        bias = slope * parameters.head
        head = head + slope * parameters.bias
    return SmallGradients(query, head, gain, bias)


def _centred(pair: ReaderGradients) -> ReaderGradients:
    return pair - jnp.mean(pair, axis=1, keepdims=True)
