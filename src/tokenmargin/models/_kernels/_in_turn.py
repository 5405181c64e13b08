"""Kernels for documents of unequal length side by side, each for the documents of its own widths.

A shelf is as wide as the longest document that there is, and its arrays have room for that; what stands behind the end
of a document is neither computed nor read nor written. Documents are cut into pieces, and a fixed number of programs
take them in turn: a program for every piece that there could be would keep a multiprocessor busy with nothing. Kernels
for narrow and for wide documents write into the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

#: Distinct tokens up to which a document is narrow: all of it is one tile of its products.
NARROW = 128

#: Rows and columns of a tile of a wide document; a row has one unit in each tile of its columns.
TILE = 64

#: Numbers that are loaded at once, where all of them may be.
AT_ONCE = 16

#: Programs that take the pieces of all documents in turn: four on each multiprocessor of an H200.
PROGRAMS = 528

Program = tuple[Any, ...]


class Widths(NamedTuple):
    """Documents of more than `above` and at most `most` distinct tokens."""

    above: int
    most: int

    @property
    def is_narrow(self) -> bool:
        """True if all of such a document is one tile."""
        return self.most <= NARROW


def narrow_and_wide(most_lengths: tuple[int, ...]) -> list[Widths]:
    """The widths that documents of at most these lengths can have, by kernels."""
    longest = max(most_lengths)
    narrow = [Widths(-1, min(longest, NARROW))]
    return narrow if longest <= NARROW else [*narrow, Widths(NARROW, longest)]


class Launch(NamedTuple):
    """A kernel for the documents of some widths."""

    name: str
    kernel: Callable[..., None]  # of operands, lengths and the arrays that it writes; `program`, what it is for
    widths: Widths
    pieces: Callable[[Any], Any]  # that a document of some length is cut into
    warps: int
    stages: int = 2
    beside: tuple[int, ...] = ()  # further axes of the grid
    programs: int = PROGRAMS  # that take the pieces in turn


def launched(
    launch: Launch,
    out_shape: list[Any],
    operands: tuple[Any, ...],
    lengths: Any,
    most_lengths: tuple[int, ...],
    *,
    others: tuple[Any, ...] = (),
    interpret: bool = False,
) -> list[Any]:
    """The arrays that a kernel writes for its documents; what it does not write means nothing.

    Args:
        launch: the kernel; a program is for (document, piece, place on the further axes).
        out_shape: shapes of the arrays.
        operands: operands of the kernel.
        lengths: lengths of the documents.
        most_lengths: most distinct tokens that each document can have; () where all are narrow and as wide as
            their shelf.
        others: arrays that kernels for other documents wrote: the last arrays are these, and what is not written stays.
        interpret: True if JAX evaluates the kernels operation by operation.
    """
    n_given = len(operands) + 1
    if most_lengths:
        kernel, grid = _for_pieces_in_turn(launch, most_lengths, len(operands))
    else:
        kernel, grid = _for_all_documents(launch, lengths.shape[0])
    found = pl.pallas_call(
        partial(_without_others, kernel=kernel, n_given=n_given, n_out=len(out_shape)),
        out_shape=out_shape,
        grid=grid,
        input_output_aliases={n_given + k: len(out_shape) - len(others) + k for k in range(len(others))},
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=launch.stages),
        name=f"{launch.name}_to{launch.widths.most}",
    )(*operands, lengths, *others)
    return list(found)


def _without_others(*refs: Any, kernel: Callable[..., None], n_given: int, n_out: int) -> None:
    """Arrays to write into are among the operands, too, and are not for the kernel."""
    kernel(*refs[:n_given], *refs[-n_out:])


def _for_all_documents(launch: Launch, n_documents: int) -> tuple[Callable[..., None], tuple[int, ...]]:
    """A program for every piece of every document, all of which are as wide as the shelf."""
    grid = (n_documents, int(launch.pieces(launch.widths.most)), *launch.beside)

    def kernel(*refs: Any) -> None:
        launch.kernel(*refs, program=tuple(pl.program_id(axis) for axis in range(len(grid))))

    return kernel, grid


def _for_pieces_in_turn(
    launch: Launch, most_lengths: tuple[int, ...], n_operands: int
) -> tuple[Callable[..., None], tuple[int, ...]]:
    """Some programs, which take the pieces of those documents that are as wide as is asked."""
    above, most = launch.widths
    at_most = sum(int(launch.pieces(min(length, most))) for length in most_lengths if length > above)
    grid = (max(1, min(at_most, launch.programs)), *launch.beside)

    def kernel(*refs: Any) -> None:
        lengths_ref = refs[n_operands]
        number = jnp.arange(pl.next_power_of_2(len(most_lengths)), dtype=jnp.int32)
        lengths = plt.load(lengths_ref.at[number], mask=number < len(most_lengths), other=-2)
        mine = (lengths > above) & (lengths <= most)
        pieces = jnp.where(mine, launch.pieces(jnp.maximum(lengths, 1)), 0)
        ends = jnp.cumsum(pieces, dtype=jnp.int32)
        first, step = pl.program_id(0), jnp.int32(grid[0])
        place = tuple(pl.program_id(1 + axis) for axis in range(len(launch.beside)))

        def one(k: Any, nothing: Any) -> Any:
            item = first + k * step
            before = ends <= item
            document = jnp.sum(before.astype(jnp.int32), dtype=jnp.int32)
            piece = item - jnp.max(jnp.where(before, ends, 0))
            launch.kernel(*refs, program=(document, piece, *place))
            return nothing

        rounds = jax.lax.div(jnp.sum(pieces, dtype=jnp.int32) - first + step - 1, step)
        jax.lax.fori_loop(0, rounds, one, jnp.int32(0))

    return kernel, grid


def pieces_of(length: Any, size: int) -> Any:
    """Pieces of this size that a document is cut into."""
    return -(-length // size) if isinstance(length, int) else jax.lax.div(length + jnp.int32(size - 1), jnp.int32(size))


def end_of_columns(length: Any, width: int) -> Any:
    """Up to where columns of pairs are read and written: past the last token, as far as numbers are loaded at once.

    If it were up to the last token, each number would have to be asked for alone, at twice the time and more. What
    stands between is 0. Where a row does not begin at a multiple of `AT_ONCE` there is nothing to be gained.
    """
    return length if width % AT_ONCE else pieces_of(length, AT_ONCE) * AT_ONCE


def triangular(number: Any) -> Any:
    """1 + 2 + ... + number: tiles on and below the diagonal."""
    both = number * (number + 1)
    return both // 2 if isinstance(number, int) else jax.lax.div(both, jnp.int32(2))


def lower_triangle(number: Any, tiles: int) -> tuple[Any, Any]:
    """(row, column) of the tile with this number, rows first, on or below the diagonal; `tiles` is the most rows."""
    row = sum(((number >= triangular(r)).astype(jnp.int32) for r in range(1, tiles)), jnp.int32(0))
    return row, number - triangular(row)
