"""Forecasts of a figure's time and memory, said before it begins: steps or parts of it are timed first.

Figures of seconds are not timed. What cannot fit into memory is refused, with the flag that would make it fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from tokenmargin._progress import Progress, announce, in_seconds
from tokenmargin.data import TokenDataset
from tokenmargin.training.forecast import check_parameters_fit, forecast_training
from tokenmargin.training.optimisers import AdamW, Optimiser

#: Steps from which on a figure's trainings are long enough for a few of them to be timed first.
LONG_STEPS = 3000


def expect_training(
    progress: Progress,
    dataset: TokenDataset,
    model: Any,
    *,
    epochs: int,
    batch_size: int,
    batches: Any = None,
    optimiser: Optimiser | None = None,
) -> None:
    """Say what trainings of so many epochs in all are expected to take; refuse what cannot fit.

    The numbers of the optimiser, AdamW when absent, do not matter here.
    """
    method = optimiser or AdamW(lr=1e-3)
    remedy = _smaller_width(model.width)
    check_parameters_fit(model, method, dataset.vocabulary_size, "float32", remedy)
    steps = epochs * -(-dataset.n_documents // batch_size)
    if steps < LONG_STEPS:
        return
    told = forecast_training(
        dataset, model, method, epochs=epochs, batch_size=batch_size, batches=batches, remedy=remedy
    )
    announce(
        progress,
        f"expected: {told.memory_bytes / 1e9:.2g} GB of memory and {in_seconds(told.seconds)} of training "
        f"({told.steps:,} steps of "
        f"{1e3 * told.seconds_a_step:.3g} ms, timed just now)",
    )


def expect_study(progress: Progress, samples: Mapping[str, tuple[Callable[[], Any], float]]) -> None:
    """Say how long a study takes that consists of so many times each of these samples, named in words.

    Each sample is run twice, as the first time compiles; where nobody listens, nothing is timed.
    """
    if getattr(progress, "say", None) is None:
        return
    seconds = 0.0
    for sample, times in samples.values():
        ticks = [perf_counter()]
        for _ in range(2):
            sample()
            ticks.append(perf_counter())
        first, second = np.diff(ticks).tolist()
        seconds += max(first - second, 0.0) + times * second
    announce(progress, f"expected: {in_seconds(seconds)} on this machine ({', '.join(samples)}, timed just now)")


def _smaller_width(width: int) -> Callable[[float], str]:
    """The largest power of two that fits, as memory grows with the width."""
    return lambda share: f"take a smaller width, such as --d {2 ** max(0, int(np.floor(np.log2(width * share))))}"
