"""A file of a table whose form nobody has told: its format, encoding, delimiter, quotation marks and header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._bytes import PARQUET_MAGIC, guessed_encoding, known_encoding, sample
from tokenmargin.sources._json import is_document, json_records, json_rows
from tokenmargin.sources._lines import (
    DELIMITERS,
    Dialect,
    guessed_delimiter,
    is_unquoted,
    separated_records,
    separated_rows,
)
from tokenmargin.sources._parquet import parquet_records, parquet_rows
from tokenmargin.sources._rows import Columns, Row
from tokenmargin.sources.table import Format, named_format

#: Names that columns of labels have, the most telling first, and those of texts.
LABEL_NAMES = (
    "label",
    "labels",
    "sentiment",
    "class",
    "category",
    "target",
    "polarity",
    "intent",
    "y",
    "stars",
    "rating",
)
TEXT_NAMES = ("text", "review", "sentence", "document", "comment", "content", "body", "message", "tweet", "utterance")
#: A first row is a header where its longest field is at most this share of those below.
HEADER_SHARE = 0.5


@dataclass(frozen=True)
class OpenedFile:
    """A file whose format is known: what gives its rows, and all its records as objects."""

    path: Path
    rows: Callable[[Columns], Iterator[Row]]
    records: Callable[[], Iterator[Mapping[str, Any] | None]]
    said: tuple[str, ...]


def opened_file(
    path: Path, encoding: str | None, delimiter: str | None, format: Format | str | None, named: tuple[str | None, ...]
) -> OpenedFile:
    """Format, encoding and dialect, found out or as told."""
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter.replace("\\t", "\t")) != 1):
        raise InvalidInputError(f"delimiter={delimiter!r}: give one character, such as ';' (or \\t for a tab).")
    start = sample(path)
    kind = None if format is None else named_format(format)
    if kind is Format.PARQUET or (kind is None and start.startswith(PARQUET_MAGIC)):
        return OpenedFile(
            path,
            partial(parquet_rows, path),
            lambda: (cells for _, cells, _ in parquet_records(path)),
            (f"{path.name} is Parquet",),
        )
    told = None if encoding is None else known_encoding(encoding)
    name, how = (told, f"its encoding is {told}, as told") if told else guessed_encoding(path, start)
    is_json = _decoded_lines(start, name)[0].lstrip()[:1] in ("{", "[") if kind is None else kind is Format.JSON_LINES
    if is_json and delimiter is None:
        form = "JSON" if is_document(path, name) else "JSON lines"
        return OpenedFile(
            path,
            lambda columns: json_rows(path, columns, name),
            lambda: (cells for _, cells, _ in json_records(path, name)),
            (f"{path.name} is {form}; {how}",),
        )
    return _separated_file(path, start, name, how, delimiter, kind, named)


def _separated_file(
    path: Path,
    start: bytes,
    encoding: str,
    how: str,
    delimiter: str | None,
    kind: Format | None,
    named: tuple[str | None, ...],
) -> OpenedFile:
    lines = _decoded_lines(start, encoding)
    ending = "\t" if any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes) else ","
    by_format = {Format.CSV: ",", Format.TSV: "\t"}.get(kind) if kind else None
    found = delimiter.replace("\\t", "\t") if delimiter else by_format or guessed_delimiter(lines, ending)
    if found is None:
        raise InvalidInputError(
            f"{path} has no columns: nothing that separates fields ({', '.join(DELIMITERS.values())}) parts its lines. "
            "Give a table with a column of texts and one of labels, or its delimiter (--delimiter)."
        )
    dialect = Dialect(found, encoding=encoding)
    dialect = replace(dialect, quoted=not is_unquoted(path, dialect))
    dialect = replace(dialect, header=_has_header(lines, dialect, named))
    said = [f"{path.name} has fields separated by {DELIMITERS.get(found, repr(found))}; {how}"]
    if not dialect.quoted:
        said.append("quotation marks are taken as part of the texts: as wrappers of fields they do not fit")
    if not dialect.header:
        said.append("it has no header: columns are numbered from 1")

    def records() -> Iterator[Mapping[str, Any] | None]:
        rows = separated_records(path, dialect)
        header = next(rows)[1]
        return (dict(zip(header, row, strict=True)) if len(row) == len(header) else None for _, row, _ in rows)

    return OpenedFile(path, lambda columns: separated_rows(path, columns, dialect), records, tuple(said))


def _decoded_lines(start: bytes, encoding: str) -> list[str]:
    """The first lines of a file, the last of which may be cut off; at least one."""
    text = start.decode(encoding, errors="replace").removeprefix("\ufeff")
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    return lines[:-1] if len(lines) > 1 and not text.endswith(("\n", "\r")) else lines or [""]


def _has_header(lines: Sequence[str], dialect: Dialect, named: tuple[str | None, ...]) -> bool:
    """Whether the first row names the columns."""
    records = [cells for cells in dialect.reader(lines, strict=False) if cells]
    first, below = (
        [cell.strip() for cell in records[0]],
        [cells for cells in records[1:] if len(cells) == len(records[0])],
    )
    asked = [name for name in named if name is not None]
    if any(name in first for name in asked):
        return True
    if any(name.isdecimal() for name in asked):
        return False
    if {cell.lower() for cell in first} & {*LABEL_NAMES, *TEXT_NAMES}:
        return True
    if not below or any(_is_number(cell) for cell in first) or len(set(first)) < len(first):
        return False
    if any(cell and cell in {row[j].strip() for row in below} for j, cell in enumerate(first)):
        return False
    means = [sum(len(row[j]) for row in below) / len(below) for j in range(len(first))]
    longest = max(range(len(first)), key=means.__getitem__)
    return len(first[longest]) <= HEADER_SHARE * means[longest]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
