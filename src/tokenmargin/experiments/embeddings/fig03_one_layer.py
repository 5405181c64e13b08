"""[E, Fig. 3]: one layer trained on IMDB and on Yelp; overlaps of the embeddings with p draw a V, with v an S."""

from __future__ import annotations

from typing import Any

import jax

from tokenmargin._progress import Progress
from tokenmargin.experiments.embeddings._review_figure import draw_reviews, joined
from tokenmargin.experiments.embeddings._review_study import review_study
from tokenmargin.experiments.embeddings._review_training import ONE_LAYER, ReviewSettings
from tokenmargin.experiments.embeddings.reviews import NAMES
from tokenmargin.experiments.experiment import Experiment, Result


def compute(config: ReviewSettings, key: jax.Array, progress: Progress) -> Result:
    """Train one layer on each data set."""
    keys = jax.random.split(key, len(NAMES))
    return joined(
        {name: review_study(name, ONE_LAYER, config, k, progress) for name, k in zip(NAMES, keys, strict=True)}
    )


def draw(result: Result) -> Any:
    """Overlaps and losses."""
    return draw_reviews(result, NAMES, ONE_LAYER)


EXPERIMENT = Experiment(
    id="embeddings-fig3",
    title="One layer on IMDB and Yelp: overlaps of the embeddings with p and v over the posterior difference",
    paper="E",
    figure="Fig. 3",
    config=ReviewSettings,
    compute=compute,
    draw=draw,
    precision="float32",
    data=NAMES,
)
