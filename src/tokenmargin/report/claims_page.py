"""The page of claims in the documents: each with a badge, its statement, its evidence, and the file that checks it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from tokenmargin.theory.claim import Claim
from tokenmargin.theory.evidence import TOLD_APART, Evidence
from tokenmargin.theory.law import NO_TRAINING

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

TECHNICAL_HEADER = """
## Technical lemmas

These are property tests.

| lemma | says | test |
|---|---|---|
"""

_M_LEMMAS, _E_LEMMAS = "tests/papers/maxmargin/claims/test_lemmas.py", "tests/papers/embeddings/claims/test_lemmas.py"

#: Lemmas that are no claims: (cited as, what is tested, the file and the words by which pytest finds it).
TECHNICAL = (
    (
        "[M, Lemma 1]",
        "W'u moves as p does, step by step",
        "tests/models/test_one_layer.py",
        "matrix_is_training_the_query",
    ),
    ("[M, Lemma 1]", "the same behind a nonlinear head", _M_LEMMAS, "lemma_1_"),
    ("[M, Lemma 4]", "p_mm descends everywhere", _M_LEMMAS, "lemma_4"),
    ("[M, Lemma 6]", "the smoothness constant bounds every Hessian", "tests/attention/test_smoothness.py", ""),
    ("[M, Lemma 6]", "a step of 1/L_p descends enough", _M_LEMMAS, "lemma_6"),
    ("[M, Lemma 9]", "better neighbours beat the limit", _M_LEMMAS, "lemma_9"),
    ("[M, Lemma 10]", "at most d neighbours in general position", _M_LEMMAS, "lemma_10"),
    ("[M, Lemma 12]", "most of the attention, the largest logit", _M_LEMMAS, "lemma_12"),
    ("[M, Lemma 13]", "along the joint path", _M_LEMMAS, "12_and_13"),
    ("[E, below (7)]", "descent with small steps follows the flow, and goes where it goes", _E_LEMMAS, "small_steps"),
    ("[E, Lemma 8]", "the slope along any vector is a sum over pairs of tokens", _E_LEMMAS, "lemma_8"),
    ("[E, Lemma 9]", "what descends as fast as p itself is the limit of p", _E_LEMMAS, "lemma_9"),
    ("[E, Lemma 10]", "shares of selected and other tokens", _E_LEMMAS, "shares_of_selected"),
)


def claims_page(claims: Iterable[Claim[Any, Any]], evidence: Mapping[str, Sequence[Evidence]] | None = None) -> str:
    """Markdown, one section per claim, in the order given; every claim is checked while the page is written.

    Args:
        claims: those that the page shows.
        evidence: by key, as `read_evidence` returns it; without it the page shows none.
    """
    found = evidence or {}
    sections = "".join(_section(claim, found.get(claim.key)) for claim in claims)
    rows = "".join(f"| {cited} | {says} | `{_pytest(path, words)}` |\n" for cited, says, path, words in TECHNICAL)
    return HEADER + (EVIDENCE if found else "") + sections + TECHNICAL_HEADER + rows


def _pytest(path: str, words: str) -> str:
    return f"pytest {path} -k {words}" if words else f"pytest {path}"


def _section(claim: Claim[Any, Any], evidence: Sequence[Evidence] | None) -> str:
    outcome = claim.check(claim.inside())
    badge = "does not apply" if outcome.holds is None else "**holds**" if outcome.holds else "**fails**"
    if evidence and all(one.is_vacuous for one in evidence):
        badge += ", **vacuous**"
    lines = [
        f"\n## `{claim.key}` [{claim.paper}, {claim.label}]: {badge}\n",
        f"{claim.statement}\n",
        f"Checked in `{_file_of(claim)}`, tolerance {claim.tolerance:g} ({claim.tolerance_reason}).\n",
    ]
    if evidence:
        lines.append(f"{evidence_lines(evidence)}\n")
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
    """On how many instances each false observation made the claim fail."""
    parts = []
    for name, asked in found.asked.items():
        failed = found.failed[name]
        less = "" if found.is_failed(name) else f", less than {TOLD_APART:.0%}"
        parts.append(f"*{name}* {failed} of {asked}{less}")
    return "; ".join(parts) or "-"


def _beside(place: int, found: Evidence) -> list[str]:
    """Sentences on what the table has no column for."""
    parts = []
    if found.ratio is not None:
        parts.append(f"Bound over quantity in law {place}: {found.ratio:.3g} (median).")
    for says, (held, decided, drawn) in found.asides.items():
        open_ones = f" ({drawn - decided} more not decided)" if drawn > decided else ""
        parts.append(f"{says} {held} of {decided}{open_ones}.")
    parts += sizes_sentence(found)
    if found.is_vacuous:
        parts.append(f"Vacuous in law {place}: *{NO_TRAINING}* passes.")
    return parts


def sizes_sentence(found: Evidence) -> list[str]:
    """How many instances inside the hypotheses were not decided, by size, where sizes are counted."""
    ranges = [f"{says} {open_ones} of {decided + open_ones}" for says, (decided, open_ones) in found.sizes.items()]
    return [f"Not decided, by size: {', '.join(ranges)}."] if ranges else []


def _file_of(claim: Claim[Any, Any]) -> PurePosixPath:
    """Where the hypotheses are examined, relative to the root of the repository."""
    module = inspect.getmodule(claim.hypotheses)
    assert module is not None
    return PurePosixPath("src", *module.__name__.split(".")).with_suffix(".py")
