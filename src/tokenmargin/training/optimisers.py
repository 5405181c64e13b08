"""Optimisers, which move a parameter by its gradient: an abstract class, and three values of it [E, (4), App. E].

A step is elementwise, so that it fuses with a gradient that stays factored: one pass over the parameter and its state.
What a step needs to know of its optimiser (a learning rate, a bias correction) comes as a row of numbers, computed in
float64 on the host. So the compiled step depends on the class alone, and another learning rate compiles nothing.

An optimiser of your own is a frozen dataclass:

    @dataclass(frozen=True)
    class SignDescent(Optimiser):
        lr: float = 1e-3

        def init(self, parameter):
            return ()

        @staticmethod
        def step(row, parameter, gradient, state):
            return parameter - row[0] * jnp.sign(gradient), state
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import checked, not_negative, positive
from tokenmargin._types import AnyArray
from tokenmargin.errors import InvalidInputError

#: What an optimiser keeps of one parameter from step to step; each array may have a shape and dtype of its own.
State = tuple[AnyArray, ...]

#: A row of `coefficients`; inside of a kernel, which holds no such array, its numbers one by one.
Coefficients = Array | list[Array]


class Optimiser(ABC):
    """A rule for one parameter at a time: `init` gives what it keeps, `step` moves; values are frozen.

    A subclass needs `lr`, `init` and `step`, and `coefficients` if a step needs more numbers than its learning rate.
    """

    lr: float  #: learning rate, before the schedule multiplies it
    full_batch: ClassVar[bool] = False  #: whether a step sees the whole data set

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a `step` that could read the value's fields: they would be compiled in, once and for all."""
        super().__init_subclass__(**options)
        own = cls.__dict__.get("step")
        if own is not None and not isinstance(own, staticmethod):
            raise InvalidInputError(
                f"{cls.__name__}.step must be a @staticmethod step(row, parameter, gradient, state): its numbers come "
                "from `coefficients`, so that other numbers compile nothing."
            )

    @abstractmethod
    def init(self, parameter: AnyArray) -> State:
        """Return the state that is kept for a parameter before the first step."""

    def coefficients(self, steps_done: int, lr: np.ndarray) -> np.ndarray:
        """The numbers of the next steps in float64, shape (steps, k), for learning rates of shape (steps,).

        By default the learning rate alone, k = 1.
        """
        del steps_done
        return lr[:, None]

    @staticmethod
    @abstractmethod
    def step(row: Coefficients, parameter: Array, gradient: Array, state: State) -> tuple[Array, State]:
        """The new parameter and what is kept of it then, by elementwise operations.

        Args:
            row: this step's row of `coefficients`, shape (k,), in the dtype of the parameter.
            parameter: as it is.
            gradient: of the mean loss of the batch, of the same shape.
            state: what `init` or the last step returned.
        """


@checked
@dataclass(frozen=True)
class AdamW(Optimiser):
    """x <- (1 - lr wd) x - lr (m/c1) / (sqrt(s/c2) + eps), c_i = 1 - b_i^t, exactly as torch.optim.AdamW [E, App. E].

    m <- b1 m + (1-b1) g and s <- b2 s + (1-b2) g^2 are moments of the gradient g, from 0.

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

    def __post_init__(self) -> None:
        """Check the numbers."""
        positive(self.lr, "lr")
        not_negative(self.weight_decay, "weight_decay")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InvalidInputError(f"betas must be two numbers in [0, 1), got {self.betas!r}.")
        not_negative(self.eps, "eps")

    def init(self, parameter: AnyArray) -> State:
        """Both moments."""
        return jnp.zeros_like(parameter), jnp.zeros_like(parameter)

    def coefficients(self, steps_done: int, lr: np.ndarray) -> np.ndarray:
        """The seven numbers of each step; 1 - b2^t would lose five digits in float32 at t = 1."""
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
    def step(row: Coefficients, parameter: Array, gradient: Array, state: State) -> tuple[Array, State]:
        """The formula, with what is known before the step in `row`."""
        kept, mix, b2, mix2, rate, root_scale, eps = (row[k] for k in range(7))
        first, second = state
        first = first + mix * (gradient - first)
        second = b2 * second + mix2 * (gradient * gradient)
        return kept * parameter - rate * (first / (jnp.sqrt(second) * root_scale + eps)), (first, second)


@checked
@dataclass(frozen=True)
class SGD(Optimiser):
    """b <- momentum b + g + wd x, x <- x - lr b, exactly as torch.optim.SGD.

    Args:
        lr: learning rate.
        momentum: 0 for plain descent.
        weight_decay: wd in the formula, added to the gradient.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        positive(self.lr, "lr")
        if not 0 <= self.momentum < 1:
            raise InvalidInputError(f"momentum must lie in [0, 1), got {self.momentum!r}.")
        not_negative(self.weight_decay, "weight_decay")

    def init(self, parameter: AnyArray) -> State:
        """b, which is not needed without momentum."""
        return (jnp.zeros_like(parameter),) if self.momentum > 0 else ()

    def coefficients(self, steps_done: int, lr: np.ndarray) -> np.ndarray:
        """Learning rate, momentum and weight decay of each step."""
        del steps_done
        ones = np.ones(len(lr))
        return np.stack([lr, self.momentum * ones, self.weight_decay * ones], axis=1)

    @staticmethod
    def step(row: Coefficients, parameter: Array, gradient: Array, state: State) -> tuple[Array, State]:
        """The formula; the state says whether there is momentum."""
        lr, momentum, decay = row[0], row[1], row[2]
        direction = gradient + decay * parameter
        if not state:
            return parameter - lr * direction, ()
        direction = momentum * state[0] + direction
        return parameter - lr * direction, (direction,)


@checked
@dataclass(frozen=True)
class GradientDescent(SGD):
    """x <- x - lr grad L(x) over the whole data set, one step an epoch [E, (4)]."""

    full_batch = True


def steps_in_kernels(optimiser: type[Optimiser]) -> bool:
    """True if a step is made of operations that kernels for GPUs have, as those above are."""
    return optimiser.step in (AdamW.step, SGD.step)
