"""A table that nobody has described: its format, encoding, delimiter, header and columns are guessed, and said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._sentences import sizes, some
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._bytes import DecodedLines, guessed_encoding, opened, sample
from tokenmargin.sources._form import LABEL_NAMES, TEXT_NAMES, OpenedFile, opened_file
from tokenmargin.sources._label_map import LabelMap, label_reader
from tokenmargin.sources._rows import Columns, LabelOf, chunked, label_as_given, missing_columns
from tokenmargin.sources.labelled import LabelledTexts, TextChunk
from tokenmargin.sources.rows_read import Oddity
from tokenmargin.sources.table import Format

#: Values of a column that says which part of the data a row belongs to.
SPLITS = frozenset(["train", "training", "test", "testing", "dev", "valid", "validation", "val", "unsup"])

#: More classes than this are no classes.
MOST_CLASSES = 100
#: Rows whose texts are measured.
MEASURED = 2000
#: A second column of texts this much as long as the longest makes a guess unsafe.
NEARLY_AS_LONG = 0.6


@dataclass(frozen=True, repr=False)
class OpenedTable(Told):
    """A table with its columns known, and what was guessed on the way, a sentence each."""

    source: LabelledTexts
    text: str
    label: str
    said: tuple[str, ...]


@checked
def open_table(
    path: str | Path,
    *,
    text: str | None = None,
    label: str | None = None,
    label_map: LabelMap | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    format: Format | str | None = None,
    label_separator: str | None = None,
) -> OpenedTable:
    """The texts and labels of any table: CSV, TSV, JSON, JSON lines or Parquet, packed by gzip, xz, bzip2 or not.

    The table is read through once to find its columns and classes out; the source then reads it a chunk at a time.
    A doubtful choice is an error that lists the candidates and names the option that decides.

    Args:
        path: path of the file.
        text: the column of texts (its number from 1 where there is no header); when absent, that with the longest.
        label: the column of labels; when absent, one called label, class, ... or the only one with few values.
        label_map: labels of each class: "positive=4,5;negative=1,2", {"positive": [4, 5], ...}, or from label
            to class {4: "positive", ...}. Rows of other labels are left out and counted.
        encoding: encoding of the file, such as "cp1252".
        delimiter: text between two fields, such as ";".
        format: a `Format` or its name; the content tells it when absent.
        label_separator: text between two labels of the same row, as in "a;b"; rows keep their labels as they stand.
    """
    file = opened_file(Path(path), encoding, delimiter, format, (text, label))
    label_of = label_reader(label_map)
    survey = _Survey.of(file, label, label_of, label_separator)
    chosen_text = _text_column(file.path, survey, text, label)
    chosen_label = _label_column(file.path, survey, chosen_text, label)
    classes = _classes(file.path, survey, chosen_label, label_of)
    split = next((c.name for c in survey.columns if c.is_split and c.name not in (chosen_text, chosen_label)), None)
    said = [*file.said, *survey.said(text is None, label is None, chosen_text, chosen_label, classes)]
    if split is not None:
        said.append(f"the column {split!r} tells the split of each row")
    columns = Columns(chosen_text, chosen_label, split)

    def read(size: int) -> Iterator[TextChunk]:
        return chunked(file.rows(columns), label_of, size, with_splits=split is not None)

    source = LabelledTexts(file.path.name, str(file.path), read, survey.rows)
    return OpenedTable(source, chosen_text, chosen_label, tuple(said))


@dataclass
class _Column:
    """Numbers about the values seen in a column."""

    name: str
    values: Counter[str] | None = field(default_factory=Counter)  #: None once there are too many
    texts: int = 0
    characters: int = 0
    wordy: int = 0  #: texts that hold more than one word, or a script that may not show it

    def see(self, value: object, is_measured: bool, separator: str | None = None) -> None:
        given = None if self.values is None else label_as_given(value)
        if self.values is not None and given is not None:
            self.values.update(_labels(given, separator))
            if len(self.values) > MOST_CLASSES:
                self.values = None
        if is_measured and isinstance(value, str):
            self.texts += 1
            self.characters += len(value)
            self.wordy += " " in value.strip() or not value.isascii()

    @property
    def mean(self) -> float:
        return self.characters / max(self.texts, 1)

    @property
    def is_text(self) -> bool:
        return 2 * self.wordy >= self.texts > 0

    @property
    def is_split(self) -> bool:
        return bool(self.values) and {value.lower() for value in self.values or ()} <= SPLITS


@dataclass
class _Survey:
    """The columns of a table after all its rows were seen."""

    columns: list[_Column]
    rows: int
    classes: Counter[str]  #: of the column that was named, read by the label map

    @classmethod
    def of(cls, file: OpenedFile, label: str | None, label_of: LabelOf, separator: str | None = None) -> _Survey:
        columns: dict[str, _Column] = {}
        rows, classes = 0, Counter[str]()
        for cells in file.records():
            rows += 1
            for name in cells or ():
                if name not in columns:
                    columns[name] = _Column(str(name))
            is_measured = rows <= MEASURED
            for column in columns.values() if cells else ():
                if is_measured or column.values is not None:
                    column.see((cells or {}).get(column.name), is_measured, separator)
            if label is not None and cells and label in cells:
                found = label_of(cells[label])
                if found is not None and not isinstance(found, Oddity) and len(classes) <= MOST_CLASSES:
                    classes.update(_labels(found, separator))
        if not columns:
            raise InvalidInputError(
                f"{file.path} holds no rows: give a table with a column of texts and one of labels."
            )
        return cls(list(columns.values()), rows, classes)

    def said(
        self, is_text_guessed: bool, is_label_guessed: bool, text: str, label: str, classes: Counter[str]
    ) -> Iterator[str]:
        by_name = {column.name: column for column in self.columns}
        if is_text_guessed:
            yield f"the texts are taken from the column {text!r} ({by_name[text].mean:.0f} characters on average)"
        if is_label_guessed:
            yield f"the labels are taken from the column {label!r}"
        yield f"{len(classes)} classes: {sizes(dict(sorted(classes.items())))}"


def _text_column(path: Path, survey: _Survey, told: str | None, label: str | None) -> str:
    names = [column.name for column in survey.columns]
    if told is not None:
        if told not in names:
            raise missing_columns(path, [told], names)
        return told
    others = [column for column in survey.columns if column.name != label]
    texts = sorted((column for column in others if column.is_text), key=lambda column: -column.mean)
    # Texts of one word each, such as queries or codes, are told by the name of their column alone.
    texts = texts or [column for column in others if column.texts and column.name.strip().lower() in TEXT_NAMES]
    if not texts:
        raise InvalidInputError(
            f"{path} has no column of texts: its columns are {_listed(survey.columns)}. Name it (--text COL)."
        )
    named = [column for column in texts if column.name.strip().lower() in TEXT_NAMES]
    if len(named) == 1:
        return named[0].name
    if len(texts) > 1 and texts[1].mean >= NEARLY_AS_LONG * texts[0].mean:
        raise InvalidInputError(f"{path} has several columns of texts, {_listed(texts)}: name one (--text COL).")
    return texts[0].name


def _label_column(path: Path, survey: _Survey, text: str, told: str | None) -> str:
    names = [column.name for column in survey.columns]
    if told is not None:
        if told not in names:
            raise missing_columns(path, [told], names)
        if told == text:
            raise InvalidInputError(f"the column {told!r} of {path} cannot be both text and label: name another.")
        return told
    others = [column for column in survey.columns if column.name not in (text, "")]  # pandas' index has no name
    for name in LABEL_NAMES:
        for column in others:
            if column.name.strip().lower() == name:
                return column.name
    few = [c for c in others if c.values and len(c.values) > 1 and not _is_too_many(c.values) and not c.is_split]
    if len(few) == 1:
        return few[0].name
    if few:
        raise InvalidInputError(
            f"{path} has several columns that may be labels, {_listed(few)}: name one (--label COL)."
        )
    raise InvalidInputError(
        f"{path} has no column of labels that can be told (2 to {MOST_CLASSES} values): its columns are "
        f"{_listed(survey.columns)}. Name it (--label COL)."
    )


def _listed(columns: Iterable[_Column]) -> str:
    return ", ".join(repr(column.name) for column in columns)


def _labels(value: object, separator: str | None) -> list[str]:
    """The label of a row, or its labels where something separates them."""
    return [str(value)] if not separator else [part.strip() for part in str(value).split(separator) if part.strip()]


def _is_too_many(classes: Mapping[str, int]) -> bool:
    """True if there are so many values that they name rows and not classes; two are never too many."""
    return len(classes) > MOST_CLASSES or (len(classes) > 2 and 2 * len(classes) > sum(classes.values()))


def _classes(path: Path, survey: _Survey, label: str, label_of: LabelOf) -> Counter[str]:
    """The classes of the column of labels, which must be at least two and not too many."""
    column = next(column for column in survey.columns if column.name == label)
    classes = survey.classes
    if not classes:
        classes = Counter()
        for value, count in (column.values or {}).items():
            found = label_of(value)
            if found is not None and not isinstance(found, Oddity):
                classes[str(found)] += count
        if column.values is None:
            raise _too_many(path, label, f"more than {MOST_CLASSES}")
    if _is_too_many(classes):
        raise _too_many(path, label, f"{len(classes)}" if len(classes) <= MOST_CLASSES else f"more than {MOST_CLASSES}")
    if len(classes) < 2:
        found = f"one class only, {next(iter(classes))!r}" if classes else "no label at all"
        has = ", ".join(map(repr, list(column.values or ())[:10])) or "nothing"
        raise InvalidInputError(
            f"the column {label!r} of {path} gives {found} (it holds {has}): at least two are needed to tell apart. "
            "Name another column (--label COL) or other labels (--label-map)."
        )
    return classes


def _too_many(path: Path, label: str, count: str) -> InvalidInputError:
    return InvalidInputError(
        f"the column {label!r} of {path} has {count} distinct values, too many for classes: name another column "
        "(--label COL), or say which values make which class (--label-map 'positive=4,5;negative=1,2')."
    )


class ReadTable(NamedTuple):
    """A table without labels in memory: its columns by name, in their order, and which of them has the texts."""

    columns: dict[str, list[Any]]
    text: str

    @property
    def texts(self) -> list[str]:
        """The texts, one a row; a row without one has an empty text, so that answers stand in the order of the file."""
        return [cell if isinstance(cell, str) else "" for cell in self.columns[self.text]]


@checked
def read_table(
    path: str | Path, *, text: str | None = None, say: Callable[[str], object] = lambda _: None
) -> ReadTable:
    """All columns of a table without labels, or the lines of a file whose name ends in .txt.

    Args:
        path: path of the file.
        text: the column of texts; when absent, the one with the longest.
        say: called with what was guessed and which rows are empty, a sentence each.
    """
    place = Path(path)
    if place.suffix == ".txt" and text is None:
        encoding, _ = guessed_encoding(place, sample(place))
        with opened(place) as lines:
            found = ReadTable({"text": [line.rstrip("\r\n") for line in DecodedLines(lines, encoding)]}, "text")
    else:
        file = opened_file(place, None, None, None, (text,), may_be_alone=True)
        survey = _Survey.of(file, None, label_reader(None))
        only = survey.columns[0].name if len(survey.columns) == 1 else None
        chosen = _text_column(place, survey, text or only, None)
        for sentence in (*file.said, *([] if text else [f"the texts are taken from the column {chosen!r}"])):
            say(sentence)
        records = [record or {} for record in file.records()]
        names = [column.name for column in survey.columns]
        found = ReadTable({name: [record.get(name) for record in records] for name in names}, chosen)
    empty = [row for row, own in enumerate(found.texts, start=1) if not own.strip()]
    if empty:
        why = "have no text, or not the fields of the header; taken as empty texts"
        say(f"{len(empty):,} of {len(found.texts):,} rows {why}: rows {some(empty)}")
    return found


@checked
def read_texts(
    path: str | Path, *, text: str | None = None, say: Callable[[str], object] = lambda _: None
) -> list[str]:
    """The texts of `read_table`: one a row, empty where a row has none."""
    return read_table(path, text=text, say=say).texts
