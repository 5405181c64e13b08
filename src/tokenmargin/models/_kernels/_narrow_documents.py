"""Kernels of documents of which all is one tile: before, at and after the second softmax [E, (36)].

One program has a few rows of a document and all of its columns.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array

from tokenmargin.models._kernels._document_rows import (
    STATISTICS,
    Block,
    Cut,
    Normed,
    SecondSoftmax,
    columns_of,
    diagonal,
    score_gradients,
    softmax_of_rows,
    store_statistics,
)
from tokenmargin.models._kernels._in_turn import Program, Widths
from tokenmargin.models._kernels.document_values import KernelSettings
from tokenmargin.models._kernels.halves import in_parts, power_of_two_below

#: Cuts of the kernels for statistics, scores and symmetric sums, where a matrix unit multiplies and where none does; as
#: measured on reviews and at U = 96.
NARROW_CUTS = {
    True: (Cut(16, 32, 4, stages=1), Cut(8, 32, 1), Cut(32, 32, 4, stages=1)),
    False: (Cut(16, 32, 4), Cut(8, 32, 1), Cut(32, 32, 8)),
}


def narrow_statistics(
    gram_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    lengths_ref: Any,
    *out: Any,
    program: Program,
    cut: Cut,
    widths: Widths,
    settings: KernelSettings,
) -> None:
    """A, AG + G, the `STATISTICS` of every row, and |H|^2."""
    statistics_ref, norms_ref, attention_ref, mixed_ref = out
    block = Block(ids_ref, log_counts_ref, lengths_ref, program, cut.rows)
    row, column = block.row, columns_of(widths)
    gram = block.pairs(gram_ref, row, column)
    attention, top, total = softmax_of_rows(block, gram, column, settings)

    def add(at: Array) -> Array:
        left = attention
        if at.shape[0] < column.shape[0]:  # part of the columns, which must be formed anew
            part = settings.mixing_scale * block.pairs(gram_ref, row, at) + block.log_counts(at)[None, :]
            left = jnp.exp(part - top[:, None]) / total[:, None]
        return jnp.dot(left, block.pairs(gram_ref, at, column), precision=settings.dot)

    mixed = _chunked(add, gram, cut.chunk, column, widths)
    mixing = attention + diagonal(row, column, attention.dtype)
    block.store_pairs(attention_ref, row, column, attention)
    block.store_pairs(mixed_ref, row, column, mixed)
    store_statistics(block, statistics_ref, readings_ref, mixing, column)
    block.store_numbers(norms_ref, row, jnp.sum(mixing * mixed, axis=1))


def narrow_scores(
    attention_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    *refs: Any,
    program: Program,
    cut: Cut,
    widths: Widths,
    settings: KernelSettings,
) -> None:
    """The second softmax, the loss, and the gradients in LayerNorm's statistics and in the scores of every row."""
    labels_ref, scalars_ref, statistics_ref, norms_ref, mixed_ref, lengths_ref, *out = refs
    by_row_ref, squares_ref, scores_ref, outputs_ref, slopes_ref = out
    block = Block(ids_ref, log_counts_ref, lengths_ref, program, cut.rows)
    row, column = block.row, columns_of(widths)
    every, own = (
        Normed(block, statistics_ref, block.numbers(norms_ref, at, other=1.0), at, settings) for at in (column, row)
    )
    softmax = SecondSoftmax(block, every, column, labels_ref, scalars_ref)
    told = by_row_ref, squares_ref, outputs_ref, slopes_ref
    square, gradients = softmax.store(block, row, own, settings.width, told)
    attention, mixed = (block.pairs(ref, row, column) for ref in (attention_ref, mixed_ref))
    scores = score_gradients(block, column, attention, mixed, readings_ref, square, gradients)
    block.store_pairs(scores_ref, row, column, settings.mixing_scale * scores)


def narrow_symmetric(
    attention_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    units_ref: Any,
    *refs: Any,
    program: Program,
    cut: Cut,
    widths: Widths,
    settings: KernelSettings,
) -> None:
    """dG + dG' for some rows: the gradient S in the scores, and B'QB with Q the diagonal of `squares`; and B'g.

    With B = A + I, B'QB = A'QA + QA + (QA)' + Q. Of g there are three: what each row of BX says of p, v and 1/d.
    """
    by_row_ref, squares_ref, scores_ref, lengths_ref, readings_ref, row_units_ref, *symmetric_refs = refs
    block = Block(ids_ref, log_counts_ref, lengths_ref, program, cut.rows)
    row, column = block.row, columns_of(widths)
    own, every = (block.numbers(squares_ref, at) for at in (row, column))
    to_row = block.pairs(attention_ref, column, row)
    for k in range(STATISTICS):
        found = jnp.sum(to_row * block.numbers(by_row_ref, column, k)[:, None], axis=0)
        block.store_numbers(readings_ref, row, found + block.numbers(by_row_ref, row, k), k)

    def add(at: Array) -> Array:
        weighted = block.pairs(attention_ref, at, row) * (2.0 * block.numbers(squares_ref, at))[:, None]
        return jnp.dot(weighted.T, block.pairs(attention_ref, at, column), precision=settings.dot)

    direct = block.pairs(scores_ref, row, column) + 2.0 * own[:, None] * block.pairs(attention_ref, row, column)
    turned = block.pairs(scores_ref, column, row) + 2.0 * every[:, None] * to_row
    own_square = 2.0 * own[:, None] * diagonal(row, column, direct.dtype)
    symmetric = _chunked(add, direct + turned.T + own_square, cut.chunk, column, widths)
    parts, units = parts_of_rows(symmetric, block.of_table(units_ref, column, other=1.0), settings)
    block.store_numbers(row_units_ref, row, units, 0)
    for ref, part in zip(symmetric_refs, parts, strict=True):
        block.store_pairs(ref, row, column, part)


def parts_of_rows(symmetric: Array, units: Array, settings: KernelSettings) -> tuple[list[Array], Array]:
    """Return the factor of the parts of the embeddings, whose columns have `units`, in parts too, and a unit a row."""
    if settings.parts == 0:
        return [symmetric], jnp.ones(symmetric.shape[:1], symmetric.dtype)
    scaled = symmetric * units[None, :]
    row_scales, row_units = power_of_two_below(jnp.max(jnp.abs(scaled), axis=1))
    return in_parts(scaled * row_scales[:, None], settings.parts), row_units


def _chunked(add: Any, start: Array, chunk: int, column: Array, widths: Widths) -> Array:
    """`start` plus add(places) for all places of a document, a chunk of them at a time."""
    size = min(chunk, column.shape[0])
    place = jnp.arange(size, dtype=jnp.int32)
    if size >= widths.most:
        return start + add(place)
    steps = pl.cdiv(widths.most, size)
    return jax.lax.fori_loop(0, steps, lambda k, sums: sums + add(k * size + place), start)
