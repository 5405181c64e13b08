"""E'R for a table E (V, d) and a few numbers a row R (k, V), in one pass at the speed of memory.

A program adds up some rows of some columns, in a fixed order, and the compiler adds up the programs'.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float

Table = Float[Array | np.ndarray, "V d"]
RowNumbers = Float[Array | np.ndarray, "k V"]
ColumnSums = Float[Array, "k d"]


class ColumnTuning(NamedTuple):
    """Columns, rows at once and rows in all of a program, and its warps."""

    block: int
    at_once: int
    rows: int
    warps: int


COLUMN_TUNING = ColumnTuning(block=256, at_once=16, rows=128, warps=4)


def column_sums(
    E: Table, numbers: RowNumbers, *, tuning: ColumnTuning = COLUMN_TUNING, interpret: bool = False
) -> ColumnSums:
    """numbers @ E."""
    (V, d), k = E.shape, numbers.shape[0]
    blocks = pl.cdiv(V, tuning.rows)
    found = pl.pallas_call(
        partial(_kernel, tuning=tuning),
        out_shape=jax.ShapeDtypeStruct((blocks, k, d), E.dtype),
        grid=(pl.cdiv(d, tuning.block), blocks),
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=tuning.warps, num_stages=1),
        name="column_sums",
    )(E, numbers)
    return jnp.sum(found, axis=0)


def _kernel(E_ref: Any, numbers_ref: Any, sums_ref: Any, *, tuning: ColumnTuning) -> None:
    (V, d), k = E_ref.shape, numbers_ref.shape[0]
    column = pl.program_id(0) * tuning.block + jnp.arange(tuning.block, dtype=jnp.int32)
    begin = pl.program_id(1) * tuning.rows

    def add(step: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        row = begin + step * tuning.at_once + jnp.arange(tuning.at_once, dtype=jnp.int32)
        there = (row < V)[:, None] & (column < d)[None, :]
        x = plt.load(E_ref.at[row[:, None], column[None, :]], mask=there, other=0.0)
        weights = [plt.load(numbers_ref.at[jnp.int32(i), row], mask=row < V, other=0.0) for i in range(k)]
        return tuple(total + x * w[:, None] for total, w in zip(sums, weights, strict=True))

    zeros = jnp.zeros((tuning.at_once, tuning.block), E_ref.dtype)
    totals = jax.lax.fori_loop(0, tuning.rows // tuning.at_once, add, (zeros,) * k)
    for i, total in enumerate(totals):
        where = (pl.program_id(1), jnp.int32(i), column)
        plt.store(sums_ref.at[where], jnp.sum(total, axis=0), mask=column < d)
