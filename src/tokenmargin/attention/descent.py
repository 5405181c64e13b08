"""Gradient descent and normalised gradient descent [M, (3)], and the loop that takes any method's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import fits_in_memory, not_negative, positive
from tokenmargin._types import AnyArray
from tokenmargin.attention._lane_field import LaneField, StackedFields
from tokenmargin.attention._scaled import ScaledVector, length
from tokenmargin.attention.method import Excess, Gradient, Method, State, as_data
from tokenmargin.errors import InvalidInputError
from tokenmargin.norms import L2

#: A point, or a lane of points, with the state of the method.
Moving = tuple[AnyArray, State]

#: Problems that advance together: their keys stay in cache while thousands of steps pass over them.
LANES = 64

#: Steps taken when the caller does not say: what the experiments of [M] use.
DEFAULT_STEPS = 1000

#: Numbers that one compiled call moves at most, about a quarter of a second of them, and the most steps it takes:
#: a signal, such as Ctrl-C, is heard between two calls.
WORK_AT_ONCE, STEPS_AT_ONCE = 2**27, 2**17


class Descent(Method):
    """p <- p - lr grad L(p) [M, (3)]."""

    lr: float
    takes_lanes: ClassVar[bool] = True
    geometry = L2()

    def __check_init__(self) -> None:
        """Check the learning rate."""
        positive(self.lr, "lr")

    def step(self, gradient: Gradient, excess: Excess, state: tuple[()], p: AnyArray) -> tuple[AnyArray, tuple[()]]:
        """Along minus the gradient, by lr times its length."""
        del excess
        moves = [(self.lr * jnp.exp(block.log_scale))[None] * block.direction for block in gradient.descent]
        return p + jnp.concatenate(moves), state


class NormalizedDescent(Method):
    """p <- p - lr grad L(p) / (|grad L(p)| + epsilon).

    With epsilon = 0 the step is taken along the direction of the gradient even where the gradient itself underflows,
    so it keeps its meaning past saturation; a gradient that is exactly zero takes no step. Where v is trained too,
    each of v and p is normalised by its own gradient [M, Fig. 3]; K and Q of a product are normalised together.
    """

    lr: float
    epsilon: float = 0.0
    takes_lanes: ClassVar[bool] = True
    geometry = L2()

    def __check_init__(self) -> None:
        """Check learning rate and epsilon."""
        positive(self.lr, "lr")
        not_negative(self.epsilon, "epsilon")

    def step(self, gradient: Gradient, excess: Excess, state: tuple[()], p: AnyArray) -> tuple[AnyArray, tuple[()]]:
        """Along minus the gradient, by lr (a little less where epsilon is felt)."""
        del excess
        blocks = gradient.descent
        if gradient.as_one:
            blocks = (ScaledVector(jnp.concatenate([one.direction for one in blocks]), blocks[0].log_scale),)
        return p + jnp.concatenate([self._move(block) for block in blocks]), state

    def _move(self, block: ScaledVector) -> AnyArray:
        size = length(block.direction)
        moving = size > 0
        log_norm = block.log_scale + jnp.log(jnp.where(moving, size, 1.0))
        # g/(|g| + epsilon) = (g/|g|) / (1 + epsilon/|g|), in logarithms so that |g| may underflow.
        damping = 1.0 + jnp.where(self.epsilon > 0, jnp.exp(jnp.log(self.epsilon) - log_norm), 0.0)
        reach = jnp.where(moving, self.lr / (jnp.where(moving, size, 1.0) * damping), 0.0)
        return reach[None] * block.direction


def descend(
    fields: LaneField | StackedFields,
    starts: np.ndarray,
    method: Method,
    steps: int,
    every: int,
    counts: bool = False,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Run a batch for `steps` steps.

    Args:
        fields: B problems of one shape, a lane for each, in the units that their keys came in.
        starts: shape (B, r).
        method: the rule.
        steps: how many steps.
        every: record every so many steps.
        counts: True if the weights of tokens are summed.

    Returns:
        (points of shape (B, 1 + number recorded, r), the start first; weights of tokens, shape (B, 1 + number, n, T)):
        the sum over all steps so far of the tokens' weights in the gradient times the length of the step. None where
        the field does not say them, or they were not asked for.
    """
    rule = jax.tree.map(lambda x: x.astype(starts.dtype) if eqx.is_inexact_array(x) else x, as_data(method))
    records = steps // every
    fits_in_memory(
        (1 + records) * starts.size,
        f"a path of {records} points of each of {len(starts)} runs",
        "keep fewer with every=, or only the ends with keep_path=False",
        starts.dtype.itemsize,
    )
    path = np.empty((len(starts), 1 + records, starts.shape[1]), starts.dtype)
    path[:, 0] = starts
    weights: np.ndarray | None = None
    for begin in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - begin)
        # A last block that is short repeats its first problem, so that one compilation serves all blocks.
        rows = begin + np.arange(min(LANES, len(starts))) % count
        lanes, now = fields.lanes(rows), None
        for first, at_once, spacing in _spans(records, every, _steps_at_once(lanes)):
            loop = None if spacing == 1 else np.asarray(spacing)
            now, passed = _descend(lanes, starts[rows].T, now, rule, at_once, loop, counts)
            kept, own = slice(1 + first, 1 + first + at_once), slice(begin, begin + count)
            path[own, kept] = np.moveaxis(np.asarray(passed[0]), -1, 0)[:count]
            if passed[1] is not None:
                summed = np.moveaxis(np.asarray(passed[1]), -1, 0)[:count]
                weights = np.zeros((len(starts), 1 + records, *summed.shape[2:])) if weights is None else weights
                weights[own, kept] = summed
    return path, weights


def _steps_at_once(lanes: LaneField | StackedFields) -> int:
    """Steps of one compiled call, from the numbers that a step passes over."""
    numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(lanes))
    return int(np.clip(WORK_AT_ONCE // max(numbers, 1), 1, STEPS_AT_ONCE))


def _spans(records: int, every: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(first record, records, steps a record) of one call after another; a record of many steps is met several times.

    Of the calls that share a record the last writes what stays.
    """
    together = max(1, most // every)
    for first in range(0, records, together):
        at_once = min(together, records - first)
        for done in range(0, every, most):
            yield first, at_once, min(most, every - done)


@eqx.filter_jit
def _descend(
    fields: LaneField | StackedFields,
    starts: AnyArray,
    begun: tuple[Moving, AnyArray | None] | None,
    method: Method,
    records: int,
    every: AnyArray | None,
    counts: bool,
) -> tuple[tuple[Moving, AnyArray | None], tuple[AnyArray, AnyArray | None]]:
    """Last point, state and weights, and those recorded, of shapes (records, r, lanes) and (records, n, T, lanes).

    The number of steps from one record to the next, None for one, is no part of the program: all numbers share it.
    """

    def in_every_lane(function: Callable[..., Any]) -> Callable[..., Any]:
        return function if method.takes_lanes else jax.vmap(function, in_axes=-1, out_axes=-1)

    def step(now: tuple[Moving, AnyArray | None]) -> tuple[Moving, AnyArray | None]:
        (z, state), weights = now
        gradient, excess = fields.descent(z)
        after, state = checked_step(in_every_lane(method.step)(gradient, excess, state, z), now[0])
        after = fields.moved(z, after)
        if weights is not None:
            weights = weights + in_every_lane(method.counted)(z, after)[None, None] * gradient.net
        return (after, state), weights

    def record(now: tuple[Moving, AnyArray | None], _: None) -> tuple[Any, tuple[AnyArray, AnyArray | None]]:
        now = step(now) if every is None else jax.lax.fori_loop(0, every, lambda _, so_far: step(so_far), now)
        return now, (now[0][0], now[1])

    if begun is None:
        gradient, _ = fields.descent(starts)
        state = jax.vmap(method.begin, in_axes=-1, out_axes=-1)(gradient, starts)
        begun = (starts, state), jnp.zeros_like(gradient.net) if counts and gradient.net is not None else None
    return jax.lax.scan(record, begun, None, length=records)


def checked_step(after: object, before: Moving) -> Moving:
    """Return the answer of a method's step, or raise an error that says what it should be."""

    def shape(tree: object) -> object:
        return jax.tree.map(lambda x: (jnp.shape(x), jnp.result_type(x)), tree)

    if isinstance(after, tuple) and len(after) == 2 and shape(after) == shape(before):
        return after
    raise InvalidInputError(
        f"a method's step must return (p, state) with the shapes and dtypes of init's: {shape(before)}, got "
        f"{shape(after)}."
    )
