"""Batches of documents as counts, ragged and of one shape: pieces of few tokens instead of rows as long as the longest.

A document is cut once into pieces of `PIECE` distinct tokens. A batch is the pieces of its documents, in their order,
padded to a number that hardly any batch exceeds: memory and time follow the number of non-zero counts, whatever the
longest document is, and one compilation serves every batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from tokenmargin._checks import checked, float_dtype, whole_number
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.models.one_layer import CountBatch
from tokenmargin.training.examples import in_steps

ShelfIds = Int[Array, "P w"]
ShelfNumbers = Float[Array, "P w"]
RowIntegers = Int[Array, "rows"]
RowNumbers = Float[Array, "rows"]
EpochRows = Int[Array | np.ndarray, "steps B"]
PlanPieces = Int[Array, "*steps C"]
PlanDocumentPieces = Int[Array, "*steps B K"]
PlanLabels = Float[Array, "*steps B"]
PlanNumbers = Float[Array, "*steps"]

#: Distinct tokens of one piece: half of it is wasted on average at the end of a document.
PIECE = 32

#: Capacity is this many standard deviations above the mean number of pieces of a batch: exceeded once in 1e9 batches,
#: and then that epoch is compiled for more.
DEVIATIONS = 6.0

#: Capacities are multiples of this, so that data sets of one kind share a compilation.
CAPACITY_STEP = 32


class CountShelves(eqx.Module):
    """A data set cut into pieces, on the device.

    Args:
        ids: token ids, shape (P + 1, PIECE); the last piece is empty.
        log_counts: shape (P + 1, PIECE), -inf at padding.
        first: the first piece of each document, shape (n + 1,); of the row that is no document, the empty piece.
        count: how many pieces each document has, shape (n + 1,); 0 for the row that is no document.
        labels: shape (n + 1,); 0 for the row that is no document.
    """

    ids: ShelfIds
    log_counts: ShelfNumbers
    first: RowIntegers
    count: RowIntegers
    labels: RowNumbers


class CountLayout(NamedTuple):
    """The sizes that shape the batches of an epoch."""

    capacity: int  #: pieces of a batch, C
    most_pieces: int  #: pieces of the longest document, K


class BatchPlan(eqx.Module):
    """Pieces of a batch, the document of each, and the rest of `CountBatch`; steps may lead."""

    numbers: PlanPieces
    document: PlanPieces
    pieces: PlanDocumentPieces
    labels: PlanLabels
    documents: PlanNumbers


@dataclass(frozen=True, eq=False)
class CountBatches:
    """Every batch of every epoch of a data set, for models that see counts.

    Attributes:
        on_device: the data on the device.
        n_documents: n.
        batch_size: B.
        capacity: pieces of a batch, C.
        most_pieces: pieces of the longest document, K.
    """

    on_device: CountShelves
    n_documents: int
    batch_size: int
    capacity: int
    most_pieces: int

    def rows(self, order: np.ndarray) -> np.ndarray:
        """Return the documents of each batch, shape (steps, B), in this order; n stands for no document."""
        return in_steps(order, self.batch_size, self.n_documents)

    def layout(self, rows: np.ndarray) -> CountLayout:
        """Return the sizes of an epoch with these rows: those of the run unless a batch needs more."""
        needed = int(np.asarray(self._counts)[rows].sum(axis=1).max())
        return CountLayout(max(self.capacity, _rounded(needed)), self.most_pieces)

    @property
    def _counts(self) -> np.ndarray:
        return np.asarray(self.on_device.count)

    @staticmethod
    def plan(on_device: CountShelves, rows: EpochRows, layout: CountLayout) -> BatchPlan:
        """The plan of every batch of an epoch at once, so that a training step only gathers."""
        return jax.vmap(lambda one: _plan(on_device, one, layout))(rows)

    @staticmethod
    def batch(on_device: CountShelves, plan: BatchPlan) -> CountBatch:
        """The batch of a plan."""
        ids, log_counts = on_device.ids[plan.numbers], on_device.log_counts[plan.numbers]
        return CountBatch(ids, log_counts, plan.document, plan.pieces, plan.labels, plan.documents)


class CountSizes(NamedTuple):
    """Sizes that data sets of one kind share, so that one compilation serves them all."""

    batch_size: int
    capacity: int  #: pieces of a batch
    most_pieces: int  #: pieces of the longest document
    room: int = 0  #: pieces of a data set, as far as they suffice


@checked
def count_batches(dataset: TokenDataset, batch_size: int, dtype: str = "float32") -> CountBatches:
    """Cut a data set into pieces."""
    whole_number(batch_size, "batch_size", 1)
    B = min(int(batch_size), dataset.n_documents)
    count = _pieces_of(np.diff(dataset.counts.indptr))
    return cut_counts(
        dataset.counts, dataset.labels, CountSizes(B, _capacity(count, B), int(count.max())), float_dtype(dtype)
    )


def count_sizes(distinct: np.ndarray, batch_size: int, documents: int) -> CountSizes:
    """Sizes for parts of so many documents of a corpus, from the distinct tokens of all of them or of enough."""
    count = _pieces_of(distinct)
    return CountSizes(batch_size, _capacity(count, batch_size), int(count.max()), _capacity(count, documents))


def cut_counts(matrix: sp.csr_array, labels: np.ndarray, sizes: CountSizes, dtype: str) -> CountBatches:
    """Cut documents into pieces, on the device in arrays of the given sizes."""
    n, distinct = matrix.shape[0], np.diff(matrix.indptr)
    count = _pieces_of(distinct)
    first = np.concatenate([[0], np.cumsum(count)])
    # The last piece is empty; what is between it and the others is never asked for.
    ids = np.zeros((max(int(first[-1]), sizes.room) + 1) * PIECE, np.int32)
    log_counts = np.full(ids.shape, -np.inf, dtype)
    # The k-th distinct token of a document goes to place k of its first piece on.
    places = np.arange(matrix.nnz) + np.repeat(first[:-1] * PIECE - matrix.indptr[:-1], distinct)
    ids[places] = matrix.indices
    log_counts[places] = np.log(matrix.data)
    shelves = CountShelves(
        jnp.asarray(ids.reshape(-1, PIECE)),
        jnp.asarray(log_counts.reshape(-1, PIECE)),
        jnp.asarray(first.astype(np.int32)),
        jnp.asarray(np.append(count, 0).astype(np.int32)),
        jnp.asarray(np.append(labels, 0.0).astype(dtype)),
    )
    return CountBatches(shelves, n, sizes.batch_size, sizes.capacity, sizes.most_pieces)


def _pieces_of(distinct: np.ndarray) -> np.ndarray:
    """Return the number of pieces of documents with so many distinct tokens."""
    return -(-distinct // PIECE)


def _capacity(count: np.ndarray, B: int) -> int:
    """Pieces that a batch of B documents hardly ever exceeds, and never more than the B longest need."""
    usual = B * count.mean() + DEVIATIONS * np.sqrt(B) * count.std()
    longest = np.sort(count)[-B:].sum()
    return _rounded(int(min(np.ceil(usual), longest)))


def _rounded(pieces: int) -> int:
    return -(-pieces // CAPACITY_STEP) * CAPACITY_STEP


def _plan(shelves: CountShelves, rows: RowIntegers, layout: CountLayout) -> BatchPlan:
    capacity, most = layout
    B = rows.shape[0]
    count = shelves.count[rows]
    ends = jnp.cumsum(count)
    begins = ends - count
    place = jnp.arange(capacity, dtype=rows.dtype)
    document = jnp.searchsorted(ends, place, side="right").astype(rows.dtype)
    there = document < B
    inside = jnp.minimum(document, B - 1)
    numbers = jnp.where(there, shelves.first[rows[inside]] + place - begins[inside], shelves.ids.shape[0] - 1)
    k = jnp.arange(most, dtype=rows.dtype)[None, :]
    pieces = jnp.where(k < count[:, None], begins[:, None] + k, capacity)
    labels = shelves.labels[rows]
    return BatchPlan(numbers, document, pieces, labels, jnp.sum(jnp.abs(labels)))
