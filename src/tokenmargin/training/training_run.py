"""The result of a training: parameters, what they stand for, records, and what the next epoch needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._archive import Archive, read_archive, write_archive
from tokenmargin._checks import checked
from tokenmargin._fingerprint import in_words
from tokenmargin._precision import keep_precision
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss, correlation, exponential, logistic
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.model import Model, Tree
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.models.two_layer import TwoLayer
from tokenmargin.training._program import OptimiserState, TrainingState
from tokenmargin.training.checkpoint import host_array
from tokenmargin.training.evaluate import Evaluation, Evaluator
from tokenmargin.training.examples import BatchFactory, Examples
from tokenmargin.training.optimisers import SGD, AdamW, GradientDescent, Optimiser
from tokenmargin.training.records import TrainingRecords, ValidationRecords

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

#: Models and optimisers that a file may name: nothing else is made of what a file says.
KNOWN = {known.__name__: known for known in (OneLayer, TwoLayer, AdamW, SGD, GradientDescent)}

#: Losses that a file may name.
LOSSES = {type(loss).__name__: loss for loss in (logistic, exponential, correlation)}

#: What a file of a run belongs to: a run, whatever it was computed from.
WHOSE = {"what": "a run of training"}


@dataclass(frozen=True, eq=False)
class Position:
    """The state from which the next epoch begins: `train(..., start=run)` goes on from it."""

    state: TrainingState  #: parameters after the last epoch, and what the optimiser keeps of them
    key: tuple[int, ...]  #: numbers of the key
    #: of the document orders, as NumPy's bit generator gives it; empty of a stream of documents, which has its own
    orders: dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun:
    """Trained parameters, which token each of their rows is, and what was recorded on the way.

    `run.save("run.npz")` writes it with the optimiser's state, `TrainingRun.load("run.npz")` reads it, and
    `train(dataset, run.model, run.optimiser, epochs=1, key=key, start=run)` goes on: five epochs and one more are six.
    """

    parameters: Tree
    records: TrainingRecords
    model: Model
    optimiser: Optimiser
    steps: int  #: optimiser steps taken
    vocabulary: tuple[str, ...]  #: of the data set, row by row of the embeddings; empty where there are no tokens
    class_names: tuple[str, ...]  #: names of the classes; of -1 and +1, where texts were counted
    validation: ValidationRecords | None = None  #: of every epoch, where a validation set was given
    best_epoch: int | None = None  #: the epoch, from 1 on, whose parameters these are, where one was given
    batches: BatchFactory | None = None  #: as given to `train`
    position: Position | None = None  #: where the next epoch begins
    epoch_seconds: np.ndarray = field(default_factory=lambda: np.zeros(0))  #: how long each epoch took, (epochs,)

    def plot(self, ax: Any = None) -> Figure:
        """Draw loss and accuracy of every epoch, those of the validation set beside them where there is one.

        Args:
            ax: matplotlib axes to draw on; a figure of its own when absent.
        """
        from tokenmargin.plots.answers import draw_epochs  # matplotlib, an extra

        curves = {name: self.records.columns()[name] for name in ("loss", "accuracy")}
        if self.validation is not None:
            curves |= {"validation loss": self.validation.loss, "validation accuracy": self.validation.accuracy}
        return draw_epochs(curves, ax)

    @checked
    def evaluate(self, dataset: TokenDataset | Examples, *, batch_size: int = 128) -> Evaluation:
        """Loss and accuracy on a data set of the same vocabulary and classes; others are refused."""
        return Evaluator(dataset, self, batches=self.batches, batch_size=batch_size)(self)

    def save(self, path: str | Path) -> None:
        """Write everything but `batches` into one .npz file, the optimiser's state included; no pickled objects."""
        write_archive(_with_ending(path), *self.archived(), WHOSE)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        model: Model | None = None,
        optimiser: Optimiser | None = None,
        batches: BatchFactory | None = None,
    ) -> TrainingRun:
        """Read what `save` wrote, or a checkpoint of `train`.

        Args:
            path: of the file.
            model: the run's, where its type is not of this package: a file makes no objects of foreign types.
            optimiser: likewise.
            batches: as they were given to `train`, if they were.
        """
        where = _with_ending(path)
        if not where.is_file():
            raise InvalidInputError(f"{where} is no file: name one that `save` wrote.")
        found = read_archive(where)
        try:
            return cls.from_archive(found, model, optimiser, batches)
        except (KeyError, TypeError, IndexError, AttributeError) as problem:
            raise InvalidInputError(f"{where} holds no run of training ({problem!r}): name another file.") from None

    def archived(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and notes that say everything."""
        if self.position is None:
            raise InvalidInputError("this run does not know its optimiser's state: save the run that `train` gave.")
        state = self.position.state
        arrays: dict[str, Any] = {}
        for name, tree in (("last", state.parameters), ("optimiser", state.optimiser)):
            arrays |= _leaves(name, tree)
        # Without a validation set they are those of the last epoch, and one copy is enough.
        is_last = self.parameters is state.parameters
        arrays |= {} if is_last else _leaves("kept", self.parameters)
        arrays |= {f"record/{name}": column for name, column in self.records.columns().items()}
        if self.validation is not None:
            arrays |= {"validation/loss": self.validation.loss, "validation/accuracy": self.validation.accuracy}
        arrays["epoch_seconds"] = self.epoch_seconds
        notes = {
            "model": _words(self.model),
            "optimiser": _words(self.optimiser),
            "optimiser_arrays": [len(each) for each in state.optimiser],
            "steps": self.steps,
            "vocabulary": list(self.vocabulary),
            "class_names": list(self.class_names),
            "best_epoch": self.best_epoch,
            "key": list(self.position.key),
            "orders": self.position.orders,
        }
        return arrays, notes

    @classmethod
    @keep_precision
    def from_archive(
        cls,
        found: Archive,
        model: Model | None = None,
        optimiser: Optimiser | None = None,
        batches: BatchFactory | None = None,
        like: Tree = None,
    ) -> TrainingRun:
        """The run again; its parameters have the structure of `like`, or that of the model's own start."""
        arrays, notes = found.arrays, found.notes
        own = _made(notes["model"], "model", model)
        rule = _made(notes["optimiser"], "optimiser", optimiser)
        names = tuple(map(str, notes["vocabulary"]))
        if like is None:
            kind = arrays["last/00000"].dtype
            size = len(names) or len(notes["class_names"])
            like = jax.eval_shape(lambda key: own.initial(key, size, kind), jax.random.key(0))
        last = _tree("last", arrays, like)
        counts: list[int] = notes["optimiser_arrays"]
        kept: OptimiserState = tuple(
            tuple(jnp.asarray(arrays[f"optimiser/{k:05d}"]) for k in range(begin, begin + count))
            for begin, count in zip(np.cumsum([0, *counts]), counts, strict=False)
        )
        records = {name.removeprefix("record/"): each for name, each in arrays.items() if name.startswith("record/")}
        validated = "validation/loss" in arrays
        return cls(
            parameters=_tree("kept", arrays, like) if "kept/00000" in arrays else last,
            records=TrainingRecords.of_columns(records),
            model=own,
            optimiser=rule,
            steps=int(notes["steps"]),
            vocabulary=names,
            class_names=tuple(notes["class_names"]),
            validation=ValidationRecords(arrays["validation/loss"], arrays["validation/accuracy"])
            if validated
            else None,
            best_epoch=notes["best_epoch"],
            batches=batches,
            position=Position(TrainingState(last, kept), tuple(notes["key"]), notes["orders"]),
            epoch_seconds=arrays["epoch_seconds"],
        )

    def __repr__(self) -> str:
        """Return the model, how far it came, and which epoch was kept; no arrays."""
        seen = f"{len(self.vocabulary)} tokens" if self.vocabulary else f"{len(self.class_names)} classes"
        parts = [f"{type(self.model).__name__} on {seen}", f"{len(self.records)} epochs"]
        if len(self.records):
            parts.append(f"last loss {self.records.loss[-1]:.3g}, accuracy {self.records.accuracy[-1]:.3f}")
        if self.validation is not None and self.best_epoch:
            loss, accuracy = (x[self.best_epoch - 1] for x in (self.validation.loss, self.validation.accuracy))
            parts.append(f"kept epoch {self.best_epoch}: validation loss {loss:.3g}, accuracy {accuracy:.3f}")
        return f"TrainingRun({'; '.join(parts)})"


def _with_ending(path: str | Path) -> Path:
    return Path(path) if Path(path).suffix == ".npz" else Path(f"{path}.npz")


def _leaves(name: str, tree: Tree) -> dict[str, np.ndarray]:
    return {f"{name}/{k:05d}": host_array(leaf) for k, leaf in enumerate(jax.tree.leaves(tree))}


def _tree(name: str, arrays: dict[str, np.ndarray], like: Tree) -> Tree:
    """Leaves in the structure and of the shapes of another tree."""
    expected, structure = jax.tree.flatten(like)
    leaves = [jnp.asarray(array) for key, array in sorted(arrays.items()) if key.startswith(f"{name}/")]
    if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in expected]:
        raise InvalidInputError(
            f"the file holds parameters of the shapes {[leaf.shape for leaf in leaves]}, but the model's are "
            f"{[tuple(leaf.shape) for leaf in expected]}: give the model that was trained."
        )
    return jax.tree.unflatten(structure, leaves)


def _words(value: Any) -> dict[str, Any]:
    """A model or an optimiser as a file names it: its type and its fields, and the same for people."""
    plain = {}
    if is_dataclass(value) and not isinstance(value, type) and KNOWN.get(type(value).__name__) is type(value):
        plain = {each.name: _as_json(getattr(value, each.name)) for each in fields(value)}
        if any(item is None for item in plain.values()):  # a loss of the user's own
            plain = {}
    return {"type": type(value).__name__, "fields": plain, "in_words": in_words("value", value)}


def _as_json(item: Any) -> Any:
    if isinstance(item, Loss):
        return next((name for name, loss in LOSSES.items() if item == loss), None)
    return item.name if isinstance(item, Enum) else item.item() if isinstance(item, np.generic) else item


def _made(told: dict[str, Any], what: str, given: Any) -> Any:
    """The value that a file names, or the one given if it is the same."""
    if given is not None:
        differing = [name for name, words in in_words("value", given).items() if told["in_words"].get(name) != words]
        if differing:
            raise InvalidInputError(
                f"the run was made with another {what}: {differing[0]} was {told['in_words'].get(differing[0])} and is "
                f"{in_words('value', given)[differing[0]]}."
            )
        return given
    known = KNOWN.get(told["type"])
    if known is None or not told["fields"]:
        raise InvalidInputError(
            f"the run has a {what} of type {told['type']}, which is not of this package: give it as {what}=..."
        )
    return known(**{name: _plain(name, item) for name, item in told["fields"].items()})


def _plain(name: str, item: Any) -> Any:
    """A field as its class takes it: JSON has lists for tuples, and names for members of an Enum."""
    if isinstance(item, Sequence) and not isinstance(item, str):
        return tuple(item)
    named = {"loss": LOSSES, "precision": MatmulPrecision.__members__}
    return named[name][item] if name in named else item
