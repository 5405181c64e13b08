"""The contract of a model: what `train` asks of it. Subclass it to train a model of your own.

A model is a hashable value, such as a frozen dataclass or an `equinox.Module` whose fields are static. Its parameters
are a tree of arrays of whatever type you like. State once which batches models of your type take:

    batch_factory.register(MyModel, lambda model: count_batches)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Array, Float

from tokenmargin._module import Module
from tokenmargin._types import AnyArray, ScalarJ

#: Parameters or gradients, data on the device, plans, batches: trees of arrays, of whatever type their owner likes.
Tree = Any

#: Options of a compiler with their values, hashable: what `jax.jit(compiler_options=...)` takes, as pairs.
CompilerOptions = tuple[tuple[str, bool | int | str], ...]

TokenNumbers = Float[AnyArray, "V"]


class BatchSums(Module):
    """The mean loss of a batch, and how many outputs have the sign of their label among how many documents."""

    mean_loss: ScalarJ
    correct: ScalarJ
    documents: ScalarJ


class Model(ABC):
    """A model that `train` can train: it gives a start, and the loss and gradients of a batch."""

    @abstractmethod
    def initial(self, key: Array, size: int, dtype: Any) -> Tree:
        """Return the parameters to start from.

        Args:
            key: a JAX random key.
            size: size of the vocabulary; the number of classes for examples that are no counted texts.
            dtype: "float32" or "float64".
        """

    @abstractmethod
    def loss_and_gradients(self, parameters: Tree, batch: Any) -> tuple[BatchSums, Tree]:
        """Return the sums of a batch, and the gradients of its mean loss in a tree that mirrors the parameters.

        A gradient is an array, None for a parameter that stays as it is, or a form that `gradient_entries` turns into
        an array, as `FactoredGradient` is.
        """

    def recorded(self, parameters: Tree, posterior: TokenNumbers | None) -> dict[str, ScalarJ]:
        """Return numbers to record after every epoch, by name; none unless a model says otherwise.

        It is traced. NaN says that a number is not defined, as a correlation with something that does not vary.

        Args:
            parameters: at the end of the epoch.
            posterior: difference of the class probabilities of each token, shape (V,), NaN for tokens that do not
                occur; None for examples that are no counted texts.
        """
        return {}

    @property
    def steps_together(self) -> int:
        """Steps that an accelerator is given in a row; each is compiled once more. One unless said otherwise."""
        return 1

    @property
    def compiler_options(self) -> CompilerOptions:
        """Options for the compiler of an accelerator; none unless said otherwise."""
        return ()
