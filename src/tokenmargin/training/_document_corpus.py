"""All documents on the device, ragged, and batches cut out of them there: a step is told row numbers only."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError
from tokenmargin.models._two_layer_gradient import DocumentShelf
from tokenmargin.training._layouts import ShelfLayout

RaggedIds = Int[Array | np.ndarray, "nonzeros"]
RaggedNumbers = Float[Array | np.ndarray, "nonzeros"]
DocumentEdges = Int[Array | np.ndarray, "edges"]
DocumentLabels = Float[Array | np.ndarray, "n"]
DocumentRows = Int[Array | np.ndarray, "B"]


class DocumentCorpus(eqx.Module):
    """Distinct tokens of every document with the logarithms of their counts, one document after the other.

    Args:
        edges: where each document begins, and the end, shape (n+1,).
        ids: token ids, shape (nonzeros,).
        log_counts: logarithm of the count of each, same shape.
        labels: -1 or +1, shape (n,).
    """

    edges: DocumentEdges
    ids: RaggedIds
    log_counts: RaggedNumbers
    labels: DocumentLabels

    @classmethod
    def from_counts(cls, counts: Any, labels: ArrayLike, dtype: type = np.float32) -> DocumentCorpus:
        """From a sparse count matrix in CSR form (documents by tokens), such as `TokenDataset.counts`."""
        edges, ids, data = (np.asarray(x) for x in (counts.indptr, counts.indices, counts.data))
        if len(ids) == 0 or np.any(np.diff(edges) < 1):
            raise InvalidInputError("A document without tokens has no attention: drop empty documents first.")
        return cls(
            jnp.asarray(edges.astype(np.int32)),
            jnp.asarray(ids.astype(np.int32)),
            jnp.asarray(np.log(data).astype(dtype)),
            jnp.asarray(np.asarray(labels).astype(dtype)),
        )


def shelves_of(corpus: DocumentCorpus, rows: DocumentRows, layout: ShelfLayout) -> tuple[DocumentShelf, ...]:
    """The documents `rows`, longest first, on the shelves of a layout; -1 becomes a row that is no document."""
    shelves, begin = [], 0
    for documents, width in layout.shelves:
        shelves.append(_shelf(corpus, rows[begin : begin + documents], width))
        begin += documents
    return tuple(shelves)


def _shelf(corpus: DocumentCorpus, rows: DocumentRows, width: int) -> DocumentShelf:
    real = rows >= 0
    begin = jnp.where(real, corpus.edges[rows], 0)
    length = jnp.where(real, corpus.edges[rows + 1] - begin, 1)
    place = jnp.arange(width, dtype=begin.dtype)[None, :]
    at = begin[:, None] + place
    log_counts = jnp.asarray(corpus.log_counts).at[at].get(mode="clip")
    return DocumentShelf(
        ids=jnp.asarray(corpus.ids).at[at].get(mode="clip"),
        log_counts=jnp.where(place < length[:, None], log_counts, -jnp.inf),
        labels=jnp.where(real, corpus.labels[rows], 0),
    )
