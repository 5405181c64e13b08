"""Scores of a fit as its page shows them: accuracies beside each other, classes, pairs that are confused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin._sentences import ABSENT, fixed, percent
from tokenmargin.classify.fit_report import FitReport

#: The classifier beside ours, where the metrics do not name it.
PEER = "the strongest usual classifier"
#: Classes named in the first screen, and classes beyond which confusion is a list of pairs and no table.
MOST_CLASSES, MOST_IN_TABLE = 8, 8
#: Pairs of classes in the first screen, and words of a class there.
FIRST_PAIRS, WORDS_OF_CLASS = 5, 5
#: A smaller pull is written as 0.00.
LEAST_PULL = 0.005
#: A class with a smaller share of the texts is rare.
RARE = 0.2
#: A cell of the confusion table has one of as many shades.
SHADES = 4


def scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Accuracies beside each other, with their intervals, and the other numbers that are there."""
    interval, difference = metrics.get("accuracy_interval"), metrics.get("difference_interval")
    ours, baseline = metrics.get("accuracy"), metrics.get("baseline_accuracy")
    peer = metrics.get("baseline", PEER)
    rows = [("this model", ours, interval), (peer, baseline, None)]
    rows.append(("always the largest class", metrics.get("majority"), None))
    apart = None
    if ours is not None and baseline is not None:
        # The number of the sentences: a difference of shares may differ from it in the last bit, and then in the first.
        gained = metrics.get("difference", ours - baseline)
        points = lambda share: fixed(100 * share, 1, signed=True)  # noqa: E731
        apart = points(gained), [points(end) for end in difference] if difference else None
    scale = metrics.get("within_one_step")
    names = (("macro_f1", "macro F1"), ("auc", "area under the ROC curve"), ("log_loss", "log loss"))
    return {
        "rows": [row for row in rows if row[1] is not None],
        "apart": apart,
        "peer": peer,
        "scale": None if scale is None else (percent(scale), f"{metrics['mean_steps_off']:.2f}"),
        "others": [(name, f"{metrics[key]:.3f}") for key, name in names if metrics.get(key) is not None],
        "test_documents": metrics.get("test_documents"),
        "train_documents": metrics.get("train_documents"),
        "repeated": metrics.get("repeated_test_documents"),
    }


def class_scores(own: Mapping[str, Any]) -> list[str]:
    """Recall, precision, F1 and AUC of a class, in words."""
    parts = [percent(own.get(part)) for part in ("recall", "precision", "f1")]
    area = own.get("auc")
    return [*parts, ABSENT if area is None or not math.isfinite(area) else f"{area:.3f}"]


def class_rows(report: FitReport) -> list[tuple[str, list[str], str, str]]:
    """Each class with recall, precision, F1 and AUC, its texts, and its words; the worst first if they are many."""
    found = report.metrics.get("per_class") or {}
    names = list(found)
    if len(names) > MOST_CLASSES:
        names.sort(key=lambda name: found[name]["f1"])
    rows = []
    for name in names:
        own = found[name]
        parts = class_scores(own)
        words = [report.tokens.as_written(row)[0] for row in report.tokens.towards(name, WORDS_OF_CLASS)]
        rows.append((name, parts, f"{own.get('documents', 0):,}", ", ".join(words)))
    return rows


def has_rare_class(report: FitReport) -> bool:
    """True if a class has less than a fifth of the texts: then accuracy says little about it."""
    there = np.asarray(report.confusion).sum(axis=1)
    return bool((there < RARE * there.sum()).any())


def pair_rows(report: FitReport) -> list[tuple[str, str, int, str, str]]:
    """Confused pairs: truth, prediction, texts, their share of the true class, and the words that misled."""
    return [
        (
            pair.truth,
            pair.predicted,
            pair.texts,
            percent(pair.share),
            ", ".join(f"{name} {fixed(pull, 2, signed=True)}" for name, pull in pair.words if pull >= LEAST_PULL)
            or ABSENT,
        )
        for pair in report.confused
    ]


def confusion(report: FitReport) -> list[tuple[str, list[tuple[int, float, str]]]]:
    """Confusion table: for each true class, (count, share of the row, look) for each predicted class."""
    rows = []
    for truth, (name, counts) in enumerate(zip(report.classes, np.asarray(report.confusion), strict=True)):
        total = max(1, int(counts.sum()))
        cells = []
        for predicted, count in enumerate(counts):
            # Mistakes are rarer than right answers, and are to be seen: half of a row is as dark as they get.
            shade = min(SHADES, round(SHADES * int(count) / total * (1 if predicted == truth else 2)))
            look = f"{'for' if predicted == truth else 'against'} shade{shade}" if shade else ""
            cells.append((int(count), int(count) / total, look))
        rows.append((name, cells))
    return rows


def judged_claim(claim: Mapping[str, str]) -> dict[str, str]:
    """A claim with its verdict in words."""
    return {**claim, "verdict": "does not apply" if claim["applies"] == "no" else claim["holds"] or "not decided"}
