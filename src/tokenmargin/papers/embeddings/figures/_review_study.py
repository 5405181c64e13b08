"""Training on one data set of reviews, as printed and in our reading, and what is judged of it [E, Fig. 1, 3, 4]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.experiments.expectations import expect_training
from tokenmargin.experiments.experiment import Arrays, Number, Result
from tokenmargin.models.correlation import pearson
from tokenmargin.papers.embeddings.figures._in_words import in_words, words
from tokenmargin.papers.embeddings.figures._overlap_shapes import base_rate, rises_at_equal_count, s_curve, v_curve
from tokenmargin.papers.embeddings.figures._review_training import (
    Effort,
    Layers,
    ReviewSettings,
    chosen_reviews,
    held_out_accuracy,
    made_elsewhere,
    token_arrays,
    trained,
)

#: "Of the order of" a power of ten is nearer to it than to the next: half a decade either way. With a whole decade a
#: model that learnt nothing, whose loss is ln 2, would be of the order of 1e-1.
HALF_DECADE = 0.5

#: Most of the loss of the best constant predictor that a model which learnt something may have.
OF_A_CONSTANT = 0.5

#: Where the paper prints these orders.
LOSS_PLACE = "App. E, below (36)"

#: Where the paper draws the shapes.
SHAPE_PLACE = "Fig. 1, 3, 4"

#: A loss of 0 has a logarithm all the same.
LEAST_LOSS = 1e-300

#: The two trainings of every figure, and what they are called.
TREATMENTS = {"reading": "reading", "printed": "as printed"}


@dataclass(frozen=True)
class TrainingOutcome:
    """What one training came to: losses, and whether the overlaps have the shapes of the paper."""

    lr: float = field(metadata=words("learning rate"))
    last_loss: float = field(metadata=words("loss of the last epoch"))
    smallest_loss: float = field(metadata=words("smallest loss of an epoch"))
    constant_loss: float = field(metadata=words("loss of the best constant predictor"))
    accuracy: float = field(metadata=words("accuracy of the last epoch"))
    first_epoch: int | None = field(metadata=words("first epoch at the paper's loss"))
    head_correlation: float = field(metadata=words("correlation of <E_s, v> with the posterior difference"))
    query_correlation: float = field(metadata=words("correlation of <E_s, p> with its distance to that of the corpus"))
    is_s: bool = field(metadata=words("mean <E_s, v> rises with the posterior difference (S)"))
    is_v: bool = field(
        metadata=words("mean <E_s, p> rises on both sides of that of the corpus, at equal count too (V)")
    )
    s_step_down: float = field(metadata=words("steps down of the S, in standard errors"))
    v_step_down: float = field(metadata=words("steps down of the V, in standard errors"))

    @property
    def log10_last_loss(self) -> float:
        """Order of magnitude of the loss at the end."""
        return float(np.log10(max(self.last_loss, LEAST_LOSS)))


def constant_loss(positive_share: float) -> float:
    """The mean logistic loss of the best constant output, the entropy of the labels: ln 2 where classes are equal."""
    shares = np.array([positive_share, 1.0 - positive_share])
    return float(-(shares * np.log(np.maximum(shares, LEAST_LOSS))).sum())


def training_outcome(tokens: Arrays, training: Arrays, layers: Layers, positive_share: float) -> TrainingOutcome:
    """Judge one training from what is saved of it.

    Args:
        tokens: as `token_arrays` gives them.
        training: as `Trained.arrays` gives them, of the same tokens.
        layers: the depth that was trained.
        positive_share: of the documents.
    """
    x, query, head = tokens["posterior_difference"], training["with_query"], training["with_head"]
    loss, accuracy = training["records"]["loss"], training["records"]["accuracy"]
    centre = base_rate(x, tokens["count"])
    s, (left, right) = s_curve(x, head), v_curve(x, query, centre=centre)
    as_frequent = rises_at_equal_count(x - centre, query, tokens["count"])
    return TrainingOutcome(
        lr=float(training["lr"]),
        last_loss=float(loss[-1]),
        smallest_loss=float(loss.min()),
        constant_loss=constant_loss(positive_share),
        accuracy=float(accuracy[-1]),
        first_epoch=_first_epoch(loss, 10.0**layers.log10_loss),
        head_correlation=float(pearson(x, head)),
        query_correlation=float(pearson(np.abs(x - centre), query)),
        is_s=s.rises,
        is_v=left.rises and right.rises and as_frequent,
        s_step_down=s.worst_step_down,
        v_step_down=max(left.worst_step_down, right.worst_step_down),
    )


def review_study(name: str, layers: Layers, config: ReviewSettings, key: jax.Array, progress: Progress) -> Result:
    """Train `layers` on the reviews `name`, as printed and in our reading, and judge the shapes."""
    stream, training, held = jax.random.split(key, 3)
    found = chosen_reviews(name, config, stream, progress)
    tokens, there = token_arrays(found.dataset)
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
    if not config.trained:
        expect_training(
            progress,
            found.dataset,
            layers.model(config),
            epochs=len(TREATMENTS) * config.epochs + config.held_out_epochs // 2,  # a split is half of the reviews
            batch_size=config.batch_size,
            batches=layers.batches(config),
        )
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
        name: of the reviews.
        layers: the depth that was trained.
        arrays: of one `review_study`.
        efforts: of each of the `TREATMENTS`.
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
        outcome = training_outcome(tokens, arrays[treatment], layers, float(arrays["positive_share"]))
        effort = efforts[treatment]
        where, is_ours = f"{name}, {called}", treatment == "reading"
        numbers += loss_numbers(where, outcome, layers, is_ours) + _shape_numbers(where, outcome, is_ours)
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


def loss_numbers(where: str, outcome: TrainingOutcome, layers: Layers, is_ours: bool) -> list[Number]:
    """What the paper says of the loss: that its order is reached, that it is of that order at the end, and learning.

    Args:
        where: data set and treatment, in words.
        outcome: of one training.
        layers: the depth that was trained.
        is_ours: whether it is our reading, which we expect to reach that order and to learn; what any other does not do
            is a finding about the paper.
    """
    smallest = float(np.log10(max(outcome.smallest_loss, LEAST_LOSS)))
    order = _says(f"the loss converges at the order of 1e{layers.log10_loss:g}", LOSS_PLACE, is_ours)
    return [
        Number(
            f"{where}: log10 of the smallest loss (reached)", smallest, at_most=layers.log10_loss + HALF_DECADE, **order
        ),
        Number(
            f"{where}: log10 of the last loss",
            outcome.log10_last_loss,
            tolerance=HALF_DECADE,
            paper=layers.log10_loss,
            place=LOSS_PLACE,
        ),
        Number(
            f"{where}: last loss over that of the best constant",
            outcome.last_loss / outcome.constant_loss,
            at_most=OF_A_CONSTANT,
            **order,
        ),
    ]


def _shape_numbers(where: str, outcome: TrainingOutcome, is_ours: bool) -> list[Number]:
    no_s, no_v = float(not outcome.is_s), float(not outcome.is_v)
    s, v = (_says(shape, SHAPE_PLACE, is_ours) for shape in ("an S is drawn", "a V is drawn"))
    return [
        Number(f"{where}: correlation of <E_s, v> with the posterior difference", outcome.head_correlation),
        Number(f"{where}: correlation of <E_s, p> with its distance to the corpus'", outcome.query_correlation),
        Number(f"{where}: 1 if mean <E_s, v> does not rise with the posterior difference", no_s, at_most=0.0, **s),
        Number(f"{where}: 1 if mean <E_s, p> does not rise on both sides", no_v, at_most=0.0, **v),
    ]


def _says(words: str, place: str, is_ours: bool) -> dict[str, Any]:
    """Fields that make a bound the paper's word; none where it is what we expect."""
    return {} if is_ours else {"says": words, "place": place}


def _first_epoch(loss: np.ndarray, bound: float) -> int | None:
    """The first epoch whose loss is at most this; None if none is."""
    below = np.flatnonzero(loss <= bound)
    return int(below[0]) + 1 if below.size else None


def _sentence(where: str, outcome: TrainingOutcome, effort: Effort) -> str:
    s = "rises" if outcome.is_s else "does not rise"
    v = "rise" if outcome.is_v else "do not both rise"
    return (
        f"{where} (learning rate {outcome.lr:g}): loss {outcome.last_loss:.2g} at the end (smallest "
        f"{outcome.smallest_loss:.2g}), accuracy {outcome.accuracy:.4f}; mean <E_s, v> {s} with the posterior "
        f"difference, the two arms of <E_s, p> {v}; {effort.seconds:.0f} s of training, compilation included."
    )
