"""Batches by the type of a model, so that `train` and `Evaluator` need not be told."""

from __future__ import annotations

from functools import partial, singledispatch
from inspect import signature

from tokenmargin._checks import shown
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.models.two_layer import TwoLayer
from tokenmargin.training.count_batches import count_batches
from tokenmargin.training.document_batches import document_batches
from tokenmargin.training.examples import Batches, BatchFactory, Examples

#: What `batches=` must be.
ASKED = (
    "batches must be a function (data set, batch size, dtype) that gives an object with on_device, n_documents, rows, "
    "layout, plan and batch, as count_batches does"
)


@singledispatch
def batch_factory(model: object) -> BatchFactory:
    """Return the function that cuts a data set into batches for a model of this type.

    `batch_factory.register(MyModel, lambda model: count_batches)` says it for a model of your own; types that inherit
    from one that is known are known.
    """
    name = type(model).__name__
    raise InvalidInputError(
        f"no batches are known for a model of type {name}: pass batches=count_batches or another factory, or say it "
        f"once with tokenmargin.training.batch_factory.register({name}, lambda model: count_batches)."
    )


@batch_factory.register(OneLayer)
def _(model: OneLayer) -> BatchFactory:
    return count_batches


@batch_factory.register(TwoLayer)
def _(model: TwoLayer) -> BatchFactory:
    return partial(document_batches, model_width=model.width)


def batches_of(
    dataset: TokenDataset | Examples, model: object, batch_size: int, dtype: str, factory: BatchFactory | None = None
) -> Batches:
    """The batches of a data set for this model, by the factory of its type unless another is given."""
    if factory is not None and not _takes_three(factory):
        raise InvalidInputError(f"{ASKED}; {shown(factory)} takes other arguments.")
    made = (factory or batch_factory(model))(dataset, batch_size, dtype)
    if not isinstance(made, Batches):
        raise InvalidInputError(f"{ASKED}; it gave a {type(made).__name__}.")
    return made


def _takes_three(factory: BatchFactory) -> bool:
    try:
        signature(factory).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # a function of C that does not say
        return True
    return True


def in_memory(given: object, what: str) -> TokenDataset | Examples:
    """Return a data set, or raise an error that says how to make one of what was given instead."""
    if isinstance(given, TokenDataset | Examples):
        return given
    kind = type(given).__name__
    if isinstance(getattr(given, "dataset", None), TokenDataset):
        raise InvalidInputError(f"{what} must be a TokenDataset, got a {kind}: give the one that it holds, .dataset.")
    raise InvalidInputError(
        f"{what} must be a TokenDataset, got a {kind}: TokenDataset(counts, labels, vocabulary) makes one of a matrix "
        "of counts, tokenmargin.text.tokenize(texts, labels=labels).dataset of texts."
    )
