"""Optimisers written outside of the package: trained as our own are, and refused in words where they are wrong."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.training.optimisers import SGD, AdamW, Optimiser
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.train import checked_dtype, streams, train

KEY = jax.random.key(7)

#: Two dozen steps in float64; both sides divide by roots of sums of squares.
PARITY = 1e-11

COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: COMPILED.append(name) if "backend_compile" in name else None
)


@dataclass(frozen=True)
class SignDescent(Optimiser):
    """x <- x - lr sign(g): nothing is kept, and the learning rate is all that a step needs."""

    lr: float = 1e-2

    def init(self, parameter):
        return ()

    @staticmethod
    def step(row, parameter, gradient, state):
        return parameter - row[0] * jnp.sign(gradient), state


@dataclass(frozen=True)
class Adagrad(Optimiser):
    """s <- s + g^2, x <- x - lr/(1 + decay t) g / (sqrt(s) + 1e-10), and the mean of all x on the way."""

    lr: float = 0.1
    decay: float = 0.0

    def init(self, parameter):
        # The parameter itself is the first mean: `train` must not hand the same buffer to a step twice.
        return jnp.zeros_like(parameter), parameter

    def coefficients(self, steps_done, lr):
        t = steps_done + np.arange(len(lr))
        return np.stack([lr / (1 + self.decay * t), 1 / (t + 2)], axis=1)

    @staticmethod
    def step(row, parameter, gradient, state):
        total, mean = state
        total = total + gradient**2
        moved = parameter - row[0] * gradient / (jnp.sqrt(total) + 1e-10)
        return moved, (total, mean + row[1] * (moved - mean))


def dataset(rng, n=23, V=12, T=9):
    ids = rng.integers(0, V, (n, T))
    return TokenDataset.from_token_ids(list(ids), np.where(rng.random(n) < 0.5, 1, -1), [str(s) for s in range(V)])


@jax.jit
@jax.grad
def gradient_by_gathering(parameters, ids, labels):
    E, p, v = parameters
    X = E[ids]
    outputs = jnp.einsum("bt,btd,d->b", jax.nn.softmax(X @ p, axis=1), X, v)
    return jnp.mean(jax.nn.softplus(-labels * outputs))


def path_by_loop(data, width, epochs, batch_size, move):
    """Every step on every array by NumPy: `move(epoch, steps done, x, g, k)` gives array k after the step."""
    begin, shuffle = streams(KEY)
    start = OneLayer(width=width).initial(begin, data.vocabulary_size, "float64")
    x = [np.asarray(array) for array in (start.embeddings, start.query, start.head)]
    ids = np.stack([np.repeat(np.arange(data.vocabulary_size), row) for row in data.counts.toarray()])
    steps = 0
    for epoch in range(epochs):
        order = shuffle.permutation(data.n_documents)
        for begin in range(0, len(order), batch_size):
            batch = order[begin : begin + batch_size]
            pull = gradient_by_gathering(tuple(x), ids[batch], data.labels[batch])
            x = [move(epoch, steps, x[k], np.asarray(pull[k]), k) for k in range(3)]
            steps += 1
    return x


def arrays_of(run):
    return [np.asarray(x) for x in (run.parameters.embeddings, run.parameters.query, run.parameters.head)]


def test_an_own_optimiser_with_its_own_state_is_a_loop(rng):
    data, total = dataset(rng), [0.0, 0.0, 0.0]

    def move(epoch, steps, x, g, k):
        total[k] = total[k] + g**2
        rate = 0.2 * (0.5 if epoch >= 4 else 1.0) / (1 + 0.1 * steps)
        return x - rate * g / (np.sqrt(total[k]) + 1e-10)

    expected = path_by_loop(data, 4, 8, 8, move)
    settings = {"key": KEY, "batch_size": 8, "dtype": "float64", "schedule": StepSchedule((4,), 0.5)}
    run = train(data, OneLayer(width=4), Adagrad(lr=0.2, decay=0.1), epochs=8, **settings)
    for ours, theirs in zip(arrays_of(run), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=PARITY, rtol=0)
    assert run.steps == 24
    assert run.optimiser == Adagrad(lr=0.2, decay=0.1)


def test_what_init_returns_is_copied(rng):
    """A step overwrites it: the parameter, an array twice, one that other parameters and the next run are given too."""
    data, constant = dataset(rng), jnp.ones(())

    @dataclass(frozen=True)
    class Keeping(SignDescent):
        def init(self, parameter):
            zeros = jnp.zeros_like(parameter)
            return parameter, zeros, zeros, constant

    plain, *keeping = (
        arrays_of(train(data, OneLayer(width=3), optimiser, epochs=1, key=KEY, batch_size=8))
        for optimiser in (SignDescent(0.05), Keeping(0.05), Keeping(0.05))
    )
    for arrays in keeping:
        for ours, expected in zip(arrays, plain, strict=True):
            np.testing.assert_array_equal(ours, expected)


def test_the_learning_rate_alone_is_enough(rng):
    data = dataset(rng)
    expected = path_by_loop(data, 3, 2, 8, lambda epoch, steps, x, g, k: x - 0.05 * np.sign(g))
    run = train(data, OneLayer(width=3), SignDescent(0.05), epochs=2, key=KEY, batch_size=8, dtype="float64")
    for ours, theirs in zip(arrays_of(run), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=PARITY, rtol=0)


def test_other_numbers_of_an_own_optimiser_compile_nothing(rng):
    data = dataset(rng)
    settings = {"epochs": 2, "key": KEY, "batch_size": 8}
    train(data, OneLayer(width=4), Adagrad(lr=0.2), **settings)
    compiled = len(COMPILED)
    assert compiled > 0
    train(data, OneLayer(width=4), Adagrad(lr=0.3, decay=0.5), **settings)
    assert len(COMPILED) == compiled


def with_step(answer):
    """SignDescent whose step answers something else."""

    @dataclass(frozen=True)
    class Wrong(SignDescent):
        def init(self, parameter):
            return (jnp.zeros_like(parameter),)

        @staticmethod
        def step(row, parameter, gradient, state):
            return answer(row, parameter, gradient, state)

    return Wrong()


def with_method(name, answer):
    """SignDescent with another `init` or `coefficients`."""
    return dataclass(frozen=True)(type("Wrong", (SignDescent,), {name: lambda self, *given: answer(*given)}))()


@dataclass(frozen=True)
class NoRate(Optimiser):
    def init(self, parameter):
        return ()

    @staticmethod
    def step(row, parameter, gradient, state):
        return parameter, state


@pytest.mark.parametrize(
    ("optimiser", "says"),
    [
        (with_step(lambda row, x, g, s: x - row[0] * g), "Wrong.step must return (parameter, state)"),
        (with_step(lambda row, x, g, s: (x, s, s)), "Wrong.step must return (parameter, state)"),
        (with_step(lambda row, x, g, s: (x, ())), "it returned (float32[2], ())"),
        (with_step(lambda row, x, g, s: (x, list(s))), "it returned (float32[2], a list)"),
        (with_step(lambda row, x, g, s: (jnp.sum(x), s)), "it returned (float32[], (float32[2],))"),
        (with_step(lambda row, x, g, s: (x, (s[0].astype(jnp.float16),))), "(float16[2],)"),
        (with_method("init", lambda x: [x]), "Wrong.init must return a tuple of arrays"),
        (with_method("init", lambda x: (0.0,)), "Wrong.init must return a tuple of arrays"),
        (with_method("coefficients", lambda steps, lr: lr), "shape (1, k); it gave an array of shape (1,)"),
        (with_method("coefficients", lambda steps, lr: np.ones((3, 2))), "it gave an array of shape (3, 2)"),
        (NoRate(), "lr must be a positive"),
        (SignDescent(lr=-1.0), "lr must be a positive"),
    ],
)
def test_a_wrong_optimiser_is_refused_in_words(optimiser, says):
    data = TokenDataset.from_token_ids([[0, 1], [2]], [1, -1])
    model = OneLayer(width=2, trainable=("query",))
    with pytest.raises(InvalidInputError) as caught:
        train(data, model, optimiser, epochs=1, key=KEY)
    assert says in str(caught.value)


@pytest.mark.parametrize("optimiser", [AdamW, "adamw", None])
def test_what_is_no_optimiser_is_refused_in_words(optimiser):
    """Asked of the check itself: while the tests run, the annotations of `train` are executed before it."""
    with pytest.raises(InvalidInputError, match=r"optimiser must be a value such as AdamW.*training\.Optimiser; got"):
        checked_dtype(OneLayer(width=2), optimiser, 1, "float32")


def test_a_step_that_could_read_its_fields_is_refused():
    """It would be compiled with the fields of the first value of its class, whatever later ones say."""
    with pytest.raises(InvalidInputError, match=r"Bound\.step must be a @staticmethod"):

        class Bound(SignDescent):
            def step(self, row, parameter, gradient, state):
                return parameter, state


def test_a_class_without_a_step_has_no_values():
    class NoStep(Optimiser):
        lr = 1.0

        def init(self, parameter):
            return ()

    with pytest.raises(TypeError, match="step"):
        NoStep()
    assert isinstance(SGD(lr=1.0), Optimiser)
    assert isinstance(AdamW(), Optimiser)
