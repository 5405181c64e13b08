"""Judging one training: its losses against the paper's, and the shapes of its overlaps [E, App. E, Fig. 1, 3, 4]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokenmargin.experiments.experiment import Arrays, Number
from tokenmargin.models.correlation import pearson
from tokenmargin.papers.embeddings.figures._in_words import words
from tokenmargin.papers.embeddings.figures._overlap_shapes import base_rate, rises_at_equal_count, s_curve, v_curve

#: "Of the order of" a power of ten is nearer to it than to the next: half a decade either way. With a whole decade a
#: model that learnt nothing, whose loss is ln 2, would be of the order of 1e-1.
HALF_DECADE = 0.5

#: Most of the loss of the best constant predictor that a model which learnt something may have.
OF_A_CONSTANT = 0.5

#: Place where the paper prints these orders.
LOSS_PLACE = "App. E, below (36)"

#: Place where the paper draws the shapes.
SHAPE_PLACE = "Fig. 1, 3, 4"

#: A loss of 0 has a logarithm all the same.
LEAST_LOSS = 1e-300


@dataclass(frozen=True)
class TrainingOutcome:
    """Outcome of one training: its losses, and whether the overlaps have the shapes of the paper."""

    lr: float = field(metadata=words("learning rate"))
    last_loss: float = field(metadata=words("loss of the last epoch"))
    smallest_loss: float = field(metadata=words("smallest loss of an epoch"))
    constant_loss: float = field(metadata=words("loss of the best constant predictor"))
    accuracy: float = field(metadata=words("accuracy of the last epoch"))
    first_epoch: int | None = field(metadata=words("first epoch at the paper's loss"))
    head_correlation: float = field(metadata=words("correlation of <E_s, v> with the posterior difference"))
    query_correlation: float = field(metadata=words("correlation of <E_s, p> with its distance to that of the corpus"))
    query_scale: float = field(metadata=words("standard deviation of <E_s, p> over tokens"))
    head_scale: float = field(metadata=words("standard deviation of <E_s, v> over tokens"))
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


def training_outcome(tokens: Arrays, training: Arrays, log10_loss: float, positive_share: float) -> TrainingOutcome:
    """Judge one training from what is saved of it.

    Args:
        tokens: as `token_arrays` gives them.
        training: as `Trained.arrays` gives them, of the same tokens.
        log10_loss: order of magnitude of the loss that the paper reports.
        positive_share: share of documents with label +1.
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
        first_epoch=_first_epoch(loss, 10.0**log10_loss),
        head_correlation=float(pearson(x, head)),
        query_correlation=float(pearson(np.abs(x - centre), query)),
        query_scale=float(np.std(query)),
        head_scale=float(np.std(head)),
        is_s=s.rises,
        is_v=left.rises and right.rises and as_frequent,
        s_step_down=s.worst_step_down,
        v_step_down=max(left.worst_step_down, right.worst_step_down),
    )


def loss_numbers(where: str, outcome: TrainingOutcome, log10_loss: float, is_ours: bool) -> list[Number]:
    """Numbers on the loss: the paper's order is reached, the last loss is of that order, and something was learnt.

    Args:
        where: data set and treatment, in words.
        outcome: result of one training.
        log10_loss: order of magnitude of the loss that the paper reports.
        is_ours: True if it is our reading, which we expect to reach that order and to learn; what any other does not do
            is a finding about the paper.
    """
    smallest = float(np.log10(max(outcome.smallest_loss, LEAST_LOSS)))
    order = _says(f"the loss converges at the order of 1e{log10_loss:g}", LOSS_PLACE, is_ours)
    return [
        Number(f"{where}: log10 of the smallest loss (reached)", smallest, at_most=log10_loss + HALF_DECADE, **order),
        Number(
            f"{where}: log10 of the last loss",
            outcome.log10_last_loss,
            tolerance=HALF_DECADE,
            paper=log10_loss,
            place=LOSS_PLACE,
        ),
        Number(
            f"{where}: last loss over that of the best constant",
            outcome.last_loss / outcome.constant_loss,
            at_most=OF_A_CONSTANT,
            **order,
        ),
    ]


def shape_numbers(where: str, outcome: TrainingOutcome, is_ours: bool) -> list[Number]:
    """Numbers on the shapes, the S and the V of the paper's figures; arguments as those of `loss_numbers`."""
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
