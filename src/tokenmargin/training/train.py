"""Training of all parameters of a model on a data set: epochs of shuffled batches [E, App. E].

A model is a value of `Model`, an optimiser one of `Optimiser`; what batches must offer is `Batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import checked, float_dtype, positive, whole_number
from tokenmargin._fingerprint import fingerprint, in_words
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray
from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.data.vocabulary import check_same_vocabulary, vocabulary_names
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.model import Model, Tree
from tokenmargin.training._program import (
    EpochData,
    TrainingState,
    epoch_function,
    initial_state,
    program_of,
    recorded_names,
)
from tokenmargin.training._streaming import OnStream, runs_of
from tokenmargin.training._under_way import Passed, Rule, Training, carried_on, coefficients
from tokenmargin.training.batches import batches_of, in_memory
from tokenmargin.training.checkpoint import Checkpoint, Keeper, computed_by, host_array
from tokenmargin.training.document_stream import DocumentStream
from tokenmargin.training.evaluate import Trained, best_epoch, check_rows, check_same_meaning
from tokenmargin.training.examples import Batches, BatchFactory, Examples, Named, model_size
from tokenmargin.training.optimisers import Optimiser
from tokenmargin.training.schedule import CONSTANT, Schedule
from tokenmargin.training.training_run import TrainingRun

__all__ = ["streams", "train"]

#: Parts of the package that decide what training computes.
COMPUTED_BY = dict.fromkeys(("data", "losses", "models", "training"))


@checked
@keep_precision
def train(
    dataset: TokenDataset | DocumentStream | Examples,
    model: Model,
    optimiser: Optimiser,
    *,
    epochs: int,
    key: AnyArray,
    batch_size: int = 128,
    schedule: Schedule = CONSTANT,
    dtype: Any = np.float32,
    start: Trained | Tree | None = None,
    vocabulary: Iterable[str] | None = None,
    validation: TokenDataset | Examples | None = None,
    patience: int | None = None,
    batches: BatchFactory | None = None,
    progress: Progress = silent,
    on_epoch: Callable[[int, Tree], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> TrainingRun:
    """Train every trainable parameter of `model` on `dataset`.

    The same key gives the same bytes on the same machine: every sum is taken in a fixed order. The exception is
    `TwoLayer` on an accelerator, which does so with `fixed_order=True`. A run that leaves the numbers, its loss or a
    parameter NaN or infinite, raises `DivergedError`.

    Args:
        dataset: documents as counts, with labels of both classes; or a stream of them, such as a `ShardStream` of a
            corpus on disk, which decides their order; or `Examples` of another kind, such as pictures.
        model: such as `OneLayer(width=2048)`, or of a subclass of `Model` of your own.
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
    kind = checked_dtype(model, optimiser, epochs, dtype)
    make = _made_for(dataset, model, optimiser, batch_size, kind, batches)
    begin, numbers = key_numbers(key)

    def belongs_to() -> dict[str, str]:
        given = {"batch_size": batch_size, "dtype": kind, "patience": patience, "batches": batches, "key": numbers}
        values = {"model": model, "optimiser": optimiser, "schedule": schedule} | given
        words = {k: v for name, value in values.items() for k, v in in_words(name, value).items()}
        words |= {"data": _content(dataset)}
        words |= {"validation": "none" if validation is None else _content(validation)}
        return words | {"start": _started_from(start)} | computed_by(*{**COMPUTED_BY, _package_of(model): None})

    # Before anything large is made: what belongs to another run is refused at once.
    keeper = Keeper(checkpoint, belongs_to)
    found = keeper.latest()
    parameters = starting_parameters(start, vocabulary, begin, dataset, model, kind)
    # Random numbers need room of their own: it must be free again before the optimiser's state takes its own.
    jax.block_until_ready(parameters)
    best = best_epoch(validation, patience, dataset, model, (kind, batches))
    training = make(Rule(dataset, model, optimiser, batches, schedule, best, numbers, kind), parameters)
    del parameters  # an epoch overwrites them
    return carried_on(training, keeper, found, epochs, start=start, progress=progress, on_epoch=on_epoch)


def _made_for(
    dataset: TokenDataset | DocumentStream | Examples,
    model: Model,
    optimiser: Optimiser,
    batch_size: int,
    kind: str,
    batches: BatchFactory | None,
) -> Callable[[Rule, Tree], Training]:
    """Return a function that makes a training of its rule and first parameters, once the documents can be cut."""
    if isinstance(dataset, DocumentStream):
        return partial(OnStream, runs_of(dataset, model, optimiser, batch_size, kind, batches))
    own = in_memory(dataset, "the data set to train on")
    if isinstance(own, TokenDataset):
        check_both_classes(own)
    size = len(own) if optimiser.full_batch else batch_size
    return partial(_InMemory, batches_of(dataset, model, size, kind, batches))


class _InMemory(Training):
    """A training on a data set in memory, shuffled anew for every epoch."""

    def __init__(self, source: Batches, rule: Rule, parameters: Tree) -> None:
        state = TrainingState(parameters, initial_state(rule.optimiser, rule.model, source, parameters))
        self._posterior = None
        if isinstance(rule.dataset, TokenDataset):
            self._posterior = jnp.asarray(token_statistics(rule.dataset).posterior_difference.astype(rule.dtype))
        # Other examples bring an order of their own for every epoch.
        rng = np.random.default_rng(rule.key) if isinstance(rule.dataset, TokenDataset) else None
        super().__init__(rule, state, recorded_names(rule.model, parameters, self._posterior), rng=rng)
        self._source = source

    def one_pass(self) -> Passed:
        model, optimiser = self.rule.model, self.rule.optimiser
        rows = self._source.rows(self._order())
        rises = self.rule.schedule.multipliers(self.epochs, len(rows))
        table = coefficients(optimiser, self.steps, optimiser.lr * rises).astype(self.rule.dtype)
        data = EpochData(self._source.on_device, self._posterior, rows, table)
        program = program_of(model, self._source, rows)
        state, numbers = epoch_function(model)(program, type(optimiser), self.state, data)
        return Passed(state, np.asarray(numbers), float(optimiser.lr * rises[-1]), len(rows))

    def _order(self) -> np.ndarray:
        n = self._source.n_documents
        if self.rule.optimiser.full_batch:
            return np.arange(n)
        if self.rng is None:
            assert isinstance(self.rule.dataset, Examples)
            return self.rule.dataset.order(self.rule.key, self.epochs)
        return self.rng.permutation(n)


def _content(dataset: TokenDataset | DocumentStream | Examples) -> str:
    if not isinstance(dataset, TokenDataset):
        return dataset.content()
    counts = dataset.counts
    content = fingerprint(counts.indptr, counts.indices, counts.data, dataset.labels, dataset.vocabulary)
    return f"{dataset.n_documents} documents of {dataset.vocabulary_size} tokens, {content}"


def _package_of(model: Model) -> str:
    """Return the folder of a model of this package, whose code a checkpoint depends on; "models" for any other."""
    own = type(model).__module__.split(".")
    return "/".join(own[1:-1]) if own[0] == "tokenmargin" else "models"


def _started_from(start: Trained | Tree | None) -> str:
    if start is None:
        return "the model's own start"
    parameters = start.parameters if isinstance(start, Trained) else start
    content = fingerprint(*map(host_array, jax.tree.leaves(parameters)))
    return f"a run of {len(start.records)} epochs, {content}" if isinstance(start, TrainingRun) else content


def checked_dtype(model: object, optimiser: object, epochs: int, dtype: Any) -> str:
    """The name of the dtype, once everything else is right."""
    if not isinstance(model, Model):
        raise InvalidInputError(
            f"model must be a value such as OneLayer(width=64), or of a subclass of tokenmargin.models.Model; "
            f"got {model!r}."
        )
    if not isinstance(optimiser, Optimiser):
        raise InvalidInputError(
            f"optimiser must be a value such as AdamW(lr=1e-3), or of a subclass of tokenmargin.training.Optimiser; "
            f"got {optimiser!r}."
        )
    positive(getattr(optimiser, "lr", float("nan")), "lr")
    whole_number(epochs, "epochs", 0)
    return float_dtype(dtype)


def check_both_classes(dataset: TokenDataset) -> None:
    """Raise unless there are documents of both classes."""
    signs = np.unique(dataset.labels)
    if len(signs) < 2:
        only = dataset.class_names[int(signs[0] > 0)]
        raise InvalidInputError(
            f"all {len(dataset)} documents to train on are of the class {only}: take documents of both, shuffled "
            "before they are cut where they come sorted by class."
        )


def starting_parameters(
    start: Trained | Tree | None,
    vocabulary: Iterable[str] | None,
    key: Array,
    dataset: Named,
    model: Model,
    kind: str,
) -> Tree:
    """Return what training starts from: the model's own start, or a copy of the one given."""
    if isinstance(start, Trained):
        check_same_meaning(start, dataset, "the data set")
        start = start.parameters
    elif start is not None and vocabulary is None and dataset.vocabulary:
        raise InvalidInputError(
            "start holds parameters, which do not say which token each of their rows is: give the run that they are "
            "of, start=run, or name the rows with vocabulary=dataset.vocabulary if they were made for this data set."
        )
    elif vocabulary is not None:
        check_same_vocabulary(vocabulary_names(vocabulary), dataset.vocabulary, "the data set")
    return model.initial(key, model_size(dataset), kind) if start is None else _copied(start, dataset, model, kind)


def _copied(start: Tree, dataset: Named, model: Model, kind: str) -> Tree:
    check_rows(start, model, dataset, "start has")
    width = getattr(model, "width", None)
    if width is not None and hasattr(start, "embeddings") and start.embeddings.shape[1] != width:
        raise InvalidInputError(f"start has width {start.embeddings.shape[1]} but the model has width {width}.")
    # Asked where the parameters lie: they may be spread over devices of several hosts, and more than one host holds.
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(start)):
        raise InvalidInputError("start holds NaN or infinity: give parameters that are numbers.")
    return jax.tree.map(lambda x: jnp.array(x, dtype=kind, copy=True), start)


def streams(key: AnyArray) -> tuple[Array, np.random.Generator]:
    """The key of the start, and the stream of document orders."""
    begin, numbers = key_numbers(key)
    return begin, np.random.default_rng(numbers)


def key_numbers(key: AnyArray) -> tuple[Array, tuple[int, ...]]:
    """The key of the start, and the numbers that seed the orders of an epoch."""
    try:
        begin, order = jax.random.split(key)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"key must be a JAX random key such as jax.random.key(0), got {key!r}.") from error
    return begin, tuple(int(number) for number in np.asarray(jax.random.key_data(order)))
