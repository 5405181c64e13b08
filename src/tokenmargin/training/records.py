"""What is written down after every epoch of training [E, Figs. 1-4]."""

from __future__ import annotations

from dataclasses import dataclass, fields

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin.data.statistics import pearson


@dataclass(frozen=True, eq=False)
class TrainingRecords:
    """One entry an epoch, each of shape (epochs,).

    The loss and the accuracy are means over the batches of the epoch as they were met, before each step; the rest is
    measured at the end of the epoch. Correlations are over tokens that occur, NaN where one side does not vary.
    """

    loss: np.ndarray  #: mean logistic loss [E, (2)]
    accuracy: np.ndarray  #: share of documents with y f(X) > 0
    embedding_norm: np.ndarray  #: Frobenius norm of E
    query_norm: np.ndarray  #: norm of p
    head_norm: np.ndarray  #: norm of v
    head_correlation: np.ndarray  #: Pearson, <E_s, v> with the posterior difference of s [E, (37)]
    query_correlation: np.ndarray  #: Pearson, <E_s, p> with the modulus of the posterior difference of s
    learning_rate: np.ndarray  #: of the epoch

    def __len__(self) -> int:
        """Epochs recorded."""
        return len(self.loss)

    def columns(self) -> dict[str, np.ndarray]:
        """As named columns, for a table."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class ValidationRecords:
    """Loss and accuracy on the validation set at the end of each epoch, each of shape (epochs,)."""

    loss: np.ndarray
    accuracy: np.ndarray

    def __len__(self) -> int:
        """Epochs recorded."""
        return len(self.loss)


def epoch_numbers(sums: Array, readings: Array, norms: tuple[Array, Array, Array], posterior: Array) -> Array:
    """The numbers of one epoch, shape (7,), in the order of `TrainingRecords`, on the device.

    Args:
        sums: mean loss, correct outputs and documents of each batch, shape (steps, 3).
        readings: <E_s, p> and <E_s, v>, shape (V, 2).
        norms: of E, p and v.
        posterior: posterior difference of each token, shape (V,), NaN for tokens that do not occur.
    """
    loss, correct, documents = sums[:, 0], sums[:, 1], sums[:, 2]
    total = jnp.sum(documents)
    there = ~jnp.isnan(posterior)
    difference = jnp.where(there, posterior, 0.0)
    return jnp.stack(
        [
            jnp.sum(loss * documents) / total,
            jnp.sum(correct) / total,
            *norms,
            pearson(readings[:, 1], difference, there),
            pearson(readings[:, 0], jnp.abs(difference), there),
        ]
    )


def records_of(rows: list[np.ndarray], rates: list[float]) -> TrainingRecords:
    """Gather the numbers of all epochs."""
    table = np.asarray(rows, dtype=np.float64).reshape(len(rows), 7)
    names = [field.name for field in fields(TrainingRecords)]
    columns = [*table.T, np.asarray(rates, dtype=np.float64)]
    return TrainingRecords(**dict(zip(names, columns, strict=True)))
