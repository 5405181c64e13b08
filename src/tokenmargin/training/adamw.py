"""AdamW, exactly as torch.optim.AdamW, with gradients that may stay factored [E, App. E]."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import positive
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True)
class AdamW:
    """x <- (1 - lr wd) x - lr (m/c1) / (sqrt(s/c2) + eps), c_i = 1 - b_i^t, with moments m and s of the gradient.

    m <- b1 m + (1-b1) g and s <- b2 s + (1-b2) g^2, from 0.

    A token that is absent from a batch has gradient 0 and still moves: by its moments and by the weight decay.

    Args:
        lr: learning rate.
        weight_decay: decoupled, wd in the formula; torch's default.
        betas: b1 and b2.
        eps: added to the root.
    """

    lr: float = 1e-3
    weight_decay: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    #: Moments kept for each parameter.
    n_moments = 2
    #: Whether a step sees the whole data set.
    full_batch = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        positive(self.lr, "lr")
        if not (np.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise InvalidInputError(f"weight_decay must be a finite number >= 0, got {self.weight_decay!r}.")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InvalidInputError(f"betas must be two numbers in [0, 1), got {self.betas!r}.")
        if not (np.isfinite(self.eps) and self.eps >= 0):
            raise InvalidInputError(f"eps must be a finite number >= 0, got {self.eps!r}.")

    def coefficients(self, steps_done: int, lr: np.ndarray) -> np.ndarray:
        """The numbers of each step, shape (steps, 7), for learning rates of shape (steps,).

        Computed in float64 on the host: 1 - b2^t loses five digits in float32 at t = 1. They enter the compiled step as
        data, so another learning rate compiles nothing.
        """
        t = steps_done + 1.0 + np.arange(len(lr))
        b1, b2 = self.betas
        ones = np.ones(len(lr))
        return np.stack(
            [
                1.0 - lr * self.weight_decay,
                (1.0 - b1) * ones,
                b2 * ones,
                (1.0 - b2) * ones,
                lr / (1.0 - b1**t),
                1.0 / np.sqrt(1.0 - b2**t),
                self.eps * ones,
            ],
            axis=1,
        )

    @staticmethod
    def update(row: Array, parameter: Array, gradient: Array, moments: tuple[Array, ...]) -> tuple[Array, ...]:
        """One step on one array: the new parameter and its new moments. All elementwise, so it fuses."""
        kept, mix, b2, mix2, rate, root_scale, eps = (row[k] for k in range(7))
        first, second = moments
        first = first + mix * (gradient - first)
        second = b2 * second + mix2 * (gradient * gradient)
        return kept * parameter - rate * (first / (jnp.sqrt(second) * root_scale + eps)), first, second
