"""Formats made of lines (CSV, TSV, JSON lines), by the standard library alone, with the line number of every row."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._rows import Columns, Oddity, Row

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class _Decoded:
    """The lines of a file as text, remembering whether any since the last question was not UTF-8."""

    def __init__(self, file: Iterable[bytes], path: Path) -> None:
        self.file, self.path, self.is_bad = file, path, False

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self.file):
            if number == 0 and line[:2] in _UTF16_MARKS:
                raise InvalidInputError(f"{self.path} is UTF-16: save it as UTF-8 and read that.")
            raw = line.removeprefix(_BYTE_ORDER_MARK) if number == 0 else line
            try:
                yield raw.decode("utf-8")
            except UnicodeDecodeError:
                self.is_bad = True
                yield raw.decode("utf-8", errors="replace")

    def problems(self) -> tuple[Oddity, ...]:
        """INVALID_UTF8 if a line since the last call was bad."""
        found = (Oddity.INVALID_UTF8,) if self.is_bad else ()
        self.is_bad = False
        return found


def separated_rows(path: Path, columns: Columns, separator: str) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header; a row's place is the line on which it begins."""
    with _open(path) as file:
        lines = _Decoded(file, path)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        start = 1
        try:
            header = next(reader, None)
            if header is None:
                raise InvalidInputError(f"{path} is empty: a header line with the columns' names is needed.")
            at = _column_numbers(path, columns, header)
            lines.problems()
            start = reader.line_num + 1
            for cells in reader:
                place, start, problems = start, reader.line_num + 1, lines.problems()
                if not cells:
                    continue
                if len(cells) != len(header):
                    yield Row(place, problems=(*problems, Oddity.BAD_ROW))
                    continue
                text, label, split, name = (None if j is None else cells[j] for j in at)
                yield Row(place, text, label, split, name, problems)
        except csv.Error as problem:
            raise InvalidInputError(
                f"{path} cannot be read as {'tab' if separator == chr(9) else 'comma'}-separated from line {start} on "
                f"({problem}): look for a quotation mark there that is not closed or not doubled; for texts of "
                "more than 131,072 characters raise csv.field_size_limit, or use JSON lines."
            ) from None


def json_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """The rows of a file with one JSON object a line; a row's place is its line."""
    with _open(path) as file:
        lines = _Decoded(file, path)
        is_first = True
        for place, line in enumerate(lines, start=1):
            problems = lines.problems()
            if not line.strip():
                continue
            try:
                cells = json.loads(line)
            except ValueError:
                cells = None
            if not isinstance(cells, dict):
                yield Row(place, problems=(*problems, Oddity.BAD_ROW))
                continue
            if is_first:
                _column_numbers(path, columns, list(cells))
                is_first = False
            text, label, split, name = (None if column is None else cells.get(column) for column in columns)
            yield Row(place, text, label, split, name, problems)


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedIOBase]:
    """The file's bytes, unpacked where its name ends in .gz; a packed file that is cut short is an error in words."""
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise InvalidInputError(f"{path} is truncated or damaged ({problem}): copy or download it again.") from None


def _column_numbers(path: Path, columns: Columns, header: list[Any]) -> list[int | None]:
    """Where each column stands; those that are asked for and absent are an error that lists what there is."""
    missing = [column for column in columns if column is not None and column not in header]
    if missing:
        raise missing_columns(path, missing, [str(name) for name in header])
    return [None if column is None else header.index(column) for column in columns]


def missing_columns(path: Path, missing: list[str], found: list[str]) -> InvalidInputError:
    """The error for a table that lacks a column."""
    return InvalidInputError(
        f"{path} has no column {', '.join(map(repr, missing))}: it has {', '.join(map(repr, found))}. "
        "Name the columns that hold the text and the label."
    )
