"""What lies between the two wide products of the two-layer model, in three kernels [E, (36)].

From the Gram block G of a document and what p, v and 1/d read of its tokens to the gradient in both: two softmaxes,
LayerNorm's statistics, the loss and the way back. The formulas are those of `_two_layer_block`, the slow twin. One
program has a few rows of one document. What the rows must tell each other cuts the work in three: LayerNorm's
statistics of every row, before the second softmax; the gradient in the scores of every row; and its transpose. All of a
document in one program was slower: it fills the registers of a multiprocessor (docs/speed.md). Nothing is read or
written behind the end of a document.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array

from tokenmargin._types import ScalarJ
from tokenmargin.models._kernels.document_values import DocumentGradients, DocumentTokens, Gram, KernelSettings
from tokenmargin.models._kernels.halves import in_parts, power_of_two_below
from tokenmargin.models._kernels.in_turn import ONE_TILE, Launch, Program, WidthClass, in_turn, steps_of, width_classes

#: Distinct tokens up to which a few rows of a document fit into registers.
WIDEST = 1024

#: Kernels are compiled for rows of these many places.
COLUMNS = (ONE_TILE, 256, 512, WIDEST)


class Cut(NamedTuple):
    """How a kernel is cut into programs: rows of one, tokens that its product takes at a time, and its warps."""

    rows: int
    chunk: int
    warps: int


#: Of the kernels for statistics, scores and symmetric sums, where a matrix unit multiplies and where none does; as
#: measured at U = 96.
CUTS = {True: (Cut(32, 128, 8), Cut(8, 32, 1), Cut(16, 32, 4)), False: (Cut(16, 32, 4), Cut(8, 32, 1), Cut(16, 32, 4))}

#: Of wider documents: tiles of rows x columns have to fit into registers, those of tokens x columns into shared memory.
WIDE_CUTS = {256: (Cut(16, 32, 8),) * 3, 512: (Cut(16, 32, 8),) * 3, WIDEST: (Cut(16, 16, 16),) * 3}

#: What the first kernel keeps of every row besides A and AG: H p, H v, H 1/d and |H|^2.
STATISTICS = 4


def document_gradients(
    gram: Gram,
    tokens: DocumentTokens,
    bias_output: ScalarJ,
    n_documents: ScalarJ,
    settings: KernelSettings,
    most_lengths: tuple[int, ...] = (),
) -> DocumentGradients:
    """Outputs and the gradients of the mean loss in the Gram blocks and the readings.

    Args:
        gram: G of every document.
        tokens: ids, counts, labels, and the readings and units of the table's rows.
        bias_output: what the bias of the LayerNorm adds to every output.
        n_documents: by which the mean divides.
        settings: what the kernels are compiled for.
        most_lengths: of each document, the distinct tokens that it has at most; by default the width of the shelf.
    """
    (B, U), dtype = tokens.ids.shape, gram.dtype
    pairs, rows = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((B, U, U), (B, U)))
    classes = width_classes(most_lengths or (U,) * B, COLUMNS)

    def call(kernel: Any, number: int, shapes: list[Any], *operands: Any) -> list[Any]:
        launches = [_launch(kernel, number, one, settings) for one in classes]
        name = kernel.__name__.strip("_")
        return in_turn(name, launches, shapes, operands, tokens.lengths, interpret=settings.interpret)

    given = tokens.ids, tokens.log_counts
    statistics, attention, mixed = call(
        _document_statistics, 0, [_of_rows(STATISTICS, rows), pairs, pairs], gram, *given, tokens.readings
    )
    scalars = jnp.stack([jnp.asarray(bias_output, dtype), jnp.asarray(n_documents, dtype)])
    documents = jax.ShapeDtypeStruct((B,), dtype)
    outputs, slopes, by_row, squares, scores = call(
        _document_scores,
        1,
        [documents, documents, _of_rows(3, rows), rows, pairs],
        attention,
        *given,
        tokens.readings,
        tokens.labels,
        scalars,
        statistics,
        mixed,
    )
    part = jax.ShapeDtypeStruct(pairs.shape, jnp.float16 if settings.parts else dtype)
    readings, units, *symmetric = call(
        _document_symmetric,
        2,
        [_of_rows(3, rows), rows, *[part] * max(1, settings.parts)],
        attention,
        *given,
        tokens.units,
        by_row,
        squares,
        scores,
    )
    return DocumentGradients(outputs, slopes, readings, tuple(symmetric), units)


def _of_rows(numbers: int, rows: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((numbers, *rows.shape), rows.dtype)


def _launch(kernel: Any, number: int, width_class: WidthClass, settings: KernelSettings) -> Launch:
    """The first, second or third kernel for documents of one class."""
    columns = max(16, pl.next_power_of_2(width_class.most))
    by_matrix_unit = settings.dot == jax.lax.DotAlgorithmPreset.TF32_TF32_F32
    cut = (CUTS[by_matrix_unit] if columns <= ONE_TILE else WIDE_CUTS[columns])[number]
    return Launch(
        partial(kernel, cut=cut, width_class=width_class, settings=settings),
        width_class,
        (width_class.documents, pl.cdiv(width_class.most, cut.rows)),
        0,
        lambda program: program[1] * cut.rows,
        cut.warps,
        stages=2,
    )


class _Block:
    """The rows of one program and all columns of its document; loads are 0 behind its end, log-counts -inf."""

    def __init__(
        self,
        ids_ref: Any,
        lengths_ref: Any,
        log_counts_ref: Any,
        program: Program,
        cut: Cut,
        width_class: WidthClass,
    ) -> None:
        self.document, number = program
        self.length = plt.load(lengths_ref.at[self.document])
        self.row = number * cut.rows + jnp.arange(cut.rows, dtype=jnp.int32)
        self.column = jnp.arange(max(16, pl.next_power_of_2(width_class.most)), dtype=jnp.int32)
        self.ids_ref, self.log_counts_ref, self.cut, self.width_class = ids_ref, log_counts_ref, cut, width_class

    def numbers(self, ref: Any, at: Array, k: int | None = None, *, other: float = 0.0) -> Array:
        """Of places of the document; of the k-th kind, where there are several."""
        where = (self.document, at) if k is None else (jnp.int32(k), self.document, at)
        return plt.load(ref.at[where], mask=at < self.length, other=other)

    def store_numbers(self, ref: Any, value: Array, k: int | None = None) -> None:
        """Of the rows of this program."""
        where = (self.document, self.row) if k is None else (jnp.int32(k), self.document, self.row)
        plt.store(ref.at[where], value, mask=self.row < self.length)

    def of_table(self, ref: Any, at: Array, k: int | None = None, *, other: float = 0.0) -> Array:
        """What the table says of the tokens at these places."""
        ids = plt.load(self.ids_ref.at[self.document, at], mask=at < self.length, other=0)
        where = (ids,) if k is None else (jnp.int32(k), ids)
        return plt.load(ref.at[where], mask=at < self.length, other=other)

    def pairs(self, ref: Any, at: Array, other_at: Array) -> Array:
        return plt.load(ref.at[self._where(at, other_at)], mask=self._inside(at, other_at), other=0.0)

    def store_pairs(self, ref: Any, at: Array, other_at: Array, value: Array) -> None:
        plt.store(ref.at[self._where(at, other_at)], value, mask=self._inside(at, other_at))

    def chunked(self, add: Any, start: Array) -> Array:
        """`start` plus add(places) for all places of the document, a chunk of them at a time."""
        size = min(self.cut.chunk, self.column.shape[0])
        place = jnp.arange(size, dtype=jnp.int32)
        if size >= self.width_class.most:
            return start + add(place)
        steps = steps_of(self.length, self.width_class, size)
        return jax.lax.fori_loop(0, steps, lambda k, sums: sums + add(k * size + place), start)

    def diagonal(self, dtype: Any) -> Array:
        return (self.row[:, None] == self.column[None, :]).astype(dtype)

    def _where(self, at: Array, other_at: Array) -> tuple[Any, ...]:
        return self.document, at[:, None], other_at[None, :]

    def _inside(self, at: Array, other_at: Array) -> Array:
        return (at < self.length)[:, None] & (other_at < self.length)[None, :]


def _document_statistics(
    gram_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    lengths_ref: Any,
    *out: Any,
    program: Program,
    cut: Cut,
    width_class: WidthClass,
    settings: KernelSettings,
) -> None:
    """A, AG + G and the `STATISTICS` of every row."""
    statistics_ref, attention_ref, mixed_ref = out
    block = _Block(ids_ref, lengths_ref, log_counts_ref, program, cut, width_class)
    row, column = block.row, block.column
    gram = block.pairs(gram_ref, row, column)
    scores = settings.mixing_scale * gram + block.numbers(log_counts_ref, column, other=-jnp.inf)[None, :]
    top = jnp.max(scores, axis=1)
    exponentials = jnp.exp(scores - top[:, None])
    total = jnp.sum(exponentials, axis=1)
    attention = exponentials / total[:, None]

    def add(at: Array) -> Array:
        left = attention
        if at.shape[0] < block.column.shape[0]:  # part of the columns, which must be formed anew
            log_counts = block.numbers(log_counts_ref, at, other=-jnp.inf)
            part = settings.mixing_scale * block.pairs(gram_ref, row, at) + log_counts[None, :]
            left = jnp.exp(part - top[:, None]) / total[:, None]
        return jnp.dot(left, block.pairs(gram_ref, at, column), precision=settings.dot)

    mixed = block.chunked(add, gram)
    mixing = attention + block.diagonal(attention.dtype)
    block.store_pairs(attention_ref, row, column, attention)
    block.store_pairs(mixed_ref, row, column, mixed)
    read = [jnp.sum(mixing * block.of_table(readings_ref, column, k)[None, :], axis=1) for k in range(3)]
    for k, found in enumerate([*read, jnp.sum(mixing * mixed, axis=1)]):
        block.store_numbers(statistics_ref, found, k)


class _Normed:
    """LayerNorm, the logits of the second softmax and its values, at some places of a document."""

    def __init__(self, block: _Block, statistics_ref: Any, at: Array, settings: KernelSettings) -> None:
        self.query, self.head, self.mean, squared = (block.numbers(statistics_ref, at, k, other=1.0) for k in range(4))
        variance = jnp.maximum(squared / settings.width - self.mean * self.mean, 0.0)
        self.scale = jax.lax.rsqrt(variance + settings.epsilon)
        self.logits = self.scale * self.query + block.numbers(block.log_counts_ref, at, other=-jnp.inf)
        self.values = self.scale * self.head


def _document_scores(
    attention_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    *refs: Any,
    program: Program,
    cut: Cut,
    width_class: WidthClass,
    settings: KernelSettings,
) -> None:
    """The second softmax, the loss, and the gradients in LayerNorm's statistics and in the scores of every row."""
    labels_ref, scalars_ref, statistics_ref, mixed_ref, lengths_ref, *out = refs
    outputs_ref, slopes_ref, by_row_ref, squares_ref, scores_ref = out
    block = _Block(ids_ref, lengths_ref, log_counts_ref, program, cut, width_class)
    row, column, b = block.row, block.column, block.document
    every = _Normed(block, statistics_ref, column, settings)
    largest = jnp.max(every.logits)
    exponentials = jnp.exp(every.logits - largest)
    total = jnp.sum(exponentials)
    # Differences to the value of the top token: past saturation y_t - sum w y would cancel to noise there.
    first = jnp.min(jnp.where(every.logits == largest, column, column.shape[0]))
    top = jnp.sum(jnp.where(column == first, every.values, 0.0))
    shift = jnp.sum(exponentials * (every.values - top)) / total

    label = plt.load(labels_ref.at[b])
    signed = label * (top + shift + plt.load(scalars_ref.at[jnp.int32(0)]))
    slope = -label / (1.0 + jnp.exp(signed)) / plt.load(scalars_ref.at[jnp.int32(1)])
    plt.store(outputs_ref.at[b], top + shift)
    plt.store(slopes_ref.at[b], slope)

    own = _Normed(block, statistics_ref, row, settings)
    values = slope * jnp.exp(own.logits - largest) / total
    logits = values * (own.values - top - shift)
    variance = -0.5 * own.scale * own.scale * own.scale * (logits * own.query + values * own.head)
    square = variance / settings.width
    block.store_numbers(squares_ref, square)

    attention, mixed = (block.pairs(ref, row, column) for ref in (attention_ref, mixed_ref))
    # Differences to the token itself, the top one when saturated: nothing cancels.
    diagonal = jnp.sum(jnp.where(row[:, None] == column[None, :], mixed, 0.0), axis=1)
    from_own = 2.0 * square[:, None] * (mixed - diagonal[:, None])
    for k, gradient in enumerate((logits * own.scale, values * own.scale, -2.0 * own.mean * variance)):
        by_column, by_row = (block.of_table(readings_ref, at, k) for at in (column, row))
        from_own += gradient[:, None] * (by_column[None, :] - by_row[:, None])
        block.store_numbers(by_row_ref, gradient, k)
    from_mean = from_own - jnp.sum(attention * from_own, axis=1)[:, None]
    block.store_pairs(scores_ref, row, column, settings.mixing_scale * attention * from_mean)


def _document_symmetric(
    attention_ref: Any,
    ids_ref: Any,
    log_counts_ref: Any,
    units_ref: Any,
    *refs: Any,
    program: Program,
    cut: Cut,
    width_class: WidthClass,
    settings: KernelSettings,
) -> None:
    """dG + dG' for some rows: the gradient S in the scores, and B'QB with Q the diagonal of `squares`; and B'g.

    With B = A + I, B'QB = A'QA + QA + (QA)' + Q. Of g there are three: what each row of BX says of p, v and 1/d.
    """
    by_row_ref, squares_ref, scores_ref, lengths_ref, readings_ref, row_units_ref, *symmetric_refs = refs
    block = _Block(ids_ref, lengths_ref, log_counts_ref, program, cut, width_class)
    row, column = block.row, block.column
    own, every = (block.numbers(squares_ref, at) for at in (row, column))
    to_row = block.pairs(attention_ref, column, row)
    for k in range(3):
        found = jnp.sum(to_row * block.numbers(by_row_ref, column, k)[:, None], axis=0)
        block.store_numbers(readings_ref, found + block.numbers(by_row_ref, row, k), k)

    def add(at: Array) -> Array:
        weighted = block.pairs(attention_ref, at, row) * (2.0 * block.numbers(squares_ref, at))[:, None]
        return jnp.dot(weighted.T, block.pairs(attention_ref, at, column), precision=settings.dot)

    direct = block.pairs(scores_ref, row, column) + 2.0 * own[:, None] * block.pairs(attention_ref, row, column)
    turned = block.pairs(scores_ref, column, row) + 2.0 * every[:, None] * to_row
    own_square = 2.0 * own[:, None] * block.diagonal(direct.dtype)
    symmetric = block.chunked(add, direct + turned.T + own_square)
    if settings.parts == 0:
        parts, row_units = [symmetric], jnp.ones(row.shape, symmetric.dtype)
    else:
        # What multiplies the parts of the embeddings, as parts itself, with one unit a row.
        scaled = symmetric * block.of_table(units_ref, column, other=1.0)[None, :]
        row_scales, row_units = power_of_two_below(jnp.max(jnp.abs(scaled), axis=1))
        parts = in_parts(scaled * row_scales[:, None], settings.parts)
    block.store_numbers(row_units_ref, row_units)
    for ref, part in zip(symmetric_refs, parts, strict=True):
        block.store_pairs(ref, row, column, part)
