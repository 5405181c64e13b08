"""Sums by token in a fixed order against a loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.models._sums import ordered_row_sums, rank_ranges, row_order

#: A few dozen float64 additions of numbers of order one.
ROUNDING = 1e-13

N_DOCUMENTS, N_DISTINCT, N_TOKENS = 12, 9, 23


def sums_by_loop(ids, rows, n_tokens):
    sums = np.zeros((n_tokens, rows.shape[1]))
    for token, row in zip(ids, rows, strict=True):
        if 0 <= token < n_tokens:
            sums[token] += row
    return sums


def documents(rng, favourite=True):
    """A token at most once a document; some places are nobody's, and one token may stand in every document."""
    ids = np.stack([rng.choice(N_TOKENS - 1, N_DISTINCT, replace=False) for _ in range(N_DOCUMENTS)])
    ids = np.where(rng.random(ids.shape) < 0.2, N_TOKENS, ids)
    if favourite:
        ids[:, 0] = N_TOKENS - 1
    return ids.reshape(-1)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_sums_are_those_of_a_loop(seed, favourite):
    rng = np.random.default_rng(seed)
    ids, rows = documents(rng, favourite), rng.normal(size=(N_DOCUMENTS * N_DISTINCT, 2))
    ours = _sums(ids, rows)
    np.testing.assert_allclose(ours, sums_by_loop(ids, rows, N_TOKENS), rtol=0, atol=ROUNDING)


def test_an_epoch_is_ordered_at_once(rng):
    ids = np.stack([documents(rng) for _ in range(3)])
    rows = rng.normal(size=(3, N_DOCUMENTS * N_DISTINCT, 2))
    ours = jax.vmap(_sums)(ids, rows)
    for k in range(3):
        np.testing.assert_allclose(ours[k], sums_by_loop(ids[k], rows[k], N_TOKENS), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(("n_rows", "n_tokens", "most"), [(12288, 8192, 128), (5, 40, 2), (1, 1, 1), (99, 7, 99)])
def test_ranges_cover_all_ranks_and_hold_every_token(n_rows, n_tokens, most):
    ranges = rank_ranges(n_rows, n_tokens, most)
    assert [low for low, _, _ in ranges] == [0, *(high for _, high, _ in ranges[:-1])]
    assert ranges[-1][1] == n_tokens
    # The token of rank r and all before it have at least as many rows, so it has at most n_rows/(r + 1).
    assert all(width >= min(most, n_rows // (low + 1)) for low, _, width in ranges)
    # What is gathered for a range is no larger than the rows themselves.
    assert all((high - low) * width <= n_rows for low, high, width in ranges)


def test_ranges_stay_few_and_small():
    ranges = rank_ranges(12288, 8192, 128)
    assert len(ranges) <= 10
    assert sum((high - low) * width for low, high, width in ranges) <= 10 * 12288


@jax.jit
def _sums(ids, rows):
    return ordered_row_sums(jnp.asarray(rows), row_order(jnp.asarray(ids), N_TOKENS, most=N_DOCUMENTS))
