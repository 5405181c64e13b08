"""All that the one-layer model does with a batch besides reading E and changing it, in two kernels [E, Lemma 7].

A step of the usual size reads and writes E and its moments in 0.13 ms. The softmax of 128 documents, their loss and R
are a thousandth of that work in a dozen kernels, each of which takes longer to start than to run (docs/speed.md). Here
one program has a document, and one some tokens. Sums are taken in a fixed order; `one_layer` holds the slow twin.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float, Int

from tokenmargin._types import ScalarJ
from tokenmargin.models._kernels import is_tried_gpu

TokenPairs = Float[Array | np.ndarray, "V 2"]
PieceIds = Int[Array | np.ndarray, "C w"]
PieceNumbers = Float[Array | np.ndarray, "C w"]
DocumentPieces = Int[Array | np.ndarray, "B K"]
DocumentNumbers = Float[Array | np.ndarray, "B"]

#: Tokens of the longest document, and documents of a batch, for which one program and one table are not too large.
MOST_TOKENS, MOST_DOCUMENTS = 4096, 256

#: Rows of the table of documents and tokens begin at multiples of this.
ROW_STEP = 16

#: Warps of a document; tokens and documents that a program adds up at a time, and its warps.
DOCUMENT_WARPS, TOKENS, DOCUMENTS, SUM_WARPS = 2, 64, 32, 4


class DocumentSums(NamedTuple):
    """Outputs of the documents of a batch, and R."""

    outputs: DocumentNumbers  # f; 0 for rows that are no document
    flow: TokenPairs  # R


class PiecesOfDocuments(NamedTuple):
    """The pieces of a batch, and which of them are whose."""

    ids: PieceIds
    log_counts: PieceNumbers  # -inf at padding
    pieces: DocumentPieces
    labels: DocumentNumbers


def kernels_apply(ids: PieceIds, pieces: DocumentPieces, dtype: Any) -> bool:
    """True if documents and batch are small enough for the kernels, which are for float32 on one GPU that we know.

    Where E is spread over several, the compiler knows how to divide its own kernels, and not ours.
    """
    B, K = pieces.shape
    usual = dtype == jnp.float32 and B <= MOST_DOCUMENTS and K * ids.shape[1] <= MOST_TOKENS
    return usual and is_tried_gpu() and (jax.default_backend() != "gpu" or jax.device_count() == 1)


def document_sums(
    read: TokenPairs, batch: PiecesOfDocuments, documents: ScalarJ, *, interpret: bool = False
) -> DocumentSums:
    """Outputs, and R: sums over documents of delta q_s (g_s - f) and of delta q_s, for the mean logistic loss.

    `read` holds a and g of every token; the mean divides by `documents`; `interpret` evaluates operation by operation.
    """
    B, V, dtype = batch.pieces.shape[0], read.shape[0], read.dtype
    number = jnp.reshape(documents, (1,)).astype(dtype)
    # A token's two numbers apart: the compiler's kernels before and after these take longer with pairs of them.
    by_kind = jnp.asarray(read).T
    # Room for what is padding, and rows that begin where several numbers can be loaded at once.
    table = jnp.zeros((B, (V // ROW_STEP + 1) * ROW_STEP), dtype)
    outputs, pulls = pl.pallas_call(
        partial(_document_kernel, nowhere=V),
        out_shape=[jax.ShapeDtypeStruct((B,), dtype), jax.ShapeDtypeStruct(table.shape, dtype)],
        grid=(B,),
        input_output_aliases={6: 1},
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=DOCUMENT_WARPS, num_stages=1),
        name="document_pulls",
    )(*batch, by_kind, number, table)
    flow = pl.pallas_call(
        partial(_sum_kernel, rows=min(DOCUMENTS, pl.next_power_of_2(B))),
        out_shape=jax.ShapeDtypeStruct((2, V), dtype),
        grid=(pl.cdiv(V, TOKENS),),
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=SUM_WARPS, num_stages=1),
        name="token_sums",
    )(pulls, outputs, by_kind)
    return DocumentSums(outputs, flow.T)


def _document_kernel(
    ids_ref: Any,
    log_counts_ref: Any,
    pieces_ref: Any,
    labels_ref: Any,
    read_ref: Any,
    documents_ref: Any,
    _: Any,
    outputs_ref: Any,
    pulls_ref: Any,
    *,
    nowhere: int,
) -> None:
    """f of a document, and delta q_s of its tokens into their places of a table of zeros."""
    b, (C, width), K = pl.program_id(0), ids_ref.shape, pieces_ref.shape[1]
    k = jnp.arange(pl.next_power_of_2(K), dtype=jnp.int32)
    piece = plt.load(pieces_ref.at[b, k], mask=k < K, other=C)
    column = jnp.arange(pl.next_power_of_2(width), dtype=jnp.int32)
    there = (piece < C)[:, None] & (column < width)[None, :]
    at = piece[:, None], column[None, :]
    log_counts = plt.load(log_counts_ref.at[at], mask=there, other=-jnp.inf)
    there = there & (log_counts > -jnp.inf)
    ids = plt.load(ids_ref.at[at], mask=there, other=0)
    a, g = (plt.load(read_ref.at[jnp.int32(n), ids], mask=there, other=0.0) for n in (0, 1))

    logits = jnp.where(there, a + log_counts, -jnp.inf)
    top = jnp.max(logits)
    exponentials = jnp.where(there, jnp.exp(logits - jnp.where(top > -jnp.inf, top, 0.0)), 0.0)
    total = jnp.sum(exponentials)
    inverse = 1.0 / jnp.where(total > 0, total, 1.0)
    output = jnp.sum(exponentials * g) * inverse
    label = plt.load(labels_ref.at[b])
    slope = -label / (1.0 + jnp.exp(label * output)) / plt.load(documents_ref.at[jnp.int32(0)])
    plt.store(outputs_ref.at[b], output)
    plt.store(pulls_ref.at[b, jnp.where(there, ids, nowhere)], slope * (exponentials * inverse), mask=there)


def _sum_kernel(pulls_ref: Any, outputs_ref: Any, read_ref: Any, flow_ref: Any, *, rows: int) -> None:
    """R of some tokens, from the pulls of all documents."""
    B, V = pulls_ref.shape[0], read_ref.shape[1]
    token = pl.program_id(0) * TOKENS + jnp.arange(TOKENS, dtype=jnp.int32)
    inside = token < V
    score = plt.load(read_ref.at[jnp.int32(1), token], mask=inside, other=0.0)

    def add(k: Any, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        document = jnp.int32(k) * rows + jnp.arange(rows, dtype=jnp.int32)
        there = (document < B)[:, None] & inside[None, :]
        pull = plt.load(pulls_ref.at[document[:, None], token[None, :]], mask=there, other=0.0)
        output = plt.load(outputs_ref.at[document], mask=document < B, other=0.0)
        return sums[0] + pull * (score[None, :] - output[:, None]), sums[1] + pull

    none = jnp.zeros((rows, TOKENS), pulls_ref.dtype)
    found = jax.lax.fori_loop(0, pl.cdiv(B, rows), add, (none, none))
    for n, total in enumerate(found):
        plt.store(flow_ref.at[jnp.int32(n), token], jnp.sum(total, axis=0), mask=inside)
