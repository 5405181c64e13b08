"""Kernels of documents of several tiles: what lies before and after the second softmax [E, (36)].

The two products of U x U x U are formed tile by tile, as any product of large matrices; what needs whole rows, the
softmax, is in a kernel of its own. A few rows and all columns in one program, as for narrow documents, took half as
long again (docs/speed.md).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from tokenmargin.models._kernels._document_rows import (
    STATISTICS,
    Block,
    Cut,
    columns_of,
    diagonal,
    softmax_of_rows,
    store_statistics,
)
from tokenmargin.models._kernels._in_turn import TILE, Program, Widths, lower_triangle, pieces_of, triangular
from tokenmargin.models._kernels._narrow_documents import parts_of_rows
from tokenmargin.models._kernels.document_values import KernelSettings

#: Of the kernels of rows, softmax and scores, and of those of tiles.
WIDE_ROWS, WIDE_TILES = Cut(8, 32, 8), Cut(TILE, 32, 4)


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
    """A tile of dG + dG' and the one across the diagonal, as `narrow_symmetric` forms rows; B'g on the diagonal."""
    by_row_ref, squares_ref, scores_ref, lengths_ref, readings_ref, row_units_ref, *symmetric_refs = refs
    document, piece = program
    block = Block(ids_ref, log_counts_ref, lengths_ref, (document, jnp.int32(0)), cut.rows)
    row_tile, column_tile = lower_triangle(piece, tiles)
    place = jnp.arange(cut.rows, dtype=jnp.int32)
    row, column = row_tile * cut.rows + place, column_tile * cut.rows + place
    own, every = (block.numbers(squares_ref, at) for at in (row, column))

    def add(k: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        at = k * cut.chunk + jnp.arange(cut.chunk, dtype=jnp.int32)
        to_row, to_column = (block.pairs(attention_ref, at, there) for there in (row, column))
        weighted = to_row * (2.0 * block.numbers(squares_ref, at))[:, None]
        thin = [jnp.sum(to_row * block.numbers(by_row_ref, at, i)[:, None], axis=0) for i in range(STATISTICS)]
        products = jnp.dot(weighted.T, to_column, precision=settings.dot)
        return tuple(a + b for a, b in zip(sums, (products, *thin), strict=True))

    direct = block.pairs(scores_ref, row, column) + 2.0 * own[:, None] * block.pairs(attention_ref, row, column)
    turned = block.pairs(scores_ref, column, row) + 2.0 * every[:, None] * block.pairs(attention_ref, column, row)
    start = direct + turned.T + 2.0 * own[:, None] * diagonal(row, column, direct.dtype)
    none = jnp.zeros(row.shape, start.dtype)
    symmetric, *thin = jax.lax.fori_loop(0, pieces_of(block.length, cut.chunk), add, (start, *[none] * STATISTICS))
    is_diagonal = row_tile == column_tile
    for i, found in enumerate(thin):
        block.store_numbers(readings_ref, row, found + block.numbers(by_row_ref, row, i), i, if_=is_diagonal)
    # On the diagonal the tile is written once: two of its threads must not write one entry.
    for tile, at, other_at, number, there in (
        (symmetric, row, column, column_tile, True),
        (symmetric.T, column, row, row_tile, ~is_diagonal),
    ):
        parts, units = parts_of_rows(tile, block.of_table(units_ref, other_at, other=1.0), settings)
        block.store_numbers(row_units_ref, at, units, number, if_=there)
        for ref, part in zip(symmetric_refs, parts, strict=True):
            block.store_pairs(ref, at, other_at, part, if_=there)
