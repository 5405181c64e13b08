"""[E, Fig. 4]: two layers trained on Yelp; the same V and S as on IMDB."""

from __future__ import annotations

from typing import Any

import jax

from tokenmargin._progress import Progress
from tokenmargin.experiments.embeddings._review_figure import draw_reviews, joined
from tokenmargin.experiments.embeddings._review_study import review_study
from tokenmargin.experiments.embeddings._review_training import TWO_LAYERS, TwoLayerSettings
from tokenmargin.experiments.experiment import Experiment, Result


def compute(config: TwoLayerSettings, key: jax.Array, progress: Progress) -> Result:
    """Train two layers on Yelp."""
    return joined({"yelp": review_study("yelp", TWO_LAYERS, config, key, progress)})


def draw(result: Result) -> Any:
    """Overlaps and losses."""
    return draw_reviews(result, ("yelp",), TWO_LAYERS)


EXPERIMENT = Experiment(
    id="embeddings-fig4",
    title="Two layers on Yelp: overlaps of the embeddings with p and v over the posterior difference",
    paper="E",
    figure="Fig. 4",
    config=TwoLayerSettings,
    compute=compute,
    draw=draw,
    precision="float32",
    data=("yelp",),
)
