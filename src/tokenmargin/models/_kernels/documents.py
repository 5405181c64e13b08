"""Everything between the two wide products of the two-layer model, in three or four kernels [E, (36)].

From the Gram block G of a document and what p, v and 1/d read of its tokens to the gradient in both: two softmaxes,
LayerNorm's statistics, the loss and the way back. The formulas are those of `_two_layer_block`, the slow twin. What the
rows of a document must tell each other cuts the work: LayerNorm's statistics of every row, before the second softmax;
the gradient in the scores of every row; and its transpose. All of a document in one program was slower: it fills the
registers of a multiprocessor (docs/speed.md). Nothing is read or written behind the end of a document.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tokenmargin._types import ScalarJ
from tokenmargin.models._kernels._document_rows import Cut
from tokenmargin.models._kernels._in_turn import NARROW, TILE, Launch, Widths, launched, narrow_and_wide, pieces_of
from tokenmargin.models._kernels._narrow_documents import (
    NARROW_CUTS,
    narrow_scores,
    narrow_statistics,
    narrow_symmetric,
)
from tokenmargin.models._kernels._wide_documents import (
    WIDE_CUTS,
    squares,
    triangle,
    wide_mixed,
    wide_overlaps,
    wide_scores,
    wide_second_softmax,
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
    """Outputs and the gradients of the mean loss in the Gram blocks and the overlaps.

    Args:
        gram: G of every document.
        tokens: ids, counts, labels, and the overlaps and units of the table's rows.
        bias_output: number that the bias of the LayerNorm adds to every output.
        n_documents: number by which the mean divides.
        settings: numbers that the kernels are compiled for.
        most_lengths: most distinct tokens that each document can have; by default the width of the shelf.
    """
    scalars = jnp.stack([jnp.asarray(x, gram.dtype) for x in (bias_output, n_documents)])
    outputs: tuple[Any, ...] = ()
    gradients: tuple[Any, ...] = ()
    for widths in narrow_and_wide(most_lengths or tokens.ids.shape[1:]):
        kernels = _Kernels(tokens, settings, widths, most_of(tokens.ids, most_lengths))
        compute = kernels.narrow if widths.is_narrow else kernels.wide
        outputs, gradients = compute(gram, scalars, outputs, gradients)
    (found, slopes), (overlaps, units, *symmetric) = outputs, gradients
    return DocumentGradients(found, slopes, overlaps, tuple(symmetric), units)


_Found = tuple[tuple[Any, ...], tuple[Any, ...]]


class _Kernels:
    """Calls of the kernels for documents of some widths, which write beside what was written for others."""

    def __init__(
        self, tokens: DocumentTokens, settings: KernelSettings, widths: Widths, most_lengths: tuple[int, ...]
    ) -> None:
        (B, U), dtype = tokens.ids.shape, tokens.overlaps.dtype
        self._tokens, self._settings, self._widths, self._most_lengths = tokens, settings, widths, most_lengths
        self._given = tokens.ids, tokens.log_counts
        shape = partial(jax.ShapeDtypeStruct, dtype=dtype)
        self._pairs, self._rows, self._documents, self._three = map(shape, ((B, U, U), (B, U), (B,), (3, B, U)))
        self._tiles = shape((pieces_of(U, TILE) if U > NARROW else 1, B, U))
        part = jax.ShapeDtypeStruct((B, U, U), jnp.float16 if settings.parts else dtype)
        self._gradients = [self._three, self._tiles, *[part] * max(1, settings.parts)]

    def narrow(self, gram: Gram, scalars: Any, outputs: tuple[Any, ...], gradients: tuple[Any, ...]) -> _Found:
        """Rows of all columns, in three kernels."""
        tokens, given = self._tokens, self._given
        first, second, third = NARROW_CUTS[self._settings.dot == jax.lax.DotAlgorithmPreset.TF32_TF32_F32]
        statistics, norms, attention, mixed = self._by_rows(
            narrow_statistics,
            first,
            [self._three, self._rows, self._pairs, self._pairs],
            (gram, *given, tokens.overlaps),
        )
        *of_rows, output, slope = self._by_rows(
            narrow_scores,
            second,
            [self._three, self._rows, self._pairs, self._documents, self._documents],
            (attention, *given, tokens.overlaps, tokens.labels, scalars, statistics, norms, mixed),
            outputs,
        )
        operands = (attention, *given, tokens.units, *of_rows)
        found = self._by_rows(narrow_symmetric, third, self._gradients, operands, gradients)
        return (output, slope), tuple(found)

    def wide(self, gram: Gram, scalars: Any, outputs: tuple[Any, ...], gradients: tuple[Any, ...]) -> _Found:
        """Rows for the first softmax and its gradient, whole documents for the second, tiles for the products."""
        tokens, given = self._tokens, self._given
        statistics, attention = self._by_rows(
            wide_softmax, WIDE_CUTS.softmax, [self._three, self._pairs], (gram, *given, tokens.overlaps)
        )
        norms, mixed = self._by_tiles(
            wide_mixed, WIDE_CUTS.tiles, squares, [self._tiles, self._pairs], (gram, attention)
        )
        by_row, of_rows, output, slope = self._by_rows(
            wide_second_softmax,
            WIDE_CUTS.second_softmax,
            [self._three, self._rows, self._documents, self._documents],
            (statistics, *given, tokens.labels, scalars, norms),
            outputs,
            pieces=lambda length: length * 0 + 1,
        )
        (scores,) = self._by_rows(
            wide_scores, WIDE_CUTS.scores, [self._pairs], (attention, *given, tokens.overlaps, mixed, by_row, of_rows)
        )
        columns = partial(pieces_of, size=WIDE_CUTS.overlaps.rows)
        overlaps = self._by_tiles(
            wide_overlaps, WIDE_CUTS.overlaps, columns, self._gradients[:1], (attention, by_row), gradients[:1]
        )
        kernel = partial(wide_symmetric, tiles=self._tiles.shape[0])
        operands = (attention, *given, tokens.units, of_rows, scores)
        symmetric = self._by_tiles(kernel, WIDE_CUTS.tiles, triangle, self._gradients[1:], operands, gradients[1:])
        return (output, slope), (*overlaps, *symmetric)

    def _by_rows(
        self, kernel: Any, cut: Cut, shapes: list[Any], operands: Any, others: tuple[Any, ...] = (), pieces: Any = None
    ) -> list[Any]:
        pieces = pieces or partial(pieces_of, size=cut.rows)
        return self._launched(kernel, partial(kernel, widths=self._widths), cut, pieces, shapes, operands, others)

    def _by_tiles(
        self, kernel: Any, cut: Cut, pieces: Any, shapes: list[Any], operands: Any, others: tuple[Any, ...] = ()
    ) -> list[Any]:
        return self._launched(getattr(kernel, "func", kernel), kernel, cut, pieces, shapes, operands, others)

    def _launched(
        self, named: Any, kernel: Any, cut: Cut, pieces: Any, shapes: list[Any], operands: Any, others: Any
    ) -> list[Any]:
        whole = partial(kernel, cut=cut, settings=self._settings)
        launch = Launch(named.__name__, whole, self._widths, pieces, cut.warps, cut.stages)
        lengths, interpret = self._tokens.lengths, self._settings.interpret
        return launched(launch, shapes, operands, lengths, self._most_lengths, others=others, interpret=interpret)
