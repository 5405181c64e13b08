"""Sums of rows that belong to the same token, in a fixed order: an embedding gradient with the same bytes every time.

A scatter-add on a GPU adds rows of the same token by atomics, in whatever order they arrive. Here the rows are
sorted by token once (integers only, `row_order`), tokens are ranked by how often they occur, and each rank range is
one gather and one sum. Of N rows at most N/r tokens occur r times, so the widths of the rank ranges are known before
the data: rank r holds at most N/(r+1) rows, and shapes never depend on the batch. On a CPU the scatter-add is
sequential, so it is already ordered, and faster.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

RowIdsJ = Int[Array | np.ndarray, "N"]
RowsJ = Float[Array | np.ndarray, "N d"]
RangeRowsJ = Float[Array | np.ndarray, "R d"]
TokenRowsJ = Float[Array | np.ndarray, "V d"]
TokenIntegersJ = Int[Array | np.ndarray, "V"]


class RowOrder(eqx.Module):
    """Where the rows of each token stand.

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
