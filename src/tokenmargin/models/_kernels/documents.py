"""What lies between the two wide products of the two-layer model, in three or four kernels [E, (36)].

From the Gram block G of a document and what p, v and 1/d read of its tokens to the gradient in both: two softmaxes,
LayerNorm's statistics, the loss and the way back. The formulas are those of `_two_layer_block`, the slow twin. What the
rows of a document must tell each other cuts the work: LayerNorm's statistics of every row, before the second softmax;
the gradient in the scores of every row; and its transpose. All of a document in one program was slower: it fills the
registers of a multiprocessor (docs/speed.md). Nothing is read or written behind the end of a document.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tokenmargin._types import ScalarJ
from tokenmargin.models._kernels._document_rows import Cut, document_scores
from tokenmargin.models._kernels._in_turn import NARROW, TILE, Launch, Widths, launched, narrow_and_wide, pieces_of
from tokenmargin.models._kernels._narrow_documents import NARROW_CUTS, narrow_statistics, narrow_symmetric
from tokenmargin.models._kernels._wide_documents import (
    WIDE_ROWS,
    WIDE_TILES,
    squares,
    triangle,
    wide_mixed,
    wide_softmax,
    wide_symmetric,
)
from tokenmargin.models._kernels.document_values import DocumentGradients, DocumentTokens, Gram, KernelSettings
from tokenmargin.models._kernels.wide_products import most_of

#: Distinct tokens up to which a few rows of a document fit into registers.
WIDEST = 1024


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
        most_lengths: of each document, the distinct tokens that it can have; by default the width of the shelf.
    """
    scalars = jnp.stack([jnp.asarray(x, gram.dtype) for x in (bias_output, n_documents)])
    outputs: tuple[Any, ...] = ()
    gradients: tuple[Any, ...] = ()
    for widths in narrow_and_wide(most_lengths or tokens.ids.shape[1:]):
        kernels = _Kernels(tokens, settings, widths, most_of(tokens.ids, most_lengths))
        before = kernels.narrow_before(gram) if widths.is_narrow else kernels.wide_before(gram)
        of_rows, outputs = kernels.scores(before, scalars, outputs)
        gradients = kernels.symmetric(before, of_rows, gradients)
    (found, slopes), (readings, units, *symmetric) = outputs, gradients
    return DocumentGradients(found, slopes, readings, tuple(symmetric), units)


class _Before(NamedTuple):
    """What lies before the second softmax."""

    statistics: Any
    norms: Any
    attention: Any
    mixed: Any


class _OfRows(NamedTuple):
    """Gradients in LayerNorm's statistics, in |H|^2 and in the scores of every row."""

    by_row: Any
    squares: Any
    scores: Any


class _Kernels:
    """Calls of the kernels for documents of some widths."""

    def __init__(
        self, tokens: DocumentTokens, settings: KernelSettings, widths: Widths, most_lengths: tuple[int, ...]
    ) -> None:
        (B, U), dtype = tokens.ids.shape, tokens.readings.dtype
        self._tokens, self._settings, self._widths, self._most_lengths = tokens, settings, widths, most_lengths
        self._given = tokens.ids, tokens.log_counts
        shape = partial(jax.ShapeDtypeStruct, dtype=dtype)
        self._pairs, self._rows, self._documents, self._three = map(shape, ((B, U, U), (B, U), (B,), (3, B, U)))
        self._one, self._tiles = shape((1, B, U)), shape((pieces_of(U, TILE) if U > NARROW else 1, B, U))
        self._part = jax.ShapeDtypeStruct((B, U, U), jnp.float16 if settings.parts else dtype)
        self._cuts = NARROW_CUTS[settings.dot == jax.lax.DotAlgorithmPreset.TF32_TF32_F32]

    def narrow_before(self, gram: Gram) -> _Before:
        """All in one kernel."""
        shapes = [self._three, self._one, self._pairs, self._pairs]
        found = self._by_rows(narrow_statistics, self._cuts[0], shapes, gram, *self._given, self._tokens.readings)
        return _Before(*found)

    def wide_before(self, gram: Gram) -> _Before:
        """Whole rows first, then tiles."""
        shapes = [self._three, self._pairs]
        given = gram, *self._given, self._tokens.readings
        statistics, attention = self._by_rows(wide_softmax, WIDE_ROWS, shapes, *given)
        norms, mixed = self._by_tiles(wide_mixed, squares, [self._tiles, self._pairs], gram, attention)
        return _Before(statistics, norms, attention, mixed)

    def scores(self, before: _Before, scalars: Any, outputs: tuple[Any, ...]) -> tuple[_OfRows, tuple[Any, ...]]:
        """The second softmax, in both kinds of documents."""
        cut = self._cuts[1] if self._widths.is_narrow else WIDE_ROWS
        shapes = [self._three, self._rows, self._pairs, self._documents, self._documents]
        given = self._tokens.readings, self._tokens.labels, scalars, before.statistics, before.norms, before.mixed
        found = self._by_rows(document_scores, cut, shapes, before.attention, *self._given, *given, others=outputs)
        return _OfRows(*found[:3]), tuple(found[3:])

    def symmetric(self, before: _Before, of_rows: _OfRows, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients in the readings and in G, in parts, with their units."""
        shapes = [self._three, self._tiles, *[self._part] * max(1, self._settings.parts)]
        given = before.attention, *self._given, self._tokens.units, *of_rows
        if self._widths.is_narrow:
            return tuple(self._by_rows(narrow_symmetric, self._cuts[2], shapes, *given, others=gradients))
        kernel = partial(wide_symmetric, tiles=self._tiles.shape[0])
        return tuple(self._by_tiles(kernel, triangle, shapes, *given, others=gradients))

    def _by_rows(self, kernel: Any, cut: Cut, shapes: list[Any], *operands: Any, others: tuple[Any, ...] = ()) -> Any:
        of_widths = partial(kernel, widths=self._widths)
        return self._launched(
            kernel.__name__, of_widths, cut, partial(pieces_of, size=cut.rows), shapes, operands, others
        )

    def _by_tiles(
        self, kernel: Any, pieces: Any, shapes: list[Any], *operands: Any, others: tuple[Any, ...] = ()
    ) -> Any:
        name = getattr(kernel, "func", kernel).__name__
        return self._launched(name, kernel, WIDE_TILES, pieces, shapes, operands, others)

    def _launched(
        self, name: str, kernel: Any, cut: Cut, pieces: Any, shapes: list[Any], operands: Any, others: Any
    ) -> list[Any]:
        whole = partial(kernel, cut=cut, settings=self._settings)
        launch = Launch(name, whole, self._widths, pieces, cut.warps)
        lengths, interpret = self._tokens.lengths, self._settings.interpret
        return launched(launch, shapes, operands, lengths, self._most_lengths, others=others, interpret=interpret)
