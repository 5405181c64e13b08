"""What an epoch is given and what it leaves behind, checked: coefficients of a shape, and numbers that are numbers."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.models.model import Tree
from tokenmargin.training.optimisers import Optimiser


def coefficients(optimiser: Optimiser, steps_done: int, rates: np.ndarray) -> np.ndarray:
    """The optimiser's numbers of each step, shape (steps, k)."""
    table = np.asarray(optimiser.coefficients(steps_done, rates))
    if table.ndim != 2 or len(table) != len(rates):
        raise InvalidInputError(
            f"{type(optimiser).__name__}.coefficients must give a row for each of {len(rates)} steps, shape "
            f"({len(rates)}, k); it gave an array of shape {table.shape}."
        )
    return table


def check_numbers(numbers: Mapping[str, float], parameters: Tree, epoch: int, rate: float) -> None:
    """Raise DivergedError if the loss, another number of the epoch or, where one is NaN, a parameter is not finite.

    A number of the model's own may be NaN, as a correlation is where nothing varies, if the parameters are finite.
    """
    for name, value in numbers.items():
        if np.isinf(value) or (np.isnan(value) and name in ("loss", "accuracy", "validation loss")):
            raise _diverged(f"the {name.replace('_', ' ')} is {value}", epoch, rate)
    if any(np.isnan(value) for value in numbers.values()):
        check_parameters(parameters, epoch, rate)


def check_parameters(parameters: Tree, epoch: int, rate: float) -> None:
    """Raise DivergedError if a parameter is NaN or infinite."""
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(parameters)):
        raise _diverged("parameters are NaN or infinite", epoch, rate)


def _diverged(what: str, epoch: int, rate: float) -> DivergedError:
    return DivergedError(
        f"training diverged in epoch {epoch} at a learning rate of {rate:g}: {what}. Start again with a smaller "
        f"learning rate, such as {rate / 10:g}, or from smaller parameters (init_scale)."
    )
