"""What an epoch is given and what it leaves behind, checked: coefficients of a shape, and numbers that are numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.trainable import Tree


def coefficients(optimiser: Optimiser, steps_done: int, rates: np.ndarray) -> np.ndarray:
    """The optimiser's numbers of each step, shape (steps, k)."""
    table = np.asarray(optimiser.coefficients(steps_done, rates))
    if table.ndim != 2 or len(table) != len(rates):
        raise InvalidInputError(
            f"{type(optimiser).__name__}.coefficients must give a row for each of {len(rates)} steps, shape "
            f"({len(rates)}, k); it gave an array of shape {table.shape}."
        )
    return table


def check_numbers(numbers: np.ndarray, validation_loss: float | None, epoch: int, rate: float) -> None:
    """Raise if the loss, a norm or the validation loss of an epoch is no number; correlations may be none."""
    names = ("loss", "accuracy", "norm of the embeddings", "norm of the query", "norm of the head")
    measured = dict(zip(names, numbers.tolist(), strict=False)) | {"validation loss": validation_loss or 0.0}
    for name, value in measured.items():
        if not np.isfinite(value):
            raise _diverged(f"the {name} is {value}", epoch, rate)


def check_parameters(parameters: Tree, rates: list[float]) -> None:
    """Raise if anything learnt in the last step is no number: no loss has seen it yet."""
    if rates and not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(parameters)):
        raise _diverged("parameters are NaN or infinite", len(rates), rates[-1])


def _diverged(what: str, epoch: int, rate: float) -> DivergedError:
    return DivergedError(
        f"training diverged in epoch {epoch} at a learning rate of {rate:g}: {what}. Start again with a smaller "
        f"learning rate, such as {rate / 10:g}, or from smaller parameters (init_scale)."
    )
