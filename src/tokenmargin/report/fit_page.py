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
from tokenmargin.classify.fit_report import NO_ROW, DocumentView, FitReport
from tokenmargin.classify.token_table import TokenTable
from tokenmargin.errors import visible
from tokenmargin.report._fit_scores import (
    FIRST_PAIRS,
    MOST_CLASSES,
    MOST_IN_TABLE,
    class_rows,
    confusion,
    has_rare_class,
    judged_claim,
    pair_rows,
    scores,
)
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render
from tokenmargin.report._text_box import TextBox
from tokenmargin.report.marked_text import marked_pieces

#: Shown to readers whose browser runs no script.
STATIC_TOKENS, STATIC_DOCUMENTS = 30, 5
#: Snippets are kept for the most deciding tokens up to this many characters; the script cuts the others from the texts.
EXAMPLE_CHARACTERS = 150_000
#: Digits kept of an attention: its axis is logarithmic, and rounding to decimals would draw the small ones as stripes.
ATTENTION_DIGITS = 4
#: What a probability of one is in the texts of the page, which has whole numbers (`ONE` in fit_texts.js).
ONE = 100_000
#: Largest number of decimals in a column.
MOST_DECIMALS = 6
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
    rank: str = ""  #: "middle" where a phone has no room for it, "minor" where it is shown on demand


#: The order of the table: what decides and how, then how often it occurs, then what was learnt.
COLUMNS = (
    Column("decides", "decides", percent=True),
    Column("pull", "pull", signed=True),
    Column("documents", "texts", rank="middle"),
    Column("excess", "beyond base rate", signed=True, percent=True, least_decimals=1, rank="middle"),
    Column("value", "value", signed=True, rank="middle"),
    Column("attention", "attention", percent=True, least_decimals=3, rank="middle"),
    Column("first", "first in", percent=True, least_decimals=0, rank="middle"),
    Column("rank_low", "rank from", rank="middle"),
    Column("rank_high", "rank to", rank="middle"),
    Column("spread", "spread", rank="minor"),
    Column("score", "score", rank="minor"),
    Column("selected", "selected", percent=True, least_decimals=1, rank="minor"),
    Column("posterior_difference", "posterior difference", signed=True, rank="minor"),
    Column("alpha", "α_s", signed=True, rank="minor"),  # noqa: RUF001
    Column("count", "count", rank="minor"),
    Column("in_class", "of them", rank="minor"),
)


def fit_page(report: FitReport, box: TextBox | None = None) -> str:
    """The page as HTML: what was learnt, the token map, the table, the texts, how well, the claims, how it was made.

    Args:
        report: contents of the page.
        box: the box for any text; without it there is none.
    """
    table = report.tokens
    order = np.argsort(-np.nan_to_num(table.decides), kind="stable")
    place = np.empty(len(order), int)
    place[order] = np.arange(len(order))
    columns = [column for column in COLUMNS if column.key == "in_class" or getattr(table, column.key) is not None]
    numbers = {column.key: _numbers(table, column)[:, order] for column in columns}
    decimals = {column.key: _decimals(numbers[column.key], column.least_decimals) for column in columns}
    return render(
        "fit.html",
        report=report,
        box=box,
        directions=_directions(report.classes),
        n_tokens=report.metrics.get("tokens") or len(order),
        n_shown=len(order),
        has_runs=report.has_runs,
        columns=[_heading(column, report) for column in columns],
        token_explained=_sentences(*report.definitions.get("token", ("", ""))),
        data=_packed(report, order, place, columns, numbers, decimals),
        deciding=report.deciding,
        place=place,
        top=_static_tokens(table, order, columns, numbers, decimals),
        texts=[_static_document(report, document) for document in report.documents[:STATIC_DOCUMENTS]],
        scores=scores(report.metrics),
        side=CURVE_SIDE,
        confusion=confusion(report) if len(report.classes) <= MOST_IN_TABLE else [],
        class_rows=class_rows(report),
        most_classes=MOST_CLASSES,
        first_pairs=FIRST_PAIRS,
        pair_rows=pair_rows(report),
        has_rare=has_rare_class(report),
        claims=[judged_claim(claim) for claim in report.claims],
        manifest=manifest_rows(report.manifest),
        percent=percent,
        absent=ABSENT,
    )


# --- numbers ----------------------------------------------------------------------------------------------------------


def _numbers(table: TokenTable, column: Column) -> np.ndarray:
    """A column as rows: one, or one for each class where there are more than two."""
    if column.key == "in_class":
        values = table.count_by_class[:, -1:] if len(table.classes) == 2 else table.count_by_class
    elif column.key == "decides" and len(table.classes) > 2:
        values = table.decides_for
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


def _directions(classes: Sequence[str]) -> tuple[str, str]:
    """Meanings of positive and negative numbers: with two classes a positive one pulls to the class that sorts last.

    With more, a token is first shown for the class that it decides for.
    """
    if len(classes) == 2:
        return f"→ {classes[1]}", f"→ {classes[0]}"
    return "→ its class", "away from it"


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
    place: np.ndarray,
    columns: Sequence[Column],
    numbers: Mapping[str, np.ndarray],
    decimals: Mapping[str, int],
) -> str:
    """Tokens (most deciding first) and documents as JSON, deflated, in base64: no text of a corpus is in the source.

    Browsers have unpacked this themselves since 2023 (DecompressionStream). Plain, the tokens of IMDB and 200 documents
    would take twice as much as the page may.
    """
    table = report.tokens
    data = {
        "classes": [visible(name) for name in report.classes],
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
        "best": _best_classes(table)[order].tolist(),
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


def _best_classes(table: TokenTable) -> np.ndarray:
    """The class that each token is shown for first: where it decides most, or pulls most, shape (V,)."""
    if len(table.classes) == 2:
        return np.zeros(len(table), int)
    return np.where(table.decides > 0, table.decides_for.argmax(axis=1), table.pull.argmax(axis=1))


def _compact(document: DocumentView, classes: Sequence[str], place: np.ndarray) -> list[Any]:
    """Row, the three classes, probabilities, text, characters cut off, then the columns of its words and phrases.

    Columns: token (or its name where the page has no such token), contribution, attention, probability without it, and
    its places as start, length, start, length, ...
    """
    at = _script_offsets(document.text)
    return [
        document.row + 1,  # Rows are counted from 1 wherever people read of them.
        *(classes.index(name) for name in (document.truth, document.predicted, document.against)),
        [round(ONE * probability) for probability in document.probabilities],
        document.text,
        document.left,
        [mark.name if mark.token == NO_ROW else int(place[mark.token]) for mark in document.marks],
        [round(1000 * mark.contribution) for mark in document.marks],
        [round(1000 * mark.attention) for mark in document.marks],
        [round(ONE * mark.without) for mark in document.marks],
        [[n for start, end in mark.places for n in (at[start], at[end] - at[start])] for mark in document.marks],
    ]


def _script_offsets(text: str) -> Sequence[int]:
    """Offset of each character, and of the end, as scripts count: an emoji is two."""
    if text.isascii():
        return range(len(text) + 1)
    return np.cumsum([0, *(1 + (ord(letter) > 0xFFFF) for letter in text)]).tolist()


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
    """Rows of the most deciding tokens, in words; with more than two classes, each for its own."""
    best = _best_classes(table)
    return [
        {
            "token": table.as_written(int(token))[0],
            "words": table.as_written(int(token))[1],
            "cells": [
                fixed(
                    numbers[c.key][min(best[token], len(numbers[c.key]) - 1), place], decimals[c.key], signed=c.signed
                )
                for c in columns
            ],
        }
        for place, token in enumerate(order[:STATIC_TOKENS])
    ]


def _static_document(report: FitReport, document: DocumentView) -> dict[str, Any]:
    """A document in pieces with their looks."""
    # With two classes a colour means a class; with more, toward the predicted class or away from it.
    side = 1 if len(report.classes) > 2 or document.predicted == report.classes[1] else -1
    units = [(mark.name, mark.places, side * mark.contribution) for mark in document.marks]
    return {"document": document, "pieces": marked_pieces(document.text, units)}
