"""Training on labelled pictures: the contract of `train`, with checkpoints, for models whose parameters are no E, p, v.

Epochs are compiled scans over batches on the device, parameters and the optimiser's state are donated, and what an
optimiser, a model and batches offer is what `train` asks of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import checked, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray
from tokenmargin.data.images import ImageDataset
from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training._program import OptimiserState, Program, apply_gradients, initial_state, program_of
from tokenmargin.training.checkpoint import load_checkpoint, save_checkpoint
from tokenmargin.training.image_batches import augmented_image_batches, image_batches
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.schedule import CONSTANT, StepSchedule
from tokenmargin.training.trainable import Batches, Tree
from tokenmargin.training.warm_up import WarmUp

#: From a data set, the pictures of a batch and "float32" or "float64" to batches.
ImageBatchFactory = Callable[[ImageDataset, int, str], Batches]


@dataclass(frozen=True, eq=False)
class ImageRecords:
    """One entry an epoch, each of shape (epochs,); loss and accuracy over its batches as they were met."""

    loss: np.ndarray  #: mean cross entropy
    accuracy: np.ndarray  #: share of pictures whose class has the largest output
    learning_rate: np.ndarray  #: of the last step of the epoch

    def __len__(self) -> int:
        """Epochs recorded."""
        return len(self.loss)


@dataclass(frozen=True, eq=False)
class ImageTrainingRun:
    """Trained parameters and what was recorded on the way."""

    parameters: Tree
    records: ImageRecords
    model: Any
    optimiser: Optimiser
    steps: int  #: optimiser steps taken
    class_names: tuple[str, ...]


class _State(NamedTuple):
    """All that a step changes."""

    parameters: Tree
    optimiser: OptimiserState


@checked
@keep_precision
def train_images(
    dataset: ImageDataset,
    model: Any,
    optimiser: Optimiser,
    *,
    epochs: int,
    key: AnyArray,
    batch_size: int = 512,
    schedule: StepSchedule | WarmUp = CONSTANT,
    dtype: Any = np.float32,
    batches: ImageBatchFactory = augmented_image_batches,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
    progress: Progress = silent,
    on_epoch: Callable[[int, Tree], None] | None = None,
) -> ImageTrainingRun:
    """Train every trainable parameter of `model` on pictures.

    The order of the pictures of an epoch depends on the key and on the number of the epoch alone, so that a run that
    goes on from a checkpoint is the run that was never interrupted.

    Args:
        dataset: pictures with classes.
        model: such as `Vit.of_size("tiny")`.
        optimiser: `AdamW(...)`, `SGD(...)` or your own (`Optimiser`).
        epochs: passes over the data, those of the checkpoint counted in; 0 returns the start.
        key: `jax.random.key(seed)`; decides the start, the order of pictures and how they are shifted.
        batch_size: pictures of a step; the last batch of an epoch holds what is left.
        schedule: the learning rate over epochs; `WarmUp(1)` lets it rise in the first.
        dtype: of the parameters, float32 or float64; an accelerator computes in bfloat16 where the model says so.
        batches: `augmented_image_batches`, or `image_batches` for pictures as they are.
        checkpoint: a file that is written as training goes on, and taken up if it is there.
        checkpoint_every: epochs between writing it; it is written after the last in any case.
        progress: called as progress(epochs done, epochs in all, "training").
        on_epoch: called as on_epoch(epoch, parameters) before the first epoch, as 0, and after each; what a checkpoint
            holds already is not shown again. Copy what you keep: the next epoch overwrites the arrays.
    """
    kind = np.dtype(dtype).name
    for value, name, least in ((epochs, "epochs", 0), (checkpoint_every, "checkpoint_every", 1)):
        whole_number(value, name, least)
    _check_side(dataset, model)
    source = batches(dataset, len(dataset) if optimiser.full_batch else batch_size, kind)
    begin, numbers_of_key = _streams(key)
    parameters = model.initial(begin, len(dataset.class_names), kind)
    whose = f"{model} {optimiser} {schedule} batches {batch_size} of {len(dataset)} key {numbers_of_key}"
    fresh = _State(parameters, initial_state(optimiser, model, source, parameters))
    state, table, steps = _resumed(checkpoint, whose, fresh)
    if on_epoch is not None and not table:
        on_epoch(0, state.parameters)
    one_epoch = jitted(_epoch, usable_options(model.compiler_options), static_argnums=(0, 1), donate_argnums=2)
    for epoch in range(len(table), epochs):
        rows = source.rows(np.random.default_rng([*numbers_of_key, epoch]).permutation(len(dataset)))
        rises = schedule.multipliers(epoch, len(rows))
        coefficients = np.asarray(optimiser.coefficients(steps, optimiser.lr * rises)).astype(kind)
        program = program_of(model, source, rows)
        state, sums = one_epoch(program, type(optimiser), state, (source.on_device, rows, coefficients))
        loss, correct, documents = np.asarray(sums, np.float64)
        if not np.isfinite(loss):
            raise DivergedError(f"training diverged in epoch {epoch + 1}: start again with a smaller learning rate.")
        table.append(np.array([loss / documents, correct / documents, optimiser.lr * rises[-1]]))
        steps += len(rows)
        if checkpoint is not None and ((epoch + 1) % checkpoint_every == 0 or epoch + 1 == epochs):
            save_checkpoint(Path(checkpoint), whose, state, table=np.array(table), steps=np.array(steps))
        progress(epoch + 1, epochs, "training")
        if on_epoch is not None:
            on_epoch(epoch + 1, state.parameters)
    records = ImageRecords(*np.array(table).reshape(-1, 3).T)
    return ImageTrainingRun(state.parameters, records, model, optimiser, steps, dataset.class_names)


@checked
@keep_precision
def image_accuracy(model: Any, parameters: Tree, dataset: ImageDataset, batch_size: int = 512) -> float:
    """The share of pictures whose class has the largest output; pictures as they are."""
    kind = jnp.asarray(jax.tree.leaves(parameters)[0]).dtype.name
    source = image_batches(dataset, batch_size, kind)
    rows = source.rows(np.arange(len(dataset)))
    correct = jitted(_correct, (), static_argnums=0)(
        program_of(model, source, rows), parameters, source.on_device, rows
    )
    return float(correct) / len(dataset)


def _correct(program: Program, parameters: Tree, on_device: Tree, rows: AnyArray) -> Array:
    def add(total: Array, plan: Any) -> tuple[Array, None]:
        # The gradients are not used, so the compiler leaves them out.
        return total + program.loss_and_gradients(parameters, on_device, plan)[0].correct, None

    zero = jnp.zeros((), jnp.asarray(jax.tree.leaves(parameters)[0]).dtype)
    return jax.lax.scan(add, zero, program.plans(on_device, rows))[0]


def _epoch(
    program: Program, optimiser: type[Optimiser], state: _State, data: tuple[Tree, AnyArray, AnyArray]
) -> tuple[_State, Array]:
    """One pass over the data: what it leaves behind, and the sums of losses, of correct outputs and of pictures."""
    on_device, rows, coefficients = data

    def step(state: _State, now: tuple[Any, AnyArray]) -> tuple[_State, Array]:
        plan, row = now
        sums, gradients = program.loss_and_gradients(state.parameters, on_device, plan)
        moved = apply_gradients(optimiser, jnp.asarray(row), state.parameters, state.optimiser, gradients)
        return _State(*moved), jnp.stack([sums.mean_loss * sums.documents, sums.correct, sums.documents])

    state, sums = jax.lax.scan(step, state, (program.plans(on_device, rows), coefficients))
    return state, jnp.sum(sums, axis=0)


def _resumed(checkpoint: str | Path | None, whose: str, fresh: _State) -> tuple[_State, list[np.ndarray], int]:
    """State, numbers of the epochs done and steps taken, as the checkpoint has them or at the start."""
    if checkpoint is None or not Path(checkpoint).is_file():
        return fresh, [], 0
    kept, notes = load_checkpoint(Path(checkpoint), whose, fresh)
    # Copies: an epoch donates its buffers, and the file's are not JAX's to give.
    return jax.tree.map(lambda x: jnp.array(x, copy=True), kept), list(notes["table"]), int(notes["steps"])


def _streams(key: AnyArray) -> tuple[Array, tuple[int, ...]]:
    """The key of the start, and the numbers that seed the orders of pictures."""
    try:
        begin, order = jax.random.split(key)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"key must be a JAX random key such as jax.random.key(0), got {key!r}.") from error
    return begin, tuple(int(number) for number in np.asarray(jax.random.key_data(order)))


def _check_side(dataset: ImageDataset, model: Any) -> None:
    if getattr(model, "side", dataset.side) != dataset.side:
        raise InvalidInputError(
            f"the model takes pictures of {model.side} x {model.side} pixels, and these have {dataset.side} x "
            f"{dataset.side}: scale them, or make the model for them, side={dataset.side}."
        )
