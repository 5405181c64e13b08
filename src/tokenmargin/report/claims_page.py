"""The page of claims in the documents: each with a badge, its statement, its evidence, and the file that checks it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from tokenmargin.report._claims_graph import claims_graph
from tokenmargin.theory.claim import Claim
from tokenmargin.theory.evidence import TOLD_APART, Evidence
from tokenmargin.theory.law import NO_TRAINING
from tokenmargin.theory.paper import TestedLemma, papers

HEADER = """\
# Claims

Every theorem and disputed lemma that is executable. `tokenmargin check` checks each on an instance just inside its
hypotheses and one just outside; `tokenmargin check KEY --problem FILE` on a problem of your own. The badge says what
happens inside. Statements are as corrected; what the paper has wrong stands below each.
"""

EVIDENCE = """
Below it stands the evidence: random instances of three laws or more, which differ in shape, scale and degeneracy; of
each how many were drawn, how many lay inside the hypotheses, on how many of these the claim held or was refuted, on how
many of all hypotheses or conclusion could not be decided, and on how many each false observation made it fail. No law
leaves out what our code cannot decide. A claim that *no training* passes is **vacuous** as a statement about training,
in that law; the badge says so where it is in all of them. `make evidence` draws the instances and writes this page and
its table, `docs/results/evidence.json`; `tokenmargin check KEY --instances 50` draws those of one claim.
"""

GRAPH = """
## What rests on what

A line joins a claim to the claims below it that its proof uses; those without a line use none of the others. The colour
says what the evidence is.

"""

LOOSENESS = """
## Stated beside computed

Of claims that are inequalities: the stated bound over the computed quantity, 1 where the bound is attained. *Tight*
says that it was attained to 1% on some instance; others may be tight where no law draws.

| claim | law | median | closest | tight |
|---|---|---|---|---|
"""

#: A bound that comes so near to what it bounds is called tight.
ATTAINED = 1.01

TECHNICAL_HEADER = """
## Technical lemmas

These are property tests.

| lemma | says | test |
|---|---|---|
"""


def claims_page(claims: Iterable[Claim[Any, Any]], evidence: Mapping[str, Sequence[Evidence]] | None = None) -> str:
    """Markdown, one section per claim, in the order given; every claim is checked while the page is written.

    Args:
        claims: those that the page shows.
        evidence: evidence by key, as `read_evidence` returns it; without it the page shows none.
    """
    found, shown = evidence or {}, list(claims)
    sections = "".join(_section(claim, found.get(claim.key)) for claim in shown)
    letters = {claim.paper for claim in shown}
    lemmas = [lemma for paper in papers().values() if paper.cited_as in letters for lemma in paper.lemmas]
    rows = "".join(f"| {lemma.where} | {lemma.says} | `{_pytest(lemma)}` |\n" for lemma in lemmas)
    graph = claims_graph(shown, found)
    before = (EVIDENCE if found else "") + (GRAPH + graph if graph else "") + _looseness(shown, found)
    return HEADER + before + sections + (TECHNICAL_HEADER + rows if rows else "")


def _looseness(claims: Sequence[Claim[Any, Any]], evidence: Mapping[str, Sequence[Evidence]]) -> str:
    """A table of how loose each bound is, in each law; empty without evidence."""
    rows = [
        f"| `{claim.key}` | {place} | {one.ratio:.3g} | {closest:.3g} | {'yes' if closest <= ATTAINED else 'no'} |\n"
        for claim in claims
        for place, one in enumerate(evidence.get(claim.key, ()), 1)
        if one.ratio is not None
        for closest in (one.ratio if one.closest is None else one.closest,)
    ]
    return LOOSENESS + "".join(rows) if rows else ""


def _pytest(lemma: TestedLemma) -> str:
    return f"pytest {lemma.test}" + (f" -k {lemma.words}" if lemma.words else "")


def _section(claim: Claim[Any, Any], evidence: Sequence[Evidence] | None) -> str:
    outcome = claim.check(claim.inside())
    badge = "does not apply" if outcome.holds is None else "**holds**" if outcome.holds else "**fails**"
    if evidence and all(one.is_vacuous for one in evidence):
        badge += ", **vacuous**"
    lines = [
        f'\n<a id="{claim.key}"></a>\n\n## `{claim.key}` [{claim.paper}, {claim.label}]: {badge}\n',
        f"{claim.statement}\n",
        f"Checked in `{_file_of(claim)}`, tolerance {claim.tolerance:g} ({claim.tolerance_reason}).\n",
    ]
    if evidence:
        lines.append(f"{evidence_lines(evidence)}\n")
    if claim.uses:
        lines.append(f"Its proof uses {', '.join(f'`{key}`' for key in claim.uses)}.\n")
    if claim.correction:
        lines.append(f"Correction: {claim.correction}\n")
    return "\n".join(lines)


def evidence_lines(found: Sequence[Evidence]) -> str:
    """The counts of one claim: a row for each of its laws, and what is counted beside."""
    rows = [
        f"| {place}. {_cell(one.law)} | {one.drawn} | {one.inside} | {one.held} | {one.refuted} | {one.not_decided} | "
        f"{_cell(_mutations(one))} |"
        for place, one in enumerate(found, 1)
    ]
    head = f"| evidence, seed {found[0].seed}: law | drawn | inside | held | refuted | not decided | made it fail |"
    beside = [sentence for place, one in enumerate(found, 1) for sentence in _beside(place, one)]
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows, *(["", " ".join(beside)] if beside else [])])


def _cell(words: str) -> str:
    """Words in a cell of a table, which a bar of |p| would end."""
    return words.replace("|", "&#124;")


def _mutations(found: Evidence) -> str:
    """Number of instances on which each false observation made the claim fail."""
    parts = []
    for name, asked in found.asked.items():
        failed = found.failed[name]
        less = "" if found.is_failed(name) else f", less than {TOLD_APART:.0%}"
        parts.append(f"*{name}* {failed} of {asked}{less}")
    return "; ".join(parts) or "-"


def _beside(place: int, found: Evidence) -> list[str]:
    """Sentences on what the table has no column for."""
    parts = []
    for says, (held, decided, drawn) in found.asides.items():
        open_ones = f" ({drawn - decided} more not decided)" if drawn > decided else ""
        parts.append(f"{says} {held} of {decided}{open_ones}.")
    parts += sizes_sentence(found)
    if found.is_vacuous:
        parts.append(f"Vacuous in law {place}: *{NO_TRAINING}* passes.")
    return parts


def sizes_sentence(found: Evidence) -> list[str]:
    """Sentence on the instances inside the hypotheses that were not decided, by size, where sizes are counted."""
    ranges = [f"{says} {open_ones} of {decided + open_ones}" for says, (decided, open_ones) in found.sizes.items()]
    return [f"Not decided, by size: {', '.join(ranges)}."] if ranges else []


def _file_of(claim: Claim[Any, Any]) -> PurePosixPath:
    """The file that examines the hypotheses: relative to the repository for ours, to its package for others."""
    module = inspect.getmodule(claim.hypotheses)
    assert module is not None
    parts = module.__name__.split(".")
    return PurePosixPath(*["src"] * (parts[0] == "tokenmargin"), *parts).with_suffix(".py")
