"""Loss and accuracy of trained parameters on any data set, held-out texts above all, and which epoch is best by them.

Parameters are arrays: row s of E is a token, and which one is known to the data set alone. Evaluated on texts that were
counted apart, with columns that mean other tokens, they give numbers that look like numbers and mean nothing. So an
evaluation asks for the names that the rows were trained with; a `TrainingRun` brings them along.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import checked, float_dtype, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.data.vocabulary import check_same_vocabulary, vocabulary_names
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.model import Model, Tree
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training._program import Program, program_of
from tokenmargin.training.batches import batches_of, in_memory
from tokenmargin.training.examples import BatchFactory, Examples, Named, model_size
from tokenmargin.training.records import ValidationRecords


@dataclass(frozen=True)
class Evaluation:
    """Mean loss, and the share of examples whose class the model tells: documents with y f(X) > 0."""

    loss: float
    accuracy: float


@runtime_checkable
class Trained(Named, Protocol):
    """A model that was trained and knows what its numbers stand for; `TrainingRun` is one."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def parameters(self) -> Tree:
        """The learnt parameters."""


class Evaluator:
    """A data set put on the device once, to be evaluated as often as needed.

    `Evaluator(test, run.model)(run)` compares the vocabulary of the run with that of the data set, and so does
    `run.evaluate(test)`. Parameters without a run, such as `on_epoch` of `train` is given, need
    `Evaluator(test, model, vocabulary=names)`.

    Args:
        dataset: documents over the vocabulary that the parameters were trained with.
        model: the model of the parameters, or a run of it.
        vocabulary: which token each row of the parameters is, where no run says it: that of the training set.
        batches: how the data set is cut into batches, where it is not to be the way of the model's type.
        batch_size: documents at a time.
        dtype: float32 or float64, that of the parameters; by default that of the run, or float32.
    """

    @checked
    @keep_precision
    def __init__(
        self,
        dataset: TokenDataset | Examples,
        model: Model | Trained,
        *,
        vocabulary: Iterable[str] | None = None,
        batches: BatchFactory | None = None,
        batch_size: int = 128,
        dtype: str | None = None,
    ) -> None:
        """Compare vocabularies as far as they are known, and cut the data set into batches."""
        self._dataset = in_memory(dataset, "the data set of an Evaluator")
        self._rows_are_known = vocabulary is not None or not dataset.vocabulary
        if vocabulary is not None:
            check_same_vocabulary(vocabulary_names(vocabulary), dataset.vocabulary, "the data set")
        if isinstance(model, Trained):
            check_same_meaning(model, dataset, "the data set")
            self._rows_are_known = True
            dtype = dtype or np.dtype(jax.tree.leaves(model.parameters)[0].dtype).name
            model = model.model
        source = batches_of(dataset, model, batch_size, float_dtype(dtype or "float32"), batches)
        self._rows = source.rows(np.arange(source.n_documents))
        self._program = program_of(model, source, self._rows)
        self._on_device = source.on_device

    @keep_precision
    def __call__(self, trained: Trained | Tree) -> Evaluation:
        """Loss and accuracy of a run, or of parameters where the Evaluator was told what their rows are."""
        if isinstance(trained, Trained):
            check_same_meaning(trained, self._dataset, "the data set")
            self._check_same_model(trained)
        elif not self._rows_are_known:
            raise InvalidInputError(
                "parameters alone do not say which token each of their rows is, and texts that were counted apart have "
                "other tokens in the same places: evaluate the run itself, run.evaluate(dataset) or "
                "Evaluator(dataset, run.model)(run), or name the rows with Evaluator(..., vocabulary=names)."
            )
        parameters = trained.parameters if isinstance(trained, Trained) else trained
        check_rows(parameters, self._program.model, self._dataset, "the parameters have")
        measure = jitted(_evaluate, usable_options(self._program.model.compiler_options), static_argnums=0)
        loss, accuracy = measure(self._program, parameters, self._on_device, self._rows)
        return Evaluation(float(loss), float(accuracy))

    def _check_same_model(self, trained: Trained) -> None:
        if trained.model != self._program.model:
            raise InvalidInputError(
                f"the Evaluator was made for {self._program.model}, but the run trained {trained.model}: make it with "
                "Evaluator(dataset, run.model)."
            )


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

    def take_up(self, records: ValidationRecords | None, epoch: int | None, parameters: Tree, epochs: int) -> None:
        """Stand where another stood after so many epochs; they were not evaluated where there are no records."""
        absent = np.full(epochs, np.nan)
        columns = (absent, absent) if records is None else (records.loss, records.accuracy)
        self._found = [Evaluation(float(loss), float(accuracy)) for loss, accuracy in zip(*columns, strict=True)]
        self.epoch = epoch or 0
        self.parameters = jax.tree.map(jnp.array, parameters) if self.epoch else None

    @property
    def is_over(self) -> bool:
        """True if patience is at its end."""
        return self._patience is not None and len(self._found) - self.epoch >= self._patience

    def records(self) -> ValidationRecords:
        """Loss and accuracy of every epoch."""
        return ValidationRecords(
            np.array([found.loss for found in self._found]), np.array([found.accuracy for found in self._found])
        )


def best_epoch(
    validation: TokenDataset | Examples | None,
    patience: int | None,
    dataset: Named,
    model: Model,
    cut: tuple[str, BatchFactory | None],
) -> BestEpoch | None:
    """Return the keeper of the best epoch, where there is a validation set; `cut` is its dtype and how it is cut."""
    if validation is None:
        if patience is not None:
            raise InvalidInputError("patience waits for a smaller loss on a validation set: give validation=dataset.")
        return None
    own = in_memory(validation, "validation")
    check_same_meaning(dataset, own, "the validation set")
    kind, batches = cut
    measure = Evaluator(own, model, vocabulary=dataset.vocabulary, batches=batches, dtype=kind)
    return BestEpoch(measure, patience)


def check_same_meaning(trained: Named, dataset: Named, whose: str) -> None:
    """Raise unless columns and classes of a data set mean what they meant in training, or on the training set."""
    check_same_vocabulary(trained.vocabulary, dataset.vocabulary, whose)
    if trained.class_names != dataset.class_names:
        for_signs = " for -1 and +1" if dataset.vocabulary else ""
        raise InvalidInputError(
            f"{whose} has the classes {' and '.join(dataset.class_names)}{for_signs}, where training had "
            f"{' and '.join(trained.class_names)}: give its documents the labels that training had."
        )


def check_rows(parameters: Tree, model: Model, dataset: Named, have: str) -> None:
    """Raise unless parameters are such as the model starts from: a row of embeddings for every token, where it has any.

    The error begins with `have`, such as "the parameters have".
    """
    start = jax.eval_shape(lambda key: model.initial(key, model_size(dataset), "float32"), jax.random.key(0))
    if not hasattr(start, "embeddings"):
        if _shapes(parameters) != _shapes(start):
            raise InvalidInputError(
                f"{have} other shapes than {type(model).__name__} starts from, {_shapes(start)[1]}: give a run of this "
                "model, or the parameters of one."
            )
        return
    shape: tuple[int, ...] = getattr(getattr(parameters, "embeddings", None), "shape", ())
    if len(shape) != 2:
        raise InvalidInputError(f"{have} no embeddings of shape (V, d): give a run, or the parameters of one.")
    if shape[0] != len(dataset.vocabulary):
        raise InvalidInputError(
            f"{have} embeddings of {shape[0]} tokens but the data set has {len(dataset.vocabulary)}: use the "
            "vocabulary that they were trained with."
        )


def _shapes(tree: Tree) -> tuple[Any, list[tuple[int, ...]]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [tuple(np.shape(leaf)) for leaf in leaves]


def _evaluate(program: Program, parameters: Tree, on_device: Tree, rows: AnyArray) -> tuple[Array, Array]:
    def add(_: None, plan: Any) -> tuple[None, tuple[AnyArray, AnyArray, AnyArray]]:
        # The gradients are not used, so the compiler leaves them out.
        sums = program.loss_and_gradients(parameters, on_device, plan)[0]
        return None, (sums.mean_loss * sums.documents, sums.correct, sums.documents)

    _, (loss, correct, documents) = jax.lax.scan(add, None, program.plans(on_device, rows))
    return loss.sum() / documents.sum(), correct.sum() / documents.sum()
