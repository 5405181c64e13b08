"""`tokenmargin compare`: ours and other methods on the same labelled texts, judged; one page and its numbers out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmargin._atomic import complete_folder, write_text
from tokenmargin._progress import silent
from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS
from tokenmargin.cli._folder import folder_for, stem_of
from tokenmargin.cli._parse import Arguments, RawText, refuse
from tokenmargin.cli.fit import add_reading, check_at_least, check_extras, prepared

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.cli._parse import Commands
    from tokenmargin.comparison.comparison import Comparison

EPILOG = """\
examples:
  tokenmargin compare                                 6,000 sentences of film reviews that come with tokenmargin
  tokenmargin compare reviews.csv                     every method; SHAP and LIME need the extra 'compare'
  tokenmargin compare reviews.csv --explained 300 --budget 300
  tokenmargin compare reviews.csv --methods tfidf_coefficient,occlusion,lime

writes a folder (--out) with
  comparison.html   one page that needs no network: where ours loses first, then everything
  comparison.json   the same numbers
  manifest.json     how it was made
"""


def add_to(commands: Commands) -> None:
    """Take a place among the commands."""
    parser = commands.add_parser(
        "compare",
        help="our explanations beside SHAP, LIME and others on the same texts, judged; one page",
        description="Explain the same held-out texts by every method, and judge the methods: do the words that they "
        "name matter to the classifier, do they agree, are they steady, how long do they take?",
        epilog=EPILOG,
        formatter_class=RawText,
    )
    add_reading(parser)
    add = parser.add_argument
    add("--explained", type=int, default=100, metavar="N", help="held-out texts that are explained (default: 100)")
    add("--methods", metavar="KEYS", help="only these, by their keys in comparison.json (default: all)")
    add("--budget", type=float, default=60.0, metavar="SECONDS", help="for each method and classifier (default: 60)")
    add("--permutations", type=int, default=10, metavar="N", help="of shap.PermutationExplainer (default: 10)")
    add("--samples", type=int, default=1000, metavar="N", help="of shap.KernelExplainer and LIME (default: 1000)")
    add("--resamples", type=int, default=10, metavar="N", help="draws of the texts, for stability (default: 10)")
    add("--top", type=int, default=50, metavar="K", help="tokens whose overlap is asked for (default: 50)")
    add("--seed", type=int, default=0, help="of everything random (default: 0)")
    add("--no-texts", action="store_true", help="leave the texts out of the page and of comparison.json")
    add("--out", type=Path, metavar="FOLDER", help="where to write (default: compare-<name of the file>)")
    add("--json", action="store_true", help="print comparison.json instead of words")
    add("--quiet", action="store_true", help="print nothing but errors")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    sizes = dict.fromkeys(("explained", "permutations", "samples", "resamples", "top", "min_count"), 1)
    check_at_least(known, **sizes, seed=0)
    check_extras("tokenmargin compare")
    out = folder_for(
        known.out or Path(f"compare-{stem_of(known.file)}"), "comparison.html", "comparison.json", "manifest.json"
    )
    if known.quiet or known.json:
        found = _compared(known, silent, say=lambda _: None)
    else:
        with _console.progress("compare") as progress:
            found = _compared(known, progress, say=_console.line)
    _write(found, out)
    if known.json:
        _console.data(_as_json(found) + "\n")
    elif not known.quiet:
        _show(found, out)
    return HOLDS


def _compared(known: Arguments, progress: Progress, say: Any) -> Comparison:
    from tokenmargin.comparison import METHODS, CompareSettings, compare_texts

    keys = tuple(METHODS) if known.methods is None else tuple(key.strip() for key in known.methods.split(","))
    settings = CompareSettings(
        known.explained, known.top, known.resamples, known.budget, known.permutations, known.samples, keys
    )
    ready = prepared(known, progress, say)
    return compare_texts(ready.corpus, ready.settings, settings, ready.test, origin=ready.origin, progress=progress)


def _as_json(found: Comparison) -> str:
    from tokenmargin.classify.fit_folder import as_json

    return as_json(found.to_json())


def _write(found: Comparison, out: Path) -> None:
    from tokenmargin.classify.fit_folder import as_json
    from tokenmargin.report.compare_page import compare_page

    with complete_folder(out) as folder:
        write_text(folder / "comparison.html", compare_page(found))
        write_text(folder / "comparison.json", _as_json(found) + "\n")
        write_text(folder / "manifest.json", as_json(found.manifest) + "\n")


def _show(found: Comparison, out: Path) -> None:
    """Where ours loses, where it does not, and the numbers of every method on each classifier."""
    from tokenmargin.comparison import METHODS, not_run, where_ours_loses, where_ours_wins

    for title, sentences in (
        ("Where ours loses", where_ours_loses(found)),
        ("Where it does not", where_ours_wins(found)),
        ("Did not run, or not to the end", not_run(found)),
    ):
        if sentences:
            _console.heading(title)
            for sentence in sentences:
                _console.paragraph(sentence)
    for part in found.classifiers:
        _console.heading(f"Explaining {part.name} ({100 * part.accuracy:.1f}% right)")
        rows = [
            (
                METHODS[row.method].name,
                f"{row.comprehensiveness[0]:.3f}" if row.comprehensiveness else row.status,
                f"{row.sufficiency[0]:.3f}" if row.sufficiency else "",
                f"{row.seconds:.3g} s" if row.comprehensiveness else "",
            )
            for row in part.rows
        ]
        _console.table(("method", "comprehensiveness", "sufficiency", f"{found.texts_explained} texts in"), rows)
    _console.line(f"page: {out / 'comparison.html'}")
