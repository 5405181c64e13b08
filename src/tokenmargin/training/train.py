"""Training of all parameters of a model on a data set: epochs of shuffled batches [E, App. E].

The epoch is one compiled scan whose buffers are donated: parameters and the optimiser's state exist once. What a model
must offer is `Trainable`, what batches must offer `Batches`; an optimiser is a value of `Optimiser`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import positive, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray
from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training._program import OptimiserState, Program, apply_gradients, initial_state, program_of
from tokenmargin.training.batches import batches_of
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.records import TrainingRecords, epoch_numbers, records_of
from tokenmargin.training.schedule import CONSTANT, StepSchedule
from tokenmargin.training.trainable import BatchFactory, Trainable, Tree

#: What the parameters of every model have, because the records measure it.
RECORDED = ("embeddings", "query", "head")


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """Trained parameters and what was recorded on the way."""

    parameters: Tree
    records: TrainingRecords
    model: Trainable
    optimiser: Optimiser
    steps: int  #: optimiser steps taken


class TrainingState(NamedTuple):
    """All that a step changes."""

    parameters: Tree
    optimiser: OptimiserState


class EpochData(NamedTuple):
    """All that an epoch reads."""

    on_device: Tree  # the data set, as its batches keep it
    posterior: AnyArray  # posterior difference of each token, for the records
    rows: AnyArray  # the documents of each step
    coefficients: AnyArray  # the optimiser's numbers of each step


@keep_precision
def train(
    dataset: TokenDataset,
    model: Trainable,
    optimiser: Optimiser,
    *,
    epochs: int,
    key: AnyArray,
    batch_size: int = 128,
    schedule: StepSchedule = CONSTANT,
    dtype: Any = np.float32,
    start: Tree | None = None,
    batches: BatchFactory | None = None,
    progress: Progress = silent,
    on_epoch: Callable[[int, Tree], None] | None = None,
) -> TrainingRun:
    """Train every trainable parameter of `model` on `dataset`.

    The same key gives the same bytes on the same machine: every sum is taken in a fixed order. The exception is
    `TwoLayer` on an accelerator, which does so with `fixed_order=True`.

    Args:
        dataset: documents as counts, with labels.
        model: such as `OneLayer(width=2048)`, or your own (`Trainable`).
        optimiser: `AdamW(...)`, `SGD(...)`, `GradientDescent(lr)`, which takes the whole data set as its batch, or your
            own (`Optimiser`).
        epochs: passes over the data; 0 returns the start.
        key: `jax.random.key(seed)`; decides the start and the order of documents.
        batch_size: documents of a step; the last batch of an epoch holds what is left.
        schedule: the learning rate over epochs.
        dtype: float32 or float64.
        start: parameters to start from instead of `model.initial`; they are copied.
        batches: how the data set is cut into batches, where it is not to be the way of the model's type.
        progress: called as progress(epochs done, epochs in all, "training").
        on_epoch: called as on_epoch(epoch, parameters) after each epoch, epochs counted from 1. Copy what you keep:
            the next epoch overwrites the arrays.
    """
    kind = _checked(model, optimiser, epochs, dtype)
    source = batches_of(dataset, model, dataset.n_documents if optimiser.full_batch else batch_size, kind, batches)
    begin, rng = streams(key)
    parameters = _parameters(start, begin, dataset, model, kind)
    # Random numbers need room of their own: it must be free again before the optimiser's state takes its own.
    jax.block_until_ready(parameters)
    state = TrainingState(parameters, initial_state(optimiser, model, source, parameters))
    posterior = jnp.asarray(token_statistics(dataset).posterior_difference.astype(kind))
    one_epoch = epoch_function(model)
    measured: list[np.ndarray] = []
    rates: list[float] = []
    steps = 0
    for epoch in range(epochs):
        order = np.arange(source.n_documents) if optimiser.full_batch else rng.permutation(source.n_documents)
        rows = source.rows(order)
        rates.append(optimiser.lr * schedule.multiplier(epoch))
        coefficients = _coefficients(optimiser, steps, np.full(len(rows), rates[-1])).astype(kind)
        data = EpochData(source.on_device, posterior, rows, coefficients)
        state, numbers = one_epoch(program_of(model, source, rows), type(optimiser), state, data)
        measured.append(np.asarray(numbers))
        steps += len(rows)
        progress(epoch + 1, epochs, "training")
        if on_epoch is not None:
            on_epoch(epoch + 1, state.parameters)
    return TrainingRun(state.parameters, records_of(measured, rates), model, optimiser, steps)


def epoch_function(model: Trainable) -> Any:
    """`train_epoch`, compiled with what the model tells the compiler of an accelerator."""
    options = usable_options(model.compiler_options)
    return jitted(train_epoch, options, static_argnums=(0, 1), donate_argnums=2)


def train_epoch(
    program: Program, optimiser: type[Optimiser], state: TrainingState, data: EpochData
) -> tuple[TrainingState, Array]:
    """One pass over the data: what it leaves behind, and the numbers of the epoch."""

    def step(state: TrainingState, now: tuple[Any, AnyArray]) -> tuple[TrainingState, Array]:
        plan, row = now
        sums, gradients = program.loss_and_gradients(state.parameters, data.on_device, plan)
        moved = TrainingState(
            *apply_gradients(optimiser, jnp.asarray(row), state.parameters, state.optimiser, gradients)
        )
        return moved, jnp.stack([sums.mean_loss, sums.correct, sums.documents])

    # On an accelerator a short step is bound by starting its kernels; several steps in a row are started faster.
    together = 1 if jax.default_backend() == "cpu" else program.model.steps_together
    plans = program.plans(data.on_device, data.rows)
    state, sums = jax.lax.scan(step, state, (plans, data.coefficients), unroll=together)
    E, p, v = (getattr(state.parameters, name) for name in RECORDED)
    readings = jnp.dot(E, jnp.stack([p, v], axis=1), precision=jax.lax.Precision.HIGHEST)
    norms = jnp.linalg.norm(E), jnp.linalg.norm(p), jnp.linalg.norm(v)
    return state, epoch_numbers(sums, readings, norms, jnp.asarray(data.posterior))


def _coefficients(optimiser: Optimiser, steps_done: int, rates: np.ndarray) -> np.ndarray:
    table = np.asarray(optimiser.coefficients(steps_done, rates))
    if table.ndim != 2 or len(table) != len(rates):
        raise InvalidInputError(
            f"{type(optimiser).__name__}.coefficients must give a row for each of {len(rates)} steps, shape "
            f"({len(rates)}, k); it gave an array of shape {table.shape}."
        )
    return table


def _parameters(start: Tree | None, key: Array, dataset: TokenDataset, model: Trainable, kind: str) -> Tree:
    """What training starts from: the model's own start, or a copy of the one given."""
    found = model.initial(key, dataset.vocabulary_size, kind) if start is None else start
    missing = [name for name in RECORDED if not hasattr(found, name)]
    if missing:
        raise InvalidInputError(
            f"the parameters of {type(model).__name__} have no {' and no '.join(missing)}: the records of training "
            "measure embeddings, query and head, so a model's parameters must have them as attributes."
        )
    return found if start is None else _copied(start, dataset, model, kind)


def _copied(start: Tree, dataset: TokenDataset, model: Trainable, kind: str) -> Tree:
    V = start.embeddings.shape[0]
    if dataset.vocabulary_size != V:
        raise InvalidInputError(
            f"start has embeddings of {V} tokens but the data set has {dataset.vocabulary_size}: use the vocabulary "
            "that the parameters were trained with."
        )
    width = getattr(model, "width", start.embeddings.shape[1])
    if start.embeddings.shape[1] != width:
        raise InvalidInputError(f"start has width {start.embeddings.shape[1]} but the model has width {width}.")
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
    try:
        kind = np.dtype(dtype).name
    except TypeError:
        kind = str(dtype)
    if kind not in ("float32", "float64"):
        raise InvalidInputError(f"dtype must be float32 or float64, got {kind}.")
    return kind
