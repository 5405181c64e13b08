"""The passes over the embeddings that the two-layer model needs, each a kernel that gathers for itself.

`read_table` goes once through E: what p, v and 1/d read of every token, and E as float16 numbers (one or two to an
entry, one unit to a row), half as many bytes to gather, or as many and all of float32's digits. `gathered_gram` forms
the Gram block of every document and `gathered_product` D X, both from the rows of that table: the array of documents x
tokens x width that a gather would write exists only as the product's result. Both end with the document: behind that
nothing is read or written.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float, Float16, Int

from tokenmargin.models._kernels._in_turn import (
    NARROW,
    TILE,
    Launch,
    Program,
    Widths,
    end_of_columns,
    launched,
    lower_triangle,
    narrow_and_wide,
    pieces_of,
    triangular,
)
from tokenmargin.models._kernels.halves import in_parts, power_of_two_below

EmbeddingTable = Float[Array | np.ndarray, "V d"]
HalfTable = Float16[Array, "V d"]
Readers = Float[Array | np.ndarray, "3 d"]
DocumentIds = Int[Array | np.ndarray, "B U"]
DocumentLengths = Int[Array | np.ndarray, "B"]
Gram = Float[Array, "B U U"]
HalfPairs = Float16[Array, "B U U"]
RowUnits = Float[Array, "tiles B U"]
Rows = Float[Array, "N d"]
TokenUnits = Float[Array, "V"]
TokenOverlaps = Float[Array, "3 V"]

#: Entries of E that one program of `read_table` holds, and its warps.
TABLE_BLOCK, TABLE_WARPS = 4096, 4


class TableOverlaps(NamedTuple):
    """E as kernels take it: entry = unit of its row times the sum of its parts."""

    parts: tuple[HalfTable, ...]
    units: TokenUnits
    overlaps: TokenOverlaps


class RowSlot(NamedTuple):
    """Position of the rows of some documents among those of all."""

    first: int
    in_all: int
    others: Rows | None  # what the rows of other documents were written into, to be written into again


class Tuning(NamedTuple):
    """Sizes of the programs of a kernel; they change speed alone."""

    block: int
    warps: int
    stages: int
    chunk: int = 32
    tile: int = 128


#: Tuning by number of parts: of narrow documents (one tile each), and of wide ones, whose tiles are pairs of rows.
GRAM_TUNING = {1: Tuning(block=128, warps=8, stages=3), 2: Tuning(block=64, warps=8, stages=3)}
WIDE_GRAM_TUNING = {1: Tuning(128, warps=4, stages=3, tile=64), 2: Tuning(64, warps=4, stages=3, tile=64)}
PRODUCT_TUNING = Tuning(block=128, warps=4, stages=3)
WIDE_PRODUCT_TUNING = {1: Tuning(block=128, warps=4, stages=3, chunk=64), 2: PRODUCT_TUNING}

#: Programs for each block of columns of D X: about as many as a batch of reviews has pieces.
PRODUCT_PROGRAMS = 128


def read_table(E: EmbeddingTable, readers: Readers, parts: int, *, interpret: bool = False) -> TableOverlaps:
    """Overlaps, units and `parts` float16 numbers for every entry, in one pass over E."""
    V, d = E.shape
    rows = max(1, TABLE_BLOCK // pl.next_power_of_2(d))
    shapes = [
        jax.ShapeDtypeStruct((3, V), E.dtype),
        jax.ShapeDtypeStruct((V,), E.dtype),
        *(jax.ShapeDtypeStruct((V, d), jnp.float16) for _ in range(parts)),
    ]
    overlaps, units, *halves = pl.pallas_call(
        partial(_table_kernel, rows=rows),
        out_shape=shapes,
        grid=(pl.cdiv(V, rows),),
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=TABLE_WARPS, num_stages=1),
        name="read_table",
    )(E, readers)
    return TableOverlaps(tuple(halves), units, overlaps)


def _table_kernel(E_ref: Any, readers_ref: Any, readings_ref: Any, units_ref: Any, *half_refs: Any, rows: int) -> None:
    V, d = E_ref.shape
    row = pl.program_id(0) * rows + jnp.arange(rows, dtype=jnp.int32)
    column = jnp.arange(pl.next_power_of_2(d), dtype=jnp.int32)
    there = (row < V)[:, None] & (column < d)[None, :]
    x = plt.load(E_ref.at[row[:, None], column[None, :]], mask=there, other=0.0)
    for k in range(3):
        reader = plt.load(readers_ref.at[jnp.int32(k), column], mask=column < d, other=0.0)
        plt.store(readings_ref.at[jnp.int32(k), row], jnp.sum(x * reader[None, :], axis=1), mask=row < V)
    scales, units = power_of_two_below(jnp.max(jnp.abs(x), axis=1))
    plt.store(units_ref.at[row], units, mask=row < V)
    for ref, part in zip(half_refs, in_parts(x * scales[:, None], len(half_refs)), strict=True):
        plt.store(ref.at[row[:, None], column[None, :]], part, mask=there)


def gathered_gram(
    table: TableOverlaps,
    ids: DocumentIds,
    lengths: DocumentLengths,
    most_lengths: tuple[int, ...] = (),
    *,
    tuning: Tuning | None = None,
    interpret: bool = False,
) -> Gram:
    """X X' of every document; what stands behind its last token means nothing.

    Args:
        table: E in parts.
        ids: token ids of the documents.
        lengths: lengths of the documents.
        most_lengths: most distinct tokens that each document has; by default the width of the shelf.
        tuning: how the kernel is cut into programs.
        interpret: True if JAX evaluates the kernel operation by operation.
    """
    B, U = ids.shape
    gram: tuple[Any, ...] = ()
    for widths in narrow_and_wide(most_lengths or (U,)):
        own = tuning or (GRAM_TUNING if widths.is_narrow else WIDE_GRAM_TUNING)[len(table.parts)]
        tile = _tile(widths, own)
        tiles = pieces_of(widths.most, tile)
        launch = Launch(
            "gathered_gram",
            partial(_gram_kernel, tile=tile, tiles=tiles, tuning=own),
            widths,
            partial(_triangle, size=tile),
            own.warps,
            own.stages,
        )
        shapes = [jax.ShapeDtypeStruct((B, U, U), table.units.dtype)]
        given = (ids, table.units, *table.parts)
        gram = tuple(
            launched(launch, shapes, given, lengths, most_of(ids, most_lengths), others=gram, interpret=interpret)
        )
    return gram[0]


def most_of(ids: DocumentIds, most_lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The most distinct tokens of each document; () where all are narrow and as wide as their shelf."""
    B, U = ids.shape
    return most_lengths or (() if U <= NARROW else (U,) * B)


def _triangle(length: Any, size: int) -> Any:
    return triangular(pieces_of(length, size))


def _tile(widths: Widths, tuning: Tuning) -> int:
    return min(tuning.tile, max(16, pl.next_power_of_2(widths.most)))


def _gram_kernel(
    ids_ref: Any, units_ref: Any, *refs: Any, program: Program, tile: int, tiles: int, tuning: Tuning
) -> None:
    *half_refs, lengths_ref, gram_ref = refs
    (b, number), d = program, half_refs[0].shape[1]
    length = plt.load(lengths_ref.at[b])
    high_tile, low_tile = lower_triangle(number, tiles)
    left = low_tile * tile + jnp.arange(tile, dtype=jnp.int32)
    right = high_tile * tile + jnp.arange(tile, dtype=jnp.int32)
    left_ids, right_ids = (plt.load(ids_ref.at[b, at], mask=at < length, other=0) for at in (left, right))
    left_units, right_units = (plt.load(units_ref.at[ids]) for ids in (left_ids, right_ids))
    one_tile = tiles == 1

    def load(ref: Any, ids: Array, at: Array, column: Array) -> Array:
        return _load_rows(ref, ids, at < length, column, whole=d % tuning.block == 0)

    def add(k: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        column = k * tuning.block + jnp.arange(tuning.block, dtype=jnp.int32)
        x = [load(ref, left_ids, left, column) for ref in half_refs]
        y = x if one_tile else [load(ref, right_ids, right, column) for ref in half_refs]
        # Scaled here and not at the end, so that partial sums leave the matrix unit, which rounds towards 0, and are
        # added up to nearest: over thousands of columns the Gram block is many times as exact.
        large = _dot(x[0], y[0].T)
        found = [sums[0] + large * left_units[:, None]]
        if len(half_refs) == 2:
            mixed = sums[1] + _dot(x[0], y[1].T)
            found.append(mixed if one_tile else mixed + _dot(x[1], y[0].T))
        return tuple(found)

    zeros = jnp.zeros((tile, tile), jnp.float32)
    large, *small = jax.lax.fori_loop(0, pl.cdiv(d, tuning.block), add, (zeros,) * len(half_refs))
    for mixed in small:
        mixed = mixed + mixed.T if one_tile else mixed
        large = large + mixed * left_units[:, None]
    large = large * right_units[None, :]
    end = end_of_columns(length, gram_ref.shape[-1])
    for at, other_at, found in ((left, right, large), (right, left, large.T))[: 1 if one_tile else 2]:
        inside = (at < length)[:, None] & (other_at < end)[None, :]
        plt.store(gram_ref.at[b, at[:, None], other_at[None, :]], found, mask=inside)


def gathered_product(
    table: TableOverlaps,
    ids: DocumentIds,
    lengths: DocumentLengths,
    left: tuple[HalfPairs, ...],
    units: RowUnits,
    place: RowSlot,
    most_lengths: tuple[int, ...] = (),
    *,
    tuning: Tuning | None = None,
    interpret: bool = False,
) -> Rows:
    """D X of every document, written to its rows among all.

    Args:
        table: E in parts.
        ids: token ids of the documents.
        lengths: lengths of the documents, behind which neither D nor the rows are looked at.
        left: D times the units of the embeddings, in parts.
        units: units of the rows of `left`.
        place: place of the rows.
        most_lengths: most distinct tokens that each document has; by default the width of the shelf.
        tuning: how the kernel is cut into programs.
        interpret: True if JAX evaluates the kernel operation by operation.
    """
    d, n_parts = table.parts[0].shape[1], len(left)
    rows: tuple[Any, ...] = () if place.others is None else (place.others,)
    most = most_of(ids, most_lengths)
    for widths in narrow_and_wide(most_lengths or ids.shape[1:]):
        own = tuning or (PRODUCT_TUNING if widths.is_narrow else WIDE_PRODUCT_TUNING[n_parts])
        tile = _tile(widths, own)
        kernel = partial(
            _product_kernel,
            tile=tile,
            n_parts=n_parts,
            first=place.first,
            widths=widths,
            ends_early=bool(most),
            tuning=own,
        )
        pieces = partial(pieces_of, size=tile)
        beside = (pl.cdiv(d, own.block),)
        launch = Launch("gathered_product", kernel, widths, pieces, own.warps, own.stages, beside, PRODUCT_PROGRAMS)
        shapes = [jax.ShapeDtypeStruct((place.in_all, d), table.units.dtype)]
        given = (ids, units, *left, *table.parts)
        rows = tuple(launched(launch, shapes, given, lengths, most, others=rows, interpret=interpret))
    return rows[0]


def _product_kernel(
    ids_ref: Any,
    units_ref: Any,
    *refs: Any,
    program: Program,
    tile: int,
    n_parts: int,
    first: int,
    widths: Widths,
    ends_early: bool,
    tuning: Tuning,
) -> None:
    left_refs, half_refs, (lengths_ref, out_ref) = refs[:n_parts], refs[n_parts : 2 * n_parts], refs[-2:]
    U, d = ids_ref.shape[1], out_ref.shape[1]
    block, chunk = tuning.block, min(tuning.chunk, tile)
    b, piece, column_block = program
    column = column_block * block + jnp.arange(block, dtype=jnp.int32)
    row = piece * tile + jnp.arange(tile, dtype=jnp.int32)
    length = plt.load(lengths_ref.at[b])

    def unit(k: Any) -> Array:
        return plt.load(units_ref.at[k, b, row], mask=row < length, other=0.0)

    # One unit for all of a row, the largest of its tiles: then sums stay where the matrix unit adds them up.
    units = unit(jnp.int32(0))
    if not widths.is_narrow:
        units = jax.lax.fori_loop(1, pieces_of(length, TILE), lambda k, most: jnp.maximum(most, unit(k)), units)

    def add(k: Any, total: Array) -> Array:
        at = k * chunk + jnp.arange(chunk, dtype=jnp.int32)
        ids = plt.load(ids_ref.at[b, at], mask=at < length, other=0)
        inside = (row < length)[:, None] & (at < end_of_columns(length, left_refs[0].shape[-1]))[None, :]
        x = [_load_rows(ref, ids, at < length, column, whole=d % block == 0) for ref in half_refs]
        D = [plt.load(ref.at[b, row[:, None], at[None, :]], mask=inside, other=0.0) for ref in left_refs]
        if not widths.is_narrow:
            shares = unit(jax.lax.div(k * chunk, jnp.int32(TILE))) / jnp.where(row < length, units, 1.0)
            D = [part * shares.astype(part.dtype)[:, None] for part in D]
        if n_parts == 2:
            total = total + _dot(D[0], x[1]) + _dot(D[1], x[0])
        return total + _dot(D[0], x[0])

    steps = pieces_of(length if ends_early else widths.most, chunk)
    total = jax.lax.fori_loop(0, steps, add, jnp.zeros((tile, block), jnp.float32)) * units[:, None]
    inside = (row < length)[:, None] & (column < d)[None, :]
    plt.store(out_ref.at[first + b * U + row[:, None], column[None, :]], total, mask=inside)


def _load_rows(ref: Any, ids: Array, there: Array, column: Array, *, whole: bool) -> Array:
    """Some columns of some rows of a table; `whole` says that no column is outside, which is not to be looked at."""
    mask = there[:, None] if whole else there[:, None] & (column < ref.shape[1])[None, :]
    mask = jnp.broadcast_to(mask, (ids.shape[0], column.shape[0]))
    return plt.load(ref.at[ids[:, None], column[None, :]], mask=mask, other=0.0)


def _dot(left: Array, right: Array) -> Array:
    return jnp.dot(left, right, preferred_element_type=jnp.float32)
