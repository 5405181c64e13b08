"""What `train` asks of a model and of its batches: the two plug-in shapes of training."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array

from tokenmargin.training._compile import CompilerOptions

#: Parameters or gradients: any tree of arrays.
Tree = Any


@runtime_checkable
class Trainable(Protocol):
    """A model that `train` can train: a hashable value."""

    @property
    def steps_together(self) -> int:
        """Steps that an accelerator is given in a row; each is compiled once more."""

    @property
    def compiler_options(self) -> CompilerOptions:
        """What the compiler of an accelerator is told; nothing if ()."""

    def initial(self, key: Array, vocabulary_size: int, dtype: Any) -> Tree:
        """Parameters to start from: a tree of arrays with the attributes embeddings, query and head."""

    def loss_and_gradients(self, parameters: Tree, batch: Any) -> tuple[Any, Tree]:
        """(sums, gradients): sums has loss, correct, documents; gradients mirrors parameters.

        A gradient is an array, a `FactoredGradient`, or None for what stays as it is.
        """


@runtime_checkable
class Batches(Protocol):
    """The batches of a data set, whatever they look like; `CountBatches` is one."""

    on_device: Any  #: what lies on the device: a tree of arrays
    n_documents: int

    def rows(self, order: np.ndarray) -> np.ndarray:
        """The documents of each batch of an epoch, shape (steps, B)."""

    def layout(self, rows: np.ndarray) -> tuple[Any, ...]:
        """The sizes that shape the batches of an epoch, static in its compilation."""

    @staticmethod
    def plan(on_device: Any, rows: Any, layout: tuple[Any, ...]) -> Any:
        """What the epoch needs to know of its batches, with a leading axis of steps (traced)."""

    @staticmethod
    def batch(on_device: Any, plan: Any) -> Any:
        """One batch, from one step's plan (traced)."""
