"""Training in half precision: numbers are those of NumPy's float16, and what underflows stays still."""

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin.data import synthetic
from tokenmargin.models import OneLayer
from tokenmargin.models.model import BatchSums
from tokenmargin.papers.embeddings.figures._half_precision import InHalf, _in_float16
from tokenmargin.training import SGD, train
from tokenmargin.training.count_batches import count_batches


def test_numbers_are_rounded_as_numpy_s_float16():
    x = np.random.default_rng(0).normal(size=4000).astype(np.float32) * 10.0 ** np.linspace(-9, 4, 4000, dtype="f4")
    assert np.array_equal(_in_float16(jnp.asarray(x)), x.astype(np.float16).astype(np.float32))


def test_a_training_in_half_is_near_the_other_and_not_it():
    law = synthetic.KLevel(irrelevant=30, sizes=(5, 5), relevant_share=0.3, levels=(0.3, 0.02), T=16)
    corpus = synthetic.k_level(np.random.default_rng(0), n=200, law=law)
    model, options = OneLayer(width=16), {"epochs": 3, "key": jax.random.key(0), "batches": count_batches}
    full, half = (train(corpus, each, SGD(0.5), **options) for each in (model, InHalf(model)))
    apart = np.abs(half.parameters.head - full.parameters.head).max() / np.abs(full.parameters.head).max()
    assert 0 < apart < 1e-2


class Tiny(OneLayer):
    """A model whose gradient is smaller than any float16."""

    def loss_and_gradients(self, parameters, batch):
        return BatchSums(jnp.zeros(()), jnp.zeros(()), jnp.ones(())), parameters * 0 + 2.0**-26


def test_a_gradient_below_the_least_float16_is_nothing():
    assert not InHalf(Tiny(width=3)).loss_and_gradients(jnp.ones(3, jnp.float32), None)[1].any()
