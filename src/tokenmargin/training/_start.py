"""The start of a training: its arguments checked, its parameters, and the random streams of its key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import positive, whole_number
from tokenmargin._types import AnyArray
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.data.vocabulary import check_same_vocabulary, vocabulary_names
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.model import Model, Tree
from tokenmargin.training.evaluate import Trained, check_rows, check_same_meaning
from tokenmargin.training.examples import Named, model_size
from tokenmargin.training.optimisers import Optimiser


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
    try:
        kind = np.dtype(dtype).name
    except TypeError:
        kind = str(dtype)
    if kind not in ("float32", "float64"):
        raise InvalidInputError(f"dtype must be float32 or float64, got {kind}.")
    return kind


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
