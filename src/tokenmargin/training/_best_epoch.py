"""The epoch that is kept: the one with the smallest loss on documents that training does not see."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import whole_number
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.training.batches import token_dataset
from tokenmargin.training.evaluate import Evaluation, Evaluator, check_same_meaning
from tokenmargin.training.records import ValidationRecords
from tokenmargin.training.trainable import BatchFactory, Trainable, Tree


class BestEpoch:
    """Evaluates every epoch and keeps a copy of the best one's parameters: the next epoch overwrites the arrays.

    Args:
        measure: of the validation set.
        patience: after so many epochs without a smaller loss training is over; None goes on to the end.
    """

    def __init__(self, measure: Evaluator, patience: int | None) -> None:
        """Nothing is seen yet."""
        if patience is not None:
            whole_number(patience, "patience", 1)
        self._measure, self._patience = measure, patience
        self._found: list[Evaluation] = []
        self.epoch = 0  #: from 1 on; 0 before the first
        self.parameters: Tree = None

    def see(self, parameters: Tree) -> float:
        """Evaluate the next epoch; its loss."""
        found = self._measure(parameters)
        self._found.append(found)
        if self.epoch == 0 or found.loss < self._found[self.epoch - 1].loss:
            self.epoch = len(self._found)
            self.parameters = jax.tree.map(jnp.copy, parameters)
        return found.loss

    @property
    def is_over(self) -> bool:
        """Whether patience is at its end."""
        return self._patience is not None and len(self._found) - self.epoch >= self._patience

    def records(self) -> ValidationRecords:
        """Loss and accuracy of every epoch."""
        return ValidationRecords(
            np.array([found.loss for found in self._found]), np.array([found.accuracy for found in self._found])
        )


def best_epoch(
    validation: TokenDataset | None,
    patience: int | None,
    dataset: TokenDataset,
    model: Trainable,
    cut: tuple[str, BatchFactory | None],
) -> BestEpoch | None:
    """What keeps the best epoch, where there is a validation set; `cut` is its dtype and how it is cut."""
    if validation is None:
        if patience is not None:
            raise InvalidInputError("patience waits for a smaller loss on a validation set: give validation=dataset.")
        return None
    own = token_dataset(validation, "validation")
    check_same_meaning(dataset, own, "the validation set")
    kind, batches = cut
    measure = Evaluator(own, model, vocabulary=dataset.vocabulary, batches=batches, dtype=kind)
    return BestEpoch(measure, patience)
