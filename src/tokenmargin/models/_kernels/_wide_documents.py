"""Kernels of documents of several tiles: before, at and after the second softmax [E, (36)].

The two products of U x U x U are formed tile by tile, as any product of large matrices. What needs whole rows, the
first softmax and the gradient in its scores, is in kernels of some rows; what needs the whole document, the second
softmax, in one of its own. A few rows and all columns in one program, as for narrow documents, took half as long again,
and so did the gradient in the scores where it was formed tile by tile as it was used (docs/speed.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
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
from tokenmargin.models._kernels._in_turn import TILE, Program, Widths, lower_triangle, pieces_of, triangular
from tokenmargin.models._kernels._narrow_documents import parts_of_rows
from tokenmargin.models._kernels.document_values import KernelSettings


class WideCuts(NamedTuple):
    """Sizes of the kernels of rows, of tiles, of some columns, and of whole documents."""

    softmax: Cut
    tiles: Cut
    second_softmax: Cut
    scores: Cut
    overlaps: Cut


#: Cuts as measured on reviews. Tiles: with the next chunk on its way, the products take a fifth longer.
WIDE_CUTS = WideCuts(Cut(4, 32, 4), Cut(TILE, 32, 4, stages=1), Cut(1, 32, 4), Cut(4, 32, 4), Cut(32, 32, 4))


def squares(length: Any) -> Any:
    """Tiles of a document."""
    return pieces_of(length, TILE) * pieces_of(length, TILE)


def triangle(length: Any) -> Any:
    """Tiles of a document on and below its diagonal."""
    return triangular(pieces_of(length, TILE))


def wide_softmax(
    gram_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    lengths_ref: Any,
    statistics_ref: Any,
    attention_ref: Any,
    *,
    program: Program,
    cut: Cut,
    widths: Widths,
    settings: KernelSettings,
) -> None:
    """A and the `STATISTICS` of some rows."""
    block = Block(ids_ref, log_counts_ref, lengths_ref, program, cut.rows)
    row, column = block.row, columns_of(widths)
    attention, _, _ = softmax_of_rows(block, block.pairs(gram_ref, row, column), column, settings)
    block.store_pairs(attention_ref, row, column, attention)
    mixing = attention + diagonal(row, column, attention.dtype)
    store_statistics(block, statistics_ref, readings_ref, mixing, column)


def wide_mixed(
    gram_ref: Any,
    attention_ref: Any,
    lengths_ref: Any,
    norms_ref: Any,
    mixed_ref: Any,
    *,
    program: Program,
    cut: Cut,
    settings: KernelSettings,
) -> None:
    """A tile of AG + G, and what it adds to |H|^2 of its rows: the sum of (A + I)(AG + G) over its columns."""
    document, piece = program
    block = Block(None, None, lengths_ref, (document, jnp.int32(0)), cut.rows)
    tiles = pieces_of(block.length, cut.rows)
    row_tile = jax.lax.div(piece, tiles)
    column_tile = piece - row_tile * tiles
    place = jnp.arange(cut.rows, dtype=jnp.int32)
    row, column = row_tile * cut.rows + place, column_tile * cut.rows + place

    def add(k: Any, sums: Array) -> Array:
        at = k * cut.chunk + jnp.arange(cut.chunk, dtype=jnp.int32)
        left, right = block.pairs(attention_ref, row, at), block.pairs(gram_ref, at, column)
        return sums + jnp.dot(left, right, precision=settings.dot)

    gram = block.pairs(gram_ref, row, column)
    mixed = gram + jax.lax.fori_loop(0, pieces_of(block.length, cut.chunk), add, jnp.zeros_like(gram))
    block.store_pairs(mixed_ref, row, column, mixed)
    mixing = block.pairs(attention_ref, row, column) + diagonal(row, column, mixed.dtype)
    block.store_numbers(norms_ref, row, jnp.sum(mixing * mixed, axis=1), column_tile)


def wide_second_softmax(
    statistics_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    labels_ref: Any,
    scalars_ref: Any,
    norms_ref: Any,
    lengths_ref: Any,
    *out: Any,
    program: Program,
    cut: Cut,
    widths: Widths,
    settings: KernelSettings,
) -> None:
    """The second softmax of a document, its loss, and the gradients in LayerNorm's statistics of all rows."""
    block = Block(ids_ref, log_counts_ref, lengths_ref, program, cut.rows)
    column = columns_of(widths)

    def add(k: Any, sums: Array) -> Array:
        return sums + block.numbers(norms_ref, column, k)

    squared = jax.lax.fori_loop(1, pieces_of(block.length, TILE), add, block.numbers(norms_ref, column, 0, other=1.0))
    every = Normed(block, statistics_ref, squared, column, settings)
    SecondSoftmax(block, every, column, labels_ref, scalars_ref).store(block, column, every, settings.width, out)


def wide_scores(
    attention_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    mixed_ref: Any,
    by_row_ref: Any,
    squares_ref: Any,
    lengths_ref: Any,
    scores_ref: Any,
    *,
    program: Program,
    cut: Cut,
    widths: Widths,
    settings: KernelSettings,
) -> None:
    """The gradients in the scores of some rows."""
    block = Block(ids_ref, log_counts_ref, lengths_ref, program, cut.rows)
    column = columns_of(widths)
    attention, mixed = (block.pairs(ref, block.row, column) for ref in (attention_ref, mixed_ref))
    square = block.numbers(squares_ref, block.row)
    gradients = [block.numbers(by_row_ref, block.row, k) for k in range(STATISTICS)]
    scores = score_gradients(block, column, attention, mixed, readings_ref, square, gradients)
    block.store_pairs(scores_ref, block.row, column, settings.mixing_scale * scores)


def wide_overlaps(
    attention_ref: Any,
    by_row_ref: Any,
    lengths_ref: Any,
    readings_ref: Any,
    *,
    program: Program,
    cut: Cut,
    settings: KernelSettings,
) -> None:
    """B'g at some places: what the rows of BX say of p, v and 1/d, of each of their tokens."""
    block = Block(None, None, lengths_ref, program, cut.rows)

    def add(k: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        at = k * cut.chunk + jnp.arange(cut.chunk, dtype=jnp.int32)
        attention = block.pairs(attention_ref, at, block.row)
        # Added up over rows once, at the end: a sum over rows makes all threads wait for each other.
        return tuple(total + attention * block.numbers(by_row_ref, at, i)[:, None] for i, total in enumerate(sums))

    none = jnp.zeros((cut.chunk, cut.rows), attention_ref.dtype)
    found = jax.lax.fori_loop(0, pieces_of(block.length, cut.chunk), add, (none,) * STATISTICS)
    for i, total in enumerate(found):
        block.store_numbers(
            readings_ref, block.row, jnp.sum(total, axis=0) + block.numbers(by_row_ref, block.row, i), i
        )


def wide_symmetric(
    attention_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    units_ref: Any,
    *refs: Any,
    program: Program,
    cut: Cut,
    settings: KernelSettings,
    tiles: int,
) -> None:
    """A tile of dG + dG' and the one across the diagonal, as `narrow_symmetric` forms rows."""
    squares_ref, scores_ref, lengths_ref, row_units_ref, *symmetric_refs = refs
    document, piece = program
    block = Block(ids_ref, log_counts_ref, lengths_ref, (document, jnp.int32(0)), cut.rows)
    row_tile, column_tile = lower_triangle(piece, tiles)
    place = jnp.arange(cut.rows, dtype=jnp.int32)
    row, column = row_tile * cut.rows + place, column_tile * cut.rows + place
    own, every = (block.numbers(squares_ref, at) for at in (row, column))

    def add(k: Any, sums: Array) -> Array:
        at = k * cut.chunk + jnp.arange(cut.chunk, dtype=jnp.int32)
        to_row, to_column = (block.pairs(attention_ref, at, there) for there in (row, column))
        weighted = to_row * (2.0 * block.numbers(squares_ref, at))[:, None]
        return sums + jnp.dot(weighted.T, to_column, precision=settings.dot)

    direct = block.pairs(scores_ref, row, column) + 2.0 * own[:, None] * block.pairs(attention_ref, row, column)
    turned = block.pairs(scores_ref, column, row) + 2.0 * every[:, None] * block.pairs(attention_ref, column, row)
    start = direct + turned.T + 2.0 * own[:, None] * diagonal(row, column, direct.dtype)
    symmetric = jax.lax.fori_loop(0, pieces_of(block.length, cut.chunk), add, start)
    is_diagonal = row_tile == column_tile
    # On the diagonal the tile is written once: two of its threads must not write one entry.
    for tile, at, other_at, number, there in (
        (symmetric, row, column, column_tile, True),
        (symmetric.T, column, row, row_tile, ~is_diagonal),
    ):
        parts, units = parts_of_rows(tile, block.of_table(units_ref, other_at, other=1.0), settings)
        block.store_numbers(row_units_ref, at, units, number, if_=there)
        for ref, part in zip(symmetric_refs, parts, strict=True):
            block.store_pairs(ref, at, other_at, part, if_=there)
