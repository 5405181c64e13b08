"""What an epoch is compiled for, as one hashable value: a model, a kind of batches, and the sizes of their arrays."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.models.batch_sums import BatchSums
from tokenmargin.training.trainable import Batches, BatchMaker, Trainable, Tree


@dataclass(frozen=True)
class Program:
    """A model on batches of one kind and layout; all that it sees of the data comes as arguments.

    Args:
        model: whose loss and gradients are asked for.
        batches: the class of the batches, whose `plan` and `batch` are traced.
        layout: of the epoch.
    """

    model: Trainable
    batches: type[BatchMaker]
    layout: Hashable

    def plans(self, on_device: Tree, rows: AnyArray) -> Tree:
        """The plan of every step, with a leading axis of steps."""
        return self.batches.plan(on_device, rows, self.layout)

    def loss_and_gradients(self, parameters: Tree, on_device: Tree, plan: Any) -> tuple[BatchSums, Tree]:
        """Of the batch of one step."""
        return self.model.loss_and_gradients(parameters, self.batches.batch(on_device, plan))


def program_of(model: Trainable, batches: Batches, rows: np.ndarray) -> Program:
    """What an epoch with these rows is compiled for."""
    return Program(model, type(batches), batches.layout(rows))
