"""[E, Fig. 1, 3, 4]: trained on reviews, overlaps of the embeddings with p draw a V, with v an S.

Fig. 1 is two layers on IMDB, Fig. 3 one layer on IMDB and on Yelp, Fig. 4 two layers on Yelp. Each shows both overlaps
over the posterior difference, our reading of the hyper-parameters above the printed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.experiments.embeddings._overlap_shapes import base_rate, quantile_curves
from tokenmargin.experiments.embeddings._review_study import TREATMENTS, review_study
from tokenmargin.experiments.embeddings._review_training import (
    ONE_LAYER,
    TWO_LAYERS,
    Layers,
    ReviewSettings,
    TwoLayerSettings,
)
from tokenmargin.experiments.embeddings._reviews import NAMES
from tokenmargin.experiments.experiment import Experiment, Result


def joined(studies: Mapping[str, Result]) -> Result:
    """The studies of several data sets as one result, arrays and tables in groups named after their data set."""
    return Result(
        {name: study.arrays for name, study in studies.items()},
        tuple(number for study in studies.values() for number in study.numbers),
        tuple(sentence for study in studies.values() for sentence in study.sentences),
        {name: study.tables for name, study in studies.items()},
    )


def draw_reviews(result: Result, layers: Layers) -> Any:
    """A row for each data set and treatment: <E_s, p>, <E_s, v>, and the loss with the held-out accuracy beside it."""
    from tokenmargin.plots.canvas import panels, style
    from tokenmargin.plots.losses import draw_training
    from tokenmargin.plots.overlaps import draw_overlap

    rows = [(name, treatment) for name in result.arrays for treatment in TREATMENTS]
    with style():
        figure, axes = panels(len(rows), 3, 12, 3.3 * len(rows))
        for k, (name, treatment) in enumerate(rows):
            left, middle, right = axes[3 * k : 3 * k + 3]
            study = result.arrays[name]
            tokens, training = study["tokens"], study[treatment]
            x, names = tokens["posterior_difference"], [str(token) for token in tokens["token"]]
            for ax, which, letter in ((left, "with_query", "p"), (middle, "with_head", "v")):
                y = training[which]
                draw_overlap(ax, x, y, names, quantile_curves(x, y), base_rate(x, tokens["count"]))
                ax.set_title(rf"{name}, {TREATMENTS[treatment]}: $\langle E_s, {letter}\rangle$")
            held = study.get("held_out_accuracy") if treatment == "reading" else None
            draw_training(right, np.asarray(training["records"]["loss"]), 10.0**layers.log10_loss, held)
        return figure


def _experiment(
    figure: str, title: str, in_plain_words: str, names: tuple[str, ...], layers: Layers, settings: type[ReviewSettings]
) -> Experiment:
    """Train `layers` on each data set, from a key of its own."""

    def compute(config: ReviewSettings, key: jax.Array, progress: Progress) -> Result:
        keys = jax.random.split(key, len(names)) if len(names) > 1 else [key]
        studies = zip(names, keys, strict=True)
        return joined({name: review_study(name, layers, config, own, progress) for name, own in studies})

    def draw(result: Result) -> Any:
        return draw_reviews(result, layers)

    return Experiment(
        id=f"embeddings-fig{figure}",
        title=f"{title}: overlaps of the embeddings with p and v over the posterior difference",
        in_plain_words=in_plain_words,
        paper="E",
        figure=f"Fig. {figure}",
        config=settings,
        compute=compute,
        draw=draw,
        precision="float32",
        data=names,
    )


EXPERIMENTS = (
    _experiment(
        "1",
        "Two layers on IMDB",
        "When a model with two layers of attention learns from film reviews, does it listen most to the words that "
        "tell good from bad? Then a plot of attention over how telling a word is has the shape of a V.",
        ("imdb",),
        TWO_LAYERS,
        TwoLayerSettings,
    ),
    _experiment(
        "3",
        "One layer on IMDB and Yelp",
        "With one layer of attention, and film reviews beside reviews of shops and restaurants: does the model "
        "listen most to the words that tell good from bad?",
        NAMES,
        ONE_LAYER,
        ReviewSettings,
    ),
    _experiment(
        "4",
        "Two layers on Yelp",
        "With two layers of attention on reviews of shops and restaurants: does the model listen most to the words "
        "that tell good from bad?",
        ("yelp",),
        TWO_LAYERS,
        TwoLayerSettings,
    ),
)
