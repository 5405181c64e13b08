"""An optimiser's step on rows that are still to be added up, its kernel operation by operation on a CPU."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.test_two_layer import documents_of, parameters_of, shelf_of
from tokenmargin.errors import InvalidInputError
from tokenmargin.models._kernels import RowsGradient, occurrences, token_places
from tokenmargin.models._two_layer_block import SoftmaxScales
from tokenmargin.models._two_layer_gradient import Settings, gradients_in_rows, two_layer_loss_and_gradients
from tokenmargin.models.factored_gradient import gradient_entries, is_gradient
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.training._program import apply_gradients
from tokenmargin.training.optimisers import SGD, AdamW, Optimiser

#: A few float64 operations in another order.
ROUNDING = 1e-12

#: Float32 with products of twenty-two bits: a step of AdamW divides by the root of small moments.
SINGLE = 2e-5

OPTIMISERS = [AdamW(1e-2, weight_decay=0.1), SGD(0.3, momentum=0.9, weight_decay=0.1), SGD(0.3)]


class Sorting(Optimiser):
    """An optimiser of somebody's own, with an operation that kernels have not."""

    lr = 1.0

    def init(self, parameter):
        return ()

    @staticmethod
    def step(row, parameter, gradient, state):
        return parameter - row[0] * jnp.sort(gradient, axis=0), state


class FrozenAdamW(AdamW):
    """Another step under the name of a known one."""

    @staticmethod
    def step(row, parameter, gradient, state):
        return parameter, state


def row_of(optimiser, step=0, dtype=None):
    return jnp.asarray(optimiser.coefficients(step, np.full(1, optimiser.lr))[0], dtype)


def rows_gradient(rng, V, d):
    """Two shelves; a token is in all documents, and others in none."""
    ids = tuple(
        np.stack([np.r_[0, 1 + rng.permutation(V - 4)[: U - 1]] for _ in range(B)]) for B, U in ((5, 7), (3, 4))
    )
    ids = tuple(jnp.asarray(x, jnp.int32) for x in ids)
    counts = tuple(jnp.zeros(x.shape).at[-1, -1].set(-jnp.inf) for x in ids)
    n_rows = sum(x.size for x in ids)
    where = occurrences(token_places(ids, counts, V), rng.normal(size=(3, n_rows)), interpret=True)
    return RowsGradient(where, rng.normal(size=(n_rows, d)), rng.normal(size=(3, d)), interpret=True)


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=["AdamW", "momentum", "plain"])
@pytest.mark.parametrize("d", [16, 12], ids=["a power of two", "another width"])
def test_a_step_on_rows_is_the_step_on_their_sum(rng, optimiser, d):
    """E and its state, of a number of tokens that no program divides; the step is no small one."""
    gradient, E = rows_gradient(rng, 23, d), jnp.asarray(rng.normal(size=(23, d)))
    state = tuple(jnp.asarray(rng.normal(size=E.shape) ** 2) for _ in optimiser.init(E))
    row = row_of(optimiser, 3)
    ours = jax.jit(partial(gradient.moved, optimiser.step))(row, E, state)
    usual = optimiser.step(row, E, jnp.asarray(gradient.entries()), state)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(usual), strict=True):
        np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING)
    assert np.max(np.abs(ours[0] - E)) > 1e-3


class HalfMoments(AdamW):
    """Moments of fewer bits, which its step makes whole again: refused in words, whatever the gradient's form."""

    def init(self, parameter):
        return tuple(x.astype(jnp.bfloat16) for x in super().init(parameter))


def test_a_state_of_another_dtype_is_refused_in_words(rng):
    gradient, E = rows_gradient(rng, 23, 16), jnp.asarray(rng.normal(size=(23, 16)))
    optimiser = HalfMoments()
    with pytest.raises(InvalidInputError, match=r"HalfMoments.step must return \(parameter, state\)"):
        apply_gradients(HalfMoments, row_of(optimiser), (E,), (optimiser.init(E),), (gradient,))


@pytest.mark.parametrize("optimiser", [Sorting(), FrozenAdamW()], ids=["no kernel", "a subclass"])
def test_an_optimiser_of_somebodys_own_steps_on_the_array(rng, optimiser):
    gradient, E = rows_gradient(rng, 23, 16), jnp.asarray(rng.normal(size=(23, 16)))
    state = (optimiser.init(E),)
    (moved,), _ = apply_gradients(type(optimiser), row_of(optimiser), (E,), state, (gradient,))
    expected, _ = optimiser.step(row_of(optimiser), E, gradient_entries(gradient), state[0])
    np.testing.assert_array_equal(moved, expected)
    assert is_gradient(gradient)


@pytest.mark.parametrize("affine", [True, pytest.param(False, marks=pytest.mark.long)], ids=["affine", "plain"])
def test_three_steps_of_two_layers(rng, affine):
    """In pairs, by kernels from the batch to the new E, against float64 and no kernel."""
    shelf, exact = shelf_of(*documents_of(rng), 24, rows=4), parameters_of(rng, gain=affine, bias=affine)
    optimiser, scales = OPTIMISERS[0], SoftmaxScales(0.7, 0.6)
    settings = Settings(1e-5, MatmulPrecision.FLOAT_16_PAIRS, scales)

    def cast(tree):
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32 if x.dtype == np.float64 else x.dtype), tree)

    def in_rows(parameters, shelf):
        return gradients_in_rows(parameters, shelf, settings, interpret=True)

    def as_array(parameters, shelf):
        return two_layer_loss_and_gradients(parameters, (shelf,), Settings(scales=scales))

    def steps(compute, parameters, shelf, dtype):
        @jax.jit
        def one(row, parameters, states):
            sums, gradients = compute(parameters, shelf)
            return sums, *apply_gradients(AdamW, row, parameters, states, gradients)

        leaves = jax.tree.leaves(parameters, is_leaf=lambda node: node is None)
        states = tuple(() if leaf is None else optimiser.init(leaf) for leaf in leaves)
        for k in range(3):
            sums, parameters, states = one(row_of(optimiser, k, dtype), parameters, states)
        return sums, parameters

    (_, gradients), (_, expected) = jax.jit(in_rows)(cast(exact), cast(shelf)), jax.jit(as_array)(exact, shelf)
    for name in ("embeddings", "query", "head", "gain", "bias"):
        if affine or name not in ("gain", "bias"):
            ours, truth = gradient_entries(getattr(gradients, name)), getattr(expected, name)
            assert np.linalg.norm(ours - truth) < SINGLE * np.linalg.norm(truth)
    own, ours = steps(in_rows, cast(exact), cast(shelf), jnp.float32)
    sums, usual = steps(as_array, exact, shelf, jnp.float64)
    for a, b, begin in zip(*map(jax.tree.leaves, (ours, usual, exact)), strict=True):
        assert np.linalg.norm(a - b) < SINGLE * np.linalg.norm(b - begin)
    np.testing.assert_allclose(own.mean_loss, sums.mean_loss, rtol=SINGLE)
    assert own.correct == sums.correct


def test_the_step_is_lowered_for_a_gpu(rng):
    """As far as is possible where there is none: to Triton's language, over E and its state."""
    gradient = rows_gradient(rng, 23, 16)

    def cast(tree):
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32 if x.dtype == np.float64 else x.dtype), tree)

    def step(where, rows, readers, row, E, state):
        return RowsGradient(where, rows, readers).moved(AdamW.step, row, E, state)

    E = np.zeros((23, 16))
    given = cast((*jax.tree.leaves(gradient)[3:], row_of(AdamW()), E, (E, E)))
    checks = [jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")]
    found = jax.export.export(jax.jit(step), platforms=["cuda"], disabled_checks=checks)(cast(gradient.where), *given)
    text = found.mlir_module()
    assert text.count("__gpu$xla.gpu.triton") == 1
    assert text.count("output_operand_alias<") == 3
