"""Some rows of a document in one program of a kernel, and its second softmax from there to the loss [E, (36)]."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array

from tokenmargin.models._kernels._in_turn import Program, Widths, end_of_columns
from tokenmargin.models._kernels.document_values import KernelSettings

#: Number of statistics kept of every row of H = AX + X besides |H|^2: H p, H v and H 1/d.
STATISTICS = 3


class Cut(NamedTuple):
    """Sizes of the programs of a kernel: rows of one, tokens that its product takes at a time, its warps, its stages.

    Stages are how many chunks are on their way at once; with one, a chunk is loaded when its turn comes.
    """

    rows: int
    chunk: int
    warps: int
    stages: int = 2


class Block:
    """Some rows of a document and some or all of its columns; loads are 0 behind its end, log-counts -inf."""

    def __init__(self, ids_ref: Any, log_counts_ref: Any, lengths_ref: Any, program: Program, rows: int) -> None:
        self.document = program[0]
        self.length = plt.load(lengths_ref.at[self.document])
        self.row = program[1] * rows + jnp.arange(rows, dtype=jnp.int32)
        self.ids_ref, self.log_counts_ref = ids_ref, log_counts_ref

    def numbers(self, ref: Any, at: Array, k: Any = None, *, other: float = 0.0) -> Array:
        """Load a number for each of these tokens of the document; of the k-th kind, where there are several."""
        where = (self.document, at) if k is None else (jnp.int32(k), self.document, at)
        return plt.load(ref.at[where], mask=at < self.length, other=other)

    def store_numbers(self, ref: Any, at: Array, value: Array, k: Any = None, *, if_: Any = True) -> None:
        """Store a number for each of these tokens of the document."""
        where = (self.document, at) if k is None else (jnp.int32(k), self.document, at)
        plt.store(ref.at[where], value, mask=(at < self.length) & if_)

    def log_counts(self, at: Array) -> Array:
        """Load the logarithms of the counts of these tokens."""
        return self.numbers(self.log_counts_ref, at, other=-jnp.inf)

    def of_table(self, ref: Any, at: Array, k: int | None = None, *, other: float = 0.0) -> Array:
        """Load the entries of the table for these tokens."""
        ids = plt.load(self.ids_ref.at[self.document, at], mask=at < self.length, other=0)
        where = (ids,) if k is None else (jnp.int32(k), ids)
        return plt.load(ref.at[where], mask=at < self.length, other=other)

    def pairs(self, ref: Any, at: Array, other_at: Array) -> Array:
        """Load a number for each pair of tokens."""
        return plt.load(ref.at[self._where(at, other_at)], mask=self._inside(ref, at, other_at), other=0.0)

    def store_pairs(self, ref: Any, at: Array, other_at: Array, value: Array, *, if_: Any = True) -> None:
        """Store a number for each pair of tokens."""
        plt.store(ref.at[self._where(at, other_at)], value, mask=self._inside(ref, at, other_at) & if_)

    def _where(self, at: Array, other_at: Array) -> tuple[Any, ...]:
        return self.document, at[:, None], other_at[None, :]

    def _inside(self, ref: Any, at: Array, other_at: Array) -> Array:
        return (at < self.length)[:, None] & (other_at < end_of_columns(self.length, ref.shape[-1]))[None, :]


def columns_of(widths: Widths) -> Array:
    """All places of a document, and behind them as many as a kernel needs."""
    return jnp.arange(max(16, pl.next_power_of_2(widths.most)), dtype=jnp.int32)


def softmax_of_rows(block: Block, gram: Array, column: Array, settings: KernelSettings) -> tuple[Array, Array, Array]:
    """A of some rows; the largest score of each, and what A was divided by."""
    scores = settings.mixing_scale * gram + block.log_counts(column)[None, :]
    top = jnp.max(scores, axis=1)
    exponentials = jnp.exp(scores - top[:, None])
    total = jnp.sum(exponentials, axis=1)
    return exponentials / total[:, None], top, total


def diagonal(row: Array, column: Array, dtype: Any) -> Array:
    """The unit matrix at these rows and columns."""
    return (row[:, None] == column[None, :]).astype(dtype)


def store_statistics(block: Block, statistics_ref: Any, readings_ref: Any, mixing: Array, column: Array) -> None:
    """Store the products of H = BX with p, v and 1/d, from the rows of B = A + I."""
    for k in range(STATISTICS):
        read = jnp.sum(mixing * block.of_table(readings_ref, column, k)[None, :], axis=1)
        block.store_numbers(statistics_ref, block.row, read, k)


class Normed:
    """LayerNorm, the logits of the second softmax and its values, at some places of a document."""

    def __init__(self, block: Block, statistics_ref: Any, squared: Array, at: Array, settings: KernelSettings) -> None:
        self.query, self.head, self.mean = (block.numbers(statistics_ref, at, k, other=1.0) for k in range(STATISTICS))
        variance = jnp.maximum(squared / settings.width - self.mean * self.mean, 0.0)
        self.scale = jax.lax.rsqrt(variance + settings.epsilon)
        self.logits = self.scale * self.query + block.log_counts(at)
        self.values = self.scale * self.head


class SecondSoftmax:
    """The second softmax of a document, its output and the loss; and from there the gradients in LayerNorm."""

    def __init__(self, block: Block, every: Normed, column: Array, labels_ref: Any, scalars_ref: Any) -> None:
        self._largest = jnp.max(every.logits)
        exponentials = jnp.exp(every.logits - self._largest)
        self._total = jnp.sum(exponentials)
        # Differences to the value of the top token: past saturation y_t - sum w y would cancel to noise there.
        first = jnp.min(jnp.where(every.logits == self._largest, column, column.shape[0]))
        self._top = jnp.sum(jnp.where(column == first, every.values, 0.0))
        self._shift = jnp.sum(exponentials * (every.values - self._top)) / self._total
        label = plt.load(labels_ref.at[block.document])
        self.output = self._top + self._shift
        signed = label * (self.output + plt.load(scalars_ref.at[jnp.int32(0)]))
        self.slope = -label / (1.0 + jnp.exp(signed)) / plt.load(scalars_ref.at[jnp.int32(1)])

    def store(self, block: Block, at: Array, own: Normed, width: int, refs: Any) -> tuple[Array, tuple[Array, ...]]:
        """The output and the slope of the document; at some places the gradients in |H|^2 and in H p, H v and H 1/d.

        What was stored of the places is returned.
        """
        by_row_ref, squares_ref, outputs_ref, slopes_ref = refs
        plt.store(outputs_ref.at[block.document], self.output)
        plt.store(slopes_ref.at[block.document], self.slope)
        values = self.slope * jnp.exp(own.logits - self._largest) / self._total
        logits = values * (own.values - self._top - self._shift)
        variance = -0.5 * own.scale * own.scale * own.scale * (logits * own.query + values * own.head)
        square, gradients = variance / width, (logits * own.scale, values * own.scale, -2.0 * own.mean * variance)
        block.store_numbers(squares_ref, at, square)
        for k, gradient in enumerate(gradients):
            block.store_numbers(by_row_ref, at, gradient, k)
        return square, gradients


def score_gradients(
    block: Block,
    column: Array,
    attention: Array,
    mixed: Array,
    readings_ref: Any,
    square: Array,
    gradients: Any,
) -> Array:
    """A (F - sum_j A F) of some rows, F_ij = 2 q_i (M_ij - M_ii) + sum_k g_ki (a_kj - a_ki) with M = AG + G."""
    row = block.row
    # Differences to the token itself, the top one when saturated: nothing cancels.
    own_mixed = jnp.sum(jnp.where(row[:, None] == column[None, :], mixed, 0.0), axis=1)
    from_own = 2.0 * square[:, None] * (mixed - own_mixed[:, None])
    for k, gradient in enumerate(gradients):
        by_column, by_row = (block.of_table(readings_ref, at, k) for at in (column, row))
        from_own += gradient[:, None] * (by_column[None, :] - by_row[:, None])
    return attention * (from_own - jnp.sum(attention * from_own, axis=1)[:, None])
