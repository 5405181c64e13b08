"""Tables as JSON: one object a line, an array of objects, or an object of columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._bytes import DecodedLines, opened
from tokenmargin.sources._rows import Columns, Oddity, Row, missing_columns


def json_rows(path: Path, columns: Columns, encoding: str | None = None) -> Iterator[Row]:
    """The rows of a JSON table; a row's place is its line, or its number (from 1) in an array or in columns."""
    is_first = True
    for place, cells, problems in json_records(path, encoding):
        if cells is None:
            yield Row(place, problems=(*problems, Oddity.BAD_ROW))
            continue
        if is_first:
            missing = [column for column in columns if column is not None and column not in cells]
            if missing:
                raise missing_columns(path, missing, list(map(str, cells)))
            is_first = False
        text, label, split, name = (None if column is None else cells.get(column) for column in columns)
        yield Row(place, text, label, split, name, problems)


Record = tuple[int, Mapping[str, Any] | None, tuple[Oddity, ...]]


def json_records(path: Path, encoding: str | None = None) -> Iterator[Record]:
    """Each row's place, its object (None where it is none) and what was bad about its bytes."""
    if is_document(path, encoding):
        yield from _of_document(path, encoding)
        return
    with opened(path) as file:
        lines = DecodedLines(file, encoding)
        for place, line in enumerate(lines, start=1):
            problems = lines.problems()
            if line.strip():
                cells = _parsed(line)
                yield place, cells if isinstance(cells, dict) else None, problems


def is_document(path: Path, encoding: str | None = None) -> bool:
    """True if a file is one JSON value over several lines, or one object of columns, and not one object a line."""
    with opened(path) as file:
        lines = (line for line in DecodedLines(file, encoding) if line.strip())
        first, second = next(lines, ""), next(lines, None)
    if first.lstrip().startswith("["):
        return True
    value = _parsed(first)
    if isinstance(value, dict):
        return second is None and _columns_of(value) is not None
    return second is not None and not isinstance(_parsed(second), dict) and first.strip() == "{"


def _parsed(text: str) -> Any:
    """The value, or None where it is no JSON; what is nested too deeply is none either."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_document(path: Path, encoding: str | None) -> Iterator[Record]:
    with opened(path) as file:
        lines = DecodedLines(file, encoding)
        text = "".join(lines)
        problems = lines.problems()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInputError(f"{path} is not whole JSON ({problem}): it is cut short or damaged.") from None
    rows = value if isinstance(value, list) else _columns_of(value)
    if rows is None:
        raise InvalidInputError(f"{path} is JSON, but neither an array of objects nor an object of columns.")
    for place, row in enumerate(rows, start=1):
        yield place, row if isinstance(row, dict) else None, problems if place == 1 else ()


def _columns_of(value: Any) -> list[Any] | None:
    """The rows of an object of columns (lists, or objects by row as pandas writes them), or of one with one array."""
    if not isinstance(value, dict) or not value:
        return None
    arrays = [part for part in value.values() if isinstance(part, list) and part and isinstance(part[0], dict)]
    if len(arrays) == 1:
        return arrays[0]
    if all(isinstance(part, dict) for part in value.values()):
        names = next(iter(value.values())).keys()
        if any(part.keys() != names for part in value.values()):
            return None
        value = {name: list(part.values()) for name, part in value.items()}
    if not all(isinstance(part, list) for part in value.values()) or len(set(map(len, value.values()))) != 1:
        return None
    return [dict(zip(value, cells, strict=True)) for cells in zip(*value.values(), strict=True)]
