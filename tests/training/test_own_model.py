"""A model of the user's own, with parameters that are no E, p and v, goes through everything that `train` offers."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training.test_batches import corpus
from tests.training.test_streaming import ListStream
from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.losses import CustomLoss, exponential
from tokenmargin.models import BatchSums, Model, OneLayer
from tokenmargin.training import SGD, AdamW, Checkpoint, Evaluator, TrainingRun, batch_factory, count_batches, train
from tokenmargin.training._under_way import check_numbers

KEY = jax.random.key(0)

#: Some dozen additions and products of numbers of order one in float64.
ROUNDING = 1e-12


@dataclass(frozen=True)
class TokenWeights(Model):
    """f(X) = b + mean of w_s over the tokens of X: logistic regression on shares of tokens."""

    def initial(self, key, size, dtype):
        return {"weights": jax.random.normal(key, (size,), dtype), "bias": jnp.zeros((), dtype)}

    def loss_and_gradients(self, parameters, batch):
        def loss(parameters):
            counts = jnp.exp(batch.log_counts)
            sums = jnp.stack([counts.sum(axis=1), (counts * parameters["weights"][batch.ids]).sum(axis=1)], axis=1)
            sums = sums.at[batch.pieces].get(mode="fill", fill_value=0.0).sum(axis=1)
            signed = batch.labels * (sums[:, 1] / jnp.maximum(sums[:, 0], 1) + parameters["bias"])
            total = jnp.sum(jnp.abs(batch.labels) * jax.nn.softplus(-signed))
            return total / batch.documents, jnp.sum(signed > 0).astype(signed.dtype)

        (value, correct), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
        return BatchSums(value, correct, batch.documents), gradients

    def recorded(self, parameters, posterior):
        agree = jnp.nanmean(jnp.where(jnp.isnan(posterior), jnp.nan, parameters["weights"] * posterior > 0))
        return {"bias": parameters["bias"], "agreeing_signs": agree}


batch_factory.register(TokenWeights, lambda model: count_batches)

SETTINGS = {"key": KEY, "batch_size": 4, "dtype": "float64"}


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_its_steps_and_its_records_are_those_of_numpy():
    data = corpus()
    run = train(data, TokenWeights(), SGD(lr=0.5), epochs=3, key=KEY, batch_size=11, dtype="float64")
    shares = data.counts.toarray() / data.lengths[:, None]
    w, b = np.asarray(TokenWeights().initial(jax.random.split(KEY)[0], 7, "float64")["weights"]), 0.0
    biases = []
    for _ in range(3):
        slopes = -data.labels / (1 + np.exp(data.labels * (shares @ w + b))) / 11
        w, b = w - 0.5 * shares.T @ slopes, b - 0.5 * slopes.sum()
        biases.append(b)
    np.testing.assert_allclose(run.parameters["weights"], w, atol=ROUNDING)
    np.testing.assert_allclose(run.records.measured["bias"], biases, atol=ROUNDING)
    assert list(run.records.columns()) == ["loss", "accuracy", "bias", "agreeing_signs", "learning_rate"]
    signed = data.labels * (shares @ w + b)
    found = run.evaluate(data)
    assert found.loss == pytest.approx(np.logaddexp(0, -signed).mean(), rel=ROUNDING)
    assert found.accuracy == pytest.approx((signed > 0).mean())


def test_it_is_saved_gone_on_from_and_kept_in_checkpoints(tmp_path):
    data, model = corpus(), TokenWeights()
    whole = train(data, model, AdamW(lr=0.1), epochs=5, **SETTINGS)
    train(data, model, AdamW(lr=0.1), epochs=3, checkpoint=Checkpoint(tmp_path / "kept"), **SETTINGS).save(
        tmp_path / "run.npz"
    )
    loaded = TrainingRun.load(tmp_path / "run.npz", model=model)
    assert list(loaded.records.measured) == ["bias", "agreeing_signs"]
    for again in (
        train(data, model, AdamW(lr=0.1), epochs=5, checkpoint=Checkpoint(tmp_path / "kept"), **SETTINGS),
        train(data, model, AdamW(lr=0.1), epochs=2, start=loaded, **SETTINGS),
    ):
        assert same(again.parameters, whole.parameters)
        for name, column in whole.records.columns().items():
            np.testing.assert_array_equal(again.records.columns()[name], column)
    with pytest.raises(InvalidInputError, match="of type TokenWeights, which is not of this package"):
        TrainingRun.load(tmp_path / "run.npz")


def test_it_is_trained_on_a_stream_and_judged_on_held_out_documents():
    data = corpus(n=13)
    stream = ListStream(data, sizes=(7, 6), held=8)
    run = train(stream, TokenWeights(), SGD(lr=0.5), epochs=2, validation=data[np.arange(6)], patience=2, **SETTINGS)
    assert run.best_epoch in (1, 2)
    assert np.isfinite(run.records.measured["agreeing_signs"]).all()


def test_the_loss_of_a_model_is_saved_by_its_name(tmp_path):
    data = corpus()
    run = train(data, OneLayer(width=3, loss=exponential), SGD(lr=0.1), epochs=1, key=KEY)
    run.save(tmp_path / "run.npz")
    assert TrainingRun.load(tmp_path / "run.npz").model == run.model
    own = OneLayer(width=3, loss=CustomLoss(falling))
    train(data, own, SGD(lr=0.1), epochs=1, key=KEY).save(tmp_path / "own.npz")
    with pytest.raises(InvalidInputError, match="give it as model="):
        TrainingRun.load(tmp_path / "own.npz")
    assert TrainingRun.load(tmp_path / "own.npz", model=own).model == own
    with pytest.raises(InvalidInputError, match=r"made with another model: value\.loss was CustomLoss and is Logistic"):
        TrainingRun.load(tmp_path / "own.npz", model=OneLayer(width=3))


def falling(u):
    return -jnp.arctan(u)


def test_parameters_of_another_shape_are_refused():
    data, model = corpus(), TokenWeights()
    judge = Evaluator(data, model, vocabulary=data.vocabulary)
    with pytest.raises(InvalidInputError, match="the parameters have other shapes than TokenWeights starts from"):
        judge({"weights": np.zeros(3), "bias": np.zeros(())})
    names = {"start": {"weights": np.zeros(7)}, "vocabulary": data.vocabulary}
    with pytest.raises(InvalidInputError, match=r"start has other shapes .* starts from, \[\(\), \(7,\)"):
        train(data, model, SGD(lr=0.1), epochs=1, key=KEY, **names)


def test_parameters_that_are_no_numbers_are_noticed_where_a_record_is_none():
    """A correlation may be NaN for its own reasons; whether the parameters are finite is asked of them."""

    @dataclass(frozen=True)
    class Undefined(TokenWeights):
        def recorded(self, parameters, posterior):
            return {"nothing": jnp.nan * parameters["bias"]}

    data = corpus()
    run = train(data, Undefined(), SGD(lr=0.5), epochs=2, key=KEY)
    assert np.isnan(run.records.measured["nothing"]).all()
    with pytest.raises(DivergedError, match=r"epoch 2 at a learning rate of 0.5: parameters are NaN or infinite"):
        check_numbers({"loss": 1.0, "nothing": np.nan}, {"weights": jnp.array([1.0, jnp.inf])}, 2, 0.5)
    for name, value in (("loss", np.nan), ("nothing", np.inf)):
        with pytest.raises(DivergedError, match=f"the {name} is {value}"):
            check_numbers({name: value}, {"weights": jnp.zeros(1)}, 2, 0.5)
