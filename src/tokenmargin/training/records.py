"""Numbers that training leaves behind after every epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tokenmargin._notebook import Told


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRecords(Told):
    """One entry an epoch, each of shape (epochs,).

    Loss and accuracy are means over the batches of the epoch as they were met, before each step; what is in `measured`
    is measured at the end of the epoch, and which numbers these are is for the model to say (`Model.recorded`).
    """

    loss: np.ndarray  #: mean loss
    accuracy: np.ndarray  #: share of examples whose class the model tells
    learning_rate: np.ndarray  #: of the last step of the epoch
    measured: Mapping[str, np.ndarray] = field(default_factory=dict)  #: the numbers of the model, by name

    def __len__(self) -> int:
        """Return the number of epochs."""
        return len(self.loss)

    def columns(self) -> dict[str, np.ndarray]:
        """Return named columns, for a table."""
        return {"loss": self.loss, "accuracy": self.accuracy, **self.measured, "learning_rate": self.learning_rate}

    @classmethod
    def of_columns(cls, columns: Mapping[str, np.ndarray]) -> TrainingRecords:
        """Return the records with these columns, as `columns` gives them."""
        own = {name: columns[name] for name in ("loss", "accuracy", "learning_rate")}
        return cls(**own, measured={name: column for name, column in columns.items() if name not in own})


@dataclass(frozen=True, eq=False, repr=False)
class ValidationRecords(Told):
    """Loss and accuracy on the validation set at the end of each epoch, each of shape (epochs,)."""

    loss: np.ndarray
    accuracy: np.ndarray

    def __len__(self) -> int:
        """Return the number of epochs."""
        return len(self.loss)
