"""Tables of separated fields (CSV, TSV and their kin), by the standard library, with the line number of every row."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._bytes import DecodedLines, opened
from tokenmargin.sources._rows import Columns, Oddity, Row, missing_columns

#: Characters that may separate fields.
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
#: Stands in place of a delimiter if there is one column, and each line, or what is in quotation marks, is a field.
ALONE = "\x1f"
#: A field may be this long; csv's own limit is 131,072 characters.
_LONGEST_FIELD = 2**31 - 1
_BATCH = 256
#: Records looked at to tell the delimiter.
_RECORDS = 200


@dataclass(frozen=True)
class Dialect:
    """Format of a table of separated fields.

    Args:
        delimiter: text between two fields.
        quoted: True if fields may be wrapped in quotation marks.
        header: True if the first row names the columns; else their names are "1", "2", ...
        encoding: encoding of the file; if absent, that of its byte-order mark, or UTF-8.
    """

    delimiter: str
    quoted: bool = True
    header: bool = True
    encoding: str | None = None

    def reader(self, lines: Iterable[str], *, strict: bool = True) -> Any:
        """The records of these lines."""
        if self.quoted:
            return csv.reader(lines, delimiter=self.delimiter, strict=strict)
        return csv.reader(lines, delimiter=self.delimiter, strict=strict, quoting=csv.QUOTE_NONE)


def separated_rows(path: Path, columns: Columns, dialect: Dialect) -> Iterator[Row]:
    """The rows of a table; a row's place is the line on which it begins."""
    records = separated_records(path, dialect)
    header = next(records)[1]
    missing = [column for column in columns if column is not None and column not in header]
    if missing:
        raise missing_columns(path, missing, header)
    at = [None if column is None else header.index(column) for column in columns]
    for place, cells, problems in records:
        if len(cells) != len(header):
            yield Row(place, problems=(*problems, Oddity.BAD_ROW))
            continue
        text, label, split, name = (None if j is None else cells[j] for j in at)
        yield Row(place, text, label, split, name, problems)


def separated_records(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str], tuple[Oddity, ...]]]:
    """The header (or the numbers of the columns, at line 0), then each row: its line, its cells, what was bad."""
    with opened(path) as file:
        lines = DecodedLines(file, dialect.encoding)
        reader = dialect.reader(lines)
        start, is_first = 1, True
        while True:
            batch: list[tuple[int, list[str], tuple[Oddity, ...]]] = []
            with _any_field_size():
                try:
                    for cells in itertools.islice(reader, _BATCH):
                        batch.append((start, cells, lines.problems()))
                        start = reader.line_num + 1
                except csv.Error as problem:
                    between = DELIMITERS.get(dialect.delimiter, "lines")
                    raise InvalidInputError(
                        f"{path} cannot be read as fields separated by {between} from line "
                        f"{start} on ({problem}): look for a quotation mark there that is not closed or not doubled."
                    ) from None
            if is_first:
                if not batch:
                    raise InvalidInputError(f"{path} is empty: a header line with the columns' names is needed.")
                if not dialect.header:
                    yield 0, [str(j) for j in range(1, len(batch[0][1]) + 1)], ()
                is_first = False
            elif not batch:
                return
            yield from (row for row in batch if row[1])


@contextmanager
def _any_field_size() -> Iterator[None]:
    """csv's limit is the process's own: lifted while we read, and put back."""
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def guessed_delimiter(lines: Sequence[str], likely: str) -> str | None:
    """The delimiter by which most of the first rows have the same number of fields; None where none parts them.

    `likely` is what the file's name tells; it wins where it does as well.
    """
    scores = {}
    for delimiter in DELIMITERS:
        evenness = max(_evenness(lines, Dialect(delimiter, quoted)) for quoted in (True, False))
        scores[delimiter] = (round(evenness, 2), delimiter == likely)
    best = max(scores, key=scores.__getitem__)
    return best if scores[best][0] > 0 else None


def _evenness(lines: Sequence[str], dialect: Dialect) -> float:
    """The share of rows that have the commonest number of fields; 0 where that is one field."""
    records = first_records(lines, dialect)
    counts = Counter(map(len, records))
    fields, rows = counts.most_common(1)[0] if counts else (1, 0)
    return rows / len(records) if fields > 1 else 0.0


def first_records(lines: Sequence[str], dialect: Dialect) -> list[list[str]]:
    """Some records of the first lines of a file, as far as they can be read."""
    records: list[list[str]] = []
    with _any_field_size(), suppress(csv.Error):
        records.extend(cells for cells in itertools.islice(dialect.reader(lines, strict=False), _RECORDS) if cells)
    return records


def is_unquoted(path: Path, dialect: Dialect) -> bool:
    """True if quotation marks in a table belong to its texts: read as wrapping fields they would swallow line ends.

    That is so if nearly every line has the same number of delimiters, and reading with quotation marks fails or gives
    fewer rows than there are lines.
    """
    counts: Counter[int] = Counter()
    has_marks = False
    with opened(path) as file:
        for line in DecodedLines(file, dialect.encoding):
            if line.strip("\r\n"):
                counts[line.count(dialect.delimiter)] += 1
                has_marks = has_marks or '"' in line
    fields, lines = counts.most_common(1)[0]
    is_alone = dialect.delimiter == ALONE
    if not has_marks or (not fields and not is_alone) or lines < _NEARLY_ALL * counts.total():
        return False
    try:
        rows = sum(1 for place, _, _ in separated_records(path, dialect) if place)
    except InvalidInputError:
        return True
    return rows < counts.total() and not is_alone  # a text alone may have several lines


#: Least share of the lines of a table without quotation marks that have the same number of fields.
_NEARLY_ALL = 0.95
