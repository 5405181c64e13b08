"""Training of all parameters of a model on a data set: epochs of shuffled batches [E, App. E].

What a model must offer is `Trainable`, what batches must offer `Batches`; an optimiser is a value of `Optimiser`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._archive import Archive
from tokenmargin._checks import checked
from tokenmargin._fingerprint import fingerprint, in_words
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray
from tokenmargin.data.images import ImageDataset
from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.training._guards import check_numbers, check_parameters, coefficients
from tokenmargin.training._program import EpochData, TrainingState, epoch_function, initial_state, program_of
from tokenmargin.training._start import (
    check_both_classes,
    checked_dtype,
    key_numbers,
    starting_parameters,
    streams,
)
from tokenmargin.training._streaming import train_stream
from tokenmargin.training.batches import batches_of, token_dataset
from tokenmargin.training.checkpoint import Checkpoint, Keeper, computed_by, host_array
from tokenmargin.training.document_stream import DocumentStream
from tokenmargin.training.evaluate import BestEpoch, Trained, best_epoch
from tokenmargin.training.image_training import ImageTrainingRun, train_images
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.records import records_of
from tokenmargin.training.schedule import CONSTANT, StepSchedule
from tokenmargin.training.trainable import Batches, BatchFactory, Trainable, Tree
from tokenmargin.training.training_run import Position, TrainingRun
from tokenmargin.training.warm_up import WarmUp

__all__ = ["streams", "train"]

#: Parts of the package that decide what training computes.
COMPUTED_BY = ("data", "models", "training")


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
    checkpoint: Checkpoint | None = ...,
) -> ImageTrainingRun: ...


@overload
def train(
    dataset: TokenDataset | DocumentStream,
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
    checkpoint: Checkpoint | None = ...,
) -> TrainingRun: ...


@checked
@keep_precision
def train(
    dataset: TokenDataset | DocumentStream | ImageDataset,
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
    checkpoint: Checkpoint | None = None,
) -> TrainingRun | ImageTrainingRun:
    """Train every trainable parameter of `model` on `dataset`.

    The same key gives the same bytes on the same machine: every sum is taken in a fixed order. The exception is
    `TwoLayer` on an accelerator, which does so with `fixed_order=True`. A run that leaves the numbers, its loss or a
    parameter NaN or infinite, raises `DivergedError`.

    Args:
        dataset: documents as counts, with labels of both classes; or a stream of them, such as a `ShardStream` of a
            corpus on disk, which decides their order; or pictures with classes, for which `train_images` does the work
            and says more.
        model: such as `OneLayer(width=2048)`, or your own (`Trainable`).
        optimiser: `AdamW(...)`, `SGD(...)`, `GradientDescent(lr)`, which takes the whole data set as its batch, or your
            own (`Optimiser`).
        epochs: passes over the data, those of a checkpoint counted in, those of `start` not; 0 returns the start.
        key: `jax.random.key(seed)`; decides the start and the order of documents in memory.
        batch_size: documents of a step; the last batch of an epoch holds what is left.
        schedule: the learning rate over epochs.
        dtype: float32 or float64.
        start: a run to go on from, over the same vocabulary, or parameters; instead of `model.initial`. It is copied.
            With the model, the optimiser and the dtype of the run it goes on as if it had never ended: the optimiser's
            state, the epochs of the schedule and the records, and with the key of the run the order of documents.
            Another model or optimiser starts anew from its parameters.
        vocabulary: which token each row of `start` is, where that is parameters and not a run.
        validation: documents of the same vocabulary that are evaluated after every epoch: the parameters with the
            smallest loss on them are returned, and `best_epoch` and `validation` of the run say which and how.
        patience: training is over after so many epochs without a smaller loss on `validation`.
        batches: how the data set is cut into batches, where it is not to be the way of the model's type.
        progress: called as progress(epochs done, epochs in all, "training").
        on_epoch: called as on_epoch(epoch, parameters) after each epoch, epochs counted from 1; what a checkpoint holds
            already is not shown again. Copy what you keep: the next epoch overwrites the arrays.
        checkpoint: where the run is kept as it goes on, and taken up if it is there, to end in the same bytes.
    """
    if isinstance(dataset, ImageDataset):
        _check_for_pictures(start=start, vocabulary=vocabulary, validation=validation, patience=patience)
        options: dict[str, Any] = {"epochs": epochs, "key": key, "batch_size": batch_size, "checkpoint": checkpoint}
        options |= {"schedule": schedule, "dtype": dtype, "progress": progress, "on_epoch": on_epoch}
        options |= {} if batches is None else {"batches": batches}
        return train_images(dataset, model, optimiser, **options)
    kind = checked_dtype(model, optimiser, epochs, dtype)
    if isinstance(dataset, DocumentStream):
        if checkpoint is not None:
            raise InvalidInputError("a training on a stream keeps no checkpoints: go on from a run with start=run.")
        parameters = starting_parameters(start, vocabulary, streams(key)[0], dataset, model, kind)
        best = best_epoch(validation, patience, dataset, model, (kind, batches))
        told: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "schedule": schedule, "batches": batches}
        told |= {"progress": progress, "on_epoch": on_epoch}
        return train_stream(dataset, model, optimiser, parameters, best=best, **told)
    check_both_classes(token_dataset(dataset, "the data set to train on"))
    source = batches_of(dataset, model, dataset.n_documents if optimiser.full_batch else batch_size, kind, batches)
    begin, numbers = key_numbers(key)

    def belongs_to() -> dict[str, str]:
        given = {"batch_size": batch_size, "dtype": kind, "patience": patience, "batches": batches, "key": numbers}
        values = {"model": model, "optimiser": optimiser, "schedule": schedule} | given
        words = {k: v for name, value in values.items() for k, v in in_words(name, value).items()}
        read = {"data": dataset, "validation": validation}
        words |= {name: "none" if each is None else _content(each) for name, each in read.items()}
        return words | {"start": _started_from(start)} | computed_by(*COMPUTED_BY)

    # Before anything large is made: what belongs to another run is refused at once.
    keeper = Keeper(checkpoint, belongs_to)
    found = keeper.latest()
    parameters = starting_parameters(start, vocabulary, begin, dataset, model, kind)
    # Random numbers need room of their own: it must be free again before the optimiser's state takes its own.
    jax.block_until_ready(parameters)
    best = best_epoch(validation, patience, dataset, model, (kind, batches))
    state = TrainingState(parameters, initial_state(optimiser, model, source, parameters))
    training = _Training(dataset, model, optimiser, batches, schedule, source, best, state, numbers)
    if isinstance(start, TrainingRun) and training.is_that_of(start):
        training.take_up(start)
    last = training.epochs + epochs

    keeper.expect(state)
    with keeper:
        if found is not None:
            training.resume(found, last)
        for epoch in range(training.epochs + 1, last + 1):
            if training.is_over:
                break
            training.one_epoch()
            progress(epoch, last, "training")
            if on_epoch is not None:
                on_epoch(epoch, training.state.parameters)
            keeper.after(epoch, lambda: training.run().archived(), last=training.is_over or epoch == last)
    run = training.run()
    check_parameters(run.parameters, training.rates)
    return run


@dataclass(eq=False)
class _Training:
    """A training under way: all that an epoch changes, and the run that it amounts to so far."""

    dataset: TokenDataset
    model: Any
    optimiser: Optimiser
    batches: Any  # as given to `train`
    schedule: StepSchedule | WarmUp
    source: Batches
    best: BestEpoch | None
    state: TrainingState
    key: tuple[int, ...]  # numbers that seed the orders of documents
    measured: list[np.ndarray] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    steps: int = 0
    is_over: bool = False  # whether patience is at its end

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.key)
        self._kind = self.state.parameters.embeddings.dtype.name
        self._posterior = jnp.asarray(token_statistics(self.dataset).posterior_difference.astype(self._kind))

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.measured)

    def one_epoch(self) -> None:
        """The next epoch."""
        begin, n = time.perf_counter(), self.source.n_documents
        rows = self.source.rows(np.arange(n) if self.optimiser.full_batch else self.rng.permutation(n))
        rises = self.schedule.multipliers(self.epochs, len(rows))
        table = coefficients(self.optimiser, self.steps, self.optimiser.lr * rises).astype(self._kind)
        data = EpochData(self.source.on_device, self._posterior, rows, table)
        program = program_of(self.model, self.source, rows)
        self.state, numbers = epoch_function(self.model)(program, type(self.optimiser), self.state, data)
        self.measured.append(np.asarray(numbers))
        self.rates.append(float(self.optimiser.lr * rises[-1]))
        self.steps += len(rows)
        loss = None if self.best is None else self.best.see(self.state.parameters)
        check_numbers(self.measured[-1], loss, self.epochs, self.rates[-1])
        self.is_over = self.best is not None and self.best.is_over
        self.seconds.append(time.perf_counter() - begin)

    def run(self) -> TrainingRun:
        """What there is after the epochs done."""
        best = self.best
        return TrainingRun(
            parameters=self.state.parameters if best is None or best.epoch == 0 else best.parameters,
            records=records_of(self.measured, self.rates),
            model=self.model,
            optimiser=self.optimiser,
            steps=self.steps,
            vocabulary=self.dataset.vocabulary,
            class_names=self.dataset.class_names,
            validation=None if best is None else best.records(),
            best_epoch=None if best is None else best.epoch,
            batches=self.batches,
            position=Position(self.state, self.key, dict(self.rng.bit_generator.state)),
            epoch_seconds=np.array(self.seconds),
        )

    def is_that_of(self, run: TrainingRun) -> bool:
        """Whether a run was made by the same rule, so that its next epoch can be the next here."""
        if run.position is None or run.optimiser != self.optimiser or not bool(run.model == self.model):
            return False
        return [_kind(x) for x in jax.tree.leaves(run.position.state)] == [
            _kind(x) for x in jax.tree.leaves(self.state)
        ]

    def take_up(self, run: TrainingRun) -> None:
        """Stand where a run stood after its last epoch."""
        assert run.position is not None
        columns = list(run.records.columns().values())
        self.measured, self.rates = list(np.stack(columns[:-1], axis=1)), columns[-1].tolist()
        self.seconds, self.steps = run.epoch_seconds.tolist(), run.steps
        # Copies, as an epoch overwrites its arrays; they lie where those that they replace lie.
        self.state = jax.tree.map(
            lambda own, kept: jax.device_put(jnp.array(kept, copy=True), own.sharding), self.state, run.position.state
        )
        if run.position.key == self.key:
            self.rng.bit_generator.state = run.position.orders
        if self.best is not None:
            self.best.take_up(run.validation, run.best_epoch, run.parameters, self.epochs)

    def resume(self, found: Archive, last: int) -> None:
        """Stand where a checkpoint was written."""
        run = TrainingRun.from_archive(found, self.model, self.optimiser, like=self.state.parameters)
        if len(run.records) > last:
            raise InvalidInputError(
                f"the checkpoint has seen {len(run.records)} epochs, more than the {last} asked for: ask for as many, "
                "or give another folder."
            )
        self.take_up(run)
        self.is_over = self.best is not None and self.best.is_over


def _kind(leaf: Any) -> tuple[tuple[int, ...], str]:
    return tuple(leaf.shape), leaf.dtype.name


def _content(dataset: TokenDataset) -> str:
    counts = dataset.counts
    content = fingerprint(counts.indptr, counts.indices, counts.data, dataset.labels, dataset.vocabulary)
    return f"{dataset.n_documents} documents of {dataset.vocabulary_size} tokens, {content}"


def _started_from(start: Trained | Tree | None) -> str:
    if start is None:
        return "the model's own start"
    parameters = start.parameters if isinstance(start, Trained) else start
    content = fingerprint(*map(host_array, jax.tree.leaves(parameters)))
    return f"a run of {len(start.records)} epochs, {content}" if isinstance(start, TrainingRun) else content


def _check_for_pictures(**given: object) -> None:
    """Raise if something is asked for that only counted texts have."""
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"{name} is for counted texts: leave it out where pictures are trained on.")
