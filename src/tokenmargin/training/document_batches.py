"""Batches for models that need whole documents side by side: random batches on shelves of few widths, for `train`."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import whole_number
from tokenmargin._types import AnyArray
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.models._two_layer_gradient import DocumentShelf
from tokenmargin.training._document_corpus import DocumentCorpus, shelves_of
from tokenmargin.training._layouts import ShelfLayout, longest_first, shelf_layouts


class ShelfPlan(eqx.Module):
    """Rows of every batch, longest document first, and the number of the layout that holds it."""

    rows: AnyArray
    layout: AnyArray
    layouts: tuple[ShelfLayout, ...] = eqx.field(static=True)


class ShelvedDocuments(eqx.Module):
    """One batch: which documents, in which layout; its shelves are cut out of the corpus when asked for."""

    corpus: DocumentCorpus
    plan: ShelfPlan

    @property
    def n_layouts(self) -> int:
        """How many layouts there are."""
        return len(self.plan.layouts)

    @property
    def layout(self) -> AnyArray:
        """The number of this batch's layout."""
        return jnp.asarray(self.plan.layout)

    def shelves(self, layout: int) -> tuple[DocumentShelf, ...]:
        """The documents on the shelves of a layout."""
        return shelves_of(self.corpus, self.plan.rows, self.plan.layouts[layout])

    def one_by_one(self, layout: int) -> bool:
        """Whether the documents of a layout go through the model one after the other."""
        return self.plan.layouts[layout].one_by_one


@dataclass(frozen=True, eq=False)
class ShelfBatches:
    """Every batch of every epoch of a data set, as whole documents.

    Attributes:
        on_device: the data on the device.
        lengths: distinct tokens of each document, shape (n,).
        layouts: tight to roomy; the last holds any batch.
    """

    on_device: DocumentCorpus
    lengths: np.ndarray
    layouts: tuple[ShelfLayout, ...]

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return len(self.lengths)

    def rows(self, order: np.ndarray) -> np.ndarray:
        """The documents of each batch, shape (steps, B), longest first in each; -1 stands for no document."""
        return longest_first(order, self.lengths, self.layouts[0].batch_size)

    def layout(self, rows: np.ndarray) -> tuple[ShelfLayout, ...]:
        """All layouts; which of them a batch takes is decided on the device."""
        del rows
        return self.layouts

    @staticmethod
    def plan(on_device: DocumentCorpus, rows: AnyArray, layout: tuple[ShelfLayout, ...]) -> ShelfPlan:
        """The first layout that holds each batch."""
        rows = jnp.asarray(rows)
        own = jnp.where(rows >= 0, on_device.edges[rows + 1] - on_device.edges[rows], 0)
        held = jnp.stack([jnp.all(own <= jnp.asarray(one.widths)[None, :], axis=1) for one in layout])
        return ShelfPlan(rows, jnp.argmax(held, axis=0).astype(jnp.int32), layout)

    @staticmethod
    def batch(on_device: DocumentCorpus, plan: ShelfPlan) -> ShelvedDocuments:
        """The batch of a plan."""
        return ShelvedDocuments(on_device, plan)


def shelf_batches(
    dataset: TokenDataset, batch_size: int, dtype: str = "float32", *, most_shelves: int = 6
) -> ShelfBatches:
    """Put a data set on the device and find the layouts of its batches.

    Args:
        dataset: documents as counts.
        batch_size: documents of a step.
        dtype: float32 or float64.
        most_shelves: widths of a layout: more waste less on padding and take longer to compile.
    """
    whole_number(batch_size, "batch_size", 1)
    lengths = np.diff(dataset.counts.indptr).astype(np.int64)
    layouts = shelf_layouts(lengths, min(int(batch_size), dataset.n_documents), most_shelves=most_shelves)
    corpus = DocumentCorpus.from_counts(dataset.counts, dataset.labels, np.dtype(dtype).type)
    return ShelfBatches(corpus, lengths, layouts)
