"""Training of all parameters of a model on a data set: epochs of shuffled batches [E, App. E].

The epoch is one compiled scan whose buffers are donated: parameters and moments exist once. What a model must offer
is `Trainable`, what batches must offer `Batches`; the optimiser is a value (`AdamW`, `SGD`, `GradientDescent`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray
from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.factored_gradient import gradient_entries, is_gradient
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training.adamw import AdamW
from tokenmargin.training.count_batches import count_batches
from tokenmargin.training.records import TrainingRecords, epoch_numbers, records_of
from tokenmargin.training.schedule import CONSTANT, StepSchedule
from tokenmargin.training.sgd import SGD
from tokenmargin.training.trainable import Batches, Trainable, Tree

Optimiser = AdamW | SGD


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """Trained parameters and what was recorded on the way."""

    parameters: Tree
    records: TrainingRecords
    model: Any
    optimiser: Optimiser
    steps: int  #: optimiser steps taken


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
    batches: Callable[[TokenDataset, int, str], Any] = count_batches,
    progress: Progress = silent,
    on_epoch: Callable[[int, Tree], None] | None = None,
) -> TrainingRun:
    """Train every trainable parameter of `model` on `dataset`.

    The same key gives the same bytes on the same machine: every sum is taken in a fixed order. The exception is
    `TwoLayer` on an accelerator, which does so with `fixed_order=True`.

    Args:
        dataset: documents as counts, with labels.
        model: such as `OneLayer(width=2048)`.
        optimiser: `AdamW(...)`, `SGD(...)`, or `GradientDescent(lr)`, which takes the whole data set as its batch.
        epochs: passes over the data; 0 returns the start.
        key: `jax.random.key(seed)`; decides the start and the order of documents.
        batch_size: documents of a step; the last batch of an epoch holds what is left.
        schedule: the learning rate over epochs.
        dtype: float32 or float64.
        start: parameters to start from instead of `model.initial`; they are copied.
        batches: how the model wants its batches; `count_batches` for models on counts.
        progress: called as progress(epochs done, epochs in all, "training").
        on_epoch: called as on_epoch(epoch, parameters) after each epoch, epochs counted from 1. Copy what you keep:
            the next epoch overwrites the arrays.
    """
    kind = _checked(model, optimiser, epochs, dtype)
    source: Batches = batches(dataset, dataset.n_documents if optimiser.full_batch else batch_size, kind)
    begin, rng = streams(key)
    fresh = start is None
    parameters = model.initial(begin, dataset.vocabulary_size, kind) if fresh else _copied(start, dataset, model, kind)
    # Random numbers need room of their own: it must be free again before the moments take theirs.
    jax.block_until_ready(parameters)
    moments = zero_moments(model, source, parameters, optimiser.n_moments)
    posterior = jnp.asarray(token_statistics(dataset).posterior_difference.astype(kind))
    one_epoch = epoch_function(model)
    rows_of_records: list[np.ndarray] = []
    rates: list[float] = []
    steps = 0
    for epoch in range(epochs):
        order = np.arange(source.n_documents) if optimiser.full_batch else rng.permutation(source.n_documents)
        rows = source.rows(order)
        rate = optimiser.lr * schedule.multiplier(epoch)
        coefficients = optimiser.coefficients(steps, np.full(len(rows), rate)).astype(kind)
        static = (model, type(optimiser), type(source), source.layout(rows))
        parameters, moments, numbers = one_epoch(
            static, parameters, moments, (source.on_device, posterior, rows, coefficients)
        )
        rows_of_records.append(np.asarray(numbers))
        rates.append(rate)
        steps += len(rows)
        progress(epoch + 1, epochs, "training")
        if on_epoch is not None:
            on_epoch(epoch + 1, parameters)
    return TrainingRun(parameters, records_of(rows_of_records, rates), model, optimiser, steps)


def epoch_function(model: Trainable) -> Any:
    """`train_epoch`, compiled with what the model tells the compiler of an accelerator."""
    options = usable_options(model.compiler_options)
    return jitted(train_epoch, options, static_argnums=0, donate_argnums=(1, 2))


def train_epoch(
    static: tuple[Any, ...], parameters: Tree, moments: Tree, data: tuple[Any, ...]
) -> tuple[Tree, Tree, Array]:
    """One pass over the data: new parameters, new moments and the numbers of the epoch."""
    model, _, batches, layout = static
    on_device, posterior, rows, coefficients = data
    plans = batches.plan(on_device, rows, layout)

    def step(state: tuple[Tree, Tree], now: tuple[Any, Array]) -> tuple[tuple[Tree, Tree], Array]:
        plan, row = now
        sums, gradients = model.loss_and_gradients(state[0], batches.batch(on_device, plan))
        return apply_gradients(static[1], row, state, gradients), jnp.stack(
            [sums.mean_loss, sums.correct, sums.documents]
        )

    # On an accelerator a short step is bound by starting its kernels; several steps in a row are started faster.
    together = 1 if jax.default_backend() == "cpu" else model.steps_together
    (parameters, moments), sums = jax.lax.scan(step, (parameters, moments), (plans, coefficients), unroll=together)
    E, p, v = parameters.embeddings, parameters.query, parameters.head
    readings = jnp.dot(E, jnp.stack([p, v], axis=1), precision=jax.lax.Precision.HIGHEST)
    norms = jnp.linalg.norm(E), jnp.linalg.norm(p), jnp.linalg.norm(v)
    return parameters, moments, epoch_numbers(sums, readings, norms, posterior)


def apply_gradients(
    optimiser: type[Optimiser], row: Array, state: tuple[Tree, Tree], gradients: Tree
) -> tuple[Tree, Tree]:
    """One step of the optimiser on every parameter that has a gradient.

    Args:
        optimiser: the class, whose `update` is elementwise.
        row: the numbers of this step, a row of `coefficients`.
        state: parameters, and the moments of each trained parameter in the order of the tree's leaves.
        gradients: the tree of parameters, with None for what stays.
    """
    parameters, moments = state
    leaves, structure = jax.tree.flatten(parameters, is_leaf=lambda node: node is None)
    pulls = jax.tree.leaves(gradients, is_leaf=lambda node: node is None or is_gradient(node))
    new_leaves, new_moments = list(leaves), list(moments)
    for k, pull in enumerate(pulls):
        if pull is not None:
            new_leaves[k], *rest = optimiser.update(row, leaves[k], jnp.asarray(gradient_entries(pull)), moments[k])
            new_moments[k] = tuple(rest)
    return jax.tree.unflatten(structure, new_leaves), tuple(new_moments)


def zero_moments(model: Trainable, source: Batches, parameters: Tree, n_moments: int) -> tuple[tuple[Array, ...], ...]:
    """Zeros for every moment of every parameter that will get a gradient; which do is asked of the model's shapes."""
    rows = source.rows(np.arange(source.n_documents))
    layout = source.layout(rows)

    def gradients(parameters: Tree, on_device: Any, rows: Any) -> Tree:
        plan = jax.tree.map(lambda x: x[0], source.plan(on_device, rows, layout))
        return model.loss_and_gradients(parameters, source.batch(on_device, plan))[1]

    shapes = jax.eval_shape(gradients, parameters, source.on_device, rows[:1])
    pulls = jax.tree.leaves(shapes, is_leaf=lambda node: node is None or is_gradient(node))
    leaves = jax.tree.leaves(parameters, is_leaf=lambda node: node is None)
    return tuple(
        () if pull is None else tuple(jnp.zeros_like(leaf) for _ in range(n_moments))
        for leaf, pull in zip(leaves, pulls, strict=True)
    )


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
    if not isinstance(model, Trainable):
        raise InvalidInputError(f"model must offer initial and loss_and_gradients, as OneLayer does; got {model!r}.")
    if not isinstance(optimiser, AdamW | SGD):
        raise InvalidInputError(
            f"optimiser must be AdamW(...), SGD(...) or GradientDescent(...), got {type(optimiser).__name__}."
        )
    if not (isinstance(epochs, int | np.integer) and epochs >= 0):
        raise InvalidInputError(f"epochs must be a whole number >= 0, got {epochs!r}.")
    try:
        kind = np.dtype(dtype).name
    except TypeError:
        kind = str(dtype)
    if kind not in ("float32", "float64"):
        raise InvalidInputError(f"dtype must be float32 or float64, got {kind}.")
    return kind
