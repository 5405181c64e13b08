"""Gradient descent and normalised gradient descent on p [M, (3)]."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.dynamics.pair_field import PairField
from tokenmargin.errors import InvalidInputError

#: Problems that advance together: their keys stay in cache while thousands of steps pass over them.
LANES = 128

#: Steps taken when the caller does not say: what the experiments of [M] use.
DEFAULT_STEPS = 1000


def positive(value: float, name: str) -> None:
    """Raise unless value is a positive finite number."""
    if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive finite number, got {value!r}.")


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
    systems: PairField,
    starts: np.ndarray,
    kappa: np.ndarray,
    method: Descent | NormalizedDescent,
    steps: int,
    every: int,
) -> np.ndarray:
    """Run a batch for `steps` steps, in the coordinates y = kappa Q'p.

    Args:
        systems: B problems of one shape, stacked.
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
    parts = []
    for begin in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - begin)
        # A last block that is short repeats its first problem, so that one compilation serves all blocks.
        rows = begin + np.arange(min(LANES, len(starts))) % count
        block = jax.tree.map(lambda x, rows=rows: x[rows], systems)
        path = _descend(block, starts[rows], scales[rows], rates, normalized, steps // every, every)
        parts.append(np.asarray(path)[:count])
    return np.concatenate([starts[:, None], np.concatenate(parts)], axis=1)


@eqx.filter_jit
def _descend(
    systems: PairField,
    starts: AnyArray,
    kappa: AnyArray,
    rates: tuple[AnyArray, AnyArray],
    normalized: bool,
    records: int,
    every: int,
) -> AnyArray:
    lr, epsilon = rates

    def one(system: PairField, start: AnyArray, scale: AnyArray) -> AnyArray:
        def step(y: AnyArray) -> AnyArray:
            # grad_p = kappa Q grad_y, so a step in p is a step in y times kappa.
            if not normalized:
                return y - lr * scale**2 * system.gradient(y)
            direction, log_scale = system.descent_direction(y)
            size = jnp.sqrt(jnp.sum(direction**2))
            moving = size > 0
            log_norm = log_scale + jnp.log(scale) + jnp.log(jnp.where(moving, size, 1.0))
            # g/(|g| + epsilon) = (g/|g|) / (1 + epsilon/|g|), in logarithms so that |g| may underflow.
            damping = 1.0 + jnp.where(epsilon > 0, jnp.exp(jnp.log(epsilon) - log_norm), 0.0)
            return y + jnp.where(moving, lr * scale / (jnp.where(moving, size, 1.0) * damping), 0.0) * direction

        def record(y: AnyArray, _: None) -> tuple[AnyArray, AnyArray]:
            y = jax.lax.fori_loop(0, every, lambda _, z: step(z), y)
            return y, y

        return jax.lax.scan(record, start, None, length=records)[1]

    return jax.vmap(one)(systems, starts, kappa)
