"""Shapes rounded up to few sizes, so that problems of many shapes run in one compiled program.

A token that is added stands zero times, an input that is added has one token, and a coordinate that is added is zero in
every key: nothing pulls along it, and no other number changes but by rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from tokenmargin.attention._outer_keys import OuterKeys

#: n, T, d.
Shape = tuple[int, int, int]

#: Sizes up to here keep the two leading digits of their binary number, 1 2 3 4 6 8 12 ...; beyond, where the time goes
#: into the problem and not into the compiler, three: 40 48 56 64 80 ...
FEW_CLASSES = 32

#: A problem is small up to so many tokens of all inputs and so many coordinates: its numbers are then laid out beside
#: those of others, and what is added to it costs little.
FEW_TOKENS, FEW_COORDINATES = 48, 32

#: Fewer small problems than this join those of a larger class: a program takes two seconds to compile, and a problem a
#: millisecond more in a larger one.
WORTH_A_PROGRAM = 1000


def is_small(shape: tuple[int, ...]) -> bool:
    """True if problems of this shape are laid out side by side."""
    n, T, d = shape
    return n * T <= FEW_TOKENS and d <= FEW_COORDINATES


def shared_shapes(shapes: Sequence[Shape]) -> list[Shape]:
    """The shape in which each of these problems runs: its size class, or one that small classes share."""
    own = [(size_class(n), size_class(T), size_class(d)) for n, T, d in shapes]
    left, place, settled = Counter(own), {one: one for one in own}, set[Shape]()
    while waiting := sorted(set(left) - settled, key=_volume):
        here = waiting[0]
        unions = [(_union(here, one), one) for one in left if one != here]
        unions = [
            (both, one) for both, one in unions if is_small(both) and (both == one or left[one] < WORTH_A_PROGRAM)
        ]
        if left[here] >= WORTH_A_PROGRAM or not unions:
            settled.add(here)
            continue
        both, other = min(unions, key=lambda pair: (_volume(pair[0]), pair))
        left[both] += sum(left.pop(one) for one in {here, other} - {both})
        place = {one: both if at in (here, other) else at for one, at in place.items()}
    return [place[one] for one in own]


def _union(a: Shape, b: Shape) -> Shape:
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])


def _volume(shape: Shape) -> tuple[int, Shape]:
    """Numbers of a problem, and an order of those that have as many."""
    return shape[0] * shape[1] * shape[2], shape


def size_class(size: int) -> int:
    """The size at or above that a compiled program is made for."""
    unit = 1 << max(size.bit_length() - (2 if size <= FEW_CLASSES else 3), 0)
    return -(-size // unit) * unit


def in_shared_shapes(fields: Sequence[Any]) -> list[Any]:
    """Fields of one query over fixed keys in shapes that many of them share, so that few programs are compiled."""
    shapes = shared_shapes([tuple(field.keys.shape[-3:]) for field in fields])
    return [in_shape(field, shape) for field, shape in zip(fields, shapes, strict=True)]


def in_shape(field: Any, shape: Shape) -> Any:
    """A field of the same orbits with arrays of a larger shape, of one problem or a stack; itself if none is known."""
    if not field.has_fixed_scores or isinstance(field.keys, OuterKeys) or shape == field.keys.shape[-3:]:
        return field
    keys, scores, log_multiplicity = (np.asarray(x) for x in (field.keys, field.scores, field.log_multiplicity))
    arrays = filled_up(keys, scores, log_multiplicity, shape)
    return eqx.tree_at(lambda one: (one.keys, one.scores, one.log_multiplicity), field, arrays)


def filled_up(
    keys: np.ndarray, scores: np.ndarray, log_multiplicity: np.ndarray, wanted: Shape
) -> tuple[np.ndarray, ...]:
    """Keys (..., n, T, d), scores and log multiplicity (..., n, T) of one problem or a stack, in a larger shape."""
    *beside, n, T, d = keys.shape
    shape = (*beside, *wanted)
    if shape == keys.shape:
        return keys, scores, log_multiplicity
    wide, present = np.zeros(shape, keys.dtype), np.full(shape[:-1], -np.inf, log_multiplicity.dtype)
    wide[..., :n, :T, :d] = keys
    present[..., :n, :T] = log_multiplicity
    present[..., n:, 0] = 0.0  # an input has a token, or its softmax is no number
    # A loss need not be finite at every number, nor at a token's score, which no output need reach: that of the label
    # is never 0. What is added scores as the middle of an input's tokens, which is between them where they differ.
    there = np.isfinite(log_multiplicity[..., :1, :])
    lowest = np.where(there, scores[..., :1, :], np.inf).min(axis=-1, keepdims=True)
    highest = np.where(there, scores[..., :1, :], -np.inf).max(axis=-1, keepdims=True)
    gamma = np.empty(shape[:-1], scores.dtype)
    gamma[...] = lowest / 2 + highest / 2
    gamma[..., :n, :T] = scores
    return wide, gamma, present
