"""The picture of a training on reviews: both overlaps over the posterior difference, our reading above the printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin.experiments.embeddings._overlap_shapes import base_rate, quantile_curves
from tokenmargin.experiments.embeddings._review_study import TREATMENTS, Study
from tokenmargin.experiments.embeddings._review_training import Layers
from tokenmargin.experiments.experiment import Result


def joined(studies: Mapping[str, Study]) -> Result:
    """The studies of several data sets as one result, arrays named after their data set."""
    arrays = {f"{name} {key}": values for name, study in studies.items() for key, values in study.arrays.items()}
    return Result(
        arrays,
        tuple(number for study in studies.values() for number in study.numbers),
        tuple(sentence for study in studies.values() for sentence in study.sentences),
        {name: study.table for name, study in studies.items()},
    )


def draw_reviews(result: Result, names: tuple[str, ...], layers: Layers) -> Any:
    """A row for each data set and treatment: <E_s, p>, <E_s, v>, and the loss with the held-out accuracy beside it."""
    from tokenmargin.plots.canvas import panels, style
    from tokenmargin.plots.overlaps import draw_overlap, draw_training

    rows = [(name, treatment) for name in names for treatment in TREATMENTS]
    with style():
        figure, axes = panels(len(rows), 3, 12, 3.3 * len(rows))
        for k, (name, treatment) in enumerate(rows):
            left, middle, right = axes[3 * k : 3 * k + 3]
            own = {key.removeprefix(f"{name} "): v for key, v in result.arrays.items() if key.startswith(f"{name} ")}
            x, tokens = own["posterior_difference"], [str(token) for token in own["token"]]
            for ax, which, letter in ((left, "with_query", "p"), (middle, "with_head", "v")):
                y = own[f"{treatment} {which}"]
                draw_overlap(ax, x, y, tokens, quantile_curves(x, y), base_rate(x, own["count"]))
                ax.set_title(rf"{name}, {treatment}: $\langle E_s, {letter}\rangle$")
            held = own.get("held-out accuracy") if treatment == "reading" else None
            draw_training(right, np.asarray(own[f"{treatment} loss"]), 10.0**layers.log10_loss, held)
        return figure
