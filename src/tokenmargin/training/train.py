"""Training of all parameters of a model on a data set: epochs of shuffled batches [E, App. E].

What a model must offer is `Trainable`, what batches must offer `Batches`; an optimiser is a value of `Optimiser`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import checked, float_dtype, positive, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray
from tokenmargin.data.images import ImageDataset
from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.data.vocabulary import check_same_vocabulary, vocabulary_names
from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.training._program import (
    RECORDED,
    EpochData,
    TrainingState,
    epoch_function,
    initial_state,
    program_of,
)
from tokenmargin.training.batches import batches_of, token_dataset
from tokenmargin.training.evaluate import Trained, best_epoch, check_rows, check_same_meaning
from tokenmargin.training.image_training import ImageTrainingRun, train_images
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.records import records_of
from tokenmargin.training.schedule import CONSTANT, StepSchedule
from tokenmargin.training.trainable import BatchFactory, Trainable, Tree
from tokenmargin.training.training_run import TrainingRun
from tokenmargin.training.warm_up import WarmUp


@overload
def train(
    dataset: ImageDataset,
    model: Any,
    optimiser: Optimiser,
    *,
    epochs: int,
    key: AnyArray,
    batch_size: int = ...,
    schedule: StepSchedule | WarmUp = ...,
    dtype: Any = ...,
    batches: Any = ...,
    progress: Progress = ...,
    on_epoch: Callable[[int, Tree], None] | None = ...,
    checkpoint: str | Path | None = ...,
) -> ImageTrainingRun: ...


@overload
def train(
    dataset: TokenDataset,
    model: Trainable,
    optimiser: Optimiser,
    *,
    epochs: int,
    key: AnyArray,
    batch_size: int = ...,
    schedule: StepSchedule | WarmUp = ...,
    dtype: Any = ...,
    start: Trained | Tree | None = ...,
    vocabulary: Iterable[str] | None = ...,
    validation: TokenDataset | None = ...,
    patience: int | None = ...,
    batches: BatchFactory | None = ...,
    progress: Progress = ...,
    on_epoch: Callable[[int, Tree], None] | None = ...,
) -> TrainingRun: ...


@checked
@keep_precision
def train(
    dataset: TokenDataset | ImageDataset,
    model: Any,
    optimiser: Optimiser,
    *,
    epochs: int,
    key: AnyArray,
    batch_size: int = 128,
    schedule: StepSchedule | WarmUp = CONSTANT,
    dtype: Any = np.float32,
    start: Trained | Tree | None = None,
    vocabulary: Iterable[str] | None = None,
    validation: TokenDataset | None = None,
    patience: int | None = None,
    batches: Any = None,
    progress: Progress = silent,
    on_epoch: Callable[[int, Tree], None] | None = None,
    checkpoint: str | Path | None = None,
) -> TrainingRun | ImageTrainingRun:
    """Train every trainable parameter of `model` on `dataset`.

    The same key gives the same bytes on the same machine: every sum is taken in a fixed order. The exception is
    `TwoLayer` on an accelerator, which does so with `fixed_order=True`. A run that leaves the numbers, its loss or a
    parameter NaN or infinite, raises `DivergedError`.

    Args:
        dataset: documents as counts, with labels of both classes; or pictures with classes, for which `train_images`
            does the work and says more.
        model: such as `OneLayer(width=2048)`, or your own (`Trainable`).
        optimiser: `AdamW(...)`, `SGD(...)`, `GradientDescent(lr)`, which takes the whole data set as its batch, or your
            own (`Optimiser`).
        epochs: passes over the data; 0 returns the start.
        key: `jax.random.key(seed)`; decides the start and the order of documents.
        batch_size: documents of a step; the last batch of an epoch holds what is left.
        schedule: the learning rate over epochs.
        dtype: float32 or float64.
        start: a run to go on from, over the same vocabulary, or parameters; instead of `model.initial`. It is copied.
        vocabulary: which token each row of `start` is, where that is parameters and not a run.
        validation: documents of the same vocabulary that are evaluated after every epoch: the parameters with the
            smallest loss on them are returned, and `best_epoch` and `validation` of the run say which and how.
        patience: training is over after so many epochs without a smaller loss on `validation`.
        batches: how the data set is cut into batches, where it is not to be the way of the model's type.
        progress: called as progress(epochs done, epochs in all, "training").
        on_epoch: called as on_epoch(epoch, parameters) after each epoch, epochs counted from 1. Copy what you keep:
            the next epoch overwrites the arrays.
        checkpoint: a file that is written as training goes on, and taken up if it is there; for pictures.
    """
    if isinstance(dataset, ImageDataset):
        _check_for_pictures(start=start, vocabulary=vocabulary, validation=validation, patience=patience)
        options: dict[str, Any] = {"epochs": epochs, "key": key, "batch_size": batch_size, "checkpoint": checkpoint}
        options |= {"schedule": schedule, "dtype": dtype, "progress": progress, "on_epoch": on_epoch}
        options |= {} if batches is None else {"batches": batches}
        return train_images(dataset, model, optimiser, **options)
    if checkpoint is not None:
        raise InvalidInputError("checkpoint is for pictures: go on from a run of counted texts with start=run.")
    kind = _checked(model, optimiser, epochs, dtype)
    _check_both_classes(token_dataset(dataset, "the data set to train on"))
    source = batches_of(dataset, model, dataset.n_documents if optimiser.full_batch else batch_size, kind, batches)
    begin, rng = streams(key)
    parameters = _parameters(start, vocabulary, begin, dataset, model, kind)
    # Random numbers need room of their own: it must be free again before the optimiser's state takes its own.
    jax.block_until_ready(parameters)
    best = best_epoch(validation, patience, dataset, model, (kind, batches))
    state = TrainingState(parameters, initial_state(optimiser, model, source, parameters))
    posterior = jnp.asarray(token_statistics(dataset).posterior_difference.astype(kind))
    one_epoch = epoch_function(model)
    measured: list[np.ndarray] = []
    rates: list[float] = []
    steps = 0
    for epoch in range(1, epochs + 1):
        order = np.arange(source.n_documents) if optimiser.full_batch else rng.permutation(source.n_documents)
        rows = source.rows(order)
        rises = schedule.multipliers(epoch - 1, len(rows))
        rates.append(float(optimiser.lr * rises[-1]))
        coefficients = _coefficients(optimiser, steps, optimiser.lr * rises).astype(kind)
        data = EpochData(source.on_device, posterior, rows, coefficients)
        state, numbers = one_epoch(program_of(model, source, rows), type(optimiser), state, data)
        measured.append(np.asarray(numbers))
        steps += len(rows)
        _check_numbers(measured[-1], None if best is None else best.see(state.parameters), epoch, rates[-1])
        progress(epoch, epochs, "training")
        if on_epoch is not None:
            on_epoch(epoch, state.parameters)
        if best is not None and best.is_over:
            break
    kept = state.parameters if best is None or best.epoch == 0 else best.parameters
    _check_parameters(kept, rates)
    return TrainingRun(
        parameters=kept,
        records=records_of(measured, rates),
        model=model,
        optimiser=optimiser,
        steps=steps,
        vocabulary=dataset.vocabulary,
        class_names=dataset.class_names,
        validation=None if best is None else best.records(),
        best_epoch=None if best is None else best.epoch,
        batches=batches,
    )


def _check_for_pictures(**given: object) -> None:
    """Raise if something is asked for that only counted texts have."""
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"{name} is for counted texts: leave it out where pictures are trained on.")


def _coefficients(optimiser: Optimiser, steps_done: int, rates: np.ndarray) -> np.ndarray:
    table = np.asarray(optimiser.coefficients(steps_done, rates))
    if table.ndim != 2 or len(table) != len(rates):
        raise InvalidInputError(
            f"{type(optimiser).__name__}.coefficients must give a row for each of {len(rates)} steps, shape "
            f"({len(rates)}, k); it gave an array of shape {table.shape}."
        )
    return table


def _check_both_classes(dataset: TokenDataset) -> None:
    signs = np.unique(dataset.labels)
    if len(signs) < 2:
        only = dataset.class_names[int(signs[0] > 0)]
        raise InvalidInputError(
            f"all {len(dataset)} documents to train on are of the class {only}: take documents of both, shuffled "
            "before they are cut where they come sorted by class."
        )


def _check_numbers(numbers: np.ndarray, validation_loss: float | None, epoch: int, rate: float) -> None:
    """Raise if the loss, a norm or the validation loss of an epoch is no number; correlations may be none."""
    names = ("loss", "accuracy", "norm of the embeddings", "norm of the query", "norm of the head")
    measured = dict(zip(names, numbers.tolist(), strict=False)) | {"validation loss": validation_loss or 0.0}
    for name, value in measured.items():
        if not np.isfinite(value):
            raise _diverged(f"the {name} is {value}", epoch, rate)


def _check_parameters(parameters: Tree, rates: list[float]) -> None:
    """Raise if anything learnt in the last step is no number: no loss has seen it yet."""
    if rates and not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(parameters)):
        raise _diverged("parameters are NaN or infinite", len(rates), rates[-1])


def _diverged(what: str, epoch: int, rate: float) -> DivergedError:
    return DivergedError(
        f"training diverged in epoch {epoch} at a learning rate of {rate:g}: {what}. Start again with a smaller "
        f"learning rate, such as {rate / 10:g}, or from smaller parameters (init_scale)."
    )


def _parameters(
    start: Trained | Tree | None,
    vocabulary: Iterable[str] | None,
    key: Array,
    dataset: TokenDataset,
    model: Trainable,
    kind: str,
) -> Tree:
    """What training starts from: the model's own start, or a copy of the one given."""
    if isinstance(start, Trained):
        check_same_meaning(start, dataset, "the data set")
        start = start.parameters
    elif start is not None and vocabulary is None:
        raise InvalidInputError(
            "start holds parameters, which do not say which token each of their rows is: give the run that they are "
            "of, start=run, or name the rows with vocabulary=dataset.vocabulary if they were made for this data set."
        )
    elif vocabulary is not None:
        check_same_vocabulary(vocabulary_names(vocabulary), dataset.vocabulary, "the data set")
    found = model.initial(key, dataset.vocabulary_size, kind) if start is None else start
    missing = [name for name in RECORDED if not hasattr(found, name)]
    if missing:
        raise InvalidInputError(
            f"the parameters of {type(model).__name__} have no {' and no '.join(missing)}: the records of training "
            "measure embeddings, query and head, so a model's parameters must have them as attributes."
        )
    return found if start is None else _copied(start, dataset, model, kind)


def _copied(start: Tree, dataset: TokenDataset, model: Trainable, kind: str) -> Tree:
    check_rows(start, dataset, "start has")
    width = getattr(model, "width", start.embeddings.shape[1])
    if start.embeddings.shape[1] != width:
        raise InvalidInputError(f"start has width {start.embeddings.shape[1]} but the model has width {width}.")
    # Asked where the parameters lie: they may be spread over devices of several hosts, and more than one host holds.
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(start)):
        raise InvalidInputError("start holds NaN or infinity: give parameters that are numbers.")
    return jax.tree.map(lambda x: jnp.array(x, dtype=kind, copy=True), start)


def streams(key: AnyArray) -> tuple[Array, np.random.Generator]:
    """The key of the start, and the stream of document orders."""
    try:
        begin, order = jax.random.split(key)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"key must be a JAX random key such as jax.random.key(0), got {key!r}.") from error
    return begin, np.random.default_rng(np.asarray(jax.random.key_data(order)))


def _checked(model: object, optimiser: object, epochs: int, dtype: Any) -> str:
    """The name of the dtype, once everything else is right."""
    if not isinstance(model, Trainable) or isinstance(model, type):
        raise InvalidInputError(
            f"model must be a value such as OneLayer(width=64), or of a type of your own that offers what "
            f"tokenmargin.training.Trainable lists; got {model!r}."
        )
    if not isinstance(optimiser, Optimiser):
        raise InvalidInputError(
            f"optimiser must be a value such as AdamW(lr=1e-3), or of a subclass of tokenmargin.training.Optimiser; "
            f"got {optimiser!r}."
        )
    positive(getattr(optimiser, "lr", float("nan")), "lr")
    whole_number(epochs, "epochs", 0)
    return float_dtype(dtype)
