"""What lies between the two wide products of the two-layer model, in three kernels [E, (36)].

From the Gram block G of a document and what p, v and 1/d read of its tokens to the gradient in both: two softmaxes,
LayerNorm's statistics, the loss and the way back. The formulas are those of `_two_layer_block`, the slow twin. One
program has a few rows of one document. What the rows must tell each other cuts the work in three: LayerNorm's
statistics of every row, before the second softmax; the gradient in the scores of every row; and its transpose. All of a
document in one program was slower: it fills the registers of a multiprocessor (docs/speed.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float, Int

from tokenmargin._types import ScalarJ
from tokenmargin.models._kernels.halves import in_parts, power_of_two_below

Gram = Float[Array | np.ndarray, "B U U"]
TokenReadings = Float[Array | np.ndarray, "3 V"]
TokenUnits = Float[Array | np.ndarray, "V"]
DocumentIds = Int[Array | np.ndarray, "B U"]
DocumentLengths = Int[Array | np.ndarray, "B"]
DocumentNumbers = Float[Array | np.ndarray, "B U"]
DocumentLabels = Float[Array | np.ndarray, "B"]
Pairs = Float[Array, "B U U"]
DocumentReadings = Float[Array, "3 B U"]
RowUnits = Float[Array, "B U"]

#: Distinct tokens up to which all products of a document are one tile: no loop to end early.
ONE_TILE = 128

#: Distinct tokens up to which a few rows of a document fit into registers.
WIDEST = 512


class Cut(NamedTuple):
    """How a kernel is cut into programs: rows of one, tokens that its product takes at a time, and its warps."""

    rows: int
    chunk: int
    warps: int


#: Of the kernels for statistics, scores and symmetric sums, where a matrix unit multiplies and where none does; as
#: measured at U = 96.
CUTS = {True: (Cut(32, 128, 8), Cut(8, 32, 1), Cut(16, 32, 4)), False: (Cut(16, 32, 4), Cut(8, 32, 1), Cut(16, 32, 4))}

#: What the first kernel keeps of every row besides A and AG: H p, H v, H 1/d and |H|^2.
STATISTICS = 4


@dataclass(frozen=True)
class KernelSettings:
    """What a kernel is compiled for.

    Args:
        width: d.
        epsilon: of the LayerNorm.
        parts: float16 numbers that a factor of the products is the sum of; 0 leaves the gradient as it is.
        dot: precision of the two products of U x U x U.
        mixing_scale: what G is multiplied by in the first softmax; that of the second is in the readings.
        interpret: whether JAX evaluates the kernel operation by operation, on any device.
    """

    width: int
    epsilon: float
    parts: int
    dot: Any
    mixing_scale: float = 1.0
    interpret: bool = False


class DocumentGradients(NamedTuple):
    """What one kernel tells of every document."""

    outputs: DocumentLabels  # f without the bias term
    slopes: DocumentLabels  # of the mean loss in f
    readings: DocumentReadings  # da
    symmetric: tuple[Pairs, ...]  # (dG + dG') times the units of the embeddings, in parts
    units: RowUnits  # of the rows of `symmetric`


class DocumentTokens(NamedTuple):
    """Documents, and what the table says of their tokens."""

    ids: DocumentIds
    lengths: DocumentLengths  # places up to the last token
    log_counts: DocumentNumbers
    labels: DocumentLabels
    readings: TokenReadings
    units: TokenUnits


def document_gradients(
    gram: Gram, tokens: DocumentTokens, bias_output: ScalarJ, n_documents: ScalarJ, settings: KernelSettings
) -> DocumentGradients:
    """Outputs and the gradients of the mean loss in the Gram blocks and the readings.

    Args:
        gram: G of every document.
        tokens: ids, counts, labels, and the readings and units of the table's rows.
        bias_output: what the bias of the LayerNorm adds to every output.
        n_documents: by which the mean divides.
        settings: what the kernels are compiled for.
    """
    (B, U), dtype = tokens.ids.shape, gram.dtype
    pairs = ((B, U, U), dtype)

    cuts = CUTS[settings.dot == jax.lax.DotAlgorithmPreset.TF32_TF32_F32]
    if U > ONE_TILE:  # tiles of rows x columns have to fit into registers, those of tokens x columns into shared memory
        cuts = (Cut(16, 32, 8),) * 3

    def call(kernel: Any, cut: Cut, shapes: list[Any], *operands: Any) -> Any:
        return pl.pallas_call(
            partial(kernel, cut=cut, settings=settings),
            out_shape=[jax.ShapeDtypeStruct(shape, kind) for shape, kind in shapes],
            grid=(B, pl.cdiv(U, cut.rows)),
            interpret=settings.interpret,
            compiler_params=plt.CompilerParams(num_warps=cut.warps, num_stages=2),
            name=kernel.__name__.strip("_"),
        )(*operands)

    shared = (gram, tokens.ids, tokens.lengths, tokens.log_counts)
    statistics, attention, product = call(
        _document_statistics, cuts[0], [((STATISTICS, B, U), dtype), pairs, pairs], *shared, tokens.readings
    )
    shared = (attention, tokens.ids, tokens.lengths, tokens.log_counts)
    scalars = jnp.stack([jnp.asarray(bias_output, dtype), jnp.asarray(n_documents, dtype)])
    outputs, slopes, by_reading, squares, scores = call(
        _document_scores,
        cuts[1],
        [((B,), dtype), ((B,), dtype), ((pl.cdiv(U, cuts[1].rows), 3, B, U), dtype), ((B, U), dtype), pairs],
        *shared,
        tokens.readings,
        tokens.labels,
        scalars,
        statistics,
        product,
    )
    kind = jnp.float16 if settings.parts else dtype
    units, *symmetric = call(
        _document_symmetric,
        cuts[2],
        [((B, U), dtype), *[((B, U, U), kind)] * max(1, settings.parts)],
        *shared,
        tokens.units,
        squares,
        scores,
    )
    return DocumentGradients(outputs, slopes, jnp.sum(by_reading, axis=0), tuple(symmetric), units)


class _Block:
    """The rows of one program and all columns of its document; loads are 0 outside, log-counts -inf."""

    def __init__(self, ids_ref: Any, lengths_ref: Any, log_counts_ref: Any, cut: Cut) -> None:
        self.document, self.number, self.U = pl.program_id(0), pl.program_id(1), ids_ref.shape[1]
        self.length = plt.load(lengths_ref.at[self.document])
        self.row = self.number * cut.rows + jnp.arange(cut.rows, dtype=jnp.int32)
        self.column = jnp.arange(max(16, pl.next_power_of_2(self.U)), dtype=jnp.int32)
        self.ids_ref, self.log_counts_ref, self.cut = ids_ref, log_counts_ref, cut

    def numbers(self, ref: Any, at: Array, *, other: float = 0.0) -> Array:
        return plt.load(ref.at[self.document, at], mask=at < self.U, other=other)

    def of_table(self, ref: Any, at: Array, k: int | None = None, *, other: float = 0.0) -> Array:
        """What the table says of the tokens at these places."""
        ids = plt.load(self.ids_ref.at[self.document, at], mask=at < self.U, other=0)
        where = (ids,) if k is None else (jnp.int32(k), ids)
        return plt.load(ref.at[where], mask=at < self.U, other=other)

    def statistic(self, ref: Any, k: int, at: Array) -> Array:
        return plt.load(ref.at[jnp.int32(k), self.document, at], mask=at < self.U, other=1.0)

    def pairs(self, ref: Any, at: Array, other_at: Array) -> Array:
        return plt.load(ref.at[self._where(at, other_at)], mask=self._inside(at, other_at), other=0.0)

    def store_pairs(self, ref: Any, at: Array, other_at: Array, value: Array) -> None:
        plt.store(ref.at[self._where(at, other_at)], value, mask=self._inside(at, other_at))

    def chunked(self, add: Any, start: Array) -> Array:
        """`start` plus add(places) for all places of the document, a chunk of them at a time."""
        size = min(self.cut.chunk, self.column.shape[0])
        place = jnp.arange(size, dtype=jnp.int32)
        if size >= self.U:
            return start + add(place)
        steps: Any = pl.cdiv(self.U, size)
        if self.U > ONE_TILE:  # behind the end of a document there is nothing to add, and nothing to add it to
            steps = jnp.where(self.number * self.cut.rows < self.length, (self.length + size - 1) // size, 0)
        return jax.lax.fori_loop(0, steps, lambda k, sums: sums + add(k * size + place), start)

    def diagonal(self, dtype: Any) -> Array:
        return (self.row[:, None] == self.column[None, :]).astype(dtype)

    def _where(self, at: Array, other_at: Array) -> tuple[Any, ...]:
        return self.document, at[:, None], other_at[None, :]

    def _inside(self, at: Array, other_at: Array) -> Array:
        return (at < self.U)[:, None] & (other_at < self.U)[None, :]


def _document_statistics(
    gram_ref: Any,
    ids_ref: Any,
    lengths_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    *out: Any,
    cut: Cut,
    settings: KernelSettings,
) -> None:
    """A, AG + G and the `STATISTICS` of every row."""
    statistics_ref, attention_ref, mixed_ref = out
    block = _Block(ids_ref, lengths_ref, log_counts_ref, cut)
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
        plt.store(statistics_ref.at[jnp.int32(k), block.document, row], found, mask=row < block.U)


class _Normed:
    """LayerNorm, the logits of the second softmax and its values, at some places of a document."""

    def __init__(self, block: _Block, statistics_ref: Any, at: Array, settings: KernelSettings) -> None:
        self.query, self.head, self.mean, squared = (block.statistic(statistics_ref, k, at) for k in range(4))
        variance = jnp.maximum(squared / settings.width - self.mean * self.mean, 0.0)
        self.scale = jax.lax.rsqrt(variance + settings.epsilon)
        self.logits = self.scale * self.query + block.numbers(block.log_counts_ref, at, other=-jnp.inf)
        self.values = self.scale * self.head


def _document_scores(
    attention_ref: Any,
    ids_ref: Any,
    lengths_ref: Any,
    log_counts_ref: Any,
    readings_ref: Any,
    *refs: Any,
    cut: Cut,
    settings: KernelSettings,
) -> None:
    """The second softmax, the loss, and the gradients in LayerNorm's statistics and in the scores of every row."""
    labels_ref, scalars_ref, statistics_ref, mixed_ref, *out = refs
    outputs_ref, slopes_ref, by_reading_ref, squares_ref, scores_ref = out
    block = _Block(ids_ref, lengths_ref, log_counts_ref, cut)
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
    plt.store(squares_ref.at[b, row], square, mask=row < block.U)

    attention, mixed = (block.pairs(ref, row, column) for ref in (attention_ref, mixed_ref))
    mixing = attention + block.diagonal(attention.dtype)
    # Differences to the token itself, the top one when saturated: nothing cancels.
    diagonal = jnp.sum(jnp.where(row[:, None] == column[None, :], mixed, 0.0), axis=1)
    from_own = 2.0 * square[:, None] * (mixed - diagonal[:, None])
    for k, gradient in enumerate((logits * own.scale, values * own.scale, -2.0 * own.mean * variance)):
        by_column, by_row = (block.of_table(readings_ref, at, k) for at in (column, row))
        from_own += gradient[:, None] * (by_column[None, :] - by_row[:, None])
        found = jnp.sum(mixing * gradient[:, None], axis=0)
        where = (block.number, jnp.int32(k), b, column)
        plt.store(by_reading_ref.at[where], found, mask=column < block.U)
    from_mean = from_own - jnp.sum(attention * from_own, axis=1)[:, None]
    block.store_pairs(scores_ref, row, column, settings.mixing_scale * attention * from_mean)


def _document_symmetric(
    attention_ref: Any,
    ids_ref: Any,
    lengths_ref: Any,
    log_counts_ref: Any,
    units_ref: Any,
    *refs: Any,
    cut: Cut,
    settings: KernelSettings,
) -> None:
    """dG + dG' for some rows: the gradient S in the scores, and B'QB with Q the diagonal of `squares`.

    With B = A + I, B'QB = A'QA + QA + (QA)' + Q.
    """
    squares_ref, scores_ref, row_units_ref, *symmetric_refs = refs
    block = _Block(ids_ref, lengths_ref, log_counts_ref, cut)
    row, column = block.row, block.column
    own, every = (block.numbers(squares_ref, at) for at in (row, column))

    def add(at: Array) -> Array:
        weighted = block.pairs(attention_ref, at, row) * (2.0 * block.numbers(squares_ref, at))[:, None]
        return jnp.dot(weighted.T, block.pairs(attention_ref, at, column), precision=settings.dot)

    direct = block.pairs(scores_ref, row, column) + 2.0 * own[:, None] * block.pairs(attention_ref, row, column)
    turned = block.pairs(scores_ref, column, row) + 2.0 * every[:, None] * block.pairs(attention_ref, column, row)
    own_square = 2.0 * own[:, None] * block.diagonal(direct.dtype)
    symmetric = block.chunked(add, direct + turned.T + own_square)
    if settings.parts == 0:
        parts, row_units = [symmetric], jnp.ones(row.shape, symmetric.dtype)
    else:
        # What multiplies the parts of the embeddings, as parts itself, with one unit a row.
        scaled = symmetric * block.of_table(units_ref, column, other=1.0)[None, :]
        row_scales, row_units = power_of_two_below(jnp.max(jnp.abs(scaled), axis=1))
        parts = in_parts(scaled * row_scales[:, None], settings.parts)
    plt.store(row_units_ref.at[block.document, row], row_units, mask=row < block.U)
    for ref, part in zip(symmetric_refs, parts, strict=True):
        block.store_pairs(ref, row, column, part)
