"""The page of errata in the documents: a table for each paper, and what of the papers is not covered."""

from __future__ import annotations

from collections.abc import Iterable

from tokenmargin.theory.paper import Erratum, Paper

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
