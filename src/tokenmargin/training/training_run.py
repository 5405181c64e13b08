"""What training leaves behind: parameters, what they stand for, and what was recorded on the way."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmargin._checks import checked
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.training.evaluate import Evaluation, Evaluator
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.records import TrainingRecords, ValidationRecords
from tokenmargin.training.trainable import BatchFactory, Trainable, Tree


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun:
    """Trained parameters, which token each of their rows is, and what was recorded on the way."""

    parameters: Tree
    records: TrainingRecords
    model: Trainable
    optimiser: Optimiser
    steps: int  #: optimiser steps taken
    vocabulary: tuple[str, ...]  #: of the data set, row by row of the embeddings
    class_names: tuple[str, str]  #: what -1 and +1 were called
    validation: ValidationRecords | None = None  #: of every epoch, where a validation set was given
    best_epoch: int | None = None  #: the epoch, from 1 on, whose parameters these are, where one was given
    batches: BatchFactory | None = None  #: as given to `train`

    @checked
    def evaluate(self, dataset: TokenDataset, *, batch_size: int = 128) -> Evaluation:
        """Loss and accuracy on a data set of the same vocabulary and classes; others are refused."""
        return Evaluator(dataset, self, batches=self.batches, batch_size=batch_size)(self)

    def __repr__(self) -> str:
        """What was trained, how far it came, and which epoch was kept; no arrays."""
        parts = [f"{type(self.model).__name__} on {len(self.vocabulary)} tokens", f"{len(self.records)} epochs"]
        if len(self.records):
            parts.append(f"last loss {self.records.loss[-1]:.3g}, accuracy {self.records.accuracy[-1]:.3f}")
        if self.validation is not None and self.best_epoch:
            loss, accuracy = (x[self.best_epoch - 1] for x in (self.validation.loss, self.validation.accuracy))
            parts.append(f"kept epoch {self.best_epoch}: validation loss {loss:.3g}, accuracy {accuracy:.3f}")
        return f"TrainingRun({'; '.join(parts)})"
