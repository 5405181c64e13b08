"""Gradient descent and normalised gradient descent [M, (3)], and the loop that takes any method's steps."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import positive
from tokenmargin._types import AnyArray
from tokenmargin.attention._lane_field import LaneField, StackedFields
from tokenmargin.attention.method import Block, Excess, Gradient, Method, State, as_data
from tokenmargin.errors import InvalidInputError

#: A point, or a lane of points, with the state of the method.
Moving = tuple[AnyArray, State]

#: Problems that advance together: their keys stay in cache while thousands of steps pass over them.
LANES = 64

#: Steps taken when the caller does not say: what the experiments of [M] use.
DEFAULT_STEPS = 1000


class Descent(Method):
    """p <- p - lr grad L(p) [M, (3)]."""

    lr: float
    is_isotropic: ClassVar[bool] = True
    takes_lanes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        """Check the learning rate."""
        positive(self.lr, "lr")

    def init(self, p: AnyArray) -> tuple[()]:
        """Nothing is kept."""
        del p
        return ()

    def step(self, gradient: Gradient, excess: Excess, state: tuple[()], p: AnyArray) -> tuple[AnyArray, tuple[()]]:
        """Along minus the gradient, by lr times its length."""
        del excess
        moves = [(self.lr * jnp.exp(block.log_scale))[None] * block.direction for block in gradient.descent]
        return p + jnp.concatenate(moves), state


class NormalizedDescent(Method):
    """p <- p - lr grad L(p) / (|grad L(p)| + epsilon).

    With epsilon = 0 the step is taken along the direction of the gradient even where the gradient itself underflows,
    so it keeps its meaning past saturation; a gradient that is exactly zero takes no step. Where v is trained too,
    each of v and p is normalised by its own gradient [M, Fig. 3].
    """

    lr: float
    epsilon: float = 0.0
    is_isotropic: ClassVar[bool] = True
    takes_lanes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        """Check learning rate and epsilon."""
        positive(self.lr, "lr")
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InvalidInputError(f"epsilon must be a finite number >= 0, got {self.epsilon!r}.")

    def init(self, p: AnyArray) -> tuple[()]:
        """Nothing is kept."""
        del p
        return ()

    def step(self, gradient: Gradient, excess: Excess, state: tuple[()], p: AnyArray) -> tuple[AnyArray, tuple[()]]:
        """Along minus the gradient, by lr (a little less where epsilon is felt)."""
        del excess
        return p + jnp.concatenate([self._move(block) for block in gradient.descent]), state

    def _move(self, block: Block) -> AnyArray:
        size = jnp.sqrt(jnp.sum(block.direction**2, axis=0))
        moving = size > 0
        log_norm = block.log_scale + jnp.log(jnp.where(moving, size, 1.0))
        # g/(|g| + epsilon) = (g/|g|) / (1 + epsilon/|g|), in logarithms so that |g| may underflow.
        damping = 1.0 + jnp.where(self.epsilon > 0, jnp.exp(jnp.log(self.epsilon) - log_norm), 0.0)
        length = jnp.where(moving, self.lr / (jnp.where(moving, size, 1.0) * damping), 0.0)
        return length[None] * block.direction


def descend(
    fields: LaneField | StackedFields,
    starts: np.ndarray,
    method: Method,
    steps: int,
    every: int,
) -> np.ndarray:
    """Run a batch for `steps` steps.

    Args:
        fields: B problems of one shape, a lane for each, in the units that their keys came in.
        starts: shape (B, r).
        method: the rule.
        steps: how many steps.
        every: record every so many steps.

    Returns:
        Points of shape (B, 1 + number recorded, r), the start first.
    """
    rule = jax.tree.map(lambda x: x.astype(starts.dtype) if eqx.is_inexact_array(x) else x, as_data(method))
    path = np.empty((len(starts), 1 + steps // every, starts.shape[1]), starts.dtype)
    path[:, 0] = starts
    for begin in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - begin)
        # A last block that is short repeats its first problem, so that one compilation serves all blocks.
        rows = begin + np.arange(min(LANES, len(starts))) % count
        passed = _descend(fields.lanes(rows), starts[rows].T, rule, steps // every, every)
        path[begin : begin + count, 1:] = np.moveaxis(np.asarray(passed), -1, 0)[:count]
    return path


@eqx.filter_jit
def _descend(fields: LaneField | StackedFields, starts: AnyArray, method: Method, records: int, every: int) -> AnyArray:
    """Points of shape (records, r, lanes)."""
    in_every_lane = method.step if method.takes_lanes else jax.vmap(method.step, in_axes=-1, out_axes=-1)

    def step(_: AnyArray, now: Moving) -> Moving:
        z, state = now
        gradient, excess = fields.descent(z)
        after, state = checked_step(in_every_lane(gradient, excess, state, z), now)
        return fields.moved(z, after), state

    def record(now: Moving, _: None) -> tuple[Moving, AnyArray]:
        now = jax.lax.fori_loop(0, every, step, now)
        return now, now[0]

    state = jax.vmap(method.init, in_axes=-1, out_axes=-1)(starts)
    return jax.lax.scan(record, (starts, state), None, length=records)[1]


def checked_step(after: object, before: Moving) -> Moving:
    """What a method's step returned, or an error that says what it should be."""

    def shape(tree: object) -> object:
        return jax.tree.map(lambda x: (jnp.shape(x), jnp.result_type(x)), tree)

    if isinstance(after, tuple) and len(after) == 2 and shape(after) == shape(before):
        return after
    raise InvalidInputError(
        f"a method's step must return (p, state) with the shapes and dtypes of init's: {shape(before)}, got "
        f"{shape(after)}."
    )
