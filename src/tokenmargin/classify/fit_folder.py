"""A fit on disk: the table of tokens as CSV and Parquet, the model, the metrics and the manifest."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._atomic import HALVES, complete_file, complete_folder, write_text
from tokenmargin._checks import checked
from tokenmargin._fingerprint import fingerprint
from tokenmargin._plain_json import write_json
from tokenmargin.classify.fit_settings import Origin
from tokenmargin.classify.fitting import COMPUTED_BY
from tokenmargin.classify.judging import FittedTexts
from tokenmargin.classify.saved_model import save
from tokenmargin.sources import write_parquet
from tokenmargin.training.checkpoint import Checkpoint, computed_by

#: Digits of a number in tokens.csv; tokens.parquet has all of them.
DIGITS = 6


#: Tables hold the most deciding tokens, as many as so many bytes hold; the model knows all. A number in Parquet has so
#: many before it is compressed.
TABLE_BYTES, CELL_BYTES = 5_000_000, 8

#: First characters of a cell that a spreadsheet takes for a formula; and ', so that an added ' can be removed again.
FORMULAS = tuple("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")
#: A number as we and others write it.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

#: All that a folder of a fit holds; the page is the caller's.
FILES = ("manifest.json", "metrics.json", "model", "model.js", "report.html", "tokens.csv", "tokens.parquet")


@checked
def write_fit(fitted: FittedTexts, folder: Path, pages: Mapping[str, str] | None = None) -> None:
    """Write a fit into a folder of its own; another fit that is there is replaced in one step.

    Args:
        fitted: result of `fit_texts` or `fit_parts`.
        folder: new, or one that holds a fit and nothing else.
        pages: report.html and what lies beside it, by name; without it there is none.
    """
    table = fitted.tokens
    width = len(table.only([]).columns())
    columns = table.only(range(min(len(table), max(1, TABLE_BYTES // (CELL_BYTES * width))))).columns()
    with complete_folder(folder, only=FILES) as staged:
        kept = _write_csv(staged / "tokens.csv", columns)
        write_parquet(staged / "tokens.parquet", [{name: values[:kept].tolist() for name, values in columns.items()}])
        save(fitted.model, staged / "model")
        write_json(staged / "metrics.json", fitted.metrics)
        write_json(staged / "manifest.json", fitted.report.manifest)
        for name, content in (pages or {}).items():
            write_text(staged / name, content)


def _write_csv(path: Path, columns: dict[str, np.ndarray]) -> int:
    """Write as many rows as a table may have bytes, one at least, and return their number."""
    cells = ([_cell(value) for value in values.tolist()] for values in columns.values())
    lines = map(_line, [tuple(columns), *zip(*cells, strict=True)])
    size, kept = 0, list[str]()
    for line in lines:
        size += len(line.encode(errors=HALVES))
        if size > TABLE_BYTES and len(kept) > 1:
            break
        kept.append(line)
    with complete_file(path) as staging, staging.open("w", encoding="utf-8", errors=HALVES, newline="") as file:
        file.writelines(kept)
    return len(kept) - 1


def write_rows(stream: Any, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as CSV in which no spreadsheet finds a formula.

    A text that begins with = + - @ or with a tab or line end, which spreadsheets take for a formula, gets one ' before
    it, and so does one that begins with ': whoever takes one ' away from where a cell begins has the text as it was.
    Numbers are left alone. Our own readers take nothing away: a file of ours that is read as a table has the '.
    """
    stream.writelines(map(_line, rows))


def _line(row: Iterable[Any]) -> str:
    # With this end csv quotes a cell that holds either half of it; with "\n" alone a "\r" would break the row.
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow([_harmless(value) for value in row])
    return line.getvalue().removesuffix("\r\n") + "\n"


def _harmless(value: Any) -> Any:
    is_formula = isinstance(value, str) and value.startswith(FORMULAS) and not NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def _cell(value: Any) -> Any:
    """A number with the digits that mean something; nothing where it is not finite."""
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}" if math.isfinite(value) else ""
    return value


def fit_checkpoint(folder: Path, origin: Origin) -> Checkpoint:
    """Checkpoint of an unfinished fit, in a folder for this command, these files and this code alone."""
    own = fingerprint(origin.command, origin.files, computed_by(*COMPUTED_BY, device=False))
    return Checkpoint(folder / own)
