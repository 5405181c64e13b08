"""Training on labelled pictures: the contract of `train`, with checkpoints, for models whose parameters are no E, p, v.

Epochs are compiled scans over batches on the device, parameters and the optimiser's state are donated, and what an
optimiser, a model and batches offer is what `train` asks of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._archive import Archive
from tokenmargin._checks import checked, whole_number
from tokenmargin._fingerprint import fingerprint, in_words
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray
from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.papers.maxmargin.vit.image_batches import augmented_image_batches, image_batches
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training._program import OptimiserState, Program, apply_gradients, initial_state, program_of
from tokenmargin.training._start import key_numbers
from tokenmargin.training.checkpoint import Checkpoint, Keeper, computed_by, host_array
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
    checkpoint: Checkpoint | None = None,
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
        checkpoint: where the state is kept as training goes on, and taken up if it is there, to end in the same bytes.
        progress: called as progress(epochs done, epochs in all, "training").
        on_epoch: called as on_epoch(epoch, parameters) before the first epoch, as 0, and after each; what a checkpoint
            holds already is not shown again. Copy what you keep: the next epoch overwrites the arrays.
    """
    kind = np.dtype(dtype).name
    whole_number(epochs, "epochs", 0)
    _check_side(dataset, model)
    source = batches(dataset, len(dataset) if optimiser.full_batch else batch_size, kind)
    begin, numbers = key_numbers(key)

    def belongs_to() -> dict[str, str]:
        given = {"batch_size": batch_size, "dtype": kind, "batches": batches, "key": numbers}
        values = {"model": model, "optimiser": optimiser, "schedule": schedule} | given
        words = {k: v for name, value in values.items() for k, v in in_words(name, value).items()}
        words["data"] = f"{len(dataset)} pictures, {fingerprint(dataset.images, dataset.labels, dataset.class_names)}"
        return words | computed_by("data", "models", "training")

    # Before anything large is made: what belongs to another run is refused at once.
    keeper = Keeper(checkpoint, belongs_to)
    found = keeper.latest()
    parameters = model.initial(begin, len(dataset.class_names), kind)
    state = _State(parameters, initial_state(optimiser, model, source, parameters))
    table: list[np.ndarray] = []
    steps = 0
    one_epoch = jitted(_epoch, usable_options(model.compiler_options), static_argnums=(0, 1), donate_argnums=2)

    def kept() -> tuple[dict[str, Any], dict[str, Any]]:
        leaves = {f"{k:05d}": host_array(leaf) for k, leaf in enumerate(jax.tree.leaves(state))}
        return leaves | {"table": np.array(table).reshape(-1, 3)}, {"steps": steps}

    keeper.expect(state)
    with keeper:
        if found is not None:
            state, table, steps = _resumed(found, state, epochs)
        if on_epoch is not None and not table:
            on_epoch(0, state.parameters)
        for epoch in range(len(table), epochs):
            rows = source.rows(np.random.default_rng([*numbers, epoch]).permutation(len(dataset)))
            rises = schedule.multipliers(epoch, len(rows))
            coefficients = np.asarray(optimiser.coefficients(steps, optimiser.lr * rises)).astype(kind)
            program = program_of(model, source, rows)
            state, sums = one_epoch(program, type(optimiser), state, (source.on_device, rows, coefficients))
            table.append(_measured(sums, epoch, float(optimiser.lr * rises[-1])))
            steps += len(rows)
            progress(epoch + 1, epochs, "training")
            if on_epoch is not None:
                on_epoch(epoch + 1, state.parameters)
            keeper.after(epoch + 1, kept, last=epoch + 1 == epochs)
    records = ImageRecords(*np.array(table).reshape(-1, 3).T)
    return ImageTrainingRun(state.parameters, records, model, optimiser, steps, dataset.class_names)


def _measured(sums: AnyArray, epoch: int, rate: float) -> np.ndarray:
    """Loss, accuracy and learning rate of an epoch."""
    loss, correct, documents = np.asarray(sums, np.float64)
    if not np.isfinite(loss):
        raise DivergedError(f"training diverged in epoch {epoch + 1}: start again with a smaller learning rate.")
    return np.array([loss / documents, correct / documents, rate])


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


def _resumed(found: Archive, fresh: _State, epochs: int) -> tuple[_State, list[np.ndarray], int]:
    """State, numbers of the epochs done and steps taken, as the checkpoint has them."""
    table = list(found.arrays["table"])
    if len(table) > epochs:
        raise InvalidInputError(
            f"the checkpoint has seen {len(table)} epochs, more than the {epochs} asked for: ask for as many, or give "
            "another folder."
        )
    expected, structure = jax.tree.flatten(fresh)
    # Copies: an epoch donates its buffers, and the file's are not JAX's to give. They lie where the fresh ones lie.
    leaves = [
        jax.device_put(jnp.array(found.arrays[f"{k:05d}"], copy=True), own.sharding) for k, own in enumerate(expected)
    ]
    return jax.tree.unflatten(structure, leaves), table, int(found.notes["steps"])


def _check_side(dataset: ImageDataset, model: Any) -> None:
    if getattr(model, "side", dataset.side) != dataset.side:
        raise InvalidInputError(
            f"the model takes pictures of {model.side} x {model.side} pixels, and these have {dataset.side} x "
            f"{dataset.side}: scale them, or make the model for them, side={dataset.side}."
        )
