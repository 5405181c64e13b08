"""Gradient descent and normalised gradient descent on p [M, (3)]."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import positive
from tokenmargin._types import AnyArray
from tokenmargin.attention._lane_field import LaneField
from tokenmargin.errors import InvalidInputError

#: Problems that advance together: their keys stay in cache while thousands of steps pass over them.
LANES = 64

#: Steps taken when the caller does not say: what the experiments of [M] use.
DEFAULT_STEPS = 1000


@dataclass(frozen=True)
class Descent:
    """p <- p - lr grad L(p) [M, (3)]."""

    lr: float

    def __post_init__(self) -> None:
        """Check the learning rate."""
        positive(self.lr, "lr")


@dataclass(frozen=True)
class NormalizedDescent:
    """p <- p - lr grad L(p) / (|grad L(p)| + epsilon).

    With epsilon = 0 the step is taken along the direction of the gradient even where the gradient itself underflows,
    so it keeps its meaning past saturation; a gradient that is exactly zero takes no step.
    """

    lr: float
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        """Check learning rate and epsilon."""
        positive(self.lr, "lr")
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InvalidInputError(f"epsilon must be a finite number >= 0, got {self.epsilon!r}.")


def descend(
    fields: LaneField,
    starts: np.ndarray,
    kappa: np.ndarray,
    method: Descent | NormalizedDescent,
    steps: int,
    every: int,
) -> np.ndarray:
    """Run a batch for `steps` steps, in the coordinates y = kappa Q'p.

    Args:
        fields: B problems of one shape, a lane for each.
        starts: shape (B, r).
        kappa: shape (B,), the scale of each problem's coordinates.
        method: the rule.
        steps: how many steps.
        every: record every so many steps.

    Returns:
        Points of shape (B, 1 + number recorded, r), the start first.
    """
    rates = jnp.asarray(method.lr, starts.dtype), jnp.asarray(getattr(method, "epsilon", 0.0), starts.dtype)
    normalized = isinstance(method, NormalizedDescent)
    scales = kappa.astype(starts.dtype)
    path = np.empty((len(starts), 1 + steps // every, starts.shape[1]), starts.dtype)
    path[:, 0] = starts
    for begin in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - begin)
        # A last block that is short repeats its first problem, so that one compilation serves all blocks.
        rows = begin + np.arange(min(LANES, len(starts))) % count
        passed = _descend(fields.lanes(rows), starts[rows].T, scales[rows], rates, normalized, steps // every, every)
        path[begin : begin + count, 1:] = np.moveaxis(np.asarray(passed), -1, 0)[:count]
    return path


@eqx.filter_jit
def _descend(
    fields: LaneField,
    starts: AnyArray,
    kappa: AnyArray,
    rates: tuple[AnyArray, AnyArray],
    normalized: bool,
    records: int,
    every: int,
) -> AnyArray:
    """Points of shape (records, r, lanes)."""
    lr, epsilon = rates

    def step(y: AnyArray) -> AnyArray:
        # grad_p = kappa Q grad_y, so a step in p is a step in y times kappa.
        direction, log_scale = fields.descent_direction(y)
        if not normalized:
            return y + (lr * kappa**2 * jnp.exp(log_scale))[None] * direction
        size = jnp.sqrt(jnp.sum(direction**2, axis=0))
        moving = size > 0
        log_norm = log_scale + jnp.log(kappa) + jnp.log(jnp.where(moving, size, 1.0))
        # g/(|g| + epsilon) = (g/|g|) / (1 + epsilon/|g|), in logarithms so that |g| may underflow.
        damping = 1.0 + jnp.where(epsilon > 0, jnp.exp(jnp.log(epsilon) - log_norm), 0.0)
        length = jnp.where(moving, lr * kappa / (jnp.where(moving, size, 1.0) * damping), 0.0)
        return y + length[None] * direction

    def record(y: AnyArray, _: None) -> tuple[AnyArray, AnyArray]:
        y = jax.lax.fori_loop(0, every, lambda _, z: step(z), y)
        return y, y

    return jax.lax.scan(record, starts, None, length=records)[1]
