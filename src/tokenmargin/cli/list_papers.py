"""`tokenmargin list`: papers, their figures and their claims; with `--errata` the page of their errata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS
from tokenmargin.cli._parse import Arguments, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands


def add_to(commands: Commands) -> None:
    """Add `list` to the commands."""
    parser = commands.add_parser("list", help="list papers, their figures and their claims")
    parser.add_argument("--paper", metavar="KEY", help="only one paper, such as maxmargin")
    parser.add_argument("--errata", action="store_true", help="print the errata of the papers as a page in Markdown")
    parser.add_argument("--bibtex", action="store_true", help="print BibTeX of the papers and of this software")
    parser.add_argument("--latex", action="store_true", help="print the claims as a table in LaTeX")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.experiments.registry import experiments
    from tokenmargin.report.citations import latex_table, software_bibtex
    from tokenmargin.theory.paper import papers
    from tokenmargin.theory.registry import claims, found_name

    chosen = [papers()[found_name(known.paper, papers(), "paper")]] if known.paper else list(papers().values())
    if known.errata:
        from tokenmargin.report.citations import errata_page

        _console.data(errata_page(chosen))
        return HOLDS
    if known.bibtex:
        _console.data("\n".join([software_bibtex(), *(each.bibtex.strip() + "\n" for each in chosen)]))
        return HOLDS
    if known.latex:
        _console.data(latex_table([one for paper in chosen for one in claims(paper.key).values()]))
        return HOLDS
    _console.table(
        ("paper", "cited as", "title", "authors", "year"),
        [(each.key, f"[{each.cited_as}]", each.title, ", ".join(each.authors), str(each.year)) for each in chosen],
    )
    figures = [each for paper in chosen for each in experiments(paper.key).values()]
    _console.line("")
    _console.table(
        ("figure", "cited as", "what it shows", "claims"),
        [(each.id, f"[{each.paper}, {each.figure}]", each.title, ", ".join(each.claims)) for each in figures],
    )
    _console.line("")
    _console.table(
        ("claim", "cited as", "what it says"),
        [
            (each.key, f"[{each.paper}, {each.label}]", each.statement)
            for paper in chosen
            for each in claims(paper.key).values()
        ],
    )
    return HOLDS
