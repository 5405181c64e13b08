"""Pages on papers: the software in BibTeX, claims as a table in LaTeX, and the errata of the documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from tokenmargin.theory.paper import Erratum, Paper

#: Characters that mean something to LaTeX outside of formulas, and how they are written.
ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}

#: Letters and signs of statements that a plain LaTeX font lacks.
SIGNS = {
    "\u2265": r"$\ge$",
    "\u2264": r"$\le$",
    "\u2080": "$_0$",
    "\u221e": r"$\infty$",
    "\u00d7": r"$\times$",
    "\u2192": r"$\to$",
}


def software_bibtex() -> str:
    """An entry for the version of this package that is installed."""
    fields = {
        "title": "{tokenmargin}: which tokens softmax attention selects, and why",
        "author": "{The tokenmargin developers}",
        "version": version("tokenmargin"),
    }
    lines = [f"{name:<7} = {{{value}}}" for name, value in fields.items()]
    return "@software{tokenmargin,\n" + "".join(f"  {line},\n" for line in lines) + "}\n"


def latex_table(claims: Sequence[Any]) -> str:
    """Claims as a `longtable`: what is cited, what it says, and how far it may be missed."""
    rows = [
        rf"[{in_latex(one.paper)}, {in_latex(one.label)}] & {in_latex(one.statement)} & {one.tolerance:.0e} \\"
        for one in claims
    ]
    head = r"\textbf{claim} & \textbf{statement} & \textbf{tolerance} \\ \hline"
    columns = r"\begin{longtable}{l p{0.65\textwidth} r}"
    return "\n".join([r"% \usepackage{longtable}", columns, head, *rows, r"\end{longtable}"])


def in_latex(text: str) -> str:
    """A text as LaTeX prints it."""
    return "".join(ESCAPED.get(letter) or SIGNS.get(letter) or letter for letter in text)


# --- errata -----------------------------------------------------------------------------------------------------------

HEADER = """\
# Errata

Where the papers are wrong, what is right, and the command that shows it. The code follows the right-hand side
everywhere. Commands are run in the root of the repository with the environment active (`. .venv/bin/activate` after
`make test`). `pytest tests/test_docs.py -k errata` runs every `python -c` line of this page and compares its output
with the one given, and `pytest tests/test_docs.py -k erratum` sees that every entry has a check that selects something.
Entries that name `--preset paper` of a figure need its data set or its size; the smoke size shows the same with other
numbers. "As transcribed" marks what may be a fault of the texts that were read and not of the papers.

Labels are those of the texts that `references.bib` names. The entries lie in the folder of each paper, in
`errata.toml`; `tokenmargin list --errata` makes this page of them.
"""

WITH_CARE = "Right, if read with care:\n\n"


def errata_page(papers: Iterable[Paper]) -> str:
    """The page in Markdown: the errata of each paper in its order, and at the end what is not covered."""
    chosen = list(papers)
    parts = [HEADER]
    for paper in chosen:
        wrong = [one for one in paper.errata if one.is_wrong]
        with_care = [one for one in paper.errata if not one.is_wrong]
        if wrong or with_care:
            note = f"\n{paper.errata_note}\n" if paper.errata_note else ""
            parts.append(f"## [{paper.cited_as}] {paper.title}\n{note}")
        if wrong:
            parts.append(_table("what is right", wrong))
        if with_care:
            parts.append(WITH_CARE + _table("how it must be read", with_care))
    missing = [f"- {sentence}\n" for paper in chosen for sentence in paper.not_covered]
    if missing:
        parts.append("## What is not covered\n\n" + "".join(missing))
    return "\n".join(parts)


def _table(third: str, rows: Iterable[Erratum]) -> str:
    """The rows below their heads, the third of which differs."""
    lines = [f"| where | what is printed | {third} | shown by |", "|---|---|---|---|"]
    lines += [f"| {row.where} | {row.printed} | {row.right} | {row.shown_by} |" for row in rows]
    return "\n".join(lines) + "\n"
