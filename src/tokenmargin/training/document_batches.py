"""Batches for models that need whole documents side by side: random batches on shelves of few widths, for `train`.

All documents lie on the device, ragged, and batches are cut out of them there: a step is told row numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._checks import checked, whole_number
from tokenmargin._notebook import Told
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import DocumentBlocks, DocumentShelf
from tokenmargin.training._layouts import BlockLayout, ShelfLayout, block_layout, holds, longest_first, shelf_layouts

RaggedIds = Int[Array | np.ndarray, "nonzeros"]
RaggedNumbers = Float[Array | np.ndarray, "nonzeros"]
DocumentEdges = Int[Array | np.ndarray, "edges"]
DocumentLabels = Float[Array | np.ndarray, "n"]
DocumentRows = Int[Array | np.ndarray, "B"]

#: Tight to roomy; the last holds any batch.
Layouts = tuple[ShelfLayout | BlockLayout, ...]


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
    def from_counts(cls, counts: Any, labels: ArrayLike, dtype: type = np.float32, *, room: int = 0) -> DocumentCorpus:
        """Make a corpus of a sparse count matrix in CSR form (documents by tokens), such as `TokenDataset.counts`.

        With `room` for so many tokens at least, corpora of one size share a compilation.
        """
        edges, ids, data = (np.asarray(x) for x in (counts.indptr, counts.indices, counts.data))
        if len(ids) == 0 or np.any(np.diff(edges) < 1):
            raise InvalidInputError("A document without tokens has no attention: drop empty documents first.")
        more = (0, max(0, room - len(ids)))
        return cls(
            jnp.asarray(edges.astype(np.int32)),
            jnp.asarray(np.pad(ids.astype(np.int32), more)),
            jnp.asarray(np.pad(np.log(data).astype(dtype), more)),
            jnp.asarray(np.asarray(labels).astype(dtype)),
        )


class ShelfPlan(eqx.Module):
    """Rows of every batch, longest document first, and the number of the layout that holds it."""

    rows: AnyArray
    layout: AnyArray
    layouts: Layouts = eqx.field(static=True)


class ShelvedDocuments(eqx.Module):
    """One batch: which documents, in which layout; its shelves are cut out of the corpus when asked for."""

    corpus: DocumentCorpus
    plan: ShelfPlan

    @property
    def n_layouts(self) -> int:
        """Number of layouts."""
        return len(self.plan.layouts)

    @property
    def layout(self) -> AnyArray:
        """The number of this batch's layout."""
        return jnp.asarray(self.plan.layout)

    def shelves(self, layout: int) -> tuple[DocumentShelf, ...] | DocumentBlocks:
        """The documents on the shelves of a layout, or in its blocks."""
        given = self.plan.layouts[layout]
        if isinstance(given, BlockLayout):
            return blocks_of(self.corpus, self.plan.rows, given)
        return shelves_of(self.corpus, self.plan.rows, given)

    def one_by_one(self, layout: int) -> bool:
        """True if the documents of a layout go through the model one after the other."""
        return self.plan.layouts[layout].one_by_one

    def whole(self) -> DocumentShelf | None:
        """All documents on one shelf, as wide as any batch needs; None where batches are blocks."""
        roomiest = self.plan.layouts[-1]
        most = () if isinstance(roomiest, BlockLayout) else roomiest.most_lengths
        return _shelf(self.corpus, self.plan.rows, max(most), most) if len(most) == len(self.plan.rows) else None


@dataclass(frozen=True, eq=False, repr=False)
class DocumentBatches(Told):
    """Every batch of every epoch of a data set, as whole documents.

    Attributes:
        on_device: the data on the device.
        lengths: distinct tokens of each document, shape (n,).
        layouts: tight to roomy; the last holds any batch.
    """

    on_device: DocumentCorpus
    lengths: np.ndarray
    layouts: Layouts

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.lengths)

    def rows(self, order: np.ndarray) -> np.ndarray:
        """The documents of each batch, shape (steps, B), longest first in each; -1 stands for no document."""
        return longest_first(order, self.lengths, self.layouts[0].batch_size)

    def layout(self, rows: np.ndarray) -> Layouts:
        """All layouts; which of them a batch takes is decided on the device."""
        own = np.where(rows >= 0, self.lengths[rows], 0)
        if not np.any([holds(layout, own) for layout in self.layouts], axis=0).all():
            raise InvalidInputError(
                "A batch fits no layout: make the batches with document_batches, or the layouts with shelf_layouts "
                "from the same lengths."
            )
        return self.layouts

    @staticmethod
    def plan(on_device: DocumentCorpus, rows: AnyArray, layout: Layouts) -> ShelfPlan:
        """The first layout that holds each batch."""
        rows = jnp.asarray(rows)
        own = jnp.where(rows >= 0, on_device.edges[rows + 1] - on_device.edges[rows], 0)
        held = jnp.stack([jnp.all(own <= jnp.asarray(one.widths)[None, :], axis=1) for one in layout])
        return ShelfPlan(rows, jnp.argmax(held, axis=0).astype(jnp.int32), layout)

    @staticmethod
    def batch(on_device: DocumentCorpus, plan: ShelfPlan) -> ShelvedDocuments:
        """The batch of a plan."""
        return ShelvedDocuments(on_device, plan)


@checked
def document_batches(
    dataset: TokenDataset, batch_size: int, dtype: str = "float32", *, model_width: int = 2048, most_shelves: int = 6
) -> DocumentBatches:
    """Put a data set on the device and find the layouts of its batches.

    Args:
        dataset: documents as counts.
        batch_size: documents of a step.
        dtype: float32 or float64.
        model_width: d, which decides how much work there is to save by more widths.
        most_shelves: widths of a layout: more waste less on padding and take longer to compile.
    """
    whole_number(batch_size, "batch_size", 1)
    lengths = np.diff(dataset.counts.indptr).astype(np.int64)
    whole_number(model_width, "model_width", 1)
    told = {"model_width": int(model_width), "most_shelves": most_shelves}
    layouts = layouts_here(lengths, min(int(batch_size), dataset.n_documents), **told)
    corpus = DocumentCorpus.from_counts(dataset.counts, dataset.labels, np.dtype(dtype).type)
    return DocumentBatches(corpus, lengths, layouts)


def layouts_here(lengths: np.ndarray, batch_size: int, **told: int) -> Layouts:
    """Layouts as the device likes them: blocks on a CPU, shelves on an accelerator."""
    make = block_layout if jax.default_backend() == "cpu" else shelf_layouts
    return make(lengths, batch_size, **told)


def blocks_of(corpus: DocumentCorpus, rows: DocumentRows, layout: BlockLayout) -> DocumentBlocks:
    """The documents `rows`, longest first, in blocks; the last one is filled up with rows that are no document."""
    rows = jnp.pad(rows, (0, -layout.batch_size % layout.block), constant_values=-1).reshape(-1, layout.block)
    real = rows >= 0
    begins = jnp.where(real, corpus.edges[rows], 0)
    lengths = jnp.where(real, corpus.edges[rows + 1] - begins, 0)
    labels = jnp.where(real, corpus.labels[rows], 0)
    return DocumentBlocks(
        corpus.ids, corpus.log_counts, begins, lengths, labels, layout.widths_of_blocks, layout.batch_size
    )


def shelves_of(corpus: DocumentCorpus, rows: DocumentRows, layout: ShelfLayout) -> tuple[DocumentShelf, ...]:
    """The documents `rows`, longest first, on the shelves of a layout; -1 becomes a row that is no document."""
    shelves, begin = [], 0
    for documents, width in layout.shelves:
        shelves.append(_shelf(corpus, rows[begin : begin + documents], width))
        begin += documents
    return tuple(shelves)


def _shelf(corpus: DocumentCorpus, rows: DocumentRows, width: int, most_lengths: tuple[int, ...] = ()) -> DocumentShelf:
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
        most_lengths=most_lengths,
    )
