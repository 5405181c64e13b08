"""Stochastic gradient descent and gradient descent on all parameters, exactly as torch.optim.SGD [E, (4)]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array

from tokenmargin._checks import positive
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True)
class SGD:
    """b <- momentum b + g + wd x, x <- x - lr b.

    Args:
        lr: learning rate.
        momentum: 0 for plain descent.
        weight_decay: wd in the formula, added to the gradient.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0

    #: Whether a step sees the whole data set.
    full_batch = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        positive(self.lr, "lr")
        if not 0 <= self.momentum < 1:
            raise InvalidInputError(f"momentum must lie in [0, 1), got {self.momentum!r}.")
        if not (np.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise InvalidInputError(f"weight_decay must be a finite number >= 0, got {self.weight_decay!r}.")

    @property
    def n_moments(self) -> int:
        """Moments kept for each parameter: none without momentum."""
        return int(self.momentum > 0)

    def coefficients(self, steps_done: int, lr: np.ndarray) -> np.ndarray:
        """The numbers of each step, shape (steps, 3), for learning rates of shape (steps,)."""
        del steps_done
        ones = np.ones(len(lr))
        return np.stack([lr, self.momentum * ones, self.weight_decay * ones], axis=1)

    @staticmethod
    def update(row: Array, parameter: Array, gradient: Array, moments: tuple[Array, ...]) -> tuple[Array, ...]:
        """One step on one array: the new parameter and its new moments."""
        lr, momentum, decay = row[0], row[1], row[2]
        direction = gradient + decay * parameter
        if not moments:
            return (parameter - lr * direction,)
        direction = momentum * moments[0] + direction
        return parameter - lr * direction, direction


@dataclass(frozen=True)
class GradientDescent(SGD):
    """x <- x - lr grad L(x) over the whole data set, one step an epoch [E, (4)]."""

    full_batch = True
