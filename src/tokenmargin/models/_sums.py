"""Sums over the occurrences of each token, in a fixed order: gradients with the same bytes every time.

A scatter-add on a CPU runs in sequence: it is ordered, and fast. On an accelerator it adds by atomics, in whatever
order threads arrive, so that two runs differ. Two other ways are taken there.

Two numbers a token, R of the one-layer gradient [E, Lemma 7] (`sums_by_token`): the weights are *set* into a table of
documents x tokens, every entry at most once, and columns are summed; the table is V x 128 where E is V x d.

Rows as wide as E, of the two-layer gradient (`ordered_row_sums`): the rows are sorted by token once (integers only,
`row_order`), tokens are ranked by how often they occur, and each rank range is one gather and one sum. Of N rows at
most N/r tokens occur r times, so the widths of the rank ranges are known before the data: rank r holds at most N/(r+1)
rows, and shapes never depend on the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._types import AnyArray

RowIdsJ = Int[Array | np.ndarray, "N"]
RowsJ = Float[Array | np.ndarray, "N d"]
RangeRowsJ = Float[Array | np.ndarray, "R d"]
TokenRowsJ = Float[Array | np.ndarray, "V d"]
TokenIntegersJ = Int[Array | np.ndarray, "V"]
TokenNumbers = Float[Array | np.ndarray, "V"]
TokenPairs = Float[Array | np.ndarray, "V 2"]
PieceIds = Int[Array | np.ndarray, "C w"]
PieceNumbers = Float[Array | np.ndarray, "C w"]
PieceDocuments = Int[Array | np.ndarray, "C"]
DocumentNumbers = Float[Array | np.ndarray, "B"]

#: Documents of one table; a full batch of a corpus is summed table by table.
TABLE_DOCUMENTS = 256


class PieceTokens(NamedTuple):
    """Tokens in the pieces of a batch, and their attention weights and scores."""

    ids: PieceIds
    log_counts: PieceNumbers  # -inf at padding
    document: PieceDocuments  # of each piece; B for a piece that is padding
    weights: PieceNumbers  # q, 0 at padding
    scores: PieceNumbers  # g of each token of each piece


class DocumentSlopes(NamedTuple):
    """The output of each document, and the slope of the loss in it."""

    slopes: DocumentNumbers  # delta
    outputs: DocumentNumbers  # f


def sums_by_token(tokens: PieceTokens, token_scores: TokenNumbers, documents: DocumentSlopes) -> TokenPairs:
    """R, shape (V, 2): sums over documents of delta q_s (g_s - f) and of delta q_s; `token_scores` is g, shape (V,)."""
    return jax.lax.platform_dependent(tokens, token_scores, documents, cpu=in_sequence, default=by_tables)


def in_sequence(tokens: PieceTokens, token_scores: TokenNumbers, documents: DocumentSlopes) -> TokenPairs:
    """R by a scatter-add, one occurrence after the other."""
    delta, f = (jnp.asarray(x).at[tokens.document].get(mode="fill", fill_value=0.0)[:, None] for x in documents)
    pull = delta * tokens.weights
    rows = jnp.stack([pull * (tokens.scores - f), pull], axis=2).reshape(-1, 2)
    return jnp.zeros((token_scores.shape[0], 2), tokens.weights.dtype).at[tokens.ids.reshape(-1)].add(rows)


def by_tables(tokens: PieceTokens, token_scores: TokenNumbers, documents: DocumentSlopes) -> TokenPairs:
    """R by columns of tables of documents x tokens."""
    B, V, dtype = documents.slopes.shape[0], token_scores.shape[0], tokens.weights.dtype
    rows = min(B, TABLE_DOCUMENTS)
    n_tables = -(-B // rows)
    padded = [jnp.pad(x, (0, n_tables * rows - B)) for x in documents]

    def table(k: AnyArray | int) -> AnyArray:
        # Padding goes to rows outside the table; so does every document of another table. Both are dropped.
        local = tokens.document[:, None] - k * rows
        local = jnp.where((tokens.log_counts > -jnp.inf) & (local >= 0), local, rows)
        q = jnp.zeros((rows, V), dtype).at[local, tokens.ids].set(tokens.weights, mode="drop", unique_indices=True)
        slope, output = (jax.lax.dynamic_slice_in_dim(x, k * rows, rows)[:, None] for x in padded)
        pull = q * slope
        return jnp.stack([jnp.sum(pull * (token_scores[None, :] - output), axis=0), jnp.sum(pull, axis=0)], axis=1)

    if n_tables == 1:
        return table(0)
    return jax.lax.fori_loop(0, n_tables, lambda k, sums: sums + table(k), jnp.zeros((V, 2), dtype))


class RowOrder(eqx.Module):
    """Order of rows by token.

    Args:
        order: row numbers sorted by token, shape (N,); equal tokens keep their order.
        rank: place of each token among all when the most frequent comes first, shape (V,).
        start: where the rows of the token of each rank begin in `order`, shape (V,).
        count: how many rows the token of each rank has, shape (V,).
        most: no token has more rows than this (documents of a batch: a document names a token once).
    """

    order: RowIdsJ
    rank: TokenIntegersJ
    start: TokenIntegersJ
    count: TokenIntegersJ
    most: int = eqx.field(static=True)


def row_order(ids: RowIdsJ, n_tokens: int, most: int) -> RowOrder:
    """Sort rows by token; an id outside 0..n_tokens-1 belongs to none. Integers only, so it can be vmapped ahead.

    The promise `most` is not checked, because the counts are not known while tracing: rows beyond it are dropped.
    """
    ids = jnp.where((ids >= 0) & (ids < n_tokens), ids, n_tokens)
    order = jnp.argsort(ids, stable=True)
    edges = jnp.searchsorted(ids[order], jnp.arange(n_tokens + 1))
    count = jnp.diff(edges)
    by_count = jnp.argsort(-count, stable=True)
    rank = jnp.zeros(n_tokens, by_count.dtype).at[by_count].set(jnp.arange(n_tokens), unique_indices=True)
    return RowOrder(order, rank, edges[:-1][by_count], count[by_count], most)


def ordered_row_sums(rows: RowsJ, where: RowOrder) -> TokenRowsJ:
    """Sum of the rows of each token, shape (V, d); tokens without rows get zeros."""
    n_rows, n_tokens = rows.shape[0], where.rank.shape[0]
    ranges = rank_ranges(n_rows, n_tokens, where.most)
    by_rank = jnp.concatenate([_rank_range(rows, where, *ends_and_width) for ends_and_width in ranges])
    return by_rank.at[where.rank].get(mode="promise_in_bounds")


def rank_ranges(n_rows: int, n_tokens: int, most: int) -> list[tuple[int, int, int]]:
    """(low, high, width): tokens of rank low..high-1 have at most `width` rows each; ranges double."""
    ranges, low = [], 0
    while low < n_tokens:
        width = min(most, n_rows // (low + 1))
        if width == 0:
            ranges.append((low, n_tokens, 0))
            break
        # All ranks with the same bound belong together, and so does everything up to twice this rank.
        high = min(n_tokens, max(2 * low, n_rows // width, low + 1))
        ranges.append((low, high, width))
        low = high
    return ranges


def _rank_range(rows: RowsJ, where: RowOrder, low: int, high: int, width: int) -> RangeRowsJ:
    if width == 0:
        return jnp.zeros((high - low, rows.shape[1]), rows.dtype)
    place = jnp.arange(width)[None, :]
    there = place < where.count[low:high, None]
    row = jnp.asarray(where.order).at[where.start[low:high, None] + place].get(mode="clip")
    picked = jnp.asarray(rows).at[jnp.where(there, row, 0)].get(mode="promise_in_bounds")
    return jnp.sum(jnp.where(there[:, :, None], picked, 0), axis=1)
