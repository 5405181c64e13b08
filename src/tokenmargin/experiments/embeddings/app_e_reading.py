"""Which reading of the printed hyper-parameters reaches the paper's losses: one change at a time [E, App. E].

The appendix prints a learning rate, a schedule and a weight decay, and says of the losses that they are of the order of
1e-1 with one layer and 1e-5 with two. It does not print how embeddings start nor whether the LayerNorm has a gain and a
bias. Here each of these is changed alone, from our reading, on the same reviews and the same random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.embeddings._review_study import ONE_ORDER, judged_row
from tokenmargin.experiments.embeddings._review_training import (
    ONE_LAYER,
    OVERLAPS,
    TWO_LAYERS,
    Layers,
    TwoLayerSettings,
    chosen_reviews,
    token_arrays,
    trained,
)
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result

READING = "reading"

PAPER_WIDTH = 2048

DEPTHS = {"one": ONE_LAYER, "two": TWO_LAYERS}


def changes(d: int) -> dict[str, dict[str, Any]]:
    """Every setting that is tried, as what it changes of our reading; torch's defaults are among them.

    Adam moves every entry by about the learning rate, and entries start at 1/sqrt(d): at another width than the paper's
    the printed rate is tried as it is, and in the same proportion to the entries.
    """
    standard_normal = float(np.sqrt(d))  # N(0, I) in units of N(0, I/d)
    return {
        READING: {},
        "learning rate 0.01 (printed)": {"lr": 1e-2},
        "printed rate against 1/sqrt(d)": {"lr": 1e-2 * float(np.sqrt(PAPER_WIDTH / d))},
        "learning rate 0.003": {"lr": 3e-3},
        "learning rate 0.0003": {"lr": 3e-4},
        "start N(0, I), as torch's": {"init_scale": standard_normal},
        "start ten times smaller": {"init_scale": 0.1},
        "rate 0.01, start N(0, I)": {"lr": 1e-2, "init_scale": standard_normal},
        "no weight decay": {"weight_decay": 0.0},
        "weight decay 0.01, as torch's": {"weight_decay": 1e-2},
        "LayerNorm without gain, bias": {"affine": False},
    }


@dataclass(frozen=True)
class Settings(Config):
    """Sizes of the trainings; what is varied is `changes`."""

    counts: str = ""
    """Folder of counted reviews; without it the texts are read and tokenized."""
    names: tuple[Literal["imdb", "yelp"], ...] = ("imdb", "yelp")
    """Which reviews."""
    depths: tuple[Literal["one", "two"], ...] = ("one", "two")
    """Which models: one layer, two layers."""
    only: tuple[str, ...] = ()
    """Changes to try beside the reading, by words in their names; all of them if none are given."""
    documents: int = 0
    """Reviews that one layer is trained on, drawn at random, half of each class; 0 takes all."""
    documents_of_two: int = 0
    """The same for two layers, whose step costs the square of a review's length."""
    longest_of_two: int = 0
    """Of a part for two layers, reviews with more distinct tokens than this are left out; 0 takes all."""
    d: int = 2048
    """Width of the embeddings."""
    epochs: int = 500
    """Passes over the reviews."""
    drop_epochs: tuple[int, ...] = (100, 200)
    """Epochs after which the learning rate falls by ten."""
    batch_size: int = 128
    """Reviews of a step."""
    batch_size_of_two: int = 128
    """The same for two layers: of few reviews, smaller batches leave as many steps before the rate falls."""
    lr: float = 1e-3
    """Learning rate of the reading."""
    most_shelves: int = 6
    """Widths of a batch of reviews: more waste less on padding and take longer to compile."""
    resume: str = ""
    """Folder that keeps finished trainings, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Six hundred reviews, narrow embeddings, the settings that matter most."""
        return cls(
            names=("imdb",),
            only=("(printed)", "LayerNorm"),
            documents=600,
            documents_of_two=300,
            longest_of_two=100,
            d=32,
            epochs=8,
            drop_epochs=(5, 7),
            batch_size=32,
            batch_size_of_two=32,
            lr=3e-3,
            most_shelves=2,
        )

    @classmethod
    def cpu(cls) -> Settings:
        """All reviews for one layer, a thousand short ones for two, embeddings of 128: under an hour on two cores."""
        return cls(
            documents_of_two=1000,
            longest_of_two=120,
            d=128,
            epochs=100,
            drop_epochs=(20, 40),
            batch_size_of_two=16,
            most_shelves=3,
        )

    @classmethod
    def paper(cls) -> Settings:
        """As printed: hours on a GPU; choose with `--names`, `--depths` and `--only`."""
        return cls()


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Train every setting on every data set with every depth."""
    arrays: dict[str, np.ndarray] = {}
    table: dict[str, dict[str, Any]] = {}
    for name in config.names:
        for depth in config.depths:
            where = f"{name}, {DEPTHS[depth].words}"
            rows, losses = _settings_tried(name, depth, config, key, progress)
            table[where] = rows
            arrays |= {f"{where}: {setting}": loss for setting, loss in losses.items()}
    distances = _distances(table)
    numbers = [
        Number(f"{where}: log10 of the last loss", _log10_loss(rows[READING]), _layers(where).log10_loss, ONE_ORDER)
        for where, rows in table.items()
    ]
    numbers += [Number(f"largest distance to the paper's orders: {each}", far) for each, far in distances.items()]
    return Result(arrays, tuple(numbers), _sentences(table, distances), table)


def _settings_tried(
    name: str, depth: str, config: Settings, key: jax.Array, progress: Progress
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A row of numbers and the loss of every epoch, for each setting."""
    layers = DEPTHS[depth]
    stream, training = jax.random.split(key)
    base = TwoLayerSettings(
        counts=config.counts,
        documents=config.documents,
        d=config.d,
        epochs=config.epochs,
        batch_size=config.batch_size,
        lr=config.lr,
        drop_epochs=config.drop_epochs,
        resume=config.resume,
    )
    if depth == "two":
        base = replace(
            base,
            documents=config.documents_of_two,
            longest=config.longest_of_two,
            batch_size=config.batch_size_of_two,
            most_shelves=config.most_shelves,
        )
    found = chosen_reviews(name, base, stream, progress)
    of_tokens, there = token_arrays(found.dataset)
    rows, losses = {}, {}
    for setting, changed in _chosen(config, depth).items():
        own = replace(base, **changed)
        part = trained(found, layers, own, training, progress, setting)
        arrays = {f"{setting} {which}": values for which, values in part.items()}
        arrays |= {f"{setting} {which}": part[which][there] for which in OVERLAPS}
        rows[setting] = judged_row(of_tokens | arrays | {f"{setting} lr": np.array(own.lr)}, setting, layers)
        losses[setting] = part["loss"]
    return rows, losses


def _chosen(config: Settings, depth: str) -> dict[str, dict[str, Any]]:
    """The settings to try; a LayerNorm is in two layers only."""
    known = changes(config.d)
    for words in config.only:
        if not any(words in setting for setting in known):
            raise InvalidInputError(f"no change is called {words!r}: there are {'; '.join(known)}.")
    if config.d == PAPER_WIDTH:
        known.pop("printed rate against 1/sqrt(d)")  # the printed rate itself
    return {
        setting: changed
        for setting, changed in known.items()
        if setting == READING or not config.only or any(words in setting for words in config.only)
        if depth == "two" or "affine" not in changed
    }


def _distances(table: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """How many orders of magnitude a setting is from the paper's losses, at worst, closest first."""
    settings = list(dict.fromkeys(setting for rows in table.values() for setting in rows))
    distances = {
        setting: max(
            abs(_log10_loss(rows[setting]) - _layers(where).log10_loss)
            for where, rows in table.items()
            if setting in rows
        )
        for setting in settings
    }
    return dict(sorted(distances.items(), key=lambda item: item[1]))


def _log10_loss(row: Mapping[str, Any]) -> float:
    return float(np.log10(max(row["loss of the last epoch"], 1e-300)))


def _layers(where: str) -> Layers:
    return next(layers for layers in DEPTHS.values() if where.endswith(layers.words))


def _sentences(table: Mapping[str, Mapping[str, Any]], distances: Mapping[str, float]) -> tuple[str, ...]:
    closest = next(iter(distances))
    sentences = [
        f"Closest to the paper's losses at this size: {closest}, {distances[closest]:.1f} orders of magnitude away at "
        f"worst; the reading is {distances[READING]:.1f} away."
    ]
    for where, rows in table.items():
        sentences.append(
            f"{where}: loss of the last epoch "
            + ", ".join(f"{row['loss of the last epoch']:.1e} ({setting})" for setting, row in rows.items())
            + "."
        )
        shapeless = [
            setting
            for setting, row in rows.items()
            if not (
                row["mean <E_s, v> rises with the posterior difference (S)"]
                and row["mean <E_s, p> rises on both sides of that of the corpus (V)"]
            )
        ]
        sentences.append(f"{where}: without the S or the V: {', '.join(shapeless) or 'none'}.")
    return tuple(sentences)


def draw(result: Result) -> Any:
    """The loss of every setting over the epochs, a panel for each data set and depth."""
    from tokenmargin.plots.canvas import panels, style
    from tokenmargin.plots.losses import draw_losses

    wheres = list(dict.fromkeys(key.split(": ", 1)[0] for key in result.arrays))
    with style():
        figure, axes = panels(-(-len(wheres) // 2), min(2, len(wheres)), 12, 4.2 * -(-len(wheres) // 2))
        for ax, where in zip(axes, wheres, strict=False):
            curves = {
                key.split(": ", 1)[1]: values for key, values in result.arrays.items() if key.startswith(f"{where}: ")
            }
            draw_losses(ax, curves, 10.0 ** _layers(where).log10_loss)
            ax.set_title(where)
        # Two layers have a setting more than one.
        max(axes, key=lambda ax: len(ax.get_lines())).legend(frameon=False, fontsize=7)
        return figure


EXPERIMENT = Experiment(
    id="embeddings-reading",
    title="Training on reviews: which reading of the printed hyper-parameters reaches the paper's losses",
    paper="E",
    figure="App. E",
    config=Settings,
    compute=compute,
    draw=draw,
    precision="float32",
    data=("imdb", "yelp"),
)
