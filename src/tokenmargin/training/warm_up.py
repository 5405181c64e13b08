"""A learning rate that grows from nothing to its full size, and then stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, fits_in_memory, positive, whole_number


@checked
@dataclass(frozen=True)
class WarmUp:
    """The learning rate rises in a line over the first epochs, step by step, and is constant from there on.

    Adam's first steps are as long as all others whatever the gradient is, and lead a deep network astray.

    Args:
        epochs: over which it rises; part of one will do.
    """

    epochs: float = 1.0

    def __post_init__(self) -> None:
        """Check the length."""
        positive(self.epochs, "epochs")

    @checked
    def multipliers(self, epoch: int, steps: int) -> np.ndarray:
        """What the learning rate is multiplied with in each step of an epoch, counted from 0, shape (steps,)."""
        whole_number(epoch, "epoch", 0)
        whole_number(steps, "steps", 1)
        fits_in_memory(steps, f"an epoch of {steps} steps", "use larger batches")
        return np.minimum(1.0, (epoch + (np.arange(steps) + 1.0) / steps) / self.epochs)
