"""Sums of wide rows over the occurrences of each token, in the order of documents: the same bytes every time.

A document names a token once, so a table of tokens x documents says where each occurrence stands (every entry is *set*
at most once), and a program a token adds up its rows in the order of documents: no atomics, nothing to clear first, and
nothing to sort. `ordered_row_sums` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float, Int

from tokenmargin._types import AnyArray

Rows = Float[Array | np.ndarray, "N d"]
NarrowRows = Float[Array | np.ndarray, "3 N"]
Readers = Float[Array | np.ndarray, "3 d"]
Places = Int[Array, "V B"]
TokenIntegers = Int[Array, "V"]
TokenRows = Float[Array, "V d"]
TokenOverlaps = Float[Array | np.ndarray, "3 V"]


class RowTuning(NamedTuple):
    """Sizes of the programs of a kernel: columns, rows at once, warps, rows that are asked for at first, and tokens."""

    block: int
    at_once: int
    warps: int
    first: int
    tokens: int


ROW_TUNING = RowTuning(block=2048, at_once=8, warps=8, first=1, tokens=4)

#: Tokens whose occurrences one program lists.
LISTED_TOKENS = 16


class Occurrences(NamedTuple):
    """The rows of each token, in the order of documents, how many there are, and the sums of their narrow rows."""

    rows: Places  # row numbers; what stands behind the last of a token means nothing
    counts: TokenIntegers
    overlaps: TokenOverlaps  # the gradient in what is read of each token


def token_places(ids: tuple[AnyArray, ...], log_counts: tuple[AnyArray, ...], vocabulary_size: int) -> Places:
    """Return one more than the row of each token in each document, 0 where it is absent, shape (V, documents).

    Args:
        ids: token ids of each shelf, shape (B, U).
        log_counts: logarithms of the counts of each shelf; -inf at padding, which stands nowhere.
        vocabulary_size: V.
    """
    n_documents = sum(shelf.shape[0] for shelf in ids)
    tokens, documents, begin = [], [], 0
    for shelf, counts in zip(ids, log_counts, strict=True):
        tokens.append(jnp.where(counts > -jnp.inf, shelf, vocabulary_size).reshape(-1))
        documents.append((begin + jnp.arange(shelf.size, dtype=jnp.int32) // shelf.shape[1]).astype(jnp.int32))
        begin += shelf.shape[0]
    where = jnp.concatenate(tokens), jnp.concatenate(documents)
    rows = 1 + jnp.arange(where[0].shape[0], dtype=jnp.int32)
    empty = jnp.zeros((vocabulary_size, n_documents), jnp.int32)
    return empty.at[where].set(rows, mode="drop", unique_indices=True)


def occurrences(places: Places, narrow: NarrowRows, *, interpret: bool = False) -> Occurrences:
    """The rows of each token next to each other.

    Args:
        places: places of every token in every document.
        narrow: three numbers of every row, to be added up for each token.
        interpret: True if JAX evaluates the kernel operation by operation.
    """
    V, documents = places.shape
    shapes = [
        jax.ShapeDtypeStruct((V, documents), jnp.int32),
        jax.ShapeDtypeStruct((V,), jnp.int32),
        jax.ShapeDtypeStruct((narrow.shape[0], V), narrow.dtype),
    ]
    found = pl.pallas_call(
        _list_kernel,
        out_shape=shapes,
        grid=(pl.cdiv(V, LISTED_TOKENS),),
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=4, num_stages=1),
        name="occurrences",
    )(places, narrow)
    return Occurrences(*found)


def _list_kernel(places_ref: Any, narrow_ref: Any, rows_ref: Any, count_ref: Any, readings_ref: Any) -> None:
    V, documents = places_ref.shape
    token = pl.program_id(0) * LISTED_TOKENS + jnp.arange(LISTED_TOKENS, dtype=jnp.int32)
    document = jnp.arange(pl.next_power_of_2(documents), dtype=jnp.int32)
    there = (token < V)[:, None] & (document < documents)[None, :]
    place = plt.load(places_ref.at[token[:, None], document[None, :]], mask=there, other=0)
    present = (place > 0).astype(jnp.int32)
    count = jnp.sum(present, axis=1, dtype=jnp.int32)
    so_far = jnp.cumsum(present, axis=1, dtype=jnp.int32)
    # Documents without the token go behind those with it, so that every entry is written, and once.
    rank = jnp.where(place > 0, so_far - 1, count[:, None] + document[None, :] - so_far)
    plt.store(rows_ref.at[token[:, None], rank], place - 1, mask=there)
    plt.store(count_ref.at[token], count, mask=token < V)
    row = jnp.maximum(place - 1, 0)
    for k in range(narrow_ref.shape[0]):
        numbers = plt.load(narrow_ref.at[jnp.int32(k), row], mask=place > 0, other=0.0)
        plt.store(readings_ref.at[jnp.int32(k), token], jnp.sum(numbers, axis=1), mask=token < V)


def columns_inside(column: Array, width: int) -> Array:
    """Return the mask of the columns of a row; where blocks end with the rows it is all, as the compiler can see."""
    return jnp.full(column.shape, True) if width % column.shape[0] == 0 else column < width


class TokensOfProgram:
    """The tokens of one program and the sums of their rows, some columns of them.

    Tokens are far apart: where frequent ones stand side by side, no program has two of them.
    """

    def __init__(self, n_tokens: int, column: Array, inside: Array, tuning: RowTuning) -> None:
        self._column, self._inside, self._tuning = column, inside, tuning
        own = [pl.program_id(0) + i * pl.num_programs(0) for i in range(tuning.tokens)]
        self.there = [token < n_tokens for token in own]
        self.numbers = [jnp.minimum(token, n_tokens - 1) for token in own]

    def sums(self, rows_ref: Any, count_ref: Any, wide_ref: Any) -> Iterator[Array]:
        """Add up the rows of one token after the other; the first rows of all are asked for at once."""
        first, at_once = self._tuning.first, self._tuning.at_once
        last = rows_ref.shape[1] - 1

        def add(token: Any, count: Any, number: Any, n: int, total: Array) -> Array:
            for j in range(n):
                # Read whether or not there are so many: what waits for nothing is there sooner.
                row = plt.load(rows_ref.at[token, jnp.minimum(number + j, last)])
                there = (number + j < count) & self._inside
                total += plt.load(wide_ref.at[row, self._column], mask=there, other=0.0)
            return total

        zeros = jnp.zeros(self._column.shape, wide_ref.dtype)
        counts = [
            plt.load(count_ref.at[token], mask=there, other=0)
            for token, there in zip(self.numbers, self.there, strict=True)
        ]
        begun = [
            add(token, count, jnp.int32(0), first, zeros) for token, count in zip(self.numbers, counts, strict=True)
        ]
        for token, count, total in zip(self.numbers, counts, begun, strict=True):
            rounds = jnp.maximum(count - first + at_once - 1, 0) // at_once

            def more(k: Any, total: Array, token: Any = token, count: Any = count) -> Array:
                return add(token, count, first + k * at_once, at_once, total)

            yield jax.lax.fori_loop(0, rounds, more, total)


def row_sums(
    where: Occurrences, rows: Rows, readers: Readers, *, tuning: RowTuning = ROW_TUNING, interpret: bool = False
) -> TokenRows:
    """The gradient in E: the sum of the rows of each token, plus its overlaps' gradient times the readers.

    Args:
        where: each token occurs, numbering the rows of all shelves one after the other, with its overlaps' gradient.
        rows: (dG + dG')X of all shelves.
        readers: p, v and 1/d.
        tuning: how the kernel is cut into programs.
        interpret: True if JAX evaluates the kernel operation by operation.
    """
    V, d = where.counts.shape[0], rows.shape[1]
    block = min(tuning.block, pl.next_power_of_2(d))
    return pl.pallas_call(
        partial(_sum_kernel, tuning=tuning._replace(block=block)),
        out_shape=jax.ShapeDtypeStruct((V, d), rows.dtype),
        grid=(pl.cdiv(V, tuning.tokens), pl.cdiv(d, block)),
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=tuning.warps, num_stages=1),
        name="row_sums",
    )(*where, readers, rows)


def _sum_kernel(
    rows_ref: Any,
    count_ref: Any,
    readings_ref: Any,
    readers_ref: Any,
    wide_ref: Any,
    table_ref: Any,
    *,
    tuning: RowTuning,
) -> None:
    V, d = table_ref.shape
    column = pl.program_id(1) * tuning.block + jnp.arange(tuning.block, dtype=jnp.int32)
    inside = columns_inside(column, d)
    readers = [plt.load(readers_ref.at[jnp.int32(k), column], mask=inside, other=0.0) for k in range(3)]
    tokens = TokensOfProgram(V, column, inside, tuning)
    sums = tokens.sums(rows_ref, count_ref, wide_ref)
    for token, there, total in zip(tokens.numbers, tokens.there, sums, strict=True):
        for k, reader in enumerate(readers):
            total += plt.load(readings_ref.at[jnp.int32(k), token]) * reader
        plt.store(table_ref.at[token, column], total, mask=inside & there)
