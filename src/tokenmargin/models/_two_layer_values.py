"""What the two-layer model is trained on and what is trained: documents of one width, and its parameters [E, (36)]."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._types import VectorJ

EmbeddingTable = Float[Array | np.ndarray, "V d"]
DocumentIds = Int[Array | np.ndarray, "B U"]
DocumentNumbers = Float[Array | np.ndarray, "B U"]
DocumentLabels = Float[Array | np.ndarray, "B"]


class TwoLayerParameters(eqx.Module):
    """All that is trained, and, as the same class, the gradients of it.

    Args:
        embeddings: E, shape (V, d).
        query: p, shape (d,).
        head: v, shape (d,).
        gain: of the LayerNorm, shape (d,), or None for a LayerNorm without.
        bias: of the LayerNorm, shape (d,), or None for a LayerNorm without.
    """

    embeddings: EmbeddingTable
    query: VectorJ
    head: VectorJ
    gain: VectorJ | None = None
    bias: VectorJ | None = None


class DocumentShelf(eqx.Module):
    """Documents as their distinct tokens, padded to one width; a batch is one shelf or several of different widths.

    Args:
        ids: distinct token ids, shape (B, U); padding holds any valid id.
        log_counts: logarithm of the count of each, shape (B, U); -inf at padding. Every row needs a finite entry.
        labels: -1 or +1, shape (B,); 0 marks a row that is no document and adds nothing to loss or gradient.
    """

    ids: DocumentIds
    log_counts: DocumentNumbers
    labels: DocumentLabels
