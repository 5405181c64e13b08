"""The blocks of a point: p alone, or v and p, or a matrix; each with its shape, what it is for and its speed.

Inside, a point is one vector with all blocks one after the other. A user gives, and gets, a point as it is written: an
array for one block, a tuple of arrays for several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from tokenmargin._checks import array_of, real_array
from tokenmargin.errors import InvalidInputError


class Role(Enum):
    """The purpose of a block, which decides the max-margin problem that its direction solves."""

    QUERY = "selects tokens: (ATT-SVM)"
    HEAD = "separates the labels of the selected tokens: (SVM)"


@dataclass(frozen=True)
class Block:
    """One array of a point.

    Args:
        shape: shape of the array, such as (d,) for p.
        role: purpose of the block.
        speed: every step of a method moves the block so many times as far.
    """

    shape: tuple[int, ...]
    role: Role = Role.QUERY
    speed: float = 1.0

    @property
    def size(self) -> int:
        """The number of entries."""
        return prod(self.shape)


Blocks = Mapping[str, Block]


def by_block(blocks: Blocks, points: np.ndarray) -> dict[str, np.ndarray]:
    """Points of shape (..., D) as one array for each block, of shape (..., *its own)."""
    if len(blocks) == 1:  # also a point in fewer coordinates than it came in
        ((name, block),) = blocks.items()
        return {name: points if len(block.shape) == 1 else points.reshape(*points.shape[:-1], *block.shape)}
    ends = np.cumsum([block.size for block in blocks.values()])[:-1]
    parts = np.split(points, ends, axis=-1)
    return {
        name: part.reshape(*points.shape[:-1], *block.shape)
        for (name, block), part in zip(blocks.items(), parts, strict=True)
    }


def as_written(blocks: Blocks, point: np.ndarray) -> Any:
    """A point of shape (D,) as a user writes it: an array for one block, a tuple for several."""
    parts = tuple(by_block(blocks, point).values())
    return parts[0] if len(parts) == 1 else parts


def one_vector(blocks: Blocks, point: Any, name: str) -> np.ndarray:
    """A point, as written or as one vector already, in float64 and of shape (D,); an error says what is wrong.

    Args:
        blocks: those of the risk.
        point: an array; for several blocks a tuple of arrays in their order, or a mapping by their names.
        name: by which errors call it.
    """
    parts = _parts(blocks, point, name)
    if parts is None:
        total = sum(block.size for block in blocks.values())
        whole = real_array(point, name, "(D,)") if np.ndim(array_of(point, name, _wanted(blocks))) == 1 else None
        if whole is None or whole.shape != (total,):
            shape = np.shape(array_of(point, name, _wanted(blocks)))
            raise InvalidInputError(f"{name} has shape {shape}: give {_wanted(blocks)}.")
        return whole
    vectors = []
    for (label, block), part in zip(blocks.items(), parts, strict=True):
        own = name if len(blocks) == 1 else label
        array = array_of(part, own, f"numbers of shape {block.shape}")
        is_flat = array.shape == (block.size,)
        if array.shape != block.shape and not is_flat:
            raise InvalidInputError(f"{own} has shape {array.shape}: give {_of_shape(block.shape)}.")
        vectors.append(real_array(array.reshape(-1), own, "(D,)"))
    return np.concatenate(vectors)


def are_many(blocks: Blocks, points: Any) -> bool:
    """True if these are several points: one axis more than a point has, or a list of tuples."""
    try:
        axes = np.ndim(points)
    except ValueError:  # ragged: a list of points of several blocks, or what `one_vector` refuses in words
        return len(blocks) > 1 and isinstance(points, list)
    if len(blocks) > 1:
        return isinstance(points, list | np.ndarray) and axes != 1
    ((_, block),) = blocks.items()
    return axes == len(block.shape) + 1


def _parts(blocks: Blocks, point: Any, name: str) -> list[Any] | None:
    """The arrays of a point in the order of the blocks; None where it is one vector of several blocks."""
    if len(blocks) == 1 and not isinstance(point, Mapping):
        return [point]
    if isinstance(point, Mapping):
        if set(point) != set(blocks):
            raise InvalidInputError(f"{name} has the blocks {', '.join(map(str, point))}: give {', '.join(blocks)}.")
        return [point[label] for label in blocks]
    if isinstance(point, tuple) and len(point) == len(blocks) and np.ndim(array_of(point[0], name, "numbers")):
        return list(point)
    return None


def _wanted(blocks: Blocks) -> str:
    if len(blocks) == 1:
        return _of_shape(next(iter(blocks.values())).shape)
    shapes = " and ".join(str(block.shape) for block in blocks.values())
    return f"a tuple ({', '.join(blocks)}) of arrays of shape {shapes}"


def _of_shape(shape: tuple[int, ...]) -> str:
    return f"a vector of width {shape[0]}" if len(shape) == 1 else f"an array of shape {shape}"
