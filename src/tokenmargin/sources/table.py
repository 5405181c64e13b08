"""Any table with a column of texts and a column of labels: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path

from tokenmargin._checks import checked
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.sources._json import json_rows
from tokenmargin.sources._label_map import LabelMap, label_reader
from tokenmargin.sources._lines import Dialect, separated_rows
from tokenmargin.sources._rows import Columns, LabelOf, Row, chunked
from tokenmargin.sources.labelled import LabelledTexts, TextChunk
from tokenmargin.sources.parquet import parquet_rows, parquet_size


class Format(Enum):
    """File format of a table."""

    CSV = "comma-separated with a header"
    TSV = "tab-separated with a header"
    JSON_LINES = "one JSON object a line, or an array of objects, or an object of columns"
    PARQUET = "Parquet"


_BY_ENDING = {
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".json": Format.JSON_LINES,
    ".parquet": Format.PARQUET,
}

_PACKED = (".gz", ".xz", ".bz2")


@checked
def table(
    path: str | Path,
    text: str = "text",
    label: str = "label",
    *,
    split: str | None = None,
    id: str | None = None,
    label_map: LabelMap | None = None,
    format: Format | str | None = None,
) -> LabelledTexts:
    """The texts and labels of a table; `open_table` is for one whose columns and format are not known.

    Args:
        path: path of the file; one packed by gzip, xz or bzip2 is unpacked while reading (not Parquet).
        text: the column of texts.
        label: the column of labels, which are kept as the file has them.
        split: a column that says which part of the data a row belongs to.
        id: a column of ids, which should differ; those that do not are reported.
        label_map: labels of each class, as `open_table` takes it; rows of other labels are left out.
        format: a `Format` or its name ("csv"); taken from the name's ending when absent.
    """
    kind = None if format is None else named_format(format)
    return labelled_table(Path(path), Columns(text, label, split, id), label_reader(label_map), format=kind)


def labelled_table(
    path: Path,
    columns: Columns,
    label_of: LabelOf,
    *,
    name: str | None = None,
    format: Format | None = None,
) -> LabelledTexts:
    """A table whose labels are read by `label_of`."""
    if not path.is_file():
        raise DataAbsentError(f"{path} is not there (or is no file): give the path of a table.")
    rows = table_rows(path, columns, format)
    is_parquet = (format or format_of(path)) is Format.PARQUET

    def read(size: int) -> Iterator[TextChunk]:
        return chunked(rows(), label_of, size, with_splits=columns.split is not None)

    return LabelledTexts(name or path.name, str(path), read, parquet_size(path) if is_parquet else None)


def table_rows(path: Path, columns: Columns, format: Format | None = None) -> Callable[[], Iterator[Row]]:
    """Function that opens the table and yields its rows."""
    kind = format or format_of(path)
    if kind is Format.PARQUET:
        return partial(parquet_rows, path, columns)
    if kind is Format.JSON_LINES:
        return partial(json_rows, path, columns)
    return partial(separated_rows, path, columns, Dialect("," if kind is Format.CSV else "\t"))


def named_format(given: Format | str) -> Format:
    """A format from its name in any case; any other is refused, with what there is."""
    if isinstance(given, Format):
        return given
    name = str(given).strip().lstrip(".").upper().replace(" ", "_").replace("-", "_")
    aliases = {"JSON": "JSON_LINES", "JSONL": "JSON_LINES", "NDJSON": "JSON_LINES"}
    if aliases.get(name, name) not in Format.__members__:
        known = ", ".join(kind.name.lower() for kind in Format)
        raise InvalidInputError(f"format={given!r} is not known: give one of {known}, or leave it out.")
    return Format[aliases.get(name, name)]


def format_of(path: Path) -> Format:
    """The format that a file's name tells."""
    endings = [ending.lower() for ending in path.suffixes if ending.lower() not in _PACKED]
    if not endings or endings[-1] not in _BY_ENDING:
        known = ", ".join(_BY_ENDING)
        raise InvalidInputError(f"the name of {path} does not tell its format ({known}): pass format=Format.CSV, ...")
    return _BY_ENDING[endings[-1]]
