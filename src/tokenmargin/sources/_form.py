"""A file of a table whose form nobody has told: its format, encoding, delimiter, quotation marks and header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._bytes import PARQUET_MAGIC, DecodedLines, guessed_encoding, known_encoding, opened, sample
from tokenmargin.sources._json import is_document, json_records, json_rows
from tokenmargin.sources._lines import (
    ALONE,
    DELIMITERS,
    Dialect,
    first_records,
    guessed_delimiter,
    is_unquoted,
    separated_records,
    separated_rows,
)
from tokenmargin.sources._rows import Columns, Row
from tokenmargin.sources.parquet import parquet_records, parquet_rows
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
#: Lines, and characters, that delimiter and header are guessed from.
_LINES, _CHARACTERS = 1000, 2**24


@dataclass(frozen=True)
class OpenedFile:
    """A file whose format is known: what gives its rows, and all its records as objects."""

    path: Path
    rows: Callable[[Columns], Iterator[Row]]
    records: Callable[[], Iterator[Mapping[str, Any] | None]]
    said: tuple[str, ...]


def opened_file(
    path: Path,
    encoding: str | None,
    delimiter: str | None,
    format: Format | str | None,
    named: tuple[str | None, ...],
    *,
    may_be_alone: bool = False,
) -> OpenedFile:
    """Format, encoding and dialect, found out or as told; a table of one column only where it may be alone."""
    given = None if delimiter is None else delimiter.replace("\\t", "\t")
    if given is not None and (len(given) != 1 or given in '"\r\n'):
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
    if kind is None and path.suffix.lower() == ".parquet":
        raise InvalidInputError(
            f"{path} is called .parquet but is not Parquet: it does not begin with the bytes PAR1. Give a Parquet "
            "file, or rename it after what it holds (.csv, .tsv, .jsonl)."
        )
    told = None if encoding is None else known_encoding(encoding)
    name, how = (told, f"its encoding is {told}, as told") if told else guessed_encoding(path, start)
    is_json = _first_lines(path, name)[0].lstrip()[:1] in ("{", "[") if kind is None else kind is Format.JSON_LINES
    if is_json and given is None:
        form = "JSON" if is_document(path, name) else "JSON lines"
        return OpenedFile(
            path,
            lambda columns: json_rows(path, columns, name),
            lambda: (cells for _, cells, _ in json_records(path, name)),
            (f"{path.name} is {form}; {how}",),
        )
    return _separated_file(path, name, how, given, kind, named, may_be_alone)


def _separated_file(
    path: Path,
    encoding: str,
    how: str,
    delimiter: str | None,
    kind: Format | None,
    named: tuple[str | None, ...],
    may_be_alone: bool,
) -> OpenedFile:
    lines = _first_lines(path, encoding)
    ending = "\t" if any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes) else ","
    by_format = {Format.CSV: ",", Format.TSV: "\t"}.get(kind) if kind else None
    found = delimiter or by_format or guessed_delimiter(lines, ending)
    if may_be_alone and (found is None or len(next(iter(first_records(lines[:1], Dialect(found))), [""])) == 1):
        found = ALONE  # what separates other lines stands in texts
    if found is None:
        raise InvalidInputError(
            f"{path} has no columns: nothing that separates fields ({', '.join(DELIMITERS.values())}) parts its lines. "
            "Give a table with a column of texts and one of labels, or its delimiter (--delimiter)."
        )
    dialect = Dialect(found, encoding=encoding)
    dialect = replace(dialect, quoted=not is_unquoted(path, dialect))
    dialect = replace(dialect, header=_has_header(lines, dialect, named))
    fields = "one column" if found == ALONE else f"fields separated by {DELIMITERS.get(found, repr(found))}"
    said = [f"{path.name} has {fields}; {how}"]
    if not dialect.quoted:
        said.append("quotation marks are taken as part of the texts: as wrappers of fields they do not fit")
    if not dialect.header:
        said.append("it has no header: columns are numbered from 1")

    def records() -> Iterator[Mapping[str, Any] | None]:
        rows = separated_records(path, dialect)
        header = next(rows)[1]
        return (dict(zip(header, row, strict=True)) if len(row) == len(header) else None for _, row, _ in rows)

    return OpenedFile(path, lambda columns: separated_rows(path, columns, dialect), records, tuple(said))


def _first_lines(path: Path, encoding: str) -> list[str]:
    """Enough lines to guess from; at least one."""
    lines: list[str] = []
    size = 0
    with opened(path) as file:
        for line in DecodedLines(file, encoding):
            lines += [line] if line.strip() else []
            size += len(line)
            if len(lines) >= _LINES or size >= _CHARACTERS:
                break
    return lines or [""]


def _has_header(lines: Sequence[str], dialect: Dialect, named: tuple[str | None, ...]) -> bool:
    """True if the first row names the columns."""
    records = first_records(lines, dialect)
    if not records:
        return True
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
    if any(all(_is_number(row[j]) for row in below) for j in range(len(first))):
        return True  # a word above nothing but numbers
    means = [sum(len(row[j]) for row in below) / len(below) for j in range(len(first))]
    longest = max(range(len(first)), key=means.__getitem__)
    return len(first[longest]) <= HEADER_SHARE * means[longest]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
