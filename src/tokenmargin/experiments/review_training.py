"""Training on real reviews, as printed and in the reading that reaches the paper's losses [E, App. E, Fig. 1, 3, 4].

The paper prints a learning rate of 0.01. With N(0, I/d) embeddings that does not get to its losses; a smaller rate
does. Every figure trains both, and shows both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from tokenmargin.data import TokenDataset, token_statistics
from tokenmargin.dynamics.adamw import AdamW
from tokenmargin.dynamics.count_batches import count_batches
from tokenmargin.dynamics.evaluate import Evaluator
from tokenmargin.dynamics.schedule import StepSchedule
from tokenmargin.dynamics.shelf_batches import shelf_batches
from tokenmargin.dynamics.train import TrainingRun, train
from tokenmargin.experiments.experiment import Config, Number, Progress
from tokenmargin.experiments.overlap_shapes import base_rate, pearson, s_curve, v_curve
from tokenmargin.experiments.parts import kept
from tokenmargin.experiments.reviews import Reviews, reviews
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.models.two_layer_model import TwoLayer

#: "Of order 1e-1" and "of order 1e-5" allow a factor of ten either way.
ONE_ORDER = 1.0

PRODUCTS = {
    "full": MatmulPrecision.FULL,
    "pairs": MatmulPrecision.FLOAT_16_PAIRS,
    "tf32": MatmulPrecision.TENSOR_FLOAT_32,
}

#: What is kept of every token: <E_s, p> and <E_s, v>.
OVERLAPS = ("with_query", "with_head")


@dataclass(frozen=True)
class ReviewSettings(Config):
    """Hyper-parameters of training on reviews; those the paper states are the paper preset's."""

    counts: str = ""
    """Folder of counted reviews; without it the texts are read and tokenized."""
    documents: int = 0
    """Reviews drawn at random, half of each class; 0 takes all."""
    longest: int = 0
    """Of a part, reviews with more distinct tokens than this are left out; 0 takes all."""
    d: int = 2048
    """Width of the embeddings."""
    epochs: int = 500
    """Passes over the reviews."""
    batch_size: int = 128
    """Reviews of a step."""
    printed_lr: float = 0.01
    """Learning rate of the treatment `as printed`."""
    lr: float = 1e-3
    """Learning rate of the treatment `reading`."""
    weight_decay: float = 1e-8
    """Of AdamW."""
    drop_epochs: tuple[int, ...] = (100, 200)
    """Epochs after which the learning rate falls by ten."""
    init_scale: float = 1.0
    """Embeddings start as this times N(0, I/d)."""
    affine: bool = True
    """Whether the LayerNorm of two layers has a trained gain and bias, as torch's has by default."""
    held_out_epochs: int = 0
    """Epochs of a further run on IMDB's train split, its accuracy on the test split measured after each; 0 for none."""
    resume: str = ""
    """Folder that keeps finished trainings, so that an interrupted figure goes on where it was."""

    @classmethod
    def smoke(cls) -> ReviewSettings:
        """Two thousand reviews, narrow embeddings."""
        return cls(documents=2000, d=64, epochs=12, lr=3e-3, printed_lr=0.03, drop_epochs=(8, 10), held_out_epochs=4)

    @classmethod
    def cpu(cls) -> ReviewSettings:
        """All reviews, embeddings of 256, tens of epochs: minutes on two cores."""
        return cls(d=256, epochs=30, drop_epochs=(15, 22), held_out_epochs=8)

    @classmethod
    def paper(cls) -> ReviewSettings:
        """As printed, and the reading beside it."""
        return cls(held_out_epochs=30)


@dataclass(frozen=True)
class TwoLayerSettings(ReviewSettings):
    """The same for two layers, whose step costs the square of a review's length."""

    products: Literal["full", "pairs", "tf32"] = "pairs"
    """Matrix products on an accelerator: float32 in full, in pairs of float16 (as exact, faster), or rounded to tf32."""
    most_shelves: int = 6
    """Widths of a batch of reviews: more waste less on padding and take longer to compile."""

    @classmethod
    def smoke(cls) -> TwoLayerSettings:
        """Eight hundred short reviews, narrow embeddings, two widths."""
        return cls(
            documents=800,
            longest=100,
            d=32,
            epochs=10,
            batch_size=32,
            lr=3e-3,
            printed_lr=0.03,
            drop_epochs=(7, 9),
            most_shelves=2,
        )

    @classmethod
    def cpu(cls) -> TwoLayerSettings:
        """A fifth of the reviews, embeddings of 256, a dozen epochs: minutes on two cores."""
        return cls(documents=10_000, d=256, epochs=12, drop_epochs=(8, 10), held_out_epochs=4)


@dataclass(frozen=True)
class Layers:
    """A depth: its model, its batches, and the order of magnitude of the loss that the paper reports for it."""

    words: str
    model: Callable[[Any], Any]
    batches: Callable[[Any], Callable[..., Any]]
    log10_loss: float


ONE_LAYER = Layers(
    "one layer",
    lambda config: OneLayer(width=config.d, init_scale=config.init_scale),
    lambda _: count_batches,
    -1.0,
)
TWO_LAYERS = Layers(
    "two layers",
    lambda config: TwoLayer(
        width=config.d, affine=config.affine, init_scale=config.init_scale, precision=PRODUCTS[config.products]
    ),
    lambda config: partial(shelf_batches, most_shelves=config.most_shelves),
    -5.0,
)


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
    rng = np.random.default_rng(np.asarray(jax.random.key_data(stream)))
    found = reviews(name, config.counts, lambda done, total, what: progress(done, total or done + 1, what))
    found = found.part(config.documents, rng, config.longest)
    statistics = token_statistics(found.dataset)
    there = statistics.count > 0
    arrays: dict[str, np.ndarray] = {
        "posterior_difference": statistics.posterior_difference[there],
        "signed_frequency": statistics.signed_frequency[there],
        "count": statistics.count[there],
        "token": np.array(found.dataset.vocabulary)[there],
        "documents": np.array(found.dataset.n_documents),
    }
    seconds = {}
    for treatment, lr in (("reading", config.lr), ("as printed", config.printed_lr)):
        begun = partial(_training, found.dataset, layers, config, lr, training, progress, f"{name}, {treatment}")
        part = _kept(config, name, f"{layers.words}, {treatment}", training, begun)
        seconds[treatment] = float(part.pop("seconds"))
        arrays[f"{treatment} lr"] = np.array(lr)
        arrays |= {
            f"{treatment} {which}": values[there] if which in OVERLAPS else values for which, values in part.items()
        }
    if config.held_out_epochs and found.is_test is not None:
        measured = partial(_held_out, found, layers, config, held, progress)
        arrays |= _kept(config, name, f"{layers.words}, held out", held, measured)
    return judged_study(name, layers, arrays, seconds)


def judged_study(name: str, layers: Layers, arrays: dict[str, np.ndarray], seconds: Mapping[str, float]) -> Study:
    """Judge what training left behind, from its arrays alone: a saved run can be judged again."""
    numbers: list[Number] = []
    documents, tokens = int(arrays["documents"]), len(arrays["token"])
    centre = base_rate(arrays["posterior_difference"], arrays["count"])
    sentences = [
        f"{name}: {documents:,} reviews, {tokens:,} tokens, {layers.words}; an occurrence of any token has the "
        f"posterior difference {centre:+.2f}, which is where the V is looked for."
    ]
    table: dict[str, Any] = {}
    for treatment in ("reading", "as printed"):
        judged, row = _judged(arrays, treatment, layers, name)
        numbers += judged
        table[treatment] = row | {"seconds of training": round(seconds[treatment], 1)}
        if len(epochs := arrays.get(f"{treatment} seconds of each epoch", np.zeros(0))) > 1:
            # The first epoch compiles.
            table[treatment]["seconds without compilation"] = round(float(epochs[1:].mean() * len(epochs)), 1)
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


def _kept(
    config: ReviewSettings, name: str, what: str, key: jax.Array, compute: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """A training whose arrays lie in the folder `resume` once it is done."""
    settings = replace(config, resume=""), np.asarray(jax.random.key_data(key)).tolist()
    return kept(config.resume, f"{name}-{what}".replace(", ", "-").replace(" ", "-"), settings, compute)


def _training(
    dataset: TokenDataset,
    layers: Layers,
    config: ReviewSettings,
    lr: float,
    key: jax.Array,
    progress: Progress,
    what: str,
) -> dict[str, np.ndarray]:
    """Overlaps of every token after training, and the numbers of every epoch."""
    ticks = [time.perf_counter()]
    on_epoch = lambda *_: ticks.append(time.perf_counter())  # noqa: E731
    run = _train(dataset, layers, config, lr, config.epochs, key, progress, what, on_epoch)
    seconds = {"seconds": np.array(time.perf_counter() - ticks[0]), "seconds of each epoch": np.diff(ticks)}
    return seconds | _overlaps(run) | run.records.columns()


def _train(
    dataset: TokenDataset,
    layers: Layers,
    config: ReviewSettings,
    lr: float,
    epochs: int,
    key: jax.Array,
    progress: Progress,
    what: str,
    on_epoch: Callable[[int, Any], None] | None = None,
) -> TrainingRun:
    return train(
        dataset,
        layers.model(config),
        AdamW(lr=lr, weight_decay=config.weight_decay),
        epochs=epochs,
        key=key,
        batch_size=config.batch_size,
        schedule=StepSchedule(config.drop_epochs),
        batches=layers.batches(config),
        progress=lambda done, total, _: progress(done, total, what),
        on_epoch=on_epoch,
    )


def _overlaps(run: TrainingRun) -> dict[str, np.ndarray]:
    trained = run.parameters
    E, p, v = (np.asarray(x, dtype=np.float64) for x in (trained.embeddings, trained.query, trained.head))
    return dict(zip(OVERLAPS, (E @ p, E @ v), strict=True))


def _judged(
    arrays: dict[str, np.ndarray], treatment: str, layers: Layers, name: str
) -> tuple[list[Number], dict[str, Any]]:
    """Numbers of one run. Only our reading is held against the paper; what was printed is reported beside it."""
    x = arrays["posterior_difference"]
    query, head = arrays[f"{treatment} with_query"], arrays[f"{treatment} with_head"]
    loss = float(arrays[f"{treatment} loss"][-1])
    centre = base_rate(x, arrays["count"])
    s, (left, right) = s_curve(x, head), v_curve(x, query, centre=centre)
    row = {
        "learning rate": float(arrays[f"{treatment} lr"]),
        "loss of the last epoch": loss,
        "smallest loss of an epoch": float(arrays[f"{treatment} loss"].min()),
        "accuracy of the last epoch": float(arrays[f"{treatment} accuracy"][-1]),
        "first epoch at the paper's loss": _first_epoch(arrays[f"{treatment} loss"], 10.0**layers.log10_loss),
        "correlation of <E_s, v> with the posterior difference": pearson(x, head),
        "correlation of <E_s, p> with its distance to that of the corpus": pearson(np.abs(x - centre), query),
        "mean <E_s, v> rises with the posterior difference (S)": s.rises,
        "mean <E_s, p> rises on both sides of that of the corpus (V)": left.rises and right.rises,
        "steps down of the S, in standard errors": s.worst_step_down,
        "steps down of the V, in standard errors": max(left.worst_step_down, right.worst_step_down),
    }
    if treatment != "reading":
        return [Number(f"{name}, as printed: loss of the last epoch", loss)], row
    shapes = float(not row["mean <E_s, v> rises with the posterior difference (S)"])
    hollow = float(not row["mean <E_s, p> rises on both sides of that of the corpus (V)"])
    numbers = [
        Number(f"{name}: log10 of the last loss", np.log10(max(loss, 1e-300)), layers.log10_loss, ONE_ORDER),
        Number(f"{name}: correlation of <E_s, v> with the posterior difference", pearson(x, head)),
        Number(f"{name}: correlation of <E_s, p> with its distance to the corpus'", pearson(np.abs(x - centre), query)),
        Number(f"{name}: 1 if mean <E_s, v> does not rise with the posterior difference", shapes, at_most=0.0),
        Number(f"{name}: 1 if mean <E_s, p> does not rise on both sides", hollow, at_most=0.0),
    ]
    return numbers, row


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


def _held_out(
    found: Reviews, layers: Layers, config: ReviewSettings, key: jax.Array, progress: Progress
) -> dict[str, np.ndarray]:
    """Accuracy on the test split after each epoch of training on the train split, in our reading."""
    assert found.is_test is not None
    train_part, test_part = found.dataset.subset(~found.is_test), found.dataset.subset(found.is_test)
    measure = Evaluator(test_part, layers.model(config), batches=layers.batches(config))
    accuracy: list[float] = []
    _train(
        train_part,
        layers,
        config,
        config.lr,
        config.held_out_epochs,
        key,
        progress,
        f"{found.name}, train split",
        lambda _, parameters: accuracy.append(measure(parameters).accuracy),
    )
    return {"held-out accuracy": np.array(accuracy)}
