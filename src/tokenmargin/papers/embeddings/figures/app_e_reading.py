"""Readings of the printed hyper-parameters, one change at a time: which reaches the paper's losses [E, App. E].

The appendix prints a learning rate, a schedule and a weight decay, and says of the losses that they are of the order of
1e-1 with one layer and 1e-5 with two. It does not print how embeddings start nor whether the LayerNorm has a gain and a
bias, and its formulas have no 1/sqrt(d) in a softmax, where libraries have one: our reading is with it. Here each of
these is changed from our reading, alone or with the rate, on the same reviews and the same random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.papers.embeddings.figures._in_words import in_words
from tokenmargin.papers.embeddings.figures._reading_changes import (
    AS_PRINTED,
    OPEN,
    READING,
    SCALES,
    chosen_changes,
    in_short,
)
from tokenmargin.papers.embeddings.figures._review_training import (
    ONE_LAYER,
    TWO_LAYERS,
    TwoLayerSettings,
    made_elsewhere,
    prepared_reviews,
    trained,
)
from tokenmargin.papers.embeddings.figures._reviews import DISPLAYED, ControlName
from tokenmargin.papers.embeddings.figures._training_outcome import (
    HALF_DECADE,
    TrainingOutcome,
    loss_numbers,
    training_outcome,
)

DEPTHS = {"one": ONE_LAYER, "two": TWO_LAYERS}


@dataclass(frozen=True)
class Settings(Config):
    """Sizes of the trainings; what is varied is `CHANGES`."""

    counts: str = ""
    """Folder of counted reviews; without it the texts are read and tokenized."""
    names: tuple[Literal["imdb", "yelp"], ...] = ("imdb",)
    """Reviews on which every setting is tried."""
    others: tuple[Literal["imdb", "yelp"], ...] = ("yelp",)
    """Reviews on which only the reading and the formulas as printed are tried."""
    controls: tuple[ControlName, ...] = ()
    """Changed reviews on which one layer is tried, in the reading and with the formulas as printed."""
    depths: tuple[Literal["one", "two"], ...] = ("one", "two")
    """Which models: one layer, two layers."""
    only: tuple[str, ...] = ()
    """Changes to try beside the reading, by key or by words in their names; all of them if none are given."""
    seeds: int = 1
    """Trainings of the reading on `names`, which differ in their random numbers only; 0 for none."""
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
    lr: float = 0.01
    """Learning rate of the reading."""
    most_shelves: int = 6
    """Widths of a batch of reviews: more waste less on padding and take longer to compile."""
    products: Literal["full", "pairs", "tf32", "half"] = "pairs"
    """Matrix products of two layers on an accelerator, as in the figures on reviews."""
    resume: str = ""
    """Folder that keeps finished trainings, so that an interrupted study goes on where it was."""
    trained: str = ""
    """Folder of trainings that another machine has finished: they are judged here, and nothing is trained."""

    @classmethod
    def smoke(cls) -> Settings:
        """Six hundred reviews, narrow embeddings, the settings that matter most."""
        return cls(
            others=(),
            only=(AS_PRINTED, "normal_start", "plain_layer_norm"),
            documents=600,
            documents_of_two=300,
            longest_of_two=100,
            d=32,
            epochs=8,
            drop_epochs=(5, 7),
            batch_size=32,
            batch_size_of_two=32,
            lr=0.03,
            most_shelves=2,
        )

    @classmethod
    def cpu(cls) -> Settings:
        """All reviews for one layer, a thousand short ones for two, embeddings of 128: under an hour on two cores."""
        return cls(
            only=(AS_PRINTED, *OPEN),
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
        """The printed sizes, rates crossed with the softmaxes' scales, for 150 epochs of the 500.

        By then the first drop is fifty epochs past. Half an hour on a GPU; choose with `--names`, `--depths`, `--only`.
        """
        return cls(controls=get_args(ControlName), only=SCALES, seeds=3, epochs=150)


@dataclass(frozen=True)
class Trial:
    """A data set and a depth on which the settings are tried."""

    name: str
    depth: str

    @property
    def words(self) -> str:
        """Name of the trial in a summary."""
        return f"{DISPLAYED[self.name]}, {DEPTHS[self.depth].words}"

    @property
    def log10_loss(self) -> float:
        """Order of magnitude of the loss that the paper reports."""
        return DEPTHS[self.depth].log10_loss


#: Outcome of each setting, by its key in `CHANGES`, followed by #2, #3, ... where it was trained again.
Outcomes = Mapping[str, TrainingOutcome]


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Train every setting on every data set with every depth: one layer, which is quick, on all of them first."""
    names = dict.fromkeys((*config.names, *config.others))
    trials = [Trial(name, depth) for depth in config.depths for name in names]
    trials += [Trial(name, "one") for name in config.controls if "one" in config.depths]
    if not trials:
        raise InvalidInputError(
            "there is nothing to train: name reviews (--names, --others) and depths; controls are for one layer."
        )
    arrays: dict[str, dict[str, Any]] = {}
    tried: dict[Trial, Outcomes] = {}
    for trial in trials:
        tried[trial], losses, made_by = _settings_tried(trial, config, key, progress)
        arrays.setdefault(trial.name, {})[trial.depth] = {
            "loss": losses,
            "has_shapes": {setting: np.array([end.is_v, end.is_s]) for setting, end in tried[trial].items()},
            "scales": {setting: np.array([end.query_scale, end.head_scale]) for setting, end in tried[trial].items()},
        }
    numbers, sentences, table = judged(tried)
    return Result(arrays, numbers, sentences + made_elsewhere(made_by), table)


def judged(tried: Mapping[Trial, Outcomes]) -> tuple[tuple[Number, ...], tuple[str, ...], dict[str, Any]]:
    """Numbers, sentences and table of what was tried: the losses of every setting are held against the paper's.

    That another setting than our reading does not reach them is a finding.
    """
    distances = _distances(tried)
    numbers = [
        number
        for trial, outcomes in tried.items()
        for setting, outcome in outcomes.items()
        for number in loss_numbers(
            f"{trial.words}, {in_short(setting)}",
            outcome,
            trial.log10_loss,
            is_ours=setting.split("#")[0] == READING,
        )
    ]
    numbers += [
        Number(f"largest distance to the paper's orders: {in_short(setting)}", far)
        for setting, far in distances.items()
    ]
    table = {
        trial.words: {in_short(setting): in_words(outcome) for setting, outcome in outcomes.items()}
        for trial, outcomes in tried.items()
    }
    return tuple(numbers), _sentences(tried, distances), table


def _settings_tried(
    trial: Trial, config: Settings, key: jax.Array, progress: Progress
) -> tuple[Outcomes, dict[str, np.ndarray], Mapping[str, str]]:
    """Outcome of each setting, its loss of every epoch, and who made the trainings where that was elsewhere."""
    layers, base = DEPTHS[trial.depth], _reading(trial.depth, config)
    stream, training = jax.random.split(key)
    is_whole = trial.name in config.names
    changes = chosen_changes(config.only if is_whole else (AS_PRINTED,), config.d, trial.depth)
    seeds = {setting: config.seeds if is_whole and setting == READING else 1 for setting in changes}
    epochs = sum(seeds.values()) * base.epochs
    found, tokens, there = prepared_reviews(trial.name, layers, base, stream, epochs, progress)
    positive_share = float((found.dataset.labels > 0).mean())
    outcomes, losses, made_by = {}, {}, {}
    for setting, change in changes.items():
        own = replace(base, **change.of_reading(config.d))
        for k in range(seeds[setting]):
            again = f"{setting}#{k + 1}" if k else setting
            part = trained(found, layers, own, jax.random.fold_in(training, k) if k else training, progress, again)
            outcomes[again] = training_outcome(tokens, part.arrays(there), trial.log10_loss, positive_share)
            losses[again], made_by = part.records["loss"], dict(part.made_by)
    return outcomes, losses, made_by


def _reading(depth: str, config: Settings) -> TwoLayerSettings:
    """Our reading at the sizes that were asked for."""
    base = TwoLayerSettings(
        counts=config.counts,
        documents=config.documents,
        d=config.d,
        epochs=config.epochs,
        batch_size=config.batch_size,
        lr=config.lr,
        drop_epochs=config.drop_epochs,
        resume=config.resume,
        trained=config.trained,
    )
    if depth == "one":
        return base
    return replace(
        base,
        documents=config.documents_of_two,
        longest=config.longest_of_two,
        batch_size=config.batch_size_of_two,
        most_shelves=config.most_shelves,
        products=config.products,
    )


def _distances(tried: Mapping[Trial, Outcomes]) -> dict[str, float]:
    """Orders of magnitude between each setting's last loss and the paper's, at worst, closest first.

    Where most settings were tried: a setting that was left out where it does badly would look better for it.
    """
    whole = {
        trial: outcomes
        for trial, outcomes in tried.items()
        if len(outcomes) == max(len(tried[other]) for other in tried if other.depth == trial.depth)
    }
    settings = list(dict.fromkeys(setting for outcomes in whole.values() for setting in outcomes))
    distances = {
        setting: max(
            abs(outcomes[setting].log10_last_loss - trial.log10_loss)
            for trial, outcomes in whole.items()
            if setting in outcomes
        )
        for setting in settings
    }
    return dict(sorted(distances.items(), key=lambda item: item[1]))


def _sentences(tried: Mapping[Trial, Outcomes], distances: Mapping[str, float]) -> tuple[str, ...]:
    closest = next(iter(distances))
    beside = f"; the reading is {distances[READING]:.1f} away" if READING in distances else ""
    sentences = [
        f"Closest to the paper's losses at this size: {in_short(closest)}, whose last loss is {distances[closest]:.1f} "
        f"orders of magnitude away at worst{beside}."
    ]
    for trial, outcomes in tried.items():
        losses = (f"{end.last_loss:.1e} ({in_short(setting)})" for setting, end in outcomes.items())
        short = [in_short(setting) for setting, end in outcomes.items() if not _is_reached(end, trial)]
        shapeless = [in_short(setting) for setting, end in outcomes.items() if not (end.is_s and end.is_v)]
        sentences += [
            f"{trial.words}: loss of the last epoch {', '.join(losses)}.",
            f"{trial.words}: never at the paper's order: {', '.join(short) or 'none'}.",
            f"{trial.words}: without the S or the V: {', '.join(shapeless) or 'none'}.",
        ]
    return tuple(sentences)


def _is_reached(end: TrainingOutcome, trial: Trial) -> bool:
    return end.smallest_loss <= 10.0 ** (trial.log10_loss + HALF_DECADE)


def draw(result: Result) -> Any:
    """Smallest and last loss of every setting, a panel for each depth; colours tell which shapes are there."""
    from tokenmargin.papers.embeddings.plots.losses import LossRow, draw_loss_rows, shape_legend
    from tokenmargin.plots.canvas import panels, style

    rows: dict[str, list[LossRow]] = {}
    for name, depths in result.arrays.items():
        for depth, found in depths.items():
            trial = Trial(name, depth)
            rows.setdefault(depth, []).extend(
                LossRow(
                    f"{DISPLAYED[trial.name]}: {in_short(setting)}",
                    loss,
                    int(found["has_shapes"][setting].sum()),
                    tuple(found["scales"][setting]),
                )
                for setting, loss in found["loss"].items()
            )
    with style():
        tallest = max(map(len, rows.values()))
        figure, axes = panels(1, len(rows), 7.0 * len(rows), 1.4 + 0.26 * tallest)
        for ax, (depth, own) in zip(axes, rows.items(), strict=True):
            draw_loss_rows(ax, own, 10.0 ** DEPTHS[depth].log10_loss, HALF_DECADE)
            ax.set_title(DEPTHS[depth].words)
        shape_legend(figure)
        return figure


EXPERIMENTS = (
    Experiment(
        id="embeddings-reading",
        title="Training on reviews: which reading of the printed hyper-parameters reaches the paper's losses",
        in_plain_words=(
            "The paper's settings for training on reviews can be read in more than one way. Which way gives the losses "
            "that it prints?"
        ),
        paper="E",
        figure="App. E",
        config=Settings,
        compute=compute,
        draw=draw,
        precision="float32",
        data=("imdb", "yelp"),
    ),
)
