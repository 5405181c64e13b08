"""Measures of a classifier on texts that it has not seen, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from tokenmargin._checks import checked
from tokenmargin._intervals import NORMAL_95, wilson
from tokenmargin._notebook import Told
from tokenmargin.errors import InvalidInputError

#: Probabilities are kept this far from 0 and 1 before their logarithm is taken.
SMALLEST = 1e-15

#: Bins of a calibration curve, each with as many texts.
BINS = 10


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Told):
    """Predictions on held-out texts, judged."""

    classes: tuple[str, ...]
    confusion: np.ndarray  #: (K, K), texts by truth and prediction
    accuracy: float
    accuracy_interval: tuple[float, float]  #: 95%, Wilson
    macro_f1: float  #: mean over classes
    auc: float  #: area under the ROC curve; with more than two classes the mean over classes, each against the rest
    log_loss: float
    per_class: dict[str, dict[str, float]]
    calibration: tuple[tuple[float, float, int], ...]  #: (mean predicted, share that came true, texts) of each bin


@checked
def evaluate(probabilities: np.ndarray, truth: np.ndarray, classes: Sequence[str]) -> Evaluation:
    """Judge predicted probabilities, shape (n, K), against the numbers of the true classes, shape (n,)."""
    K = len(classes)
    fits = probabilities.ndim == 2 and truth.shape == probabilities.shape[:1] and K == probabilities.shape[1] >= 2
    if not (fits and truth.size and truth.dtype.kind in "iu" and truth.min() >= 0 and truth.max() < K):
        raise InvalidInputError(
            f"probabilities {probabilities.shape}, truth {truth.dtype} {truth.shape} and {K} classes do not fit: give "
            "(n, K), whole numbers 0 .. K - 1 of shape (n,) and K >= 2 names."
        )
    if not np.isfinite(probabilities).all():
        raise InvalidInputError("probabilities hold NaN or infinity: give numbers between 0 and 1.")
    predicted = probabilities.argmax(axis=1)
    confusion = np.zeros((K, K), np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    right = int(np.trace(confusion))
    areas = [area_under_curve(probabilities[:, k], truth == k) for k in range(K)]
    per_class = {name: _scores_of_class(confusion, k) | {"auc": areas[k]} for k, name in enumerate(classes)}
    own = np.clip(probabilities[np.arange(len(truth)), truth], SMALLEST, 1.0)
    return Evaluation(
        tuple(classes),
        confusion,
        right / len(truth),
        wilson(right, len(truth)),
        float(np.mean([scores["f1"] for scores in per_class.values()])),
        areas[1] if K == 2 else float(np.mean(areas)),
        float(-np.log(own).mean()),
        per_class,
        calibration_curve(probabilities.max(axis=1), predicted == truth),
    )


def apart_from_repeats(is_right: np.ndarray, is_repeated: np.ndarray) -> dict[str, Any]:
    """Number of held-out texts that also occur among those learnt from, and the accuracy on the others, if any."""
    found: dict[str, Any] = {"repeated_test_documents": int(is_repeated.sum())}
    others = is_right[~is_repeated]
    if 0 < len(others) < len(is_right):
        found["unrepeated_accuracy"] = float(others.mean())
        found["unrepeated_accuracy_interval"] = list(wilson(int(others.sum()), len(others)))
    return found


def _scores_of_class(confusion: np.ndarray, k: int) -> dict[str, float]:
    hits, called, there = confusion[k, k], confusion[:, k].sum(), confusion[k].sum()
    precision = float(hits / called) if called else 0.0
    recall = float(hits / there) if there else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "documents": int(there)}


def area_under_curve(scores: np.ndarray, is_positive: np.ndarray) -> float:
    """The chance that a text of the class scores above one of another, ties counted half; NaN if there is no pair."""
    positive = int(is_positive.sum())
    negative = len(is_positive) - positive
    if not positive or not negative:
        return float("nan")
    ranks = rankdata(scores)
    return float((ranks[is_positive].sum() - positive * (positive + 1) / 2) / (positive * negative))


def calibration_curve(confidence: np.ndarray, is_right: np.ndarray) -> tuple[tuple[float, float, int], ...]:
    """Texts in bins of equal size by the probability of what was predicted, and how many were right in each."""
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, min(BINS, len(order))) if part.size]
    return tuple((float(confidence[part].mean()), float(is_right[part].mean()), len(part)) for part in parts)


def paired_interval(ours_right: np.ndarray, theirs_right: np.ndarray) -> tuple[float, float, float]:
    """Difference of two accuracies on the same texts, with its 95% interval.

    With f and g texts that only the one and only the other has right, p = (f + 1) / (n + 2) and q = (g + 1) / (n + 2),
    the interval is p - q +- 1.96 sqrt((p + q - (p - q)^2) / (n + 2)) (Bonett and Price, 2012). Without the texts that
    are added, an interval from texts on which both agree, or from two texts, would have no width.
    """
    n = len(ours_right)
    alone, other = (
        (first & ~second).sum() for first, second in ((ours_right, theirs_right), (theirs_right, ours_right))
    )
    p, q = (alone + 1) / (n + 2), (other + 1) / (n + 2)
    half = NORMAL_95 * np.sqrt((p + q - (p - q) ** 2) / (n + 2))
    return float((alone - other) / n), float(max(p - q - half, -1.0)), float(min(p - q + half, 1.0))
