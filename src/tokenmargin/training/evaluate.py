"""Loss and accuracy of trained parameters on any data set: held-out texts above all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training._program import Program, program_of
from tokenmargin.training.batches import batches_of
from tokenmargin.training.trainable import BatchFactory, Trainable, Tree


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
        batches: how the data set is cut into batches, where it is not to be the way of the model's type.
        batch_size: documents at a time.
        dtype: float32 or float64, that of the parameters.
    """

    @keep_precision
    def __init__(
        self,
        dataset: TokenDataset,
        model: Trainable,
        *,
        batches: BatchFactory | None = None,
        batch_size: int = 128,
        dtype: str = "float32",
    ) -> None:
        """Cut the data set into batches."""
        source = batches_of(dataset, model, batch_size, dtype, batches)
        self._rows = source.rows(np.arange(source.n_documents))
        self._program = program_of(model, source, self._rows)
        self._on_device = source.on_device

    @keep_precision
    def __call__(self, parameters: Tree) -> Evaluation:
        """Loss and accuracy of these parameters."""
        measure = jitted(_evaluate, usable_options(self._program.model.compiler_options), static_argnums=0)
        loss, accuracy = measure(self._program, parameters, self._on_device, self._rows)
        return Evaluation(float(loss), float(accuracy))


def _evaluate(program: Program, parameters: Tree, on_device: Tree, rows: AnyArray) -> tuple[Array, Array]:
    def add(_: None, plan: Any) -> tuple[None, tuple[AnyArray, AnyArray, AnyArray]]:
        # The gradients are not used, so the compiler leaves them out.
        sums = program.loss_and_gradients(parameters, on_device, plan)[0]
        return None, (sums.mean_loss * sums.documents, sums.correct, sums.documents)

    _, (loss, correct, documents) = jax.lax.scan(add, None, program.plans(on_device, rows))
    return loss.sum() / documents.sum(), correct.sum() / documents.sum()
