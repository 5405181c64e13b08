"""The epoch: a model on its batches, one optimiser on every parameter of the model, in one compiled scan.

Its buffers are donated: parameters and the optimiser's state exist once.
What an optimiser or a model of the user's own answers is checked here while it is traced: a compiled step pays nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._checks import checked
from tokenmargin._types import AnyArray
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.factored_gradient import RowsGradient, gradient_entries, is_gradient
from tokenmargin.models.model import BatchSums, Model, Tree
from tokenmargin.training._compile import jitted, usable_options
from tokenmargin.training.examples import Batches, BatchMaker
from tokenmargin.training.optimisers import Optimiser, State, steps_in_kernels


@dataclass(frozen=True)
class Program:
    """A model on batches of one kind and layout; all that it sees of the data comes as arguments.

    Args:
        model: whose loss and gradients are asked for.
        batches: the class of the batches, whose `plan` and `batch` are traced.
        layout: of the epoch.
    """

    model: Model
    batches: type[BatchMaker]
    layout: Hashable

    def plans(self, on_device: Tree, rows: AnyArray) -> Tree:
        """The plan of every step, with a leading axis of steps."""
        return self.batches.plan(on_device, rows, self.layout)

    def loss_and_gradients(self, parameters: Tree, on_device: Tree, plan: Any) -> tuple[BatchSums, Tree]:
        """Return the sums and gradients of the batch of one step."""
        # Batches that were handed in may be those of another model: its own annotations tell.
        return checked(self.model.loss_and_gradients)(parameters, self.batches.batch(on_device, plan))


def program_of(model: Model, batches: Batches, rows: np.ndarray) -> Program:
    """Return the program that an epoch with these rows is compiled for."""
    return Program(model, type(batches), batches.layout(rows))


#: The state of each parameter in the order of the tree's leaves; () for one that has no gradient.
OptimiserState = tuple[State, ...]


class TrainingState(NamedTuple):
    """All that a step changes."""

    parameters: Tree
    optimiser: OptimiserState


class EpochData(NamedTuple):
    """All that an epoch reads."""

    on_device: Tree  # the data set, as its batches keep it
    posterior: AnyArray | None  # posterior difference of each token, for the records; None without tokens
    rows: AnyArray  # the documents of each step
    coefficients: AnyArray  # the optimiser's numbers of each step


def initial_state(optimiser: Optimiser, model: Model, source: Batches, parameters: Tree) -> OptimiserState:
    """`init` of every parameter that will get a gradient; which do is asked of the model's shapes."""
    rows = source.rows(np.arange(source.n_documents))
    program = program_of(model, source, rows)

    def gradients(parameters: Tree, on_device: Tree, rows: AnyArray) -> Tree:
        plan = jax.tree.map(lambda x: x[0], program.plans(on_device, rows))
        return program.loss_and_gradients(parameters, on_device, plan)[1]

    pulls = _gradient_leaves(jax.eval_shape(gradients, parameters, source.on_device, rows[:1]))
    leaves = _leaves(parameters)
    if len(pulls) != len(leaves):
        raise InvalidInputError(
            f"{type(model).__name__}.loss_and_gradients gives {len(pulls)} gradients for {len(leaves)} parameters: "
            "give one for each, None for what stays as it is."
        )
    return tuple(() if pull is None else _own(optimiser, leaf) for leaf, pull in zip(leaves, pulls, strict=True))


def apply_gradients(
    optimiser: type[Optimiser], row: Array, parameters: Tree, state: OptimiserState, gradients: Tree
) -> tuple[Tree, OptimiserState]:
    """One step of the optimiser, with this row of `coefficients`, on every parameter whose gradient is not None."""
    leaves, structure = jax.tree.flatten(parameters, is_leaf=lambda node: node is None)
    new_leaves, new_state = list(leaves), list(state)
    for k, pull in enumerate(_gradient_leaves(gradients)):
        if pull is not None:
            answer = _moved(optimiser, row, leaves[k], pull, state[k])
            new_leaves[k], new_state[k] = _checked(optimiser, answer, leaves[k], state[k])
    return jax.tree.unflatten(structure, new_leaves), tuple(new_state)


def _moved(optimiser: type[Optimiser], row: Array, parameter: Array, pull: Any, state: State) -> Any:
    """One parameter after a step, by a kernel that adds up its gradient where there is one for this optimiser."""
    alike = all((x.shape, x.dtype) == (parameter.shape, parameter.dtype) for x in state)
    if isinstance(pull, RowsGradient) and steps_in_kernels(optimiser) and alike:
        return pull.moved(optimiser.step, row, parameter, state)
    return optimiser.step(row, parameter, jnp.asarray(gradient_entries(pull)), state)


def epoch_function(model: Model) -> Any:
    """`train_epoch`, compiled with what the model tells the compiler of an accelerator."""
    options = usable_options(model.compiler_options)
    return jitted(train_epoch, options, static_argnums=(0, 1), donate_argnums=2)


def train_epoch(
    program: Program, optimiser: type[Optimiser], state: TrainingState, data: EpochData
) -> tuple[TrainingState, Array]:
    """Return the state after one pass over the data, and the numbers of the epoch in the order of `recorded_names`."""

    def step(state: TrainingState, now: tuple[Any, AnyArray]) -> tuple[TrainingState, Array]:
        plan, row = now
        sums, gradients = program.loss_and_gradients(state.parameters, data.on_device, plan)
        moved = TrainingState(
            *apply_gradients(optimiser, jnp.asarray(row), state.parameters, state.optimiser, gradients)
        )
        return moved, jnp.stack([sums.mean_loss, sums.correct, sums.documents])

    # On an accelerator a short step is bound by starting its kernels; several steps in a row are started faster.
    together = 1 if jax.default_backend() == "cpu" else program.model.steps_together
    plans = program.plans(data.on_device, data.rows)
    state, sums = jax.lax.scan(step, state, (plans, data.coefficients), unroll=together)
    loss, correct, documents = sums[:, 0], sums[:, 1], sums[:, 2]
    total = jnp.sum(documents)
    means = [jnp.sum(loss * documents) / total, jnp.sum(correct) / total]
    return state, jnp.stack([*means, *program.model.recorded(state.parameters, data.posterior).values()])


def recorded_names(model: Model, parameters: Tree, posterior: AnyArray | None) -> tuple[str, ...]:
    """Return the names of an epoch's numbers, in their order; a model that records something else is refused."""
    names = ["loss", "accuracy"]

    def ask(parameters: Tree, posterior: AnyArray | None) -> tuple[Any, ...]:
        told = model.recorded(parameters, posterior)
        if not isinstance(told, dict) or any(not isinstance(name, str) or jnp.shape(x) for name, x in told.items()):
            raise InvalidInputError(
                f"{type(model).__name__}.recorded must return a dictionary of names and single numbers, {{}} for none."
            )
        names.extend(told)
        return tuple(told.values())

    jax.eval_shape(ask, parameters, posterior)
    return tuple(names)


def _leaves(parameters: Tree) -> list[Any]:
    return jax.tree.leaves(parameters, is_leaf=lambda node: node is None)


def _gradient_leaves(gradients: Tree) -> list[Any]:
    return jax.tree.leaves(gradients, is_leaf=lambda node: node is None or is_gradient(node))


def _own(optimiser: Optimiser, parameter: AnyArray) -> State:
    """`init`, in arrays that are nobody else's: a step overwrites them."""
    state = optimiser.init(parameter)
    if not isinstance(state, tuple) or not all(isinstance(x, jax.Array | np.ndarray) for x in state):
        raise InvalidInputError(
            f"{type(optimiser).__name__}.init must return a tuple of arrays, () for none; it returned "
            f"{_described(state)}."
        )
    # What `init` gives may be the parameter, come twice, or be a constant that other parameters and runs are given too.
    # Copied one by one, each let go of before the next: no more than one array exists twice.
    given, own = list(state), []
    del state
    while given:
        own.append(jnp.array(given.pop(0), copy=True))
    return tuple(own)


def _checked(optimiser: type[Optimiser], answer: Any, parameter: AnyArray, state: State) -> tuple[Array, State]:
    """A step's answer, if it has the shapes and dtypes that the next step asks for."""
    given = _described((parameter, state))
    if _described(answer) != given:
        raise InvalidInputError(
            f"{optimiser.__name__}.step must return (parameter, state) as it was given them, {given}; it returned "
            f"{_described(answer)}."
        )
    return answer


def _described(value: Any) -> str:
    """Shapes and dtypes in words, such as "(float32[3,2], ())"."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_described, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, jax.Array | np.ndarray):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    return f"a {type(value).__name__}"
