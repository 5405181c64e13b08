"""Kernels for documents of unequal length side by side, each for the documents of its own widths.

A shelf is as wide as the longest document that there is, and its arrays have room for that; what stands behind the end
of a document is neither computed nor read nor written. A kernel needs sizes that are known when it is compiled, so it
comes in a few, and a program that is not for its document ends at once. All write into the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

#: Distinct tokens up to which all of a document is one tile of its products.
ONE_TILE = 128


class WidthClass(NamedTuple):
    """Documents of more than `above` and at most `most` distinct tokens; only the first `documents` can be such."""

    above: int
    most: int
    documents: int


def width_classes(most_lengths: tuple[int, ...], ends: tuple[int, ...]) -> list[WidthClass]:
    """Classes that there can be documents in, narrow ones first.

    Args:
        most_lengths: of each document, the distinct tokens that it has at most.
        ends: the most distinct tokens of each class, ascending; of the last it is what the longest document has.
    """
    found, above, longest = [], -1, max(most_lengths)
    for end in (*(end for end in ends if end < longest), longest):
        reach = [place + 1 for place, length in enumerate(most_lengths) if length > above]
        found.append(WidthClass(above, end, reach[-1]))
        above = end
    return found


Program = tuple[Any, ...]


class Launch(NamedTuple):
    """One of the kernels that write the same arrays."""

    kernel: Callable[..., None]  # of operands, lengths and the arrays that it writes; `program`, its place in the grid
    width_class: WidthClass
    grid: tuple[int, ...]
    document: int  # the axis of the grid that runs over documents
    begin: Callable[[Program], Any]  # of what a program computes: a place in its document
    warps: int
    stages: int


def in_turn(
    name: str,
    launches: list[Launch],
    out_shape: list[Any],
    operands: tuple[Any, ...],
    lengths: Any,
    *,
    others: tuple[Any, ...] = (),
    interpret: bool = False,
) -> list[Any]:
    """Arrays that kernels write one after the other, each for its own documents; what none writes means nothing.

    Args:
        name: of the kernels.
        launches: the kernels.
        out_shape: of the arrays.
        operands: of all kernels.
        lengths: of the documents, by which a program tells whether it is for its document.
        others: arrays to write into, in which what none writes stays; without them they are made.
        interpret: whether JAX evaluates the kernels operation by operation.
    """
    found = list(others)
    for launch in launches:
        n_given = len(operands) + 1
        found = pl.pallas_call(
            partial(_of_own_documents, launch=launch, n_given=n_given, n_out=len(out_shape)),
            out_shape=out_shape,
            grid=launch.grid,
            input_output_aliases={n_given + k: k for k in range(len(found))},
            interpret=interpret,
            compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=launch.stages),
            name=f"{name}_to{launch.width_class.most}",
        )(*operands, lengths, *found)
    return list(found)


def _of_own_documents(*refs: Any, launch: Launch, n_given: int, n_out: int) -> None:
    """The kernel, in the programs of documents of its class, up to their ends."""
    given, out = refs[:n_given], refs[-n_out:]
    program = tuple(pl.program_id(axis) for axis in range(len(launch.grid)))
    length = plt.load(given[-1].at[program[launch.document]])
    mine = (length > launch.width_class.above) & (length <= launch.width_class.most)
    is_inside = launch.begin(program) < jnp.maximum(length, 1)
    pl.when(mine & is_inside)(lambda: launch.kernel(*given, *out, program=program))


def steps_of(length: Any, width_class: WidthClass, size: int) -> Any:
    """Pieces of this size that a document has; the most of its class where that is one tile, known when compiling."""
    if width_class.most <= ONE_TILE and width_class.above < 0:
        return pl.cdiv(width_class.most, size)
    return jax.lax.div(length + jnp.int32(size - 1), jnp.int32(size))
