"""Candidates of a choice: columns, prior and ridges, with the loss of every document that judged them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenmargin.classify._calibration import LEAST_NATS, Calibration
from tokenmargin.classify._objective import Parameters
from tokenmargin.classify.prior import Prior

#: The ridge on scores that are learnt; scores under an infinite one stay where they start.
RIDGE_SCORE = 8.0
HELD = float("inf")

#: The ridge on values where there are too few documents to hold some out, and where the search for it begins.
RIDGE_VALUE, RIDGE_BEGIN = 0.0625, 0.25


class Columns(NamedTuple):
    """A set of columns: booleans, or None for all; tokens seen less often in the documents fitted are left out."""

    mask: np.ndarray | None = None
    least: int = 1


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate, and the loss of each held-out document under it."""

    columns: int  #: index of the set of columns
    prior: Prior
    ridge_value: float
    ridge_score: float
    losses: np.ndarray  #: after calibration; those of the first part held out come first
    weights: np.ndarray  #: weights of those documents: one of weight two is two documents
    parameters: Parameters  #: of the first part, before calibration
    calibration: Calibration | None = None

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses @ self.weights / self.weights.sum())

    def excess(self, best: Tried) -> tuple[float, float]:
        """Mean loss less that of another candidate, and this difference's standard error, over documents of both."""
        both = min(len(self.losses), len(best.losses))
        more, weights = self.losses[:both] - best.losses[:both], self.weights[:both]
        n = float(weights.sum())
        mean = float(more @ weights) / n
        variance = float((more - mean) ** 2 @ weights) / max(n - 1, 1)
        return mean, float(np.sqrt(variance / n))

    def is_behind(self, best: Tried, errors: float) -> bool:
        """True if the loss exceeds that of another candidate by more than so many standard errors, and half a nat."""
        more, error = self.excess(best)
        n = float(self.weights[: len(best.losses)].sum())
        return more > errors * error and more * n > LEAST_NATS


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate that is taken, for all documents: its ridges are those judged, grown to their number.

    Args:
        columns: index of the set of columns.
        prior: prior of the values.
        ridge_value: on values.
        ridge_score: on scores; infinite where attention is held.
        warm: parameters to begin at, of all columns of the set; None begins at the prior.
        calibration: the scale that held-out documents ask for; None where none were held out.
        of_columns: the best candidate of each set of columns.
        tried: every candidate, in the order tried.
    """

    columns: int = 0
    prior: Prior = Prior.PLAIN
    ridge_value: float = RIDGE_VALUE
    ridge_score: float = RIDGE_SCORE
    warm: Parameters | None = None
    calibration: Calibration | None = None
    of_columns: tuple[Tried, ...] = ()
    tried: tuple[Tried, ...] = ()


def simplest(tried: Sequence[Tried]) -> int:
    """The first of candidates, the simplest first, whose loss is within one standard error of the smallest.

    Those that were not judged on every part held out are out of the question.
    """
    most = max(len(own.losses) for own in tried)
    best = min((own for own in tried if len(own.losses) == most), key=lambda own: own.loss)
    for place, own in enumerate(tried):
        if len(own.losses) == most and not own.is_behind(best, 1.0):
            return place
    raise AssertionError("the best candidate is within any error of itself")
