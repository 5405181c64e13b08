"""(ATT-SVM) of a whole corpus along training: does p point along the max-margin direction of what it selects?

One layer, its scores over sqrt(d), is trained on IMDB with all its parameters. At points of training the selection
S_X(p) of every review [E, (8)] and the shortest p_hat for it [E, (9)] are computed, and p is compared with p_hat.
Beside it stand queries drawn at random, with the same embeddings and the norm of p, each compared with the p_hat of its
own selection: what they show too is no work of training.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np

from tokenmargin._fingerprint import fingerprint
from tokenmargin._progress import Progress
from tokenmargin.data import TokenDataset, token_statistics
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.expectations import expect_training
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.margin.corpus_svm import CORPUS_TOLERANCE
from tokenmargin.models.one_layer import OneLayer, effective_query
from tokenmargin.papers.embeddings.figures._margin_points import MarginPoint, QueryRow, margin_point
from tokenmargin.papers.embeddings.figures._reviews import reviews
from tokenmargin.training.checkpoint import Checkpoint
from tokenmargin.training.evaluate import Evaluator
from tokenmargin.training.optimisers import AdamW
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.train import train
from tokenmargin.training.training_run import TrainingRun


@dataclass(frozen=True)
class Settings(Config):
    """Hyper-parameters of training, and the epochs after which the max-margin problem is solved."""

    counts: str = ""
    """Folder of counted reviews; without it the texts are read and tokenized."""
    documents: int = 0
    """Reviews drawn at random, half of each class; 0 takes all."""
    d: int = 2048
    """Width of the embeddings."""
    points: tuple[int, ...] = (500,)
    """Epochs after which p is compared with its max-margin direction: 0 is the start, the last ends the training."""
    random_queries: int = 3
    """Random queries at each point, at least 1."""
    batch_size: int = 128
    """Reviews of a step."""
    lr: float = 1e-2
    """Learning rate: the paper's, which goes with scores over sqrt(d)."""
    weight_decay: float = 1e-8
    """Of AdamW."""
    drop_epochs: tuple[int, ...] = (100, 200)
    """Epochs after which the learning rate falls by ten."""
    resume: str = ""
    """Folder that keeps the training and finished points, so that an interrupted figure goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Two thousand reviews, narrow embeddings, three points."""
        return cls(documents=2000, d=64, points=(0, 2, 8), lr=3e-2, drop_epochs=(6,))

    @classmethod
    def cpu(cls) -> Settings:
        """All reviews, embeddings of 256, ten points: minutes on two cores."""
        return cls(d=256, points=(0, 1, 2, 3, 5, 8, 12, 18, 24, 30), drop_epochs=(15, 22))

    def __post_init__(self) -> None:
        """Points in order, something to compare with."""
        if not self.points or list(self.points) != sorted(set(self.points)) or self.points[0] < 0:
            raise InvalidInputError(f"points must be ascending numbers of epochs, from 0 on, got {self.points}.")
        if self.random_queries < 1:
            raise InvalidInputError(f"random_queries must be at least 1, got {self.random_queries}.")


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Train once, stop at the points."""
    stream, training, baseline = jax.random.split(key, 3)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(stream)))
    found = reviews("imdb", config.counts, progress)
    part = found.part(config.documents, rng)
    dataset = part.dataset
    names = np.array(dataset.vocabulary) if part.words is None else part.words
    expect_training(progress, dataset, _model(config), epochs=config.points[-1], batch_size=config.batch_size)
    points = _points(config, dataset, training, baseline, progress)
    table = {
        "points": [point.flat() for point in points],
        "pairs that limit the margin most at the end": [list(pair) for pair in points[-1].support],
    }
    arrays = _arrays(config, dataset, names, points)
    return Result(arrays, _numbers(points), _sentences(config, dataset, names, points), table)


def _model(config: Settings) -> OneLayer:
    """One layer with scores over sqrt(d), as every figure on reviews reads the paper."""
    return OneLayer(width=config.d, score_scale=config.d**-0.5)


def _points(
    config: Settings, dataset: TokenDataset, training: jax.Array, baseline: jax.Array, progress: Progress
) -> list[MarginPoint]:
    model = _model(config)
    evaluate = Evaluator(dataset, model, vocabulary=dataset.vocabulary)
    keys = [np.asarray(jax.random.key_data(each)).tolist() for each in (training, baseline)]
    settings = repr(replace(config, resume="", counts="")), len(dataset), keys
    points: dict[int, MarginPoint] = {}

    def visit(epoch: int, parameters: Any) -> None:
        def point() -> Arrays:
            now = evaluate(parameters)
            own = jax.random.split(jax.random.fold_in(baseline, epoch), config.random_queries)
            E, p = parameters.embeddings, effective_query(parameters, model.score_scale)
            return margin_point(dataset, epoch, (E, p), (now.loss, now.accuracy), own).arrays()

        if epoch in config.points:
            progress(len(points), len(config.points), "max-margin directions")
            points[epoch] = MarginPoint.from_arrays(store.part(config.resume, f"epoch-{epoch}", settings, point))

    checkpoint = Checkpoint(Path(config.resume) / f"training-{fingerprint(repr(settings))}") if config.resume else None

    def run(epochs: int, checkpoint: Checkpoint | None) -> TrainingRun:
        return train(
            dataset,
            model,
            AdamW(lr=config.lr, weight_decay=config.weight_decay),
            epochs=epochs,
            key=training,
            batch_size=config.batch_size,
            schedule=StepSchedule(config.drop_epochs),
            progress=progress,
            on_epoch=visit,
            checkpoint=checkpoint,
        )

    if checkpoint is not None:
        # A checkpoint that is ahead of the points on disk (one may be damaged) would pass them by.
        checkpoint.discard(beyond=_points_there(config, settings, points))
    if 0 in config.points:
        visit(0, run(0, None).parameters)  # the same key gives the same start
    run(config.points[-1], checkpoint)
    return [points[epoch] for epoch in config.points]


def _points_there(config: Settings, settings: object, points: dict[int, MarginPoint]) -> int:
    """Read the points that are in the folder, up to the first that is not; the epochs that they cover."""
    for epoch in config.points:
        try:
            points[epoch] = MarginPoint.from_arrays(store.part(config.resume, f"epoch-{epoch}", settings, _absent))
        except LookupError:
            return epoch - 1
    return config.points[-1]


def _absent() -> Arrays:
    raise LookupError


def _arrays(config: Settings, dataset: TokenDataset, names: np.ndarray, points: list[MarginPoint]) -> dict[str, Any]:
    """Arrays of shape (points,) for the trained query and (points, random queries) for the random ones."""
    of_point = ("epoch", "loss", "accuracy", "query_norm")
    columns = [field.name for field in fields(QueryRow)]
    most = points[-1].most_selected()
    return {name: np.array([getattr(point, name) for point in points]) for name in of_point} | {
        "d": np.array(config.d),
        "trained": {name: np.array([getattr(point.trained, name) for point in points]) for name in columns},
        "random": {
            name: np.array([[getattr(row, name) for row in point.random] for point in points]) for name in columns
        },
        "most_selected": {
            "token": names[most],
            "documents": points[-1].selected_in[most],
            "posterior_difference": token_statistics(dataset).posterior_difference[most],
        },
    }


def _numbers(points: list[MarginPoint]) -> tuple[Number, ...]:
    rows = [row for point in points for row in (point.trained, *point.random)]
    worst = float(np.max([row.kkt_residual for row in rows]))  # NaN if any is, which fails
    unsolved = sum(not row.solved for row in rows)
    trained, random = points[-1].trained, points[-1].random
    farther, drawn = _compared(points)
    return (
        Number.exact("worst KKT residual, all points", worst, at_most=CORPUS_TOLERANCE),
        Number.exact("max-margin problems that were not solved", float(unsolved), at_most=0.0),
        Number("cosine of the trained p to its max-margin direction, at the end", trained.cosine),
        Number(
            "cosine of a random p to its own max-margin direction, at the end, median",
            median([row.cosine for row in random]),
        ),
        Number("share of random p, all points, farther from their direction than the trained p", farther / drawn),
        Number("share of the largest margin that the trained p reaches, at the end", trained.margin_share),
        Number(
            "share of the largest margin that a random p reaches, at the end, median",
            median([row.margin_share for row in random]),
        ),
        Number("softmax weight on the selected tokens, at the end", trained.selected_weight),
    )


def _compared(points: list[MarginPoint]) -> tuple[int, int]:
    """Number of random queries that are farther from their direction than the trained one, and number of all."""
    trained = [point for point in points if point.epoch > 0] or points  # the start is a random query itself
    return sum(point.n_farther for point in trained), sum(len(point.random) for point in trained)


def _sentences(
    config: Settings, dataset: TokenDataset, names: np.ndarray, points: list[MarginPoint]
) -> tuple[str, ...]:
    end, slowest = points[-1], max(point.seconds for point in points)
    trained = end.trained
    often = ", ".join(f"'{names[s]}' {end.selected_in[s]:,}" for s in end.most_selected()[:5])
    return (
        f"imdb: {dataset.n_documents:,} reviews, {dataset.vocabulary_size:,} tokens; one layer, d = {config.d}, "
        f"{end.epoch} epochs, loss {end.loss:.3f}, accuracy {end.accuracy:.4f}.",
        f"At the end p selects {trained.selected_tokens:,} distinct tokens, {trained.ties} reviews have ties; most "
        f"often selected: {often}.",
        f"The max-margin problem asks {trained.pairs:,} distinct pairs of tokens apart, {trained.active_pairs} of "
        f"which carry a multiplier; the slowest of {len(points)} points took {slowest:.1f} s.",
        _on_cosine(config.d, points),
        _on_margin(trained, end.random),
        _on_norm(points),
    )


def _on_cosine(d: int, points: list[MarginPoint]) -> str:
    """Sentence on the cosine: training is credited only with what random queries do not show as well."""
    trained, random = points[-1].trained, points[-1].random
    cosines, active = [row.cosine for row in random], [row.active_pairs for row in random]
    farther, drawn = _compared(points)
    says = "at most the difference is the work of training" if farther == drawn else "alone it is no sign of training"
    return (
        f"The cosine of the trained p to its max-margin direction is {trained.cosine:.6f}; random p with the same "
        f"embeddings have {min(cosines):.6f} to {max(cosines):.6f} to those of their own selections "
        f"({min(active)} to {max(active)} active pairs in {d} dimensions). At the points after the start the trained "
        f"p is nearer to its direction than {farther} of {drawn} random p to theirs. As to a cosine near 1, {says}."
    )


def _on_margin(trained: QueryRow, random: tuple[QueryRow, ...]) -> str:
    """Sentence on the share of the largest margin that is reached, which a cosine near 1 hides."""
    share = median([row.margin_share for row in random])
    usual = median([row.largest_margin for row in random])
    return (
        f"The largest margin is {trained.largest_margin:.3g} for the selection of the trained p, "
        f"{trained.largest_margin / usual:.3g} times the median for random p; the trained p reaches "
        f"{trained.margin_share:.3g} of its largest margin, random p {share:.3g} of theirs."
    )


def _on_norm(points: list[MarginPoint]) -> str:
    """Sentence on the norm of p: the theorem speaks of a p whose norm grows without bound."""
    ends = dict.fromkeys((points[0], points[-1]))  # once if there is one point
    norms = ", ".join(f"{point.query_norm:.3g} after epoch {point.epoch}" for point in ends)
    weight = points[-1].trained.selected_weight
    return (
        f"The norm of p is {norms}, and at the end the selected tokens hold {weight:.3f} of the softmax weight; a "
        "max-margin limit [E, Thm 5] is for a weight that goes to 1 while p alone is trained."
    )


#: Columns shown of trained and random queries, each with its name.
SHOWN = {
    "direction_error": r"$1-\cos(p,\hat p)$",
    "largest_margin": r"largest margin, $1/\|\hat p\|$",
    "margin": r"margin of $p/\|p\|$",
    "active_pairs": "active pairs (with a multiplier)",
    "selected_tokens": "distinct tokens selected",
    "selected_weight": "softmax weight on the selected tokens",
}


def draw(result: Result) -> Any:
    """Draw `SHOWN` over epochs, or a table of one point, trained beside random; and the tokens most often selected."""
    from tokenmargin.papers.embeddings.plots import selections
    from tokenmargin.plots.canvas import panels, style

    arrays = result.arrays
    epoch, most = arrays["epoch"], arrays["most_selected"]
    names = [str(token) for token in most["token"]]
    with style():
        figure, axes = panels(1, 2, 10.5, 3.6) if len(epoch) == 1 else panels(2, 4, 13.0, 6.0)
        if len(epoch) == 1:
            cells = {
                called: [_in_digits(float(np.median(arrays[which][name]))) for which in ("trained", "random")]
                for name, called in SHOWN.items()
            }
            selections.draw_table(axes[0], ("trained query", "random queries, median"), cells)
            axes[0].set_title(f"after epoch {int(epoch[0])}, d = {int(arrays['d'])}")
        else:
            _draw_over_epochs(axes[:6], arrays)
            handles, labels = axes[0].get_legend_handles_labels()
            axes[7].legend(handles, labels, loc="center left", frameon=False, fontsize=9)
            axes[7].set_axis_off()
        last = axes[1] if len(epoch) == 1 else axes[6]
        selections.draw_most_selected(last, names, most["documents"], most["posterior_difference"])
        last.set(title="selected most often at the end", xlabel="reviews (blue: positive token, red: negative)")
    return figure


def _in_digits(value: float) -> str:
    """A number in three digits, and a large one whole."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _draw_over_epochs(axes: list[Any], arrays: Arrays) -> None:
    """A panel for each quantity; logarithmic where it spans decades."""
    from tokenmargin.papers.embeddings.plots import selections

    for ax, (name, called) in zip(axes, SHOWN.items(), strict=True):
        for which, look, label in (
            ("trained", selections.TRAINED, "trained query"),
            ("random", selections.RANDOM, "random queries"),
        ):
            selections.draw_query(ax, arrays["epoch"], arrays[which][name], look, label)
        if name in ("direction_error", "largest_margin", "margin"):
            ax.set_yscale("log")
        else:
            ax.set_ylim(0, None)
        if name == "active_pairs":
            ax.axhline(int(arrays["d"]), color="black", lw=0.8, ls="--")
            called = f"active pairs (dashed: d = {int(arrays['d'])})"
        ax.set_title(called)
        selections.epoch_axis(ax, arrays["epoch"])


EXPERIMENTS = (
    Experiment(
        id="embeddings-margin",
        title="The max-margin direction of what one layer selects in all of IMDB, along its training",
        in_plain_words=(
            "Does theory's max-margin direction show in training on real reviews, where every weight is trained for "
            "some epochs and no theorem applies? The trained weights are compared with it, and so are random ones."
        ),
        paper="E",
        figure="(9)",
        config=Settings,
        compute=compute,
        draw=draw,
        data=("imdb",),
    ),
)
