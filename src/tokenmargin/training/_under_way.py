"""A training under way, wherever its documents lie: what an epoch changes, and how it is taken up and carried on."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._archive import Archive
from tokenmargin._progress import Progress
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.models.model import Tree
from tokenmargin.training._program import TrainingState
from tokenmargin.training.checkpoint import Keeper
from tokenmargin.training.document_stream import DocumentStream
from tokenmargin.training.evaluate import BestEpoch, Trained
from tokenmargin.training.examples import Examples
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.records import TrainingRecords
from tokenmargin.training.schedule import Schedule
from tokenmargin.training.training_run import Position, TrainingRun


class Rule(NamedTuple):
    """Arguments of a training: the data, the model, how it is trained, and which epoch is kept."""

    dataset: TokenDataset | DocumentStream | Examples
    model: Any
    optimiser: Optimiser
    batches: Any  # as given to `train`
    schedule: Schedule
    best: BestEpoch | None
    key: tuple[int, ...]  # numbers that seed the orders of documents in memory
    dtype: str


class Passed(NamedTuple):
    """One pass over all documents."""

    state: TrainingState
    numbers: np.ndarray  # of the epoch, in the order of `Training.names`
    rate: float  # learning rate of its last step
    steps: int


@dataclass(eq=False)
class Training(ABC):
    """All that an epoch changes, and the run that it amounts to so far."""

    rule: Rule
    state: TrainingState
    names: tuple[str, ...]  # of the numbers of an epoch
    measured: list[np.ndarray] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    steps: int = 0
    is_over: bool = False  # whether patience is at its end
    rng: np.random.Generator | None = None  # of the orders of documents, where the documents do not bring their own

    @abstractmethod
    def one_pass(self) -> Passed:
        """The next epoch's steps."""

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.measured)

    def one_epoch(self) -> None:
        """The next epoch."""
        begin, best = time.perf_counter(), self.rule.best
        self.state, numbers, rate, steps = self.one_pass()
        self.measured.append(numbers)
        self.rates.append(rate)
        self.steps += steps
        loss = None if best is None else best.see(self.state.parameters)
        measured = dict(zip(self.names, numbers.tolist(), strict=True))
        measured |= {} if loss is None else {"validation loss": loss}
        check_numbers(measured, self.state.parameters, self.epochs, rate)
        self.is_over = best is not None and best.is_over
        self.seconds.append(time.perf_counter() - begin)

    def run(self) -> TrainingRun:
        """Return the run after the epochs done."""
        best, dataset = self.rule.best, self.rule.dataset
        return TrainingRun(
            parameters=self.state.parameters if best is None or best.epoch == 0 else best.parameters,
            records=self._records(),
            model=self.rule.model,
            optimiser=self.rule.optimiser,
            steps=self.steps,
            vocabulary=dataset.vocabulary,
            class_names=dataset.class_names,
            validation=None if best is None else best.records(),
            best_epoch=None if best is None else best.epoch,
            batches=self.rule.batches,
            position=Position(
                self.state, self.rule.key, {} if self.rng is None else dict(self.rng.bit_generator.state)
            ),
            epoch_seconds=np.array(self.seconds),
        )

    def _records(self) -> TrainingRecords:
        table = np.asarray(self.measured, dtype=np.float64).reshape(self.epochs, len(self.names))
        rates = np.asarray(self.rates, dtype=np.float64)
        return TrainingRecords.of_columns({**dict(zip(self.names, table.T, strict=True)), "learning_rate": rates})

    def is_that_of(self, run: TrainingRun) -> bool:
        """True if a run was made by the same rule, so that its next epoch can be the next here."""
        if run.position is None or run.optimiser != self.rule.optimiser or not bool(run.model == self.rule.model):
            return False
        return [_kind(x) for x in jax.tree.leaves(run.position.state)] == [
            _kind(x) for x in jax.tree.leaves(self.state)
        ]

    def take_up(self, run: TrainingRun) -> None:
        """Stand where a run stood after its last epoch."""
        assert run.position is not None
        columns = run.records.columns()
        self.measured = list(np.stack([columns[name] for name in self.names], axis=1))
        self.rates = run.records.learning_rate.tolist()
        self.seconds, self.steps = run.epoch_seconds.tolist(), run.steps
        # Copies, as an epoch overwrites its arrays; they lie where those that they replace lie.
        self.state = jax.tree.map(
            lambda own, kept: jax.device_put(jnp.array(kept, copy=True), own.sharding), self.state, run.position.state
        )
        if self.rng is not None and run.position.key == self.rule.key and run.position.orders:
            self.rng.bit_generator.state = run.position.orders
        if self.rule.best is not None:
            self.rule.best.take_up(run.validation, run.best_epoch, run.parameters, self.epochs)

    def resume(self, found: Archive, last: int) -> None:
        """Stand where a checkpoint was written."""
        run = TrainingRun.from_archive(found, self.rule.model, self.rule.optimiser, like=self.state.parameters)
        if len(run.records) > last:
            raise InvalidInputError(
                f"the checkpoint has seen {len(run.records)} epochs, more than the {last} asked for: ask for as many, "
                "or give another folder."
            )
        self.take_up(run)
        self.is_over = self.rule.best is not None and self.rule.best.is_over


def carried_on(
    training: Training,
    keeper: Keeper,
    found: Archive | None,
    epochs: int,
    *,
    start: Trained | Tree | None,
    progress: Progress,
    on_epoch: Callable[[int, Tree], None] | None,
) -> TrainingRun:
    """The run after so many epochs, from a run that is taken up or from a checkpoint that was found."""
    if isinstance(start, TrainingRun) and training.is_that_of(start):
        training.take_up(start)
    last = training.epochs + epochs
    keeper.expect(training.state)
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
    if training.rates:  # no loss has seen what the last step made
        check_parameters(run.parameters, training.epochs, training.rates[-1])
    return run


def _kind(leaf: Any) -> tuple[tuple[int, ...], str]:
    return tuple(leaf.shape), leaf.dtype.name


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
