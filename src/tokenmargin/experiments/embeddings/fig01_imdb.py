"""[E, Fig. 1]: two layers trained on IMDB; overlaps of the embeddings with p draw a V, with v an S."""

from __future__ import annotations

from typing import Any

import jax

from tokenmargin._progress import Progress
from tokenmargin.experiments.embeddings._review_figure import draw_reviews, joined
from tokenmargin.experiments.embeddings._review_study import review_study
from tokenmargin.experiments.embeddings._review_training import TWO_LAYERS, TwoLayerSettings
from tokenmargin.experiments.experiment import Experiment, Result


def compute(config: TwoLayerSettings, key: jax.Array, progress: Progress) -> Result:
    """Train two layers on IMDB."""
    return joined({"imdb": review_study("imdb", TWO_LAYERS, config, key, progress)})


def draw(result: Result) -> Any:
    """Overlaps and losses."""
    return draw_reviews(result, ("imdb",), TWO_LAYERS)


EXPERIMENT = Experiment(
    id="embeddings-fig1",
    title="Two layers on IMDB: overlaps of the embeddings with p and v over the posterior difference",
    paper="E",
    figure="Fig. 1",
    config=TwoLayerSettings,
    compute=compute,
    draw=draw,
    precision="float32",
    data=("imdb",),
)
