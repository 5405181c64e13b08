"""`tokenmargin compare`: ours and other methods on the same labelled texts, judged; one page and its numbers out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._page_command import Page, Say, add_output, write_page
from tokenmargin.cli._parse import Arguments, RawText, refuse
from tokenmargin.cli.fit import add_table_flags, check_at_least, check_extras, prepared

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
    """Add `compare` to the commands."""
    parser = commands.add_parser(
        "compare",
        help="our explanations beside SHAP, LIME and others on the same texts, judged; one page",
        description="Explain the same held-out texts by every method, and judge the methods: do the words that they "
        "name matter to the classifier, do they agree, are they steady, how long do they take?",
        epilog=EPILOG,
        formatter_class=RawText,
    )
    add_table_flags(parser)
    add = parser.add_argument
    add("--explained", type=int, default=100, metavar="N", help="held-out texts that are explained (default: 100)")
    add("--methods", metavar="KEYS", help="only these, by their keys in comparison.json (default: all)")
    add("--budget", type=float, default=60.0, metavar="SECONDS", help="for each method and classifier (default: 60)")
    add("--permutations", type=int, default=10, metavar="N", help="of shap.PermutationExplainer (default: 10)")
    add("--samples", type=int, default=1000, metavar="N", help="of shap.KernelExplainer and LIME (default: 1000)")
    add("--resamples", type=int, default=10, metavar="N", help="draws of the texts, for stability (default: 10)")
    add("--top", type=int, default=50, metavar="K", help="tokens whose overlap is asked for (default: 50)")
    add_output(parser, "comparison.json", "of the page and of comparison.json")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    sizes = dict.fromkeys(("explained", "permutations", "samples", "resamples", "top", "min_count"), 1)
    check_at_least(known, **sizes, seed=0)
    check_extras("tokenmargin compare")
    return write_page(known, "comparison", partial(_compared, known))


def _compared(known: Arguments, progress: Progress, say: Say) -> Page:
    from tokenmargin.comparison import METHODS, CompareSettings, compare_texts
    from tokenmargin.report.compare_page import compare_page

    keys = tuple(METHODS) if known.methods is None else tuple(key.strip() for key in known.methods.split(","))
    settings = CompareSettings(
        known.explained, known.top, known.resamples, known.budget, known.permutations, known.samples, keys
    )
    ready = prepared(known, progress, say)
    found = compare_texts(ready.corpus, ready.settings, settings, ready.test, origin=ready.origin, progress=progress)
    return Page(compare_page(found), found.to_json(), found.manifest, partial(_show, found))


def _show(found: Comparison) -> None:
    """Print where ours loses, where it does not, and the numbers of every method on each classifier."""
    from tokenmargin.comparison import METHODS, not_run, where_it_is_a_tie, where_ours_loses, where_ours_wins

    for title, sentences in (
        ("Where ours loses", where_ours_loses(found)),
        ("Ties: within chance", where_it_is_a_tie(found)),
        ("Where ours wins", where_ours_wins(found)),
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
