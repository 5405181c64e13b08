"""A batch through the two-layer model and back by kernels, where rows of E are never gathered into memory [E, (36)].

E is read once into overlaps and float16 parts; each shelf has its Gram blocks, three kernels for what lies between, and
its product; the rows of every token are added up at the end, in the order of documents, so that a step has the same
bytes every time. `_two_layer_gradient` holds the slow twin, which is also what runs in full float32, on other devices,
and between the products of documents wider than `WIDEST`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._types import ScalarJ
from tokenmargin.models._kernels._in_turn import AT_ONCE, TILE, pieces_of
from tokenmargin.models._kernels.column_sums import column_sums
from tokenmargin.models._kernels.document_values import (
    DocumentGradients,
    DocumentLengths,
    DocumentNumbers,
    DocumentTokens,
    KernelSettings,
)
from tokenmargin.models._kernels.documents import WIDEST, document_gradients
from tokenmargin.models._kernels.halves import in_parts, power_of_two_below
from tokenmargin.models._kernels.moved_rows import RowsGradient
from tokenmargin.models._kernels.token_rows import occurrences, token_places
from tokenmargin.models._kernels.tried_gpu import is_only_gpu, is_tried_gpu
from tokenmargin.models._kernels.wide_products import (
    RowSlot,
    gathered_gram,
    gathered_product,
    read_table,
)
from tokenmargin.models._two_layer_block import SoftmaxScales, backward_to_gram, forward_from_gram
from tokenmargin.models._two_layer_values import DocumentShelf, EmbeddingTable
from tokenmargin.models.matmul_precision import MatmulPrecision

Readers = Float[Array | np.ndarray, "3 d"]
ReaderGradients = Float[Array, "2 d"]
Gram = Float[Array, "B U U"]

#: float16 numbers that stand for one float32 number, and how the small products are formed.
PARTS = {MatmulPrecision.TENSOR_FLOAT_32: 1, MatmulPrecision.FLOAT_16_PAIRS: 2, MatmulPrecision.FLOAT_32: 2}
DOTS = {
    MatmulPrecision.TENSOR_FLOAT_32: jax.lax.DotAlgorithmPreset.TF32_TF32_F32,
    MatmulPrecision.FLOAT_16_PAIRS: jax.lax.DotAlgorithmPreset.F32_F32_F32,
    MatmulPrecision.FLOAT_32: jax.lax.DotAlgorithmPreset.F32_F32_F32,
}

#: Documents of a batch whose occurrences one program looks through, and entries that a kernel can address.
MOST_DOCUMENTS, MOST_ENTRIES = 1024, 2**31 - 1

#: Pairs of places of a whole batch on one shelf, of which there are seven arrays: two gigabytes each.
MOST_PAIRS = 2**29

#: A matrix unit takes no narrower tile.
LEAST_WIDTH = 16


class KernelGradients(NamedTuple):
    """Gradients of the mean loss of a batch, and its sums over documents."""

    table: RowsGradient  # in E
    readers: ReaderGradients  # in the effective p and v
    slope: ScalarJ
    loss: ScalarJ
    correct: ScalarJ


def kernels_apply(E: EmbeddingTable, shelves: tuple[DocumentShelf, ...], precision: MatmulPrecision) -> bool:
    """True if there are kernels for such a batch: float32, not in full, small enough to be numbered, a GPU we know.

    Whoever names a precision of the kernels has them on several GPUs too; `FLOAT_32` decides by itself.
    """
    rows = sum(shelf.labels.shape[0] * _whole(shelf.ids.shape[1]) for shelf in shelves)
    documents = sum(shelf.labels.shape[0] for shelf in shelves)
    small = max(rows, E.shape[0]) * E.shape[1] <= MOST_ENTRIES and documents <= MOST_DOCUMENTS
    there = is_tried_gpu() and (is_only_gpu() or precision is not MatmulPrecision.FLOAT_32)
    return precision in PARTS and E.dtype == jnp.float32 and small and E.shape[1] >= LEAST_WIDTH and there


def takes_whole_batch(E: EmbeddingTable, shelf: DocumentShelf, precision: MatmulPrecision) -> bool:
    """True if the kernels take a batch of unequal documents on one shelf, and end with each of them."""
    B, U = shelf.labels.shape[0], _whole(shelf.ids.shape[1])
    return U <= WIDEST and B * U * U <= MOST_PAIRS and kernels_apply(E, (shelf,), precision)


def _whole(width: int) -> int:
    return pieces_of(width, AT_ONCE) * AT_ONCE


def _widened(shelf: DocumentShelf) -> DocumentShelf:
    """A shelf whose rows, of pairs too, begin where numbers can be loaded `AT_ONCE`."""
    more = ((0, 0), (0, _whole(shelf.ids.shape[1]) - shelf.ids.shape[1]))
    ids, log_counts = jnp.pad(shelf.ids, more), jnp.pad(shelf.log_counts, more, constant_values=-jnp.inf)
    return replace(shelf, ids=ids, log_counts=log_counts)


def gradients_by_kernels(
    E: EmbeddingTable,
    readers: Readers,
    shelves: tuple[DocumentShelf, ...],
    bias_output: ScalarJ,
    n_documents: ScalarJ,
    settings: KernelSettings,
) -> KernelGradients:
    """Gradients in E and in the readers, which are gain*p and gain*v less their means, and 1/d."""
    interpret = settings.interpret
    shelves = tuple(map(_widened, shelves))
    table = read_table(E, readers, settings.parts, interpret=interpret)
    n_rows, first_row = sum(shelf.ids.size for shelf in shelves), 0
    found: list[DocumentGradients] = []
    rows: Array | None = None
    for shelf in shelves:
        lengths = document_lengths(shelf.log_counts)
        most = shelf.most_lengths
        gram = gathered_gram(table, shelf.ids, lengths, most, interpret=interpret)
        tokens = DocumentTokens(shelf.ids, lengths, shelf.log_counts, shelf.labels, table.overlaps, table.units)
        compute = document_gradients if shelf.ids.shape[1] <= WIDEST else _wide_document_gradients
        own = compute(gram, tokens, bias_output, n_documents, settings, most)
        place = RowSlot(first_row, n_rows, rows)
        rows = gathered_product(table, shelf.ids, lengths, own.symmetric, own.units, place, most, interpret=interpret)
        first_row += shelf.ids.size
        found.append(own)
    ids, log_counts = (tuple(getattr(shelf, name) for shelf in shelves) for name in ("ids", "log_counts"))
    narrow = jnp.concatenate([own.overlaps.reshape(3, -1) for own in found], axis=1)
    where = occurrences(token_places(ids, log_counts, E.shape[0]), narrow, interpret=interpret)
    by_reader = column_sums(E, where.overlaps[:2], interpret=interpret)
    # Not ready before E was read for the last time: as in `FactoredGradient.after`, or every step copies E.
    where = where._replace(overlaps=where.overlaps + 0.0 * by_reader[0, 0])
    gradient = RowsGradient(where, jnp.asarray(rows), readers, interpret)
    labels = jnp.concatenate([shelf.labels for shelf in shelves])
    signed = labels * (jnp.concatenate([own.outputs for own in found]) + bias_output)
    loss = jnp.sum(jnp.abs(labels) * jax.nn.softplus(-signed)) / n_documents
    slope = jnp.sum(jnp.concatenate([own.slopes for own in found]))
    return KernelGradients(gradient, by_reader, slope, loss, jnp.sum((signed > 0).astype(signed.dtype)))


def document_lengths(log_counts: DocumentNumbers) -> DocumentLengths:
    """Places of every document up to its last token; -inf stands for none."""
    place = 1 + jnp.arange(log_counts.shape[1], dtype=jnp.int32)
    return jnp.max(jnp.where(jnp.asarray(log_counts) > -jnp.inf, place, 0), axis=1)


def _wide_document_gradients(
    gram: Gram,
    tokens: DocumentTokens,
    bias_output: ScalarJ,
    n_documents: ScalarJ,
    settings: KernelSettings,
    most_lengths: tuple[int, ...],
) -> DocumentGradients:
    """`document_gradients` by the compiler's own kernels, for documents that do not fit on one multiprocessor."""
    del most_lengths
    precision = next(name for name, parts in PARTS.items() if parts == settings.parts)
    there = jnp.arange(gram.shape[1], dtype=jnp.int32) < tokens.lengths[:, None]
    # Behind the end of a document nothing was written, and the compiler's kernels read all.
    gram = jnp.where(there[:, :, None] & there[:, None, :], gram, 0.0)
    overlaps = jnp.moveaxis(jnp.asarray(tokens.overlaps).at[:, tokens.ids].get(mode="promise_in_bounds"), 0, -1)
    units = jnp.asarray(tokens.units).at[tokens.ids].get(mode="promise_in_bounds")
    bound = 2.0**14 * jnp.max(units)
    scales = SoftmaxScales(mixing=settings.mixing_scale)
    forward = forward_from_gram(
        gram, overlaps, tokens.log_counts, settings.width, bound, settings.epsilon, precision, scales
    )
    signed = tokens.labels * (forward.outputs + bias_output)
    slopes = -tokens.labels * jax.nn.sigmoid(-signed) / n_documents
    symmetric, by_overlap = backward_to_gram(forward, slopes, settings.width, precision, scales)
    scaled = jnp.asarray(symmetric * units[:, None, :])
    row_scales, row_units = power_of_two_below(jnp.max(jnp.abs(scaled), axis=2))
    parts = tuple(in_parts(scaled * row_scales[:, :, None], settings.parts))
    tiles = (pieces_of(gram.shape[1], TILE), *row_units.shape)
    units_of_tiles = jnp.broadcast_to(row_units, tiles)
    return DocumentGradients(forward.outputs, slopes, jnp.moveaxis(by_overlap, -1, 0), parts, units_of_tiles)
