"""The page of texts with several labels each: a model for every label, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmargin._sentences import percent
from tokenmargin.classify.fit_report import FitReport
from tokenmargin.report._fit_scores import class_scores
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render

#: Words of a label on either side.
WORDS = 10


def labels_page(title: str, reports: Mapping[str, FitReport]) -> str:
    """The page as HTML: how well each label is found, its words, and a link to its own page in `labels/`.

    Args:
        title: title of the table of texts.
        reports: report of each label, in the order of their folders.
    """
    rows = [_row(number, name, report) for number, (name, report) in enumerate(reports.items(), start=1)]
    first = next(iter(reports.values()))
    return render(
        "labels.html",
        title=title,
        rows=rows,
        reading=reading_of_all(reports),
        command=first.command,
        manifest=manifest_rows(first.manifest),
    )


def reading_of_all(reports: Mapping[str, FitReport]) -> list[str]:
    """What was read and left out, without what is said of one label alone."""
    first, *others = (report.reading for report in reports.values())
    return [line for line in first if all(line in other for other in others)]


def label_lines(reports: Mapping[str, FitReport], most: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Column names and rows of text for a terminal: how well each of the first labels is found, and its words."""
    rows = []
    for name, report in list(reports.items())[:most]:
        words = (report.tokens.as_written(row)[0] for row in report.tokens.towards(name, WORDS // 2))
        rows.append((name, *class_scores(report.metrics["per_class"][name]), ", ".join(words)))
    return ("label", "recall", "precision", "F1", "AUC", "words that decide for it"), rows


def _row(number: int, name: str, report: FitReport) -> dict[str, Any]:
    """One label: its numbers in words, and the words that decide for it and against it."""
    own, table = report.metrics["per_class"][name], report.tokens
    other = next(each for each in report.classes if each != name)
    return {
        "number": number,
        "name": name,
        "scores": class_scores(own),
        "texts": f"{own['documents']:,}",
        "held_out": f"{report.metrics['test_documents']:,}",
        "baseline": percent(report.metrics["baseline_accuracy"]),
        "accuracy": percent(report.metrics["accuracy"]),
        "towards": [table.as_written(row)[0] for row in table.towards(name, WORDS)],
        "away": [table.as_written(row)[0] for row in table.towards(other, WORDS)],
    }
