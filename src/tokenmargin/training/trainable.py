"""What `train` asks of a model and of its batches: the two plug-in shapes of training.

A model of your own is a hashable value, such as a frozen dataclass. It may inherit from `Trainable`, which then gives
it the two properties that are about accelerators, or offer all four members by itself. Which batches it takes is said
once for its type:

    batch_factory.register(MyModel, lambda model: count_batches)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.models.batch_sums import BatchSums
from tokenmargin.training._compile import CompilerOptions

#: Parameters or gradients, data on the device, plans, batches: trees of arrays, of whatever type their owner likes.
Tree = Any


@runtime_checkable
class Trainable(Protocol):
    """A model that `train` can train: a hashable value."""

    @property
    def steps_together(self) -> int:
        """Steps that an accelerator is given in a row; each is compiled once more. One unless said otherwise."""
        return 1

    @property
    def compiler_options(self) -> CompilerOptions:
        """What the compiler of an accelerator is told; nothing unless said otherwise."""
        return ()

    @abstractmethod
    def initial(self, key: Array, vocabulary_size: int, dtype: Any) -> Tree:
        """Parameters to start from: a tree of arrays with the attributes embeddings, query and head.

        Those three have the shapes (V, d), (d,) and (d,): `TrainingRecords` measures them after every epoch.
        """

    @abstractmethod
    def loss_and_gradients(self, parameters: Tree, batch: Any) -> tuple[BatchSums, Tree]:
        """The sums of a batch, and the gradients of its mean loss in a tree that mirrors the parameters.

        A gradient is an array, None for what stays as it is, or a form that `gradient_entries` turns into an array, as
        `FactoredGradient` is.
        """


@runtime_checkable
class BatchMaker(Protocol):
    """What is traced of batches: functions of a class, so that a compilation depends on no data set."""

    @staticmethod
    def plan(on_device: Tree, rows: Any, layout: Any) -> Tree:
        """What the epoch needs to know of its batches, with a leading axis of steps."""

    @staticmethod
    def batch(on_device: Tree, plan: Any) -> Tree:
        """One batch, from one step's plan."""


@runtime_checkable
class Batches(BatchMaker, Protocol):
    """The batches of a data set, whatever they look like; `CountBatches` and `DocumentBatches` are two kinds."""

    @property
    def on_device(self) -> Tree:
        """What lies on the device."""

    @property
    def n_documents(self) -> int:
        """n."""

    def rows(self, order: np.ndarray) -> np.ndarray:
        """The documents of each batch of an epoch that takes them in this order, shape (steps, B)."""

    def layout(self, rows: np.ndarray) -> Hashable:
        """The sizes that shape the batches of an epoch, static in its compilation."""


#: From a data set, the documents of a batch and "float32" or "float64" to batches.
BatchFactory = Callable[[TokenDataset, int, str], Batches]
