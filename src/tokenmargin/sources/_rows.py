"""Turns rows of any format into chunks: each row is checked once, and everything odd about it is counted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources.labelled import Label, TextChunk, count_labels
from tokenmargin.sources.rows_read import MAX_PLACES, Oddity, RowAddress, RowsRead

#: A tag such as <i> or </a>, or an entity such as &amp; -- but not the <br /> that every IMDB review holds.
MARKUP = re.compile(r"</?(?!br\b)[a-zA-Z][^<>]*>|&(?:[a-zA-Z]{2,8}|#[0-9]{1,6});")


class Columns(NamedTuple):
    """Names of the columns; `None` if a format has no such column."""

    text: str
    label: str
    split: str | None = None
    id: str | None = None


class Row(NamedTuple):
    """One row as a format's reader gives it, before anything is known about its content."""

    place: RowAddress
    text: object = None
    label: object = None
    split: object = None
    id: object = None
    problems: tuple[Oddity, ...] = ()


@dataclass
class _Pile:
    """The rows of the chunk that is being filled."""

    texts: list[str] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    rows_read: int = 0
    counts: dict[Oddity, int] = field(default_factory=dict)
    places: dict[Oddity, list[RowAddress]] = field(default_factory=dict)

    def note(self, kind: Oddity, place: RowAddress) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        places = self.places.setdefault(kind, [])
        if len(places) < MAX_PLACES:
            places.append(place)

    def chunk(self, with_splits: bool) -> TextChunk:
        report = RowsRead(
            self.rows_read,
            len(self.texts),
            count_labels(tuple(self.labels)),
            dict(self.counts),
            {kind: tuple(places) for kind, places in self.places.items()},
        )
        splits = tuple(self.splits) if with_splits else None
        return TextChunk(tuple(self.texts), tuple(self.labels), splits, report, tuple(self.rows))


#: Function from a label of a file to its class.
LabelOf = Callable[[object], Label | Oddity | None]


def chunked(rows: Iterable[Row], label_of: LabelOf, size: int, *, with_splits: bool = False) -> Iterator[TextChunk]:
    """Judge the rows and give them in chunks of `size` rows; at least one chunk, so that an empty source reports too.

    `label_of` gives a row's class, or None (or an oddity of its own) where its label means nothing. Texts and ids seen
    are remembered by their hashes (8 bytes and a set entry a row), which is what finding duplicates costs.
    """
    seen_texts: set[int] = set()
    seen_ids: set[int] = set()
    pile = _Pile()
    for number, row in enumerate(rows):
        if pile.rows_read == size:
            yield pile.chunk(with_splits)
            pile = _Pile()
        pile.rows_read += 1
        for kind in row.problems:
            pile.note(kind, row.place)
        if Oddity.BAD_ROW in row.problems:
            continue
        if not isinstance(row.text, str):
            pile.note(Oddity.NO_TEXT, row.place)
            continue
        label = label_of(row.label)
        if label is None or isinstance(label, Oddity):
            pile.note(label or Oddity.NO_LABEL, row.place)
            continue
        for kind in _oddities(row, seen_texts, seen_ids):
            pile.note(kind, row.place)
        pile.texts.append(row.text)
        pile.labels.append(label)
        pile.splits.append(str(row.split))
        pile.rows.append(number)
    yield pile.chunk(with_splits)


def _oddities(row: Row, seen_texts: set[int], seen_ids: set[int]) -> Iterator[Oddity]:
    """Oddities of a usable row."""
    text = str(row.text)
    if not text.strip():
        yield Oddity.EMPTY_TEXT
    elif hash(text) in seen_texts:
        yield Oddity.DUPLICATE_TEXT
    else:
        seen_texts.add(hash(text))
    # Counting first: a pattern over every review that holds a <br /> would cost more than reading it.
    if ("&" in text or text.count("<") > text.count("<br />")) and MARKUP.search(text):
        yield Oddity.MARKUP
    if "\0" in text:
        yield Oddity.NUL
    if row.id is not None:
        if hash(row.id) in seen_ids:
            yield Oddity.DUPLICATE_ID
        seen_ids.add(hash(row.id))


def label_as_given(value: object) -> Label | None:
    """The class as the file names it; a whole float (4.0) is read as an int, 4.5 and True as they are written."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else str(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return value.strip() or None
    return value if isinstance(value, int) else None


def missing_columns(path: Path, missing: list[str], found: list[str]) -> InvalidInputError:
    """The error for a table that lacks a column."""
    return InvalidInputError(
        f"{path} has no column {', '.join(map(repr, missing))}: it has {', '.join(map(repr, found))}. "
        "Name the columns that hold the text and the label."
    )
