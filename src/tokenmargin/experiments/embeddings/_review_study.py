"""Training on one data set of reviews, as printed and in our reading, and what is judged of it [E, Fig. 1, 3, 4]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.data.statistics import pearson
from tokenmargin.experiments.embeddings._overlap_shapes import base_rate, s_curve, v_curve
from tokenmargin.experiments.embeddings._review_training import (
    OVERLAPS,
    Layers,
    ReviewSettings,
    chosen_reviews,
    held_out_accuracy,
    token_arrays,
    trained,
)
from tokenmargin.experiments.experiment import Number

#: "Of order 1e-1" and "of order 1e-5" allow a factor of ten either way.
ONE_ORDER = 1.0

TREATMENTS = ("reading", "as printed")


@dataclass(frozen=True, eq=False)
class Study:
    """What training on one data set left: arrays by name, numbers and sentences."""

    arrays: dict[str, np.ndarray]
    numbers: tuple[Number, ...]
    sentences: tuple[str, ...]
    table: dict[str, Any]


def review_study(name: str, layers: Layers, config: ReviewSettings, key: jax.Array, progress: Progress) -> Study:
    """Train `layers` on the reviews `name`, as printed and in our reading, and judge the shapes."""
    stream, training, held = jax.random.split(key, 3)
    found = chosen_reviews(name, config, stream, progress)
    arrays, there = token_arrays(found.dataset)
    about = {}
    for treatment, lr in zip(TREATMENTS, (config.lr, config.printed_lr), strict=True):
        part = trained(found, layers, replace(config, lr=lr), training, progress, treatment)
        about[treatment] = _about(part)
        arrays[f"{treatment} lr"] = np.array(lr)
        arrays |= {
            f"{treatment} {which}": values[there] if which in OVERLAPS else values for which, values in part.items()
        }
    if config.held_out_epochs and found.is_test is not None:
        arrays["held-out accuracy"] = held_out_accuracy(found, layers, config, held, progress)
    return judged_study(name, layers, arrays, about)


def _about(part: dict[str, np.ndarray]) -> dict[str, Any]:
    """How long a training took and where, taken out of its arrays: the same seed gives the same of all others."""
    seconds, epochs = float(part.pop("seconds")), part.pop("seconds of each epoch")
    found = {"seconds of training": round(seconds, 1), "trained on": str(part.pop("device"))}
    if len(epochs) > 1:
        # The first epoch compiles.
        found["seconds without compilation"] = round(float(epochs[1:].mean() * len(epochs)), 1)
    return found


def judged_study(
    name: str, layers: Layers, arrays: dict[str, np.ndarray], about: Mapping[str, Mapping[str, Any]]
) -> Study:
    """Judge what training left behind, from its arrays alone: a saved run can be judged again."""
    numbers: list[Number] = []
    documents, tokens = int(arrays["documents"]), len(arrays["token"])
    centre = base_rate(arrays["posterior_difference"], arrays["count"])
    sentences = [
        f"{name}: {documents:,} reviews, {tokens:,} tokens, {layers.words}; an occurrence of any token has the "
        f"posterior difference {centre:+.2f}, which is where the V is looked for."
    ]
    table: dict[str, Any] = {}
    for treatment in TREATMENTS:
        row = judged_row(arrays, treatment, layers)
        numbers += _numbers(name, treatment, row, layers)
        table[treatment] = row | dict(about[treatment])
        sentences.append(_sentence(name, treatment, table[treatment]))
    if "held-out accuracy" in arrays:
        accuracy = arrays["held-out accuracy"]
        best = int(accuracy.argmax()) + 1
        numbers.append(Number(f"{name}: best held-out accuracy", float(accuracy.max())))
        sentences.append(
            f"{name}, trained on its train split only (reading): accuracy on the test split {accuracy[0]:.3f} after "
            f"one epoch, best {accuracy.max():.3f} after {best}, {accuracy[-1]:.3f} after {len(accuracy)}."
        )
    return Study(arrays, tuple(numbers), tuple(sentences), table)


def judged_row(arrays: Mapping[str, np.ndarray], treatment: str, layers: Layers) -> dict[str, Any]:
    """What one training came to: losses, and whether the overlaps have the shapes of the paper."""
    x = arrays["posterior_difference"]
    query, head = arrays[f"{treatment} with_query"], arrays[f"{treatment} with_head"]
    loss = float(arrays[f"{treatment} loss"][-1])
    centre = base_rate(x, arrays["count"])
    s, (left, right) = s_curve(x, head), v_curve(x, query, centre=centre)
    return {
        "learning rate": float(arrays[f"{treatment} lr"]),
        "loss of the last epoch": loss,
        "smallest loss of an epoch": float(arrays[f"{treatment} loss"].min()),
        "accuracy of the last epoch": float(arrays[f"{treatment} accuracy"][-1]),
        "first epoch at the paper's loss": _first_epoch(arrays[f"{treatment} loss"], 10.0**layers.log10_loss),
        "correlation of <E_s, v> with the posterior difference": float(pearson(x, head)),
        "correlation of <E_s, p> with its distance to that of the corpus": float(pearson(np.abs(x - centre), query)),
        "mean <E_s, v> rises with the posterior difference (S)": s.rises,
        "mean <E_s, p> rises on both sides of that of the corpus (V)": left.rises and right.rises,
        "steps down of the S, in standard errors": s.worst_step_down,
        "steps down of the V, in standard errors": max(left.worst_step_down, right.worst_step_down),
    }


def _numbers(name: str, treatment: str, row: dict[str, Any], layers: Layers) -> list[Number]:
    """Only our reading is held against the paper; what was printed is reported beside it."""
    loss, smallest = (
        np.log10(max(row[f"{which} epoch"], 1e-300)) for which in ("loss of the last", "smallest loss of an")
    )
    if treatment != "reading":
        return [Number(f"{name}, as printed: loss of the last epoch", row["loss of the last epoch"])]
    no_s = float(not row["mean <E_s, v> rises with the posterior difference (S)"])
    no_v = float(not row["mean <E_s, p> rises on both sides of that of the corpus (V)"])
    with_head = row["correlation of <E_s, v> with the posterior difference"]
    with_query = row["correlation of <E_s, p> with its distance to that of the corpus"]
    return [
        Number(f"{name}: log10 of the smallest loss", smallest, at_most=layers.log10_loss + ONE_ORDER),
        Number(f"{name}: log10 of the last loss", loss, layers.log10_loss, ONE_ORDER),
        Number(f"{name}: correlation of <E_s, v> with the posterior difference", with_head),
        Number(f"{name}: correlation of <E_s, p> with its distance to the corpus'", with_query),
        Number(f"{name}: 1 if mean <E_s, v> does not rise with the posterior difference", no_s, at_most=0.0),
        Number(f"{name}: 1 if mean <E_s, p> does not rise on both sides", no_v, at_most=0.0),
    ]


def _first_epoch(loss: np.ndarray, bound: float) -> int | None:
    """The first epoch whose loss is at most this; None if none is."""
    below = np.flatnonzero(loss <= bound)
    return int(below[0]) + 1 if below.size else None


def _sentence(name: str, treatment: str, row: dict[str, Any]) -> str:
    s = "rises" if row["mean <E_s, v> rises with the posterior difference (S)"] else "does not rise"
    v = "rise" if row["mean <E_s, p> rises on both sides of that of the corpus (V)"] else "do not both rise"
    return (
        f"{name}, {treatment} (learning rate {row['learning rate']:g}): loss {row['loss of the last epoch']:.2g} "
        f"at the end (smallest {row['smallest loss of an epoch']:.2g}), "
        f"accuracy {row['accuracy of the last epoch']:.4f}; mean <E_s, v> {s} with the posterior difference, "
        f"the two arms of <E_s, p> {v}; "
        f"{row['seconds of training']:.0f} s of training, compilation included."
    )
