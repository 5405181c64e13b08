"""`tokenmargin explain` and `tokenmargin predict`: what a fitted model says of new texts, and which words decided."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tokenmargin._atomic import HALVES, complete_file, write_text
from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS, Misuse
from tokenmargin.cli._parse import Arguments, refuse

if TYPE_CHECKING:
    from tokenmargin.classify.text_model import Explanation
    from tokenmargin.cli._parse import Commands

#: Words and phrases of a text that are listed below it.
LISTED = 6

#: Said once, below all texts.
MEANING = (
    "(log-odds that each word or phrase adds, its share of them all, and the probability when it is left out: that is "
    "another number because attention moves to the words that remain)"
)

#: A word that ends so is the name of a file, and not a text.
ENDINGS = frozenset((".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".gz", ".xz", ".bz2"))


def add_to(commands: Commands) -> None:
    """Add `explain` and `predict` to the commands."""
    explain = commands.add_parser(
        "explain",
        help="the words that decided, in a text or in every text of a file",
        description="Show which words of a text decided, with sign and share.",
    )
    explain.add_argument("model", type=Path, metavar="MODEL", help="the folder that tokenmargin fit wrote")
    explain.add_argument("text", metavar="TEXT|FILE", help="a text, or a table or a file with a text a line")
    explain.add_argument("--against", metavar="CLASS", help="why not this class (default: the second most likely)")
    explain.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each word or phrase that decided")
    explain.add_argument("--html", type=Path, metavar="FILE", help="write a page with the words highlighted")
    explain.set_defaults(run=_explain)
    predict = commands.add_parser(
        "predict",
        help="the class of every text of a file",
        description="Print the table with three more columns, as CSV: the predicted class of each text (label), its "
        "probability, and how many of its words and phrases the model knows (known_words; not runs of characters).",
    )
    predict.add_argument("model", type=Path, metavar="MODEL", help="the folder that tokenmargin fit wrote")
    predict.add_argument("file", type=Path, metavar="FILE", help="a table, or a file with a text a line")
    predict.add_argument("--out", type=Path, metavar="FILE", help="write there instead of printing")
    for parser in (explain, predict):
        parser.add_argument(
            "--text", metavar="COL", dest="column", help="the column of texts in a table (default: guessed)"
        )
    predict.set_defaults(run=_predict)


def _explain(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.classify import load

    model = load(known.model)
    told = model.explain_all(_texts(known.text, known.column), known.against)
    if known.csv is None and known.html is None:
        has_units = False
        for each in told:
            _show(each)
            has_units |= each.is_known
        if has_units:
            _console.paragraph(MEANING)
        return HOLDS
    if known.html is not None:
        kept = list(told)
        _write_html(kept, known.html)
        told = iter(kept)
    if known.csv is not None:
        with complete_file(known.csv) as file, file.open("w", encoding="utf-8", errors=HALVES, newline="") as stream:
            _write_words(told, stream)
    return HOLDS


def _predict(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.classify import load
    from tokenmargin.classify.fit_folder import write_rows

    model = load(known.model)
    if not known.file.is_file():
        raise Misuse(f"{known.file} is not there; tokenmargin explain takes a text itself")
    from tokenmargin.sources.guess import read_table

    table = read_table(known.file, text=known.column, say=_console.complaint)
    probabilities, known_words = model.predict_all(table.texts)
    best = probabilities.argmax(axis=1)
    added = {
        "label": [model.classes[k] for k in best.tolist()],
        "probability": [f"{p:.6f}" for p in probabilities.max(axis=1).tolist()],
        "known_words": known_words.tolist(),
    }
    taken = [name for name in added if name in table.columns]
    if taken:
        _console.complaint(f"the table has {', '.join(taken)} already: ours are called predicted_{taken[0]}, ...")
        added = {f"predicted_{name}" if name in taken else name: own for name, own in added.items()}
    columns = {name: [_cell(value) for value in values] for name, values in table.columns.items()} | added
    header, rows = tuple(columns), zip(*columns.values(), strict=True)
    if known.out is None:
        told = io.StringIO()
        write_rows(told, [header, *rows])
        _console.data(told.getvalue())
        return HOLDS
    with complete_file(known.out) as file, file.open("w", encoding="utf-8", errors=HALVES, newline="") as stream:
        write_rows(stream, [header, *rows])
    return HOLDS


def _cell(value: object) -> object:
    """A value of a table as CSV can hold it: lists and the like as JSON."""
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value, default=str)


def _texts(given: str, column: str | None) -> Iterable[str]:
    """The text itself, or the texts of the file that it names."""
    path = Path(given)
    try:
        is_file = path.is_file()
    except OSError:  # too long to be a file's name
        is_file = False
    if not is_file:
        if column is not None or (path.suffix.lower() in ENDINGS and len(given.split()) == 1):
            raise Misuse(f"{given} is not there: give the path of a table, or a text")
        return [given]
    from tokenmargin.sources.guess import read_texts

    # Predictions may go to the standard output, so what is said of the file goes beside it.
    return read_texts(path, text=column, say=_console.complaint)


def _show(told: Explanation) -> None:
    """Print a text with its deciding words coloured; then words and phrases: part of the sum, and what is without."""
    largest = max((abs(unit.contribution) for unit in told.units), default=0.0) or 1.0
    _console.highlighted(
        (words, 0.0 if unit is None else unit.contribution / largest) for words, unit in told.stretches
    )
    total = sum(abs(unit.contribution) for unit in told.units) or 1.0
    without = {own.name: own.probability for own in told.without()}
    words = ", ".join(
        f"{unit.name} {unit.contribution:+.2f} ({abs(unit.contribution) / total:.0%}, without it "
        f"{told.probability:.0%} → {without[unit.name]:.0%})"
        for unit in told.units[:LISTED]
    )
    if not told.is_known:
        words = "no word that the model knows: this is how frequent the class is"
    _console.paragraph(f"  {told.predicted} ({told.probability:.0%}), not {told.against}: {words}")


def _write_words(told: Iterator[Explanation] | Iterable[Explanation], stream: TextIO) -> None:
    from tokenmargin.classify.fit_folder import write_rows

    header = ("text", "predicted", "probability", "against", "unit", "contribution", "attention", "without")
    write_rows(stream, [header])
    for place, each in enumerate(told, start=1):
        start = (place, each.predicted, f"{each.probability:.6f}", each.against)
        without = {own.name: own.probability for own in each.without()}
        numbers = (
            (unit.name, f"{unit.contribution:.6g}", f"{unit.attention:.6g}", f"{without[unit.name]:.6f}")
            for unit in each.units
        )
        write_rows(stream, ((*start, *row) for row in numbers))


def _write_html(told: list[Explanation], path: Path) -> None:
    from tokenmargin.report.marked_text import explained_page

    write_text(path, explained_page(told))
