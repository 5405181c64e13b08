"""Sums over documents for every token, in a fixed order: R of the one-layer gradient [E, Lemma 7].

On a CPU a scatter-add runs in sequence and costs one addition an occurrence. On an accelerator it would add in
whatever order threads arrive, so that two runs differ. There the weights are *set* into a table of documents x tokens,
every entry at most once, and columns are summed: the table is V x 128 where E is V x d.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tokenmargin._types import AnyArray

#: Ids (C, w), log-counts (C, w) and document (C,) of the pieces of a batch.
Places = tuple[AnyArray, AnyArray, AnyArray]

#: Documents of one table; a full batch of a corpus is summed table by table.
TABLE_DOCUMENTS = 256


def sums_by_token(
    weights: AnyArray, scores: AnyArray, token_scores: AnyArray, places: Places, documents: tuple[AnyArray, AnyArray]
) -> AnyArray:
    """R, shape (V, 2): sums over documents of delta q_s (g_s - f) and of delta q_s.

    Args:
        weights: q, shape (C, w), 0 at padding.
        scores: g of each token of each piece, shape (C, w).
        token_scores: g of each token, shape (V,).
        places: which token of which document each weight belongs to.
        documents: (delta, f) of each document, each of shape (B,).
    """
    return jax.lax.platform_dependent(
        weights,
        scores,
        token_scores,
        places,
        documents,
        cpu=in_sequence,
        default=by_tables,
    )


def in_sequence(
    weights: AnyArray, scores: AnyArray, token_scores: AnyArray, places: Places, documents: tuple[AnyArray, AnyArray]
) -> AnyArray:
    """R by a scatter-add, one occurrence after the other."""
    ids, _, document = places
    delta, f = (jnp.asarray(x).at[document].get(mode="fill", fill_value=0.0)[:, None] for x in documents)
    pull = delta * weights
    rows = jnp.stack([pull * (scores - f), pull], axis=2).reshape(-1, 2)
    return jnp.zeros((token_scores.shape[0], 2), weights.dtype).at[ids.reshape(-1)].add(rows)


def by_tables(
    weights: AnyArray, scores: AnyArray, token_scores: AnyArray, places: Places, documents: tuple[AnyArray, AnyArray]
) -> AnyArray:
    """R by columns of tables of documents x tokens."""
    del scores
    ids, log_counts, document = places
    delta, f = documents
    B, V = delta.shape[0], token_scores.shape[0]
    rows = min(B, TABLE_DOCUMENTS)
    n_tables = -(-B // rows)
    delta, f = (jnp.pad(x, (0, n_tables * rows - B)) for x in documents)

    def table(k: AnyArray | int) -> AnyArray:
        # Padding goes to rows outside the table; so does every document of another table. Both are dropped.
        local = document[:, None] - k * rows
        local = jnp.where((log_counts > -jnp.inf) & (local >= 0), local, rows)
        q = jnp.zeros((rows, V), weights.dtype).at[local, ids].set(weights, mode="drop", unique_indices=True)
        slope, output = (jax.lax.dynamic_slice_in_dim(x, k * rows, rows)[:, None] for x in (delta, f))
        pull = q * slope
        return jnp.stack([jnp.sum(pull * (token_scores[None, :] - output), axis=0), jnp.sum(pull, axis=0)], axis=1)

    if n_tables == 1:
        return table(0)
    return jax.lax.fori_loop(0, n_tables, lambda k, sums: sums + table(k), jnp.zeros((V, 2), weights.dtype))
