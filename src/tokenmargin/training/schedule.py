"""How the learning rate changes with the epoch [E, App. E]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, fits_in_memory, positive, whole_number
from tokenmargin.errors import InvalidInputError


@checked
@dataclass(frozen=True)
class StepSchedule:
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
        """What the learning rate is multiplied with in this epoch."""
        return float(self.factor ** sum(epoch >= start for start in self.epochs))

    @checked
    def multipliers(self, epoch: int, steps: int) -> np.ndarray:
        """The same for each step of this epoch, shape (steps,)."""
        whole_number(steps, "steps", 0)
        fits_in_memory(steps, f"an epoch of {steps} steps", "use larger batches")
        return np.full(steps, self.multiplier(epoch))


#: The same learning rate in every epoch.
CONSTANT = StepSchedule(epochs=())
