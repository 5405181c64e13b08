"""Schedules of the learning rate over epochs [E, App. E]: an abstract class, and two values of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, fits_in_memory, positive, whole_number
from tokenmargin.errors import InvalidInputError


class Schedule(ABC):
    """A rule for the learning rate: a frozen value, for `train(..., schedule=...)`."""

    @abstractmethod
    def multipliers(self, epoch: int, steps: int) -> np.ndarray:
        """Return the factor of the learning rate in each step of an epoch, counted from 0, shape (steps,)."""


@checked
@dataclass(frozen=True)
class StepSchedule(Schedule):
    """The learning rate times `factor` from each of these epochs on (epochs count from 0), as torch's MultiStepLR.

    Args:
        epochs: increasing; the paper's are (100, 200). Empty for a constant rate.
        factor: the paper's gamma = 0.1.
    """

    epochs: tuple[int, ...] = (100, 200)
    factor: float = 0.1

    def __post_init__(self) -> None:
        """Epochs increase, the factor is positive."""
        positive(self.factor, "factor")
        whole = all(isinstance(epoch, int | np.integer) and epoch >= 0 for epoch in self.epochs)
        if not whole or any(b <= a for a, b in zip(self.epochs, self.epochs[1:], strict=False)):
            raise InvalidInputError(f"epochs of a schedule must be increasing whole numbers >= 0, got {self.epochs!r}.")

    @checked
    def multiplier(self, epoch: int) -> float:
        """Return the factor of the learning rate in this epoch."""
        return float(self.factor ** sum(epoch >= start for start in self.epochs))

    @checked
    def multipliers(self, epoch: int, steps: int) -> np.ndarray:
        """Return the same factor for each step of this epoch, shape (steps,)."""
        whole_number(steps, "steps", 0)
        fits_in_memory(steps, f"an epoch of {steps} steps", "use larger batches")
        return np.full(steps, self.multiplier(epoch))


@checked
@dataclass(frozen=True)
class WarmUp(Schedule):
    """The learning rate rises in a line over the first epochs, step by step; then it stays, or falls to 0 in a cosine.

    Adam's first steps are as long as all others whatever the gradient is, and lead a deep network astray.

    Args:
        epochs: over which it rises; part of one will do.
        until: epoch at whose beginning it has fallen to 0, along half a wave of a cosine; None if it stays.
    """

    epochs: float = 1.0
    until: float | None = None

    def __post_init__(self) -> None:
        """Check the lengths."""
        positive(self.epochs, "epochs")
        if self.until is not None:
            positive(self.until, "until")
        if self.until is not None and self.until <= self.epochs:
            raise InvalidInputError(
                f"until must lie beyond the {self.epochs:g} epochs of the rise, got {self.until!r}."
            )

    @checked
    def multipliers(self, epoch: int, steps: int) -> np.ndarray:
        """Return factors that rise from 0 to 1, and fall to 0 again where an end was given, shape (steps,)."""
        whole_number(epoch, "epoch", 0)
        whole_number(steps, "steps", 1)
        fits_in_memory(steps, f"an epoch of {steps} steps", "use larger batches")
        now = epoch + (np.arange(steps) + 1.0) / steps
        risen = np.minimum(1.0, now / self.epochs)
        if self.until is None:
            return risen
        fallen = np.clip((now - self.epochs) / (self.until - self.epochs), 0.0, 1.0)
        return risen * 0.5 * (1.0 + np.cos(np.pi * fallen))


#: The same learning rate in every epoch.
CONSTANT = StepSchedule(epochs=())
