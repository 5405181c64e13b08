"""Yelp reviews by the paper's rules: 1000 to 1500 characters, 1-2 stars negative, 4-5 positive [E, App. E]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._rows import Columns, Row, chunked, label_as_given
from tokenmargin.sources.labelled import Label, LabelledTexts, TextChunk, count_labels
from tokenmargin.sources.locate import Whereabouts, locate
from tokenmargin.sources.parquet import parquet_columns, parquet_size
from tokenmargin.sources.rows_read import RowsRead
from tokenmargin.sources.table import Format, format_of, table_rows

#: Stars to class; three stars say nothing.
SENTIMENT = {1: -1, 2: -1, 4: 1, 5: 1}
NEUTRAL = 3


def _from_hub(split: str, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The hub's labels count from 0, and its line ends are written as a backslash and an n."""
    texts = [text.replace("\\n", "\n").replace('\\"', '"') for text in columns["text"]]
    return {"split": [split] * len(texts), "stars": [label + 1 for label in columns["label"]], "text": texts}


WHERE = Whereabouts(
    "Yelp",
    ("yelp.parquet", "yelp_academic_dataset_review.json"),
    "Yelp/yelp_review_full",
    ("train", "test"),
    _from_hub,
)


@checked
@dataclass(frozen=True)
class YelpSelection:
    """Choice of reviews: by length in characters, all that there are or a seeded subsample, balanced or not."""

    shortest: int = 1000
    longest: int = 1500
    balanced: bool = False
    at_most: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise if the rules select nothing."""
        whole_number(self.seed, "seed", 0)
        whole_number(self.longest, "longest", 0)
        if not 0 <= self.shortest <= self.longest:
            raise InvalidInputError(f"no review has {self.shortest} to {self.longest} characters: give shortest first.")
        if self.at_most is not None:
            whole_number(self.at_most, "at_most", 0)
        if self.at_most is not None and self.at_most < 2:
            raise InvalidInputError(f"at_most={self.at_most}: at least one review of each class is needed.")

    @property
    def is_subsample(self) -> bool:
        """True if some of the reviews that qualify are left out."""
        return self.balanced or self.at_most is not None

    @checked
    def pick(self, labels: np.ndarray) -> np.ndarray:
        """Numbers of the reviews taken, in ascending order, among those that qualify with these labels."""
        rng = np.random.default_rng(self.seed)
        groups = [np.flatnonzero(labels == sign) for sign in (-1, 1)] if self.balanced else [np.arange(len(labels))]
        size = min(len(group) for group in groups)
        if self.at_most is not None:
            size = min(size, self.at_most // len(groups))
        return np.sort(np.concatenate([rng.choice(group, size, replace=False) for group in groups]))


@dataclass(frozen=True, repr=False)
class YelpCounts(Told):
    """The numbers of a selection: each usable review is in exactly one of the four groups."""

    found: int
    dropped_by_length: int
    dropped_by_stars: int
    dropped_by_subsampling: int
    kept: dict[str, int]

    def __str__(self) -> str:
        """Sentence with the numbers."""
        kept = ", ".join(f"{size:,} of class {name}" for name, size in self.kept.items())
        return (
            f"{self.found:,} reviews found; dropped {self.dropped_by_length:,} by length, {self.dropped_by_stars:,} of "
            f"three stars, {self.dropped_by_subsampling:,} by subsampling; kept {kept or 'none'}"
        )


@checked
def yelp(
    path: str | Path | None = None, selection: YelpSelection | None = None, *, progress: Progress = silent
) -> LabelledTexts:
    """The Yelp reviews that the paper's rules keep, labelled -1 and +1.

    Args:
        path: a Parquet file or a CSV with columns stars and text, or the academic data set's JSON lines (in which
            review ids are checked for duplicates). Without it, $TOKENMARGIN_DATA and the hub are looked through.
        selection: lengths and subsample; the paper's lengths and all that there is when absent. A subsample is drawn
            in a first pass over stars and lengths, so that no more than a chunk of texts is ever held.
        progress: told how a download comes on.

    The numbers found, dropped and kept close the report; `yelp_counts` gives them as numbers.
    """
    found, chosen = locate(WHERE, path, progress), selection or YelpSelection()
    columns = _columns(found)
    rows = table_rows(found, columns)
    is_parquet = format_of(found) is Format.PARQUET

    def read(size: int) -> Iterator[TextChunk]:
        taken = _draw(rows, chosen) if chosen.is_subsample else None
        return _selected(chunked(rows(), _stars, size, with_splits=columns.split is not None), chosen, taken)

    return LabelledTexts("Yelp", str(found), read, parquet_size(found) if is_parquet else None)


@checked
def yelp_counts(
    path: str | Path | None = None, selection: YelpSelection | None = None, *, progress: Progress = silent
) -> YelpCounts:
    """The numbers of a selection, from one pass over the data."""
    found, chosen = locate(WHERE, path, progress), selection or YelpSelection()
    tally = _Tally()
    labels = np.array([label for label in _classes(table_rows(found, _columns(found)), chosen, tally) if label])
    taken = labels[chosen.pick(labels)] if chosen.is_subsample and labels.size else labels
    tally.subsampled, tally.kept = labels.size - taken.size, count_labels(tuple(taken.tolist()))
    return tally.report()


@dataclass
class _Tally:
    """The numbers of a YelpCounts while they are counted."""

    found: int = 0
    length: int = 0
    stars: int = 0
    subsampled: int = 0
    kept: dict[str, int] | None = None

    def report(self) -> YelpCounts:
        return YelpCounts(self.found, self.length, self.stars, self.subsampled, self.kept or {})

    def judge(self, text: str, stars: int, selection: YelpSelection) -> int:
        """The review's class, or 0 where the rules drop it."""
        self.found += 1
        if not selection.shortest <= len(text) <= selection.longest:
            self.length += 1
            return 0
        if stars == NEUTRAL:
            self.stars += 1
            return 0
        return SENTIMENT[stars]


def _stars(value: object) -> Label | None:
    """One to five stars, however they are written (5, 5.0, "5"); anything else is no label."""
    given = label_as_given(value)
    if isinstance(given, str):
        given = label_as_given(float(given)) if given.replace(".", "", 1).isdecimal() else None
    return given if given in SENTIMENT or given == NEUTRAL else None


def _columns(path: Path) -> Columns:
    if format_of(path) is Format.JSON_LINES:
        return Columns("text", "stars", None, "review_id")
    has_split = format_of(path) is Format.PARQUET and "split" in parquet_columns(path)
    return Columns("text", "stars", "split" if has_split else None)


def _classes(rows: Callable[[], Iterator[Row]], selection: YelpSelection, tally: _Tally) -> Iterator[int]:
    """The class of each usable review, 0 where the rules drop it."""
    for chunk in chunked(rows(), _stars, 2048):
        for text, stars in zip(chunk.texts, chunk.labels, strict=True):
            yield tally.judge(text, int(stars), selection)


def _draw(rows: Callable[[], Iterator[Row]], selection: YelpSelection) -> np.ndarray:
    """True for each review, among those that the rules keep, that is in the subsample."""
    labels = np.array([label for label in _classes(rows, selection, _Tally()) if label], dtype=np.int8)
    taken = np.zeros(len(labels), dtype=bool)
    if labels.size:
        taken[selection.pick(labels)] = True
    return taken


def _selected(chunks: Iterator[TextChunk], selection: YelpSelection, taken: np.ndarray | None) -> Iterator[TextChunk]:
    """The chunks with only the reviews selected; a last, empty chunk carries the numbers."""
    tally, qualified = _Tally(), 0
    kept: list[int] = []
    for chunk in chunks:
        picked: list[tuple[int, int]] = []
        for j, (text, stars) in enumerate(zip(chunk.texts, chunk.labels, strict=True)):
            label = tally.judge(text, int(stars), selection)
            if not label:
                continue
            if taken is None or taken[qualified]:
                picked.append((j, label))
            else:
                tally.subsampled += 1
            qualified += 1
        labels = tuple(label for _, label in picked)
        kept += labels
        yield TextChunk(
            tuple(chunk.texts[j] for j, _ in picked),
            labels,
            None if chunk.splits is None else tuple(chunk.splits[j] for j, _ in picked),
            replace(chunk.report, rows_kept=len(picked), classes=count_labels(labels)),
        )
    tally.kept = count_labels(tuple(kept))
    notes: tuple[str, ...] = (str(tally.report()),)
    if tally.found and tally.length == tally.found:
        notes = (
            f"no review has {selection.shortest} to {selection.longest} characters, so that all are dropped: pass "
            "YelpSelection(shortest=..., longest=...) for reviews of other lengths",
            *notes,
        )
    yield TextChunk((), (), (), RowsRead(notes=notes))
