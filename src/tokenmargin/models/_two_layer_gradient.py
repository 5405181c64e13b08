"""The two-layer attention model and its training gradient, exact and without its layers [E, (36)].

E'_X = LayerNorm(Softmax(E_X E_X')E_X + E_X) and f(X) = Softmax(p'E'_X')E'_X v, without 1/sqrt(d) in either softmax
unless `scales` says so, LayerNorm over the width, with or without gain and bias. A token that stands c times in a
document enters once, with log c added to its logits in both softmaxes, so a document is its distinct tokens and their
counts. The work per document is that of `_two_layer_block`: two products of U x U x d and two of U x U x U.

Float32 has one weak spot: the variance of a token is a mean square less a squared mean, so embeddings whose mean over
the width is large against their spread lose digits. Centred initial values, as in [E], stay far from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._types import AnyArray, ScalarJ, VectorJ
from tokenmargin.losses import Logistic, Loss, logistic
from tokenmargin.models._kernels import (
    DOTS,
    PARTS,
    KernelGradients,
    KernelSettings,
    RowsGradient,
    gradients_by_kernels,
    kernels_apply,
)
from tokenmargin.models._sums import RowOrder, ordered_row_sums, row_order
from tokenmargin.models._two_layer_block import (
    AS_PRINTED,
    BlockBackward,
    BlockForward,
    Overlaps,
    Readers,
    SoftmaxScales,
    TableRead,
    block_backward,
    block_forward,
    read_by_product,
    read_by_sums,
)
from tokenmargin.models._two_layer_values import (
    DocumentBlocks,
    DocumentLabels,
    DocumentShelf,
    EmbeddingTable,
    ReaderGradients,
    TwoLayerParameters,
    bias_output,
    readers_of,
    small_gradients,
)
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.model import BatchSums

BlockEmbeddings = Float[Array | np.ndarray, "B U d"]

#: Added to the variance in LayerNorm; the default of torch.nn.LayerNorm.
LAYER_NORM_EPSILON = 1e-5

#: Documents that a CPU takes through the model at once: their embeddings (d=512, U=96: 1.6 MB) then stay in cache.
DOCUMENTS_IN_CACHE = 8


class Settings(NamedTuple):
    """Numbers and rules that a step is computed with."""

    epsilon: float = LAYER_NORM_EPSILON  # of the LayerNorm
    precision: MatmulPrecision = MatmulPrecision.FULL  # of float32 products on an accelerator
    scales: SoftmaxScales = AS_PRINTED  # by which the scores of the two softmaxes are multiplied
    loss: Loss = logistic  # of the signed output


DEFAULT = Settings()


class TwoLayerGradients(eqx.Module):
    """Gradients by the names of the parameters, that in E in rows, which `gradient_entries` adds up."""

    embeddings: RowsGradient
    query: VectorJ
    head: VectorJ
    gain: VectorJ | None
    bias: VectorJ | None


class _Gradients(NamedTuple):
    """Gradients in the embedding table, and in the effective p and v that the Gram form sees."""

    table: EmbeddingTable
    readers: ReaderGradients


class _Sums(NamedTuple):
    """Sums over documents."""

    slope: ScalarJ
    loss: ScalarJ
    correct: ScalarJ


_Total = tuple[_Gradients, _Sums]


def batch_row_order(shelves: tuple[DocumentShelf, ...], vocabulary_size: int) -> RowOrder:
    """Return the rows of each token in a batch: with it as `order`, a GPU adds them in the same order every time."""
    there = [jnp.where(shelf.log_counts > -jnp.inf, shelf.ids, vocabulary_size).reshape(-1) for shelf in shelves]
    return row_order(jnp.concatenate(there), vocabulary_size, most=sum(shelf.labels.shape[0] for shelf in shelves))


def two_layer_outputs(
    parameters: TwoLayerParameters,
    shelf: DocumentShelf | DocumentBlocks,
    settings: Settings = DEFAULT,
) -> DocumentLabels:
    """Return f(X) of every document, shape (B,)."""
    read, bias = _read(readers_of(parameters, settings.scales), parameters), bias_output(parameters)
    if isinstance(shelf, DocumentShelf):
        return _forward(parameters, read, shelf, settings)[1].outputs + bias

    def put(found: Array, number: AnyArray, block: DocumentShelf) -> Array:
        return found.at[number].set(_forward(parameters, read, block, settings)[1].outputs + bias)

    return shelf.fold(put, jnp.zeros_like(shelf.labels)).reshape(-1)[: shelf.documents]


def two_layer_loss_and_gradients(
    parameters: TwoLayerParameters,
    shelves: tuple[DocumentShelf, ...] | DocumentBlocks,
    settings: Settings = DEFAULT,
    *,
    order: RowOrder | None = None,
    documents_at_once: int | None = None,
) -> tuple[BatchSums, TwoLayerParameters]:
    """Return the mean loss (1/n) sum_i l(y_i f(X_i)) of a batch and its gradient in every parameter.

    Args:
        parameters: E, p, v and the affine terms of the LayerNorm if it has any.
        shelves: the documents of the batch, at least one of them with a label; blocks are taken one by one.
        settings: settings of the step.
        order: `batch_row_order(shelves, V)`, for sums in a fixed order on a GPU in full float32; None adds rows as they
            come there. On a CPU, and by kernels, the order is fixed without it.
        documents_at_once: documents of one block; None takes what stays in cache on a CPU and whole shelves elsewhere,
            as a number larger than any shelf does. With an `order` every shelf is one block.
    """
    if isinstance(shelves, DocumentBlocks):
        n_documents = jnp.sum(jnp.abs(shelves.labels))
        add, none = _adding_up(parameters, n_documents, settings)
        found, sums = shelves.fold(lambda total, _, block: add(total, block), none)
        small = small_gradients(parameters, found.readers, sums.slope, settings.scales)
        return BatchSums(sums.loss, sums.correct, n_documents), TwoLayerParameters(found.table, *small)
    n_documents = jnp.sum(jnp.stack([jnp.sum(jnp.abs(shelf.labels)) for shelf in shelves]))
    given = (parameters, shelves, n_documents, *(() if order is None else (order,)))
    if documents_at_once is None:
        found, sums = jax.lax.platform_dependent(*given, **_by_platform(parameters, shelves, order, settings))
    elif order is not None:
        found, sums = _in_order(parameters, shelves, n_documents, order, settings=settings)
    elif documents_at_once < max(shelf.labels.shape[0] for shelf in shelves):
        found, sums = _in_blocks(parameters, shelves, n_documents, at_once=documents_at_once, settings=settings)
    else:
        found, sums = _in_shelves(parameters, shelves, n_documents, settings=settings)
    small = small_gradients(parameters, found.readers, sums.slope, settings.scales)
    return BatchSums(sums.loss, sums.correct, n_documents), TwoLayerParameters(found.table, *small)


def _by_platform(
    parameters: TwoLayerParameters, shelves: tuple[DocumentShelf, ...], order: RowOrder | None, settings: Settings
) -> dict[str, Callable[..., tuple[_Gradients, _Sums]]]:
    """The way of each kind of device."""
    ways: dict[str, Callable[..., tuple[_Gradients, _Sums]]] = {"default": partial(_in_order, settings=settings)}
    if order is None:
        ways["cpu"] = partial(_in_blocks, at_once=DOCUMENTS_IN_CACHE, settings=settings)
        ways["default"] = partial(_in_shelves, settings=settings)
    if type(settings.loss) is Logistic and kernels_apply(parameters.embeddings, shelves, settings.precision):
        ways["cuda"] = partial(_by_kernels, settings=settings)
    return ways


def _by_kernels(
    parameters: TwoLayerParameters,
    shelves: tuple[DocumentShelf, ...],
    n_documents: ScalarJ,
    order: RowOrder | None = None,
    *,
    settings: Settings,
    interpret: bool = False,
) -> tuple[_Gradients, _Sums]:
    """All shelves through `_kernels`, which add in a fixed order of their own."""
    del order
    found = _through_kernels(parameters, shelves, n_documents, settings, interpret)
    return _Gradients(found.table.entries(), found.readers), _Sums(found.slope, found.loss, found.correct)


def gradients_in_rows(
    parameters: TwoLayerParameters, shelf: DocumentShelf, settings: Settings, *, interpret: bool = False
) -> tuple[BatchSums, TwoLayerGradients]:
    """Loss and gradients of a batch on one shelf by kernels, that in E as rows which an optimiser's step adds up."""
    n_documents = jnp.sum(jnp.abs(shelf.labels))
    found = _through_kernels(parameters, (shelf,), n_documents, settings, interpret)
    small = small_gradients(parameters, found.readers, found.slope, settings.scales)
    return BatchSums(found.loss, found.correct, n_documents), TwoLayerGradients(found.table, *small)


def _through_kernels(
    parameters: TwoLayerParameters,
    shelves: tuple[DocumentShelf, ...],
    n_documents: ScalarJ,
    settings: Settings,
    interpret: bool,
) -> KernelGradients:
    E, readers = parameters.embeddings, readers_of(parameters, settings.scales)
    dot = jax.lax.Precision.HIGHEST if interpret else DOTS[settings.precision]
    kernel = KernelSettings(
        E.shape[1], settings.epsilon, PARTS[settings.precision], dot, settings.scales.mixing, interpret
    )
    return gradients_by_kernels(E, readers, shelves, bias_output(parameters), n_documents, kernel)


def _in_blocks(
    parameters: TwoLayerParameters,
    shelves: tuple[DocumentShelf, ...],
    n_documents: ScalarJ,
    *,
    at_once: int,
    settings: Settings,
) -> tuple[_Gradients, _Sums]:
    """A few documents at a time, all of their gradient formed while their embeddings are in cache."""
    add, total = _adding_up(parameters, n_documents, settings)
    for shelf in shelves:
        block = _largest_divisor(shelf.labels.shape[0], at_once)
        blocks = jax.tree.map(lambda x, b=block: x.reshape(-1, b, *x.shape[1:]), shelf)
        total, _ = jax.lax.scan(lambda total, block: (add(total, block), None), total, blocks)
    return total


def _adding_up(
    parameters: TwoLayerParameters, n_documents: ScalarJ, settings: Settings
) -> tuple[Callable[[_Total, DocumentShelf], _Total], _Total]:
    """Return a function that adds a block of documents to a total, and the total of none."""
    readers = readers_of(parameters, settings.scales)
    read = _read(readers, parameters)

    def add(total: _Total, block: DocumentShelf) -> _Total:
        embeddings, rows, sums = _block_gradients(parameters, read, block, n_documents, settings)
        rank_three = sum(rows.overlaps[:, :, k, None] * readers[k, None, None, :] for k in range(3))
        by_reader = jnp.einsum("bsk,bsd->kd", rows.overlaps[..., :2], embeddings, precision=jax.lax.Precision.HIGHEST)
        table = _add_rows(total[0].table, block.ids, rows.pairs + rank_three)
        return _Gradients(table, total[0].readers + by_reader), jax.tree.map(jnp.add, total[1], sums)

    zero = jnp.zeros((), read.overlaps.dtype)
    none = _Gradients(jnp.zeros_like(parameters.embeddings), jnp.zeros_like(readers[:2]))
    return add, (none, _Sums(zero, zero, zero))


def _in_shelves(
    parameters: TwoLayerParameters, shelves: tuple[DocumentShelf, ...], n_documents: ScalarJ, *, settings: Settings
) -> tuple[_Gradients, _Sums]:
    """A shelf at a time, wide rows added as they come, narrow ones all at once: kernels of their own cost more."""
    readers = readers_of(parameters, settings.scales)
    read = _read(readers, parameters)
    pairs = jnp.zeros_like(parameters.embeddings)
    narrow, all_sums = [], []
    for shelf in shelves:
        _, rows, sums = _block_gradients(parameters, read, shelf, n_documents, settings)
        pairs = _add_rows(pairs, shelf.ids, rows.pairs)
        # Sums over columns, which must be formed before and not inside the adding up, where they are read row by row.
        overlaps = jax.lax.optimization_barrier(rows.overlaps)
        narrow.append(overlaps.reshape(-1, overlaps.shape[-1]))
        all_sums.append(sums)
    ids = jnp.concatenate([shelf.ids.reshape(-1) for shelf in shelves])
    by_token = _add_rows(jnp.zeros_like(read.overlaps), ids, jnp.concatenate(narrow))
    return _by_token(parameters, readers, pairs, by_token), jax.tree.map(lambda *x: sum(x), *all_sums)


def _by_token(
    parameters: TwoLayerParameters, readers: Readers, pairs: EmbeddingTable, overlaps: Overlaps
) -> _Gradients:
    """Return gradients from sums over the occurrences of each token: one pass over E, not one over every document."""
    table = pairs + sum(overlaps[:, k, None] * readers[k, None, :] for k in range(3))
    by_reader = jnp.einsum("vk,vd->kd", overlaps[:, :2], parameters.embeddings, precision=jax.lax.Precision.HIGHEST)
    return _Gradients(table, by_reader)


def _add_rows(table: AnyArray, ids: AnyArray, rows: AnyArray) -> Array:
    return jnp.asarray(table).at[ids].add(rows, mode="promise_in_bounds")


def _in_order(
    parameters: TwoLayerParameters,
    shelves: tuple[DocumentShelf, ...],
    n_documents: ScalarJ,
    order: RowOrder,
    *,
    settings: Settings,
) -> tuple[_Gradients, _Sums]:
    """Shelf by shelf, rows kept and added at the end, token by token."""
    readers = readers_of(parameters, settings.scales)
    read = _read(readers, parameters)
    parts = [_block_gradients(parameters, read, shelf, n_documents, settings) for shelf in shelves]
    pairs, overlaps = (
        ordered_row_sums(jnp.concatenate([jnp.asarray(x).reshape(-1, x.shape[-1]) for x in blocks]), order)
        for blocks in zip(*(rows for _, rows, _ in parts), strict=True)
    )
    return _by_token(parameters, readers, pairs, overlaps), jax.tree.map(
        lambda *x: sum(x), *(sums for *_, sums in parts)
    )


def _block_gradients(
    parameters: TwoLayerParameters,
    read: TableRead,
    block: DocumentShelf,
    n_documents: ScalarJ,
    settings: Settings,
) -> tuple[BlockEmbeddings, BlockBackward, _Sums]:
    embeddings, forward = _forward(parameters, read, block, settings)
    signed = block.labels * (forward.outputs + bias_output(parameters))
    slopes = block.labels * settings.loss.slope(signed) / n_documents
    backward = block_backward(embeddings, forward, slopes, read.bound, settings.precision, settings.scales)
    loss = jnp.sum(jnp.abs(block.labels) * settings.loss.value(signed)) / n_documents
    correct = jnp.sum((signed > 0).astype(signed.dtype))
    return embeddings, backward, _Sums(jnp.sum(slopes), loss, correct)


def _forward(
    parameters: TwoLayerParameters, read: TableRead, block: DocumentShelf, settings: Settings
) -> tuple[BlockEmbeddings, BlockForward]:
    embeddings = jnp.asarray(parameters.embeddings).at[block.ids].get(mode="promise_in_bounds")
    of_tokens = jnp.asarray(read.overlaps).at[block.ids].get(mode="promise_in_bounds")
    how = settings.epsilon, settings.precision, settings.scales
    return embeddings, block_forward(embeddings, of_tokens, block.log_counts, read.bound, *how)


def _read(readers: Readers, parameters: TwoLayerParameters) -> TableRead:
    """E[p v 1/d] in one pass over E instead of one over the embeddings of every document."""
    return jax.lax.platform_dependent(parameters.embeddings, readers, cpu=read_by_product, default=read_by_sums)


def _largest_divisor(size: int, limit: int) -> int:
    return max(k for k in range(1, min(size, limit) + 1) if size % k == 0)
