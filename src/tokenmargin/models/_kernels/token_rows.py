"""Sums of wide rows over the occurrences of each token, in the order of documents: the same bytes every time.

A document names a token once, so a table of tokens x documents says where each occurrence stands (every entry is *set*
at most once), and a program a token adds up its rows in the order of documents: no atomics, nothing to clear first, and
nothing to sort. `ordered_row_sums` is the slow twin.
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

from tokenmargin._types import AnyArray

Rows = Float[Array | np.ndarray, "N d"]
NarrowRows = Float[Array | np.ndarray, "3 N"]
Readers = Float[Array | np.ndarray, "3 d"]
Places = Int[Array, "V B"]
TokenIntegers = Int[Array, "V"]
TokenRows = Float[Array, "V d"]
TokenReadings = Float[Array, "3 V"]


class RowTuning(NamedTuple):
    """How the kernel is cut into programs: columns, rows at once, warps, rows that are asked for
    at first, and tokens."""

    block: int
    at_once: int
    warps: int
    first: int
    tokens: int


ROW_TUNING = RowTuning(block=2048, at_once=8, warps=8, first=1, tokens=4)

#: Tokens whose occurrences one program lists.
LISTED_TOKENS = 16


class Occurrences(NamedTuple):
    """The rows of each token, in the order of documents, and how many there are."""

    rows: Places  # row numbers; what stands behind the last of a token means nothing
    counts: TokenIntegers


def token_places(ids: tuple[AnyArray, ...], log_counts: tuple[AnyArray, ...], vocabulary_size: int) -> Places:
    """Where each token stands in each document: one more than its row, 0 where it does not, shape (V, documents).

    Args:
        ids: of each shelf, shape (B, U).
        log_counts: of each shelf; -inf at padding, which stands nowhere.
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


def occurrences(places: Places, *, interpret: bool = False) -> Occurrences:
    """The rows of each token next to each other."""
    V, documents = places.shape
    rows, count = pl.pallas_call(
        _list_kernel,
        out_shape=[jax.ShapeDtypeStruct((V, documents), jnp.int32), jax.ShapeDtypeStruct((V,), jnp.int32)],
        grid=(pl.cdiv(V, LISTED_TOKENS),),
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=4, num_stages=1),
        name="occurrences",
    )(places)
    return Occurrences(rows, count)


def _list_kernel(places_ref: Any, rows_ref: Any, count_ref: Any) -> None:
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


def row_sums(
    where: Occurrences,
    rows: Rows,
    narrow: NarrowRows,
    readers: Readers,
    *,
    tuning: RowTuning = ROW_TUNING,
    interpret: bool = False,
) -> tuple[TokenRows, TokenReadings]:
    """The gradient in E, sum of the rows of each token plus its readings' gradient times the readers; and the latter.

    Args:
        where: each token occurs, numbering the rows of all shelves one after the other.
        rows: (dG + dG')X of all shelves.
        narrow: da of all shelves.
        readers: p, v and 1/d.
        tuning: how the kernel is cut into programs.
        interpret: whether JAX evaluates the kernel operation by operation.
    """
    V, d = where.counts.shape[0], rows.shape[1]
    block = min(tuning.block, pl.next_power_of_2(d))
    return pl.pallas_call(
        partial(_sum_kernel, tuning=tuning._replace(block=block)),
        out_shape=[jax.ShapeDtypeStruct((V, d), rows.dtype), jax.ShapeDtypeStruct((3, V), rows.dtype)],
        grid=(pl.cdiv(V, tuning.tokens), pl.cdiv(d, block)),
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=tuning.warps, num_stages=1),
        name="row_sums",
    )(*where, narrow, readers, rows)


def _sum_kernel(
    rows_ref: Any, count_ref: Any, narrow_ref: Any, readers_ref: Any, *refs: Any, tuning: RowTuning
) -> None:
    wide_ref, table_ref, readings_ref = refs
    V, d = table_ref.shape
    column = pl.program_id(1) * tuning.block + jnp.arange(tuning.block, dtype=jnp.int32)
    inside = jnp.full(column.shape, True) if d % tuning.block == 0 else column < d
    last = rows_ref.shape[1] - 1

    def add(token: Any, count: Any, number: Any, at_once: int, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        wide, *thin = sums
        for j in range(at_once):
            there = number + j < count
            # Read whether or not there are so many: what waits for nothing is there sooner.
            row = plt.load(rows_ref.at[token, jnp.minimum(number + j, last)])
            wide += plt.load(wide_ref.at[row, column], mask=there & inside, other=0.0)
            more = (plt.load(narrow_ref.at[jnp.int32(i), row], mask=there, other=0.0) for i in range(3))
            thin = [a + b for a, b in zip(thin, more, strict=True)]
        return (wide, *thin)

    # Tokens far apart: where frequent ones stand side by side, no program has two of them.
    tokens = [pl.program_id(0) + i * pl.num_programs(0) for i in range(tuning.tokens)]
    counts = [plt.load(count_ref.at[token], mask=token < V, other=0) for token in tokens]
    zero = jnp.zeros((), table_ref.dtype)
    start = (jnp.zeros(tuning.block, table_ref.dtype), zero, zero, zero)
    tokens = [jnp.minimum(token, V - 1) for token in tokens]
    firsts = [add(*known, jnp.int32(0), tuning.first, start) for known in zip(tokens, counts, strict=True)]
    readers = [plt.load(readers_ref.at[jnp.int32(k), column], mask=inside, other=0.0) for k in range(3)]
    for token, count, first, i in zip(tokens, counts, firsts, range(tuning.tokens), strict=True):
        rounds = jnp.maximum(count - tuning.first + tuning.at_once - 1, 0) // tuning.at_once

        def more(k: Any, sums: tuple[Array, ...], token: Any = token, count: Any = count) -> tuple[Array, ...]:
            return add(token, count, tuning.first + k * tuning.at_once, tuning.at_once, sums)

        wide, *thin = jax.lax.fori_loop(0, rounds, more, first)
        there = pl.program_id(0) + i * pl.num_programs(0) < V
        for k in range(3):
            wide += thin[k] * readers[k]
            plt.store(readings_ref.at[jnp.int32(k), token], thin[k], mask=there)
        plt.store(table_ref.at[token, column], wide, mask=inside & there)
