"""Training one or two layers on real reviews, finished trainings kept [E, App. E, Fig. 1, 3, 4].

At the printed learning rate the printed formulas do not get to the paper's losses; with scores divided by sqrt(d)
before both softmaxes, as libraries do, they do (`embeddings-reading` compares). Every figure trains and shows both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from tokenmargin._fingerprint import fingerprint
from tokenmargin._progress import Progress, renamed
from tokenmargin.data import TokenDataset, token_statistics
from tokenmargin.experiments import store
from tokenmargin.experiments.expectations import expect_training
from tokenmargin.experiments.experiment import Arrays, Config
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.models.two_layer import TwoLayer
from tokenmargin.papers.embeddings.figures._half_precision import InHalf
from tokenmargin.papers.embeddings.figures._in_words import words
from tokenmargin.papers.embeddings.figures._reviews import Reviews, reviews
from tokenmargin.training.checkpoint import Checkpoint
from tokenmargin.training.count_batches import count_batches
from tokenmargin.training.document_batches import document_batches
from tokenmargin.training.optimisers import AdamW
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.train import streams, train
from tokenmargin.training.training_run import TrainingRun

PRODUCTS = {
    "full": MatmulPrecision.FULL,
    "pairs": MatmulPrecision.FLOAT_16_PAIRS,
    "tf32": MatmulPrecision.TENSOR_FLOAT_32,
    "half": MatmulPrecision.TENSOR_FLOAT_32,  # of as many bits
}


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
    lr: float = 0.01
    """Learning rate."""
    weight_decay: float = 1e-8
    """Of AdamW."""
    drop_epochs: tuple[int, ...] = (100, 200)
    """Epochs after which the learning rate falls by ten."""
    init_scale: float = 1.0
    """Embeddings start as this times N(0, I/d)."""
    start: Literal["scaled", "torch"] = "scaled"
    """As `init_scale` says, or as torch's modules start: E, p ~ N(0, I), v as the weight of nn.Linear."""
    root_width: Literal["none", "both", "p", "first"] = "both"
    """Scores that our reading divides by sqrt(d) before their softmax: none, both, those of p, of the first."""
    affine: bool = True
    """Whether the LayerNorm of two layers has a trained gain and bias, as torch's has by default."""
    held_out_epochs: int = 0
    """Epochs of a further run on IMDB's train split, its accuracy on the test split measured after each; 0 for none."""
    resume: str = ""
    """Folder that keeps finished trainings, so that an interrupted figure goes on where it was."""
    trained: str = ""
    """Folder of trainings that another machine has finished: they are judged here, and nothing is trained."""

    @classmethod
    def smoke(cls) -> ReviewSettings:
        """Two thousand reviews, narrow embeddings."""
        return cls(documents=2000, d=64, epochs=12, lr=0.03, drop_epochs=(8, 10), held_out_epochs=4)

    @classmethod
    def cpu(cls) -> ReviewSettings:
        """All reviews, embeddings of 256, tens of epochs: minutes on two cores."""
        return cls(d=256, epochs=30, drop_epochs=(15, 22), held_out_epochs=8)

    @classmethod
    def paper(cls) -> ReviewSettings:
        """The printed sizes."""
        return cls(held_out_epochs=30)


@dataclass(frozen=True)
class TwoLayerSettings(ReviewSettings):
    """The same for two layers, whose step costs the square of a review's length."""

    products: Literal["full", "pairs", "tf32", "half"] = "pairs"
    """Matrix products on an accelerator: float32, pairs of float16 (as exact, faster), or tf32; half is `InHalf`."""
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
            lr=0.03,
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


def _scale(config: ReviewSettings, softmax: str) -> float:
    """Factor of the scores of a softmax, "p" or "first"."""
    return config.d**-0.5 if config.root_width in ("both", softmax) else 1.0


ONE_LAYER = Layers(
    "one layer",
    lambda config: OneLayer(width=config.d, init_scale=config.init_scale, score_scale=_scale(config, "p")),
    lambda _: count_batches,
    -1.0,
)
TWO_LAYERS = Layers(
    "two layers",
    lambda config: TwoLayer(
        width=config.d,
        affine=config.affine,
        init_scale=config.init_scale,
        precision=PRODUCTS[config.products],
        score_scale=_scale(config, "p"),
        mixing_scale=_scale(config, "first"),
    ),
    lambda config: partial(document_batches, most_shelves=config.most_shelves),
    -5.0,
)


@dataclass(frozen=True)
class Effort:
    """Time and device of a training: all else of it is the same for the same seed."""

    seconds: float = field(metadata=words("seconds of training"))
    device: str = field(metadata=words("trained on"))
    steady_seconds: float | None = field(metadata=words("seconds without compilation"))  #: None after a single epoch


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished training."""

    lr: float  #: its learning rate
    with_query: np.ndarray  #: <E_s, p> of every token of the vocabulary, shape (V,)
    with_head: np.ndarray  #: <E_s, v>, shape (V,)
    records: Mapping[str, np.ndarray]  #: numbers of every epoch, each of shape (epochs,)
    effort: Effort
    made_by: Mapping[str, str]  #: code, versions and device, where another machine made it

    def arrays(self, there: np.ndarray) -> dict[str, Any]:
        """Arrays that are saved of the training: the overlaps of some tokens, and the records."""
        overlaps = {"with_query": self.with_query[there], "with_head": self.with_head[there]}
        return {"lr": np.array(self.lr), **overlaps, "records": self.records}


def prepared_reviews(
    name: str, layers: Layers, config: ReviewSettings, key: jax.Array, epochs: int, progress: Progress
) -> tuple[Reviews, Arrays, np.ndarray]:
    """The reviews `name`, or the part that the settings ask for, and their `token_arrays`.

    Where trainings are to follow, what they take is said: `epochs` of them in all.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    found = reviews(name, config.counts, progress).part(config.documents, rng, config.longest)
    if not config.trained:
        expect_training(
            progress,
            found.dataset,
            layers.model(config),
            epochs=epochs,
            batch_size=config.batch_size,
            batches=layers.batches(config),
        )
    return found, *token_arrays(found.dataset)


def token_arrays(dataset: TokenDataset) -> tuple[Arrays, np.ndarray]:
    """Statistics of each token that occurs, and a mask of those tokens in the vocabulary, shape (V,)."""
    statistics = token_statistics(dataset)
    there = statistics.count > 0
    arrays = {
        "posterior_difference": statistics.posterior_difference[there],
        "signed_frequency": statistics.signed_frequency[there],
        "count": statistics.count[there],
        "token": np.array(dataset.vocabulary)[there],
    }
    return arrays, there


def trained(
    found: Reviews, layers: Layers, config: ReviewSettings, key: jax.Array, progress: Progress, what: str
) -> Trained:
    """Train on the reviews, or take what is in the folder `resume` where it is there."""
    name, settings = _file_name(found.name, layers.words, what), _decisive(config, key)
    checkpoint = _checkpoint(config, name, settings)

    def compute() -> Arrays:
        told = renamed(progress, f"{found.name}, {layers.words}, {what}")
        run = _train(found.dataset, layers, config, key, progress=told, checkpoint=checkpoint)
        return {
            "seconds": np.array(run.epoch_seconds.sum()),
            "epoch_seconds": run.epoch_seconds,
            "device": np.array(str(jax.devices()[0].device_kind)),
            "overlaps": _overlaps(run),
            "records": run.records.columns(),
        }

    part, made_by = _finished(config, name, settings, compute, checkpoint)
    return Trained(config.lr, **part["overlaps"], records=part["records"], effort=_effort(part), made_by=made_by)


def _effort(part: Arrays) -> Effort:
    epochs = part["epoch_seconds"]
    # The first epoch compiles.
    steady = round(float(epochs[1:].mean() * len(epochs)), 1) if len(epochs) > 1 else None
    return Effort(round(float(part["seconds"]), 1), str(part["device"]), steady)


def held_out_accuracy(
    found: Reviews, layers: Layers, config: ReviewSettings, key: jax.Array, progress: Progress
) -> np.ndarray:
    """Accuracy on the test split after each epoch of training on the train split, shape (epochs,)."""
    name = _file_name(found.name, layers.words, "held out")
    settings = config.held_out_epochs, _decisive(config, key)
    checkpoint = _checkpoint(config, name, settings)

    def compute() -> Arrays:
        assert found.is_test is not None
        train_part, test_part = found.dataset.subset(~found.is_test), found.dataset.subset(found.is_test)
        run = _train(
            train_part,
            layers,
            replace(config, epochs=config.held_out_epochs),
            key,
            progress=renamed(progress, f"{found.name}, {layers.words}, train split"),
            validation=test_part,
            checkpoint=checkpoint,
        )
        assert run.validation is not None
        return {"accuracy": run.validation.accuracy}

    return np.asarray(_finished(config, name, settings, compute, checkpoint)[0]["accuracy"])


def _finished(
    config: ReviewSettings, name: str, settings: object, compute: Callable[[], Arrays], checkpoint: Checkpoint | None
) -> tuple[Arrays, dict[str, str]]:
    """Arrays of a finished training, and who made it elsewhere; its state under way is discarded."""
    if config.trained:
        return store.part_made_elsewhere(config.trained, name, settings)
    part = store.part(config.resume, name, settings, compute)
    if checkpoint is not None:
        checkpoint.discard()
    return part, {}


def made_elsewhere(made_by: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence on where trainings were made that are judged here; none if they were made here."""
    return (f"Trained elsewhere: {', '.join(f'{key} {value}' for key, value in made_by.items())}.",) if made_by else ()


def _checkpoint(config: ReviewSettings, name: str, settings: object) -> Checkpoint | None:
    """The checkpoint of a part under way, in a folder named after its settings, so that no two parts share one."""
    folder = Path(config.resume) / f"{name}-{fingerprint(repr(settings))}-training"
    return Checkpoint(folder) if config.resume and not config.trained else None


def _train(
    dataset: TokenDataset, layers: Layers, config: ReviewSettings, key: jax.Array, **options: Any
) -> TrainingRun:
    model = layers.model(config)
    start = torch_start(model, key, dataset.vocabulary_size) if config.start == "torch" else None
    return train(
        dataset,
        InHalf(model) if getattr(config, "products", "") == "half" else model,
        AdamW(lr=config.lr, weight_decay=config.weight_decay),
        epochs=config.epochs,
        key=key,
        batch_size=config.batch_size,
        schedule=StepSchedule(config.drop_epochs),
        batches=layers.batches(config),
        start=start,
        vocabulary=dataset.vocabulary,
        **options,
    )


def torch_start(model: OneLayer | TwoLayer, key: jax.Array, vocabulary_size: int) -> Any:
    """E, p ~ N(0, I), as nn.Embedding starts, and v within 1/sqrt(d) of 0, as the weight of nn.Linear(d, 1) does."""
    begin, _ = streams(key)
    standard = replace(model, init_scale=float(np.sqrt(model.width)))
    bound = model.width**-0.5
    head = jax.random.uniform(jax.random.fold_in(begin, 1), (model.width,), "float32", -bound, bound)
    return replace(standard.initial(begin, vocabulary_size, "float32"), head=head)


def _overlaps(run: TrainingRun) -> dict[str, np.ndarray]:
    trained = run.parameters
    E, p, v = (np.asarray(x, dtype=np.float64) for x in (trained.embeddings, trained.query, trained.head))
    return {"with_query": E @ p, "with_head": E @ v}


def _decisive(config: ReviewSettings, key: jax.Array) -> tuple[ReviewSettings, list[int]]:
    """All that a training depends on: not where things lie, nor what else a figure trains."""
    return (
        replace(config, resume="", counts="", held_out_epochs=0, trained=""),
        np.asarray(jax.random.key_data(key)).tolist(),
    )


def _file_name(*words: str) -> str:
    return "-".join("".join(c if c.isalnum() or c == "." else "-" for c in word) for word in words)
