"""[E, Fig. 1, 3, 4]: trained on reviews, overlaps of the embeddings with p draw a V, with v an S.

Fig. 1 is two layers on IMDB, Fig. 3 one layer on IMDB and on Yelp, Fig. 4 two layers on Yelp. Each shows both overlaps
over the posterior difference, our reading of the hyper-parameters above the printed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.experiments.experiment import Arrays, Experiment, Number, Result
from tokenmargin.papers.embeddings.figures._in_words import in_words
from tokenmargin.papers.embeddings.figures._overlap_shapes import base_rate, quantile_curves
from tokenmargin.papers.embeddings.figures._review_training import (
    ONE_LAYER,
    TWO_LAYERS,
    Effort,
    Layers,
    ReviewSettings,
    TwoLayerSettings,
    held_out_accuracy,
    made_elsewhere,
    prepared_reviews,
    trained,
)
from tokenmargin.papers.embeddings.figures._reviews import DISPLAYED, NAMES
from tokenmargin.papers.embeddings.figures._training_outcome import (
    TrainingOutcome,
    loss_numbers,
    shape_numbers,
    training_outcome,
)

#: The two trainings of every figure, and what they are called.
TREATMENTS = {"reading": "reading", "printed": "as printed"}


def review_study(name: str, layers: Layers, config: ReviewSettings, key: jax.Array, progress: Progress) -> Result:
    """Train `layers` on the reviews `name`, as printed and in our reading, and judge the shapes."""
    stream, training, held = jax.random.split(key, 3)
    epochs = len(TREATMENTS) * config.epochs + config.held_out_epochs // 2  # a split is half of the reviews
    found, tokens, there = prepared_reviews(name, layers, config, stream, epochs, progress)
    if found.words is not None:
        tokens = {**tokens, "word": found.words[there]}
    positive_share = np.array((found.dataset.labels > 0).mean())
    arrays: dict[str, Any] = {
        "documents": np.array(found.dataset.n_documents),
        "positive_share": positive_share,
        "tokens": tokens,
    }
    efforts: dict[str, Effort] = {}
    made_by: Mapping[str, str] = {}
    for treatment, own in zip(TREATMENTS, (config, replace(config, root_width="none")), strict=True):
        part = trained(found, layers, own, training, progress, TREATMENTS[treatment])
        arrays[treatment], efforts[treatment] = part.arrays(there), part.effort
        made_by = part.made_by
    if config.held_out_epochs and found.is_test is not None:
        arrays["held_out_accuracy"] = held_out_accuracy(found, layers, config, held, progress)
    found_out = judged_study(name, layers, arrays, efforts)
    return replace(found_out, sentences=found_out.sentences + made_elsewhere(made_by))


def judged_study(name: str, layers: Layers, arrays: Arrays, efforts: Mapping[str, Effort]) -> Result:
    """Judge what training left behind, from its arrays alone: a saved run can be judged again.

    Args:
        name: name of the reviews.
        layers: the depth that was trained.
        arrays: result of one `review_study`.
        efforts: effort of each of the `TREATMENTS`.
    """
    tokens, documents = arrays["tokens"], int(arrays["documents"])
    centre = base_rate(tokens["posterior_difference"], tokens["count"])
    numbers: list[Number] = []
    sentences = [
        f"{name}: {documents:,} reviews, {len(tokens['token']):,} tokens, {layers.words}; an occurrence of any token "
        f"has the posterior difference {centre:+.2f}, which is where the V is looked for."
    ]
    table: dict[str, Any] = {}
    for treatment, called in TREATMENTS.items():
        outcome = training_outcome(tokens, arrays[treatment], layers.log10_loss, float(arrays["positive_share"]))
        effort = efforts[treatment]
        where, is_ours = f"{name}, {called}", treatment == "reading"
        numbers += loss_numbers(where, outcome, layers.log10_loss, is_ours) + shape_numbers(where, outcome, is_ours)
        table[called] = in_words(outcome) | in_words(effort)
        sentences.append(_sentence(f"{name}, {called}", outcome, effort))
    if "held_out_accuracy" in arrays:
        accuracy = arrays["held_out_accuracy"]
        best = int(accuracy.argmax()) + 1
        numbers.append(Number(f"{name}: best held-out accuracy", float(accuracy.max())))
        sentences.append(
            f"{name}, trained on its train split only (reading): accuracy on the test split {accuracy[0]:.3f} after "
            f"one epoch, best {accuracy.max():.3f} after {best}, {accuracy[-1]:.3f} after {len(accuracy)}."
        )
    return Result(arrays, tuple(numbers), tuple(sentences), table)


def _sentence(where: str, outcome: TrainingOutcome, effort: Effort) -> str:
    s = "rises" if outcome.is_s else "does not rise"
    v = "rise" if outcome.is_v else "do not both rise"
    return (
        f"{where} (learning rate {outcome.lr:g}): loss {outcome.last_loss:.2g} at the end (smallest "
        f"{outcome.smallest_loss:.2g}), accuracy {outcome.accuracy:.4f}; mean <E_s, v> {s} with the posterior "
        f"difference, the two arms of <E_s, p> {v}; {effort.seconds:.0f} s of training, compilation included."
    )


def joined(studies: Mapping[str, Result]) -> Result:
    """The studies of several data sets as one result, arrays and tables in groups named after their data set."""
    return Result(
        {name: study.arrays for name, study in studies.items()},
        tuple(number for study in studies.values() for number in study.numbers),
        tuple(sentence for study in studies.values() for sentence in study.sentences),
        {name: study.tables for name, study in studies.items()},
    )


#: The quantiles of the overlaps that are drawn, and what they are called.
QUANTILES = {0.1: "10%", 0.5: "median", 0.9: "90%"}


def draw_reviews(result: Result, layers: Layers) -> Any:
    """A column for each data set and treatment; both overlaps over (37) and over (3), and the loss, on equal scales."""
    from tokenmargin.papers.embeddings.plots.losses import draw_training
    from tokenmargin.papers.embeddings.plots.overlaps import frequency_axis, posterior_axis
    from tokenmargin.plots.canvas import panels, style

    columns = [(name, treatment) for name in result.arrays for treatment in TREATMENTS]
    rows = [(which, over) for over in ("posterior_difference", "signed_frequency") for which in OVERLAPS]
    with style():
        figure, axes = panels(len(rows) + 1, len(columns), 3.5 * len(columns), 13.0)
        for k, (name, treatment) in enumerate(columns):
            study = result.arrays[name]
            own = axes[k :: len(columns)]
            for ax, (which, over) in zip(own, rows, strict=False):
                _draw_one(ax, study["tokens"], study[treatment], which, over)
                where = frequency_axis if over == "signed_frequency" else None
                posterior_axis(ax) if where is None else where(ax, study["tokens"]["signed_frequency"])
            own[0].set_title(f"{DISPLAYED[name]}, {TREATMENTS[treatment]}")
            held = study.get("held_out_accuracy") if treatment == "reading" else None
            draw_training(own[-1], np.asarray(study[treatment]["records"]["loss"]), 10.0**layers.log10_loss, held)
        _equal_scales(axes, len(columns), result, rows)
        for k, (name, treatment) in enumerate(columns):
            for ax, (which, over) in zip(axes[k :: len(columns)], rows, strict=False):
                _name_one(ax, result.arrays[name]["tokens"], result.arrays[name][treatment], which, over)
        for row, (which, _) in enumerate(rows):
            axes[row * len(columns)].set_ylabel(rf"$\langle E_s, {OVERLAPS[which]}\rangle$, in standard deviations")
        axes[-len(columns)].set_ylabel("mean logistic loss\n(dotted: the paper's order)")
        return figure


#: The two overlaps, and the letters of the vectors.
OVERLAPS = {"with_query": "p", "with_head": "v"}


def _draw_one(ax: Any, tokens: Arrays, training: Arrays, which: str, over: str) -> None:
    """One overlap, in units of its standard deviation over the tokens, over (37) or (3)."""
    from tokenmargin.papers.embeddings.plots.overlaps import draw_overlap

    x, y = np.asarray(tokens[over]), _in_deviations(training[which])
    is_posterior = over == "posterior_difference"
    centre = base_rate(x, tokens["count"]) if is_posterior else 0.0
    draw_overlap(ax, x, y, quantile_curves(x, y, tuple(QUANTILES)), centre)


def _name_one(ax: Any, tokens: Arrays, training: Arrays, which: str, over: str) -> None:
    """The names of the quantiles, and of words where these have a posterior difference."""
    from tokenmargin.papers.embeddings.plots.overlaps import keep_in_sight, name_extremes, name_quantiles

    x, y = np.asarray(tokens[over]), _in_deviations(training[which])
    curves = quantile_curves(x, y, tuple(QUANTILES))
    name_quantiles(ax, curves[1], tuple(QUANTILES.values()))
    keep_in_sight(ax, x, y)
    if over == "posterior_difference":
        names = [str(word) for word in tokens.get("word", tokens["token"])]
        name_extremes(ax, x, y, names, base_rate(x, tokens["count"]), curves=curves)
    ax.set_title(f"1 deviation = {np.std(training[which]):.2g}", loc="right", fontsize=6.5)


def _in_deviations(overlap: np.ndarray) -> np.ndarray:
    return overlap / (float(np.std(overlap)) or 1.0)


def _equal_scales(axes: list[Any], columns: int, result: Result, rows: list[tuple[str, str]]) -> None:
    """One range of y for every row of panels, wide enough for all but a few tokens of each panel, and all losses."""
    from tokenmargin.papers.embeddings.plots.overlaps import in_sight

    studies = [(study, treatment) for study in result.arrays.values() for treatment in TREATMENTS]
    for number, (which, _) in enumerate(rows):
        found = [in_sight(_in_deviations(study[treatment][which])) for study, treatment in studies]
        for ax in axes[number * columns : (number + 1) * columns]:
            ax.set_ylim(min(low for low, _ in found), max(high for _, high in found))
    losses = axes[len(rows) * columns :]
    low, high = min(ax.get_ylim()[0] for ax in losses), max(ax.get_ylim()[1] for ax in losses)
    for ax in losses:
        ax.set_ylim(low, high)


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
