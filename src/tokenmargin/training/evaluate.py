"""Loss and accuracy of trained parameters on any data set: held-out texts above all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from tokenmargin._precision import keep_precision
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training.count_batches import count_batches
from tokenmargin.training.trainable import Batches, Trainable, Tree


@dataclass(frozen=True)
class Evaluation:
    """Mean logistic loss and the share of documents with y f(X) > 0."""

    loss: float
    accuracy: float


class Evaluator:
    """A data set put on the device once, to be evaluated as often as needed.

    Args:
        dataset: documents over the vocabulary that the parameters were trained with.
        model: the model of the parameters.
        batches: how the model wants its batches.
        batch_size: documents at a time.
        dtype: float32 or float64, that of the parameters.
    """

    @keep_precision
    def __init__(
        self,
        dataset: TokenDataset,
        model: Trainable,
        *,
        batches: Callable[[TokenDataset, int, str], Any] = count_batches,
        batch_size: int = 128,
        dtype: str = "float32",
    ) -> None:
        """Cut the data set into batches."""
        source: Batches = batches(dataset, batch_size, dtype)
        self._rows = source.rows(np.arange(source.n_documents))
        self._static = (model, type(source), source.layout(self._rows))
        self._on_device = source.on_device

    @keep_precision
    def __call__(self, parameters: Tree) -> Evaluation:
        """Loss and accuracy of these parameters."""
        measure = jitted(_evaluate, usable_options(self._static[0].compiler_options), static_argnums=0)
        loss, accuracy = measure(self._static, parameters, self._on_device, self._rows)
        return Evaluation(float(loss), float(accuracy))


def _evaluate(static: tuple[Any, ...], parameters: Tree, on_device: Any, rows: Any) -> tuple[Array, Array]:
    model, batches, layout = static
    plans = batches.plan(on_device, rows, layout)

    def add(_: None, plan: Any) -> tuple[None, tuple[Array, Array, Array]]:
        # The gradients are not used, so the compiler leaves them out.
        sums = model.loss_and_gradients(parameters, batches.batch(on_device, plan))[0]
        return None, (sums.mean_loss * sums.documents, sums.correct, sums.documents)

    _, (loss, correct, documents) = jax.lax.scan(add, None, plans)
    return loss.sum() / documents.sum(), correct.sum() / documents.sum()
