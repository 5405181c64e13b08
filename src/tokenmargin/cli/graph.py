"""`tokenmargin graph`: which words of a corpus compete to come next, and which are ruled out; one page."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._page_command import Page, Say, add_output, write_page
from tokenmargin.cli._parse import Arguments, RawText, refuse
from tokenmargin.cli.fit import check_at_least

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.cli._parse import Commands
    from tokenmargin.theory.word_graphs import WordGraphs

#: Words that a row of the printed table names.
LISTED = 5

EPILOG = """\
examples:
  tokenmargin graph                          6,000 sentences of film reviews that come with tokenmargin
  tokenmargin graph reviews.csv              the texts of a table; labels are not needed
  tokenmargin graph imdb.parquet --texts 5000 --vocabulary 300
  tokenmargin graph reviews.csv --after of,the,very

writes a folder (--out) with
  graph.html      one page that needs no network: the words that compete after a word, and those that are ruled out
  graph.json      the same numbers
  manifest.json   how it was made
"""


def add_to(commands: Commands) -> None:
    """Add `graph` to the commands."""
    parser = commands.add_parser(
        "graph",
        help="which words compete to come next, and which are ruled out; one page",
        description="Train one layer of attention to predict the next word, in the limit: words that each came next "
        "before the other keep finite log-odds for ever; all others are told apart ever more clearly.",
        epilog=EPILOG,
        formatter_class=RawText,
    )
    add = parser.add_argument
    add("file", nargs="?", type=Path, metavar="FILE", help="a table with texts (default: film reviews)")
    add("--text", metavar="COLUMN", help="the column with the texts (default: guessed)")
    add("--texts", type=int, metavar="N", help="only the first texts (default: all)")
    add("--vocabulary", type=int, default=200, metavar="N", help="most frequent words looked at (default: 200)")
    add("--window", type=int, default=8, metavar="N", help="words that attention sees (default: 8)")
    add("--lasts", type=int, default=12, metavar="N", help="last words on the page, the most frequent (default: 12)")
    add("--after", metavar="WORDS", help="these last words instead, separated by commas")
    add("--trained", type=int, default=1, metavar="N", help="last words whose training is followed too (default: 1)")
    add_output(parser, "graph.json")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    check_at_least(known, texts=1, vocabulary=2, window=2, lasts=1, trained=0, seed=0)
    return write_page(known, "graph", partial(_found, known))


def _found(known: Arguments, progress: Progress, say: Say) -> Page:
    from tokenmargin._provenance import manifest, sha256
    from tokenmargin.report.graph_page import graph_page
    from tokenmargin.text.word_contexts import word_contexts
    from tokenmargin.theory.word_graphs import word_graphs

    title, texts = _texts(known, progress, say)
    contexts = word_contexts(texts[: known.texts], vocabulary=known.vocabulary, window=known.window, progress=progress)
    found = word_graphs(
        contexts.rows,
        contexts.bigrams,
        contexts.n_words,
        lasts=known.lasts,
        after=None if known.after is None else [word.strip() for word in known.after.split(",")],
        trained=known.trained,
        seed=known.seed,
        progress=progress,
    )
    made = manifest(
        shlex.join(["tokenmargin", *known.words]),
        {} if known.file is None else {known.file.name: sha256(known.file)},
        {name: getattr(known, name) for name in ("texts", "vocabulary", "window", "lasts", "after", "trained", "seed")},
        ("numpy", "scipy", "jax", "daqp"),
    )
    return Page(graph_page(found, title, made), found.to_json(), made, partial(_show, found))


def _texts(known: Arguments, progress: Progress, say: Say) -> tuple[str, list[str]]:
    """(title, texts) of the file, or of the corpus that comes with tokenmargin."""
    if known.file is None:
        from tokenmargin.sources.embedded import sentence_polarity

        return "Film reviews", list(sentence_polarity().load(progress).texts)
    from tokenmargin.sources.guess import read_texts

    return known.file.name, read_texts(known.file, text=known.text, say=say)


def _show(found: WordGraphs) -> None:
    """Print the findings, and for each last word the first that compete and that are ruled out."""
    from tokenmargin.theory.word_competition import Standing

    for sentence in found.sentences:
        _console.paragraph(sentence)
    rows = [
        (
            one.last,
            f"{one.n_sequences:,}",
            ", ".join(f"{word.word} {round(word.log_odds, 2) + 0.0:+.2f}" for word in one.main.words[:LISTED]),
            ", ".join(word.word for word, _ in one.standing(Standing.RULED_OUT)[:LISTED]),
        )
        for one in found.competitions
    ]
    _console.table(("after", "windows", "compete, with log-odds", "ruled out"), rows)
