"""The page of a fit: which words decide, in which texts, and how far to trust it; one file that needs no network."""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._sentences import ABSENT, fixed, percent
from tokenmargin.classify.fit_report import DocumentView, FitReport
from tokenmargin.classify.token_table import TokenTable
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render

#: Shown to readers whose browser runs no script.
STATIC_TOKENS, STATIC_DOCUMENTS = 30, 5
#: Snippets are kept for the most deciding tokens up to this many characters; the script cuts the others from the texts.
EXAMPLE_CHARACTERS = 150_000
#: A word is marked in one of as many shades, by the size of its contribution beside the largest of its document.
SHADES = 4
#: Digits kept of an attention: its axis is logarithmic, and rounding to decimals would draw the small ones as stripes.
ATTENTION_DIGITS = 4
#: Largest number of decimals in a column.
MOST_DECIMALS = 6
#: The classifier beside ours, where the metrics do not name it.
PEER = "the strongest usual classifier"
#: The sides of the calibration curve, in the units of its drawing.
CURVE_SIDE = 240


@dataclass(frozen=True)
class Column:
    """A column of the table of tokens; `signed` where the sign names a class, `percent` where a share is shown."""

    key: str
    heading: str
    signed: bool = False
    percent: bool = False
    least_decimals: int = 2


#: The order of the table: what decides and how, then what was learnt, then how often it occurs.
COLUMNS = (
    Column("decides", "decides", percent=True),
    Column("pull", "pull", signed=True),
    Column("spread", "spread"),
    Column("value", "value", signed=True),
    Column("score", "score"),
    Column("attention", "attention", percent=True, least_decimals=3),
    Column("selected", "selected", percent=True, least_decimals=1),
    Column("posterior_difference", "posterior difference", signed=True),
    Column("alpha", "α_s", signed=True),  # noqa: RUF001
    Column("documents", "documents"),
    Column("count", "count"),
    Column("in_class", "of them"),
)


def fit_page(report: FitReport) -> str:
    """The page as HTML: what was learnt, the token map, the table, the texts, how well, the claims, how it was made."""
    table = report.tokens
    order = np.argsort(-np.nan_to_num(table.decides), kind="stable")
    columns = [column for column in COLUMNS if column.key != "spread" or table.spread is not None]
    numbers = {column.key: _numbers(table, column)[:, order] for column in columns}
    decimals = {column.key: _decimals(numbers[column.key], column.least_decimals) for column in columns}
    return render(
        "fit.html",
        report=report,
        directions=_directions(report.classes, 0),
        n_tokens=report.metrics.get("tokens") or len(order),
        n_shown=len(order),
        columns=[_heading(column, report) for column in columns],
        token_explained=_sentences(*report.definitions.get("token", ("", ""))),
        data=_packed(report, order, columns, numbers, decimals),
        top=_static_tokens(table, order, columns, numbers, decimals),
        texts=[_static_document(report, document) for document in report.documents[:STATIC_DOCUMENTS]],
        scores=_scores(report.metrics),
        side=CURVE_SIDE,
        confusion=_confusion(report),
        claims=[_claim(claim) for claim in report.claims],
        manifest=manifest_rows(report.manifest),
        percent=percent,
        absent=ABSENT,
    )


# --- numbers ----------------------------------------------------------------------------------------------------------


def _numbers(table: TokenTable, column: Column) -> np.ndarray:
    """A column as rows: one, or one for each class where there are more than two."""
    if column.key == "in_class":
        values = table.count_by_class[:, -1:] if len(table.classes) == 2 else table.count_by_class
    else:
        values = np.asarray(getattr(table, column.key))
    rows = values.reshape(len(table.token), -1).T.astype(float)
    return 100 * rows if column.percent else rows


def _decimals(values: np.ndarray, least: int) -> int:
    """Number of decimals that shows the median size, at least `least`; 0 for whole numbers."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not sizes.size or (sizes == np.round(sizes)).all():
        return 0
    return int(np.clip(-math.floor(math.log10(np.median(sizes))), least, MOST_DECIMALS))


def _directions(classes: Sequence[str], k: int) -> tuple[str, str]:
    """Meanings of positive and negative numbers; with two classes a positive one pulls to the class that sorts last."""
    if len(classes) == 2:
        return f"→ {classes[1]}", f"→ {classes[0]}"
    return f"→ {classes[k]}", f"away from {classes[k]}"


def _heading(column: Column, report: FitReport) -> dict[str, Any]:
    """A column's head: its name, definition, and what the sign of its numbers means."""
    meaning, sign = report.definitions.get(column.key, ("", ""))
    if column.key == "in_class":
        meaning = "how many of its occurrences are in texts of the class that the head names"
    return {"column": column, "explained": _sentences(meaning, sign)}


def _sentences(meaning: str, sign: str) -> str:
    """A definition and the meaning of the sign, as sentences; that there is no sign is said too."""
    parts = (meaning, sign or "No sign.")
    return " ".join(f"{part[:1].upper()}{part[1:].removesuffix('.')}." for part in parts if part)


# --- what the script reads --------------------------------------------------------------------------------------------


def _packed(
    report: FitReport,
    order: np.ndarray,
    columns: Sequence[Column],
    numbers: Mapping[str, np.ndarray],
    decimals: Mapping[str, int],
) -> str:
    """Tokens (most deciding first) and documents as JSON, deflated, in base64: no text of a corpus is in the source.

    Browsers have unpacked this themselves since 2023 (DecompressionStream). Plain, the tokens of IMDB and 200 documents
    would take twice as much as the page may.
    """
    table = report.tokens
    place = np.empty(len(order), int)
    place[order] = np.arange(len(order))
    data = {
        "classes": report.classes,
        "tokens": [written[0] for written in map(table.as_written, order.tolist())],
        "words": [written[1] for written in map(table.as_written, order.tolist())],
        "columns": {
            column.key: {
                "decimals": decimals[column.key],
                "signed": column.signed,
                "percent": column.percent,
                "values": [_rounded(column.key, row, decimals[column.key]) for row in numbers[column.key]],
            }
            for column in columns
        },
        "interval": [
            [_scaled(row, decimals["pull"]) for row in bound[order].T] for bound in (table.pull_low, table.pull_high)
        ],
        "decides_for": [_scaled(100 * row, decimals["decides"]) for row in table.decides_for[order].T],
        "documents": [_compact(document, report.classes, place) for document in report.documents],
        "examples": _examples(report, order),
    }
    plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Half of a character that takes two, alone in a text, has no encoding: it is shown as "?".
    return b64encode(zlib.compress(plain.encode("utf-8", "replace"), 9)).decode()


def _rounded(key: str, row: np.ndarray, decimals: int) -> list[float | None]:
    """Numbers as they are shown; small attentions get more digits."""
    scaled = _scaled(row, decimals)
    if key != "attention":
        return scaled
    enough = 10**ATTENTION_DIGITS
    return [
        value if value is None or value >= enough else float(f"{exact * 10**decimals:.{ATTENTION_DIGITS}g}")
        for value, exact in zip(scaled, row.tolist(), strict=True)
    ]


def _scaled(row: np.ndarray, decimals: int) -> list[float | None]:
    """Shown numbers times a power of ten, as whole numbers."""
    return [round(float(value) * 10**decimals) if math.isfinite(value) else None for value in row]


def _compact(document: DocumentView, classes: Sequence[str], place: np.ndarray) -> list[Any]:
    """Row, truth, predicted, probabilities, text, then for each word that is a token: gap, length, token, numbers."""
    gaps, lengths, tokens, contributions, attentions = [], [], [], [], []
    gap = 0
    for piece in document.pieces:
        length = len(piece.text.encode("utf-16-le", "surrogatepass")) // 2  # As scripts count characters.
        if piece.token < 0:
            gap += length
            continue
        gaps.append(gap)
        lengths.append(length)
        tokens.append(int(place[piece.token]))
        contributions.append(round(1000 * piece.contribution))
        attentions.append(round(1000 * piece.attention))
        gap = 0
    return [
        document.row + 1,  # Rows are counted from 1 wherever people read of them.
        classes.index(document.truth),
        classes.index(document.predicted),
        [round(1000 * probability) for probability in document.probabilities],
        "".join(piece.text for piece in document.pieces),
        gaps,
        lengths,
        tokens,
        contributions,
        attentions,
    ]


def _examples(report: FitReport, order: np.ndarray) -> dict[int, list[tuple[int, str]]]:
    """Snippets of the most deciding tokens, (class, text) by place in the order, as many as there is room for."""
    kept: dict[int, list[tuple[int, str]]] = {}
    room = EXAMPLE_CHARACTERS
    for place, token in enumerate(order):
        snippets = report.examples.get(int(token), ())
        room -= sum(len(text) for _, text in snippets)
        if room < 0:
            break
        if snippets:
            kept[place] = [(report.classes.index(name), text) for name, text in snippets]
    return kept


# --- what is there without a script -----------------------------------------------------------------------------------


def _static_tokens(
    table: TokenTable,
    order: np.ndarray,
    columns: Sequence[Column],
    numbers: Mapping[str, np.ndarray],
    decimals: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Rows of the most deciding tokens, in words; with more than two classes, for the first."""
    return [
        {
            "token": table.as_written(int(token))[0],
            "words": table.as_written(int(token))[1],
            "cells": [fixed(numbers[c.key][0, place], decimals[c.key], signed=c.signed) for c in columns],
        }
        for place, token in enumerate(order[:STATIC_TOKENS])
    ]


def _static_document(report: FitReport, document: DocumentView) -> dict[str, Any]:
    """A document as (text, look) with the looks that the script gives."""
    largest = max((abs(piece.contribution) for piece in document.pieces if piece.token >= 0), default=0.0) or 1.0
    # With two classes a colour means a class; with more, toward the predicted class or away from it.
    side = 1 if len(report.classes) > 2 or document.predicted == report.classes[1] else -1
    pieces = []
    for piece in document.pieces:
        shade = round(SHADES * abs(piece.contribution) / largest) if piece.token >= 0 else 0
        look = f"{'for' if side * piece.contribution > 0 else 'against'} shade{shade}" if shade else ""
        pieces.append((piece.text, look))
    return {"document": document, "pieces": pieces}


# --- how well ---------------------------------------------------------------------------------------------------------


def _scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
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
    names = (("macro_f1", "macro F1"), ("auc", "area under the ROC curve"), ("log_loss", "log loss"))
    return {
        "rows": [row for row in rows if row[1] is not None],
        "apart": apart,
        "peer": peer,
        "others": [(name, f"{metrics[key]:.3f}") for key, name in names if metrics.get(key) is not None],
        "per_class": [
            (name, [percent(row.get(part)) for part in ("precision", "recall", "f1")], row.get("documents"))
            for name, row in (metrics.get("per_class") or {}).items()
        ],
        "test_documents": metrics.get("test_documents"),
        "train_documents": metrics.get("train_documents"),
        "repeated": metrics.get("repeated_test_documents"),
    }


def _confusion(report: FitReport) -> list[tuple[str, list[tuple[int, float, str]]]]:
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


def _claim(claim: Mapping[str, str]) -> dict[str, str]:
    """A claim with its verdict in words."""
    return {**claim, "verdict": "does not apply" if claim["applies"] == "no" else claim["holds"] or "not decided"}
