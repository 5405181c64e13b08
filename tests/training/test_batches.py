"""Batches are found by the type of a model, also of one that is written outside of the package."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import BatchSums, Model, OneLayer, TwoLayer
from tokenmargin.training import SGD, Evaluator, batch_factory, count_batches, document_batches, train
from tokenmargin.training.count_batches import CountBatches
from tokenmargin.training.document_batches import DocumentBatches
from tokenmargin.training.train import checked_dtype

KEY = jax.random.key(0)

#: Some dozen additions and products of numbers of order one in float64.
ROUNDING = 1e-12


class Arrays(NamedTuple):
    """Parameters of a model, or their gradients: any tree with these three names."""

    embeddings: jax.Array
    query: jax.Array | None
    head: jax.Array


@dataclass(frozen=True)
class MeanOfScores(Model):
    """f(X) = mean over the tokens of X of <E_s, v>: attention that is uniform, so p stays as it is."""

    width: int = 3

    def initial(self, key, vocabulary_size, dtype):
        E = jax.random.normal(key, (vocabulary_size, self.width), dtype)
        return Arrays(E, jnp.zeros(self.width, dtype), jnp.ones(self.width, dtype))

    def loss_and_gradients(self, parameters, batch):
        def loss(E, v):
            counts = jnp.exp(batch.log_counts)
            by_piece = jnp.stack([counts.sum(axis=1), (counts * (E @ v)[batch.ids]).sum(axis=1)], axis=1)
            sums = by_piece.at[batch.pieces].get(mode="fill", fill_value=0.0).sum(axis=1)
            signed = batch.labels * sums[:, 1] / jnp.maximum(sums[:, 0], 1)
            total = jnp.sum(jnp.abs(batch.labels) * jax.nn.softplus(-signed))
            return total / batch.documents, jnp.sum(signed > 0).astype(signed.dtype)

        (value, correct), (E, v) = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(
            parameters.embeddings, parameters.head
        )
        return BatchSums(value, correct, batch.documents), Arrays(E, None, v)


@dataclass(frozen=True)
class Registered(MeanOfScores):
    """The same under a name of its own, so that one type is known and the other is not."""


batch_factory.register(Registered, lambda model: count_batches)


def corpus(n=11, V=7):
    rng = np.random.default_rng(3)
    documents = [rng.integers(0, V, size=rng.integers(1, 50)) for _ in range(n)]
    return TokenDataset.from_token_ids(documents, np.arange(n) % 2, map(str, range(V)))


def test_batches_are_found_by_type():
    data = corpus()
    assert isinstance(batch_factory(OneLayer(width=2))(data, 4, "float32"), CountBatches)
    assert isinstance(batch_factory(TwoLayer(width=2))(data, 4, "float32"), DocumentBatches)


def test_a_type_that_inherits_is_known():
    class Wider(OneLayer):
        pass

    assert batch_factory(Wider(width=2)) is count_batches


def test_a_model_written_outside_the_package_trains():
    """Three steps of descent, and the loss at their end, against NumPy."""
    data = corpus()
    run = train(data, Registered(), SGD(lr=0.5), epochs=3, key=KEY, batch_size=11, dtype="float64")
    shares = data.counts.toarray() / data.lengths[:, None]
    start = Registered().initial(jax.random.split(KEY)[0], 7, "float64")
    E, v = np.asarray(start.embeddings), np.asarray(start.head)
    for _ in range(3):
        slopes = -data.labels / (1 + np.exp(data.labels * (shares @ E @ v))) / 11
        pull = shares.T @ slopes
        E, v = E - 0.5 * np.outer(pull, v), v - 0.5 * (E.T @ pull)
    np.testing.assert_allclose(run.parameters.embeddings, E, atol=ROUNDING)
    np.testing.assert_allclose(run.parameters.head, v, atol=ROUNDING)
    assert not np.asarray(run.parameters.query).any()
    found = Evaluator(data, Registered(), batch_size=4, dtype="float64")(run)
    signed = data.labels * (shares @ E @ v)
    assert found.loss == pytest.approx(np.logaddexp(0, -signed).mean(), rel=ROUNDING)
    assert found.accuracy == pytest.approx((signed > 0).mean())


def test_a_factory_that_is_given_goes_before_the_type():
    data = corpus()
    with_factory = partial(document_batches, most_shelves=1)
    model, settings = TwoLayer(width=4), {"epochs": 1, "key": KEY, "batch_size": 4, "dtype": "float64"}
    ours = train(data, model, SGD(lr=0.1), **settings)
    given = train(data, model, SGD(lr=0.1), **settings, batches=with_factory)
    np.testing.assert_allclose(given.parameters.embeddings, ours.parameters.embeddings, atol=ROUNDING)
    unknown = train(data, MeanOfScores(), SGD(lr=0.1), **settings, batches=count_batches)
    known = train(data, Registered(), SGD(lr=0.1), **settings)
    assert np.array_equal(unknown.parameters.embeddings, known.parameters.embeddings)


@dataclass(frozen=True)
class WholeTable(Registered):
    def recorded(self, parameters, posterior):
        return {"table": parameters.embeddings}


@dataclass(frozen=True)
class OneGradient(Registered):
    def loss_and_gradients(self, parameters, batch):
        sums, gradients = super().loss_and_gradients(parameters, batch)
        return sums, gradients.embeddings


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        (MeanOfScores(), {}, "no batches are known for a model of type MeanOfScores: pass batches=count_batches"),
        (MeanOfScores(), {"batches": lambda *_: [1, 2]}, "it gave a list"),
        (MeanOfScores(), {"batches": lambda dataset: [1, 2]}, "takes other arguments"),
        (MeanOfScores(), {"batches": len}, "takes other arguments"),
        (WholeTable(), {}, "WholeTable.recorded must return a dictionary of names and single numbers, {} for none"),
        (OneGradient(), {}, "OneGradient.loss_and_gradients gives 1 gradients for 3 parameters"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_words(model, options, says):
    with pytest.raises(InvalidInputError) as caught:
        train(corpus(), model, SGD(lr=0.1), epochs=1, key=KEY, **options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("model", "batches"), [(OneLayer(4), partial(document_batches, model_width=4)), (TwoLayer(4), count_batches)]
)
def test_batches_of_another_model_are_refused(model, batches):
    """The annotations, which are executed while the tests run, may come first."""
    with pytest.raises((InvalidInputError, TypeCheckError), match="batch"):
        train(corpus(), model, SGD(lr=0.1), epochs=1, key=KEY, batches=batches)


@pytest.mark.parametrize("model", [OneLayer, "one layer", object()])
def test_what_is_no_model_is_refused_in_words(model):
    """Asked of the check itself: while the tests run, the annotations of `train` are executed before it."""
    with pytest.raises(InvalidInputError, match=r"model must be a value such as OneLayer.*models\.Model"):
        checked_dtype(model, SGD(lr=0.1), 1, "float32")


def test_what_cannot_be_evaluated_is_refused_in_words():
    with pytest.raises(InvalidInputError, match=r"batch_factory.register\(MeanOfScores"):
        Evaluator(corpus(), MeanOfScores())


def test_a_model_that_inherits_must_say_how_it_starts_and_what_its_loss_is():
    class Neither(Model):
        pass

    with pytest.raises(TypeError, match="initial"):
        Neither()
    assert (MeanOfScores().steps_together, MeanOfScores().compiler_options) == (1, ())
    assert MeanOfScores().recorded(None, None) == {}
