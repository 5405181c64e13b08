"""The contracts of data to train on: examples of any kind, and batches of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tokenmargin.models.model import Tree


@runtime_checkable
class Examples(Protocol):
    """Labelled examples in memory that are no counted texts, such as pictures: inherit from it, or offer the same."""

    class_names: tuple[str, ...]  #: `Model.initial` is told how many there are

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens that rows of parameters stand for: none."""
        return ()

    def __len__(self) -> int:
        """Number of examples."""

    def content(self) -> str:
        """Return words that differ where the examples differ, by which a checkpoint knows them again."""

    def order(self, key: tuple[int, ...], epoch: int) -> np.ndarray:
        """Return the order of the examples in an epoch, counted from 0: a function of the key and the epoch alone."""
        return np.random.default_rng([*key, epoch]).permutation(len(self))


@runtime_checkable
class Named(Protocol):
    """A data set, a stream or a run that says what its tokens and classes are called."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens, in the order of their columns; none for examples that are no counted texts."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes."""


def model_size(data: Named) -> int:
    """Return the number that `Model.initial` is told: of tokens, or of classes where there are no tokens."""
    return len(data.vocabulary) or len(data.class_names)


@runtime_checkable
class BatchMaker(Protocol):
    """The traced part of batches: functions of a class, so that a compilation depends on no data set."""

    @staticmethod
    def plan(on_device: Tree, rows: Any, layout: Any) -> Tree:
        """Return what the epoch needs to know of its batches, with a leading axis of steps."""

    @staticmethod
    def batch(on_device: Tree, plan: Any) -> Tree:
        """Return one batch, from one step's plan."""


@runtime_checkable
class Batches(BatchMaker, Protocol):
    """The batches of a data set, whatever they look like; `CountBatches` and `DocumentBatches` are two kinds."""

    @property
    def on_device(self) -> Tree:
        """The data on the device."""

    @property
    def n_documents(self) -> int:
        """Number of documents, or of examples of another kind."""

    def rows(self, order: np.ndarray) -> np.ndarray:
        """Return the documents of each batch of an epoch that takes them in this order, shape (steps, B)."""

    def layout(self, rows: np.ndarray) -> Hashable:
        """Return the sizes that shape the batches of an epoch, static in its compilation."""


def in_steps(order: np.ndarray, batch_size: int, none: int) -> np.ndarray:
    """Return numbers in their order, shape (steps, batch_size); `none` fills up the last step."""
    rows = np.full((-(-len(order) // batch_size), batch_size), none, np.int32)
    rows.reshape(-1)[: len(order)] = order
    return rows


#: Makes batches of a data set, the number of documents in a batch, and "float32" or "float64".
BatchFactory = Callable[[Any, int, str], Batches]
