"""Memory and time of a training, before it begins: by its compiled step, and by a few steps.

Memory is that of the arguments and temporaries of the compiled steps: parameters, the optimiser's state, the documents,
and what a step makes on the way. Time is that of the compilation and of as many steps as the run has, each as long as
the mean of a few that are run on random batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import float_dtype, whole_number
from tokenmargin._memory import host_bytes
from tokenmargin._precision import keep_precision
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models.model import Model
from tokenmargin.training._program import EpochData, TrainingState, epoch_function, initial_state, program_of
from tokenmargin.training._under_way import coefficients
from tokenmargin.training.batches import batches_of, in_memory
from tokenmargin.training.examples import BatchFactory, Examples, model_size
from tokenmargin.training.optimisers import Optimiser

#: Steps that are timed in a row, and seconds to go on timing: short steps are dominated by what starts them.
TIMED_STEPS, LEAST_SECONDS = 8, 0.5

#: A long run is timed for this share of what it will take, up to so many seconds: what else the machine does comes and
#: goes within seconds.
TIMED_SHARE, MOST_SECONDS = 0.02, 6.0

#: What would make a run fit, from the share of its memory that is there.
Remedy = Callable[[float], str]

#: Shares of memory that a run may take: the rest of the process, and of the machine, needs some too.
USABLE = 0.9


@dataclass(frozen=True)
class TrainingForecast:
    """Memory and time that a run is expected to take.

    Args:
        memory_bytes: on the device, at the peak of a step.
        compile_seconds: once.
        seconds_a_step: of each step.
        steps: of the run.
    """

    memory_bytes: int
    compile_seconds: float
    seconds_a_step: float
    steps: int

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return self.compile_seconds + self.steps * self.seconds_a_step


@keep_precision
def forecast_training(
    dataset: TokenDataset | Examples,
    model: Model,
    optimiser: Optimiser,
    *,
    epochs: int,
    batch_size: int = 128,
    dtype: Any = np.float32,
    batches: BatchFactory | None = None,
    remedy: Remedy = lambda share: "take a smaller width",
) -> TrainingForecast:
    """Memory and time of `train` with these arguments, from a few steps of it; what cannot fit is refused before.

    Args:
        dataset: documents as counts, or examples of another kind.
        model: to be trained.
        optimiser: of the run.
        epochs: of the run.
        batch_size: of the run.
        dtype: of the run.
        batches: of the run.
        remedy: what would make it fit, for the error where it does not, from the share of the memory that is there.
    """
    whole_number(epochs, "epochs", 0)
    kind = float_dtype(dtype)
    given = in_memory(dataset, "the data set to train on")
    size = model_size(given)
    check_parameters_fit(model, optimiser, size, kind, remedy)
    source = batches_of(given, model, len(given) if optimiser.full_batch else batch_size, kind, batches)
    rows = source.rows(np.random.default_rng(0).permutation(source.n_documents))
    timed = rows[:TIMED_STEPS]
    table = coefficients(optimiser, 0, np.full(len(timed), optimiser.lr)).astype(kind)
    posterior = jnp.zeros(size, kind) if given.vocabulary else None
    data = EpochData(source.on_device, posterior, timed, table)
    shapes = jax.eval_shape(lambda key: model.initial(key, size, kind), jax.random.key(0))
    state = jax.eval_shape(lambda p: TrainingState(p, initial_state(optimiser, model, source, p)), shapes)
    begin = time.perf_counter()
    lowered = epoch_function(model).lower(program_of(model, source, timed), type(optimiser), state, data)
    compiled = lowered.compile()
    compile_seconds = time.perf_counter() - begin
    memory = _memory(compiled, state, data)
    check_fits(memory, remedy)
    parameters = model.initial(jax.random.key(0), size, kind)
    now = TrainingState(parameters, initial_state(optimiser, model, source, parameters))
    steps = epochs * len(rows)
    return TrainingForecast(memory, compile_seconds, _seconds_a_step(compiled, now, data, steps), steps)


def check_parameters_fit(model: Model, optimiser: Optimiser, size: int, dtype: str, remedy: Remedy) -> None:
    """Raise if parameters and what the optimiser keeps of each do not fit, before anything is computed."""
    shapes = jax.eval_shape(lambda key: model.initial(key, size, dtype), jax.random.key(0))
    kept = jax.eval_shape(lambda tree: [optimiser.init(leaf) for leaf in jax.tree.leaves(tree)], shapes)
    check_fits(_bytes(shapes) + _bytes(kept), remedy)


def check_fits(memory_bytes: int, remedy: Remedy) -> None:
    """Raise if so much memory is not to be had on the device, with the remedy for the share of it that is there."""
    there = available_bytes()
    if there is not None and memory_bytes > USABLE * there:
        raise InvalidInputError(
            f"this needs {memory_bytes / 1e9:.3g} GB of memory and {there / 1e9:.3g} GB are free on "
            f"{jax.devices()[0].device_kind}: {remedy(USABLE * there / memory_bytes)}."
        )


def available_bytes() -> int | None:
    """Memory of the device that is free, that of the machine where it is a CPU; None if unknown."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        told = device.memory_stats() or {}
        return told["bytes_limit"] - told["bytes_in_use"] if {"bytes_limit", "bytes_in_use"} <= set(told) else None
    return host_bytes()


def _memory(compiled: Any, state: Any, data: Any) -> int:
    """Arguments, temporaries and what is made anew; the arguments alone where a compiler tells nothing."""
    told = compiled.memory_analysis()
    if told is None:
        return _bytes(state) + _bytes(data)
    own = told.argument_size_in_bytes + told.temp_size_in_bytes + told.output_size_in_bytes - told.alias_size_in_bytes
    return max(int(own), _bytes(state))


def _bytes(tree: Any) -> int:
    return sum(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in jax.tree.leaves(tree))


def _seconds_a_step(compiled: Any, state: Any, data: EpochData, steps: int) -> float:
    """The mean over repeats; the first run is not counted, as it meets cold memory."""
    state, _ = jax.block_until_ready(compiled(state, data))
    begin, done, each = time.perf_counter(), 0, 0.0
    while done == 0 or done * each < max(LEAST_SECONDS, min(TIMED_SHARE * steps * each, MOST_SECONDS)):
        state, _ = jax.block_until_ready(compiled(state, data))
        done += len(data.rows)
        each = (time.perf_counter() - begin) / done
    return each
