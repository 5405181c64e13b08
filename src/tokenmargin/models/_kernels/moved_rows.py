"""A step of an optimiser on E in one pass, from the rows of which its gradient is the sum.

The gradient in E of two layers is, for each token, a sum of rows over its occurrences and three overlaps times their
readers. As an array it would be written and read once more. Here a program has whole rows of E and of the optimiser's
state: it forms their gradient, moves them, and writes them where the old ones stood. `row_sums` and the optimiser's own
step are the slow twins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float

from tokenmargin._types import AnyArray
from tokenmargin.models._kernels.token_rows import (
    Occurrences,
    Readers,
    Rows,
    RowTuning,
    TokensOfProgram,
    columns_inside,
    row_sums,
)

Table = Float[Array | np.ndarray, "V d"]
StepNumbers = Float[Array | np.ndarray, "k"]

#: `step` of an optimiser: (row of its numbers, parameter, gradient, state) -> (parameter, state), entry by entry.
Rule = Callable[[Any, Any, Any, tuple[Any, ...]], tuple[Any, tuple[Any, ...]]]

MOVE_TUNING = RowTuning(block=2048, at_once=4, warps=8, first=1, tokens=2)


class RowsGradient(eqx.Module):
    """The gradient in E, not yet added up.

    Args:
        where: each token occurs, numbering all rows, with the gradient in what is read of it.
        rows: which are added up for each token.
        readers: by which the tokens are read: p, v and 1/d.
        interpret: True if JAX evaluates the kernels operation by operation.
    """

    where: Occurrences
    rows: Rows
    readers: Readers
    interpret: bool = eqx.field(static=True, default=False)

    def entries(self) -> Table:
        """Return the gradient as an array."""
        return row_sums(self.where, self.rows, self.readers, interpret=self.interpret)

    def moved(
        self, rule: Rule, row: StepNumbers, E: Table, state: tuple[AnyArray, ...], *, tuning: RowTuning = MOVE_TUNING
    ) -> tuple[Array, tuple[Array, ...]]:
        """E and its state after a step, in place of those before.

        Args:
            rule: rule of the optimiser, made of operations that kernels have.
            row: its numbers of this step.
            E: the embeddings.
            state: arrays that the optimiser keeps for them, each of their shape.
            tuning: how the kernel is cut into programs.
        """
        V, d = E.shape
        block = min(tuning.block, pl.next_power_of_2(d))
        given = (*self.where, self.readers, self.rows, row)
        table, *new_state = pl.pallas_call(
            partial(_kernel, rule=rule, tuning=tuning._replace(block=block)),
            out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (E, *state)],
            grid=(pl.cdiv(V, tuning.tokens), pl.cdiv(d, block)),
            input_output_aliases={len(given) + k: k for k in range(1 + len(state))},
            interpret=self.interpret,
            compiler_params=plt.CompilerParams(num_warps=tuning.warps, num_stages=1),
            name="moved_rows",
        )(*given, E, *state)
        return table, tuple(new_state)


def _kernel(
    rows_ref: Any,
    count_ref: Any,
    readings_ref: Any,
    readers_ref: Any,
    wide_ref: Any,
    row_ref: Any,
    *refs: Any,
    rule: Rule,
    tuning: RowTuning,
) -> None:
    old, new = refs[: len(refs) // 2], refs[len(refs) // 2 :]
    V, d = old[0].shape
    column = pl.program_id(1) * tuning.block + jnp.arange(tuning.block, dtype=jnp.int32)
    inside = columns_inside(column, d)
    numbers = [plt.load(row_ref.at[jnp.int32(k)]) for k in range(row_ref.shape[0])]
    tokens = TokensOfProgram(V, column, inside, tuning)
    # All that does not wait for the occurrences is asked for before them.
    here = [[plt.load(ref.at[token, column], mask=inside, other=0.0) for ref in old] for token in tokens.numbers]
    readers = [plt.load(readers_ref.at[jnp.int32(k), column], mask=inside, other=0.0) for k in range(3)]
    sums = tokens.sums(rows_ref, count_ref, wide_ref)
    for token, there, (x, *state), gradient in zip(tokens.numbers, tokens.there, here, sums, strict=True):
        for k, reader in enumerate(readers):
            gradient += plt.load(readings_ref.at[jnp.int32(k), token]) * reader
        x, new_state = rule(numbers, x, gradient, tuple(state))
        for ref, entries in zip(new, (x, *new_state), strict=True):
            plt.store(ref.at[token, column], entries, mask=inside & there)
