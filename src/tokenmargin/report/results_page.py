"""The results page: every saved result in one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmargin._atomic import write_text
from tokenmargin._rename import recover_below
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.experiments.registry import figure_order
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render
from tokenmargin.report.number_cells import COLUMNS, number_cells
from tokenmargin.theory import registry
from tokenmargin.theory.claim import Claim
from tokenmargin.theory.paper import papers


@dataclass(frozen=True)
class Term:
    """A word of the papers' that a page explains: what it means, and a pattern that finds it in a text."""

    name: str
    meaning: str
    pattern: str

    @property
    def anchor(self) -> str:
        """Anchor of the term's explanation on the page."""
        return "word-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


#: Terms that a reader of the page may not know, in the order in which one needs them.
GLOSSARY = (
    Term(
        "token",
        "one piece of an input: a word of a text, a patch of a picture, or in the small problems a point.",
        r"\btokens?\b",
    ),
    Term(
        "softmax attention",
        "weighs the tokens of an input by weights that sum to 1. How a token is weighed depends on one vector, p, "
        "which is trained; the longer p, the nearer the weights come to 0 and 1.",
        r"\bsoftmax attention\b|\battention weights\b",
    ),
    Term(
        "selection",
        "the tokens, one or some in each input, on which all of the attention ends as p grows. A selection is written "
        "with their numbers: Selection(0 2; T=3) is token 0 of the first input and token 2 of the second, of three.",
        r"\bselections?\b|\bSelection(?=\()",
    ),
    Term(
        "score",
        "how good it would be for the prediction to look at this token alone.",
        r"\bscores?\b",
    ),
    Term(
        "ATT-SVM",
        "the problem whose answer theory says training finds: the shortest p that puts each selected token ahead of "
        "all others of its input by at least 1. Its direction is the max-margin direction of the selection, and 1 over "
        "its length is the margin.",
        r"\(?\bATT-SVM'?\)?|\bmax-margin directions?\b|\bmax-margin problems?\b",
    ),
    Term(
        "GMM",
        "globally optimal max-margin direction: the one that selects the token of highest score in every input.",
        r"\bGMM\b|\bglobally optimal\b",
    ),
    Term(
        "LMM",
        "locally optimal max-margin direction: one whose selected tokens have a higher score than their closest rivals "
        "(the tokens that limit the margin), though perhaps not the highest.",
        r"\bLMM\b|\blocally optimal\b",
    ),
    Term(
        "1 - cos",
        "how far two directions are apart: 0 when they are the same, 1 at a right angle.",
        r"\b1 - (?:mean )?cos\b",
    ),
    Term(
        "spread",
        "how far apart the gaps between selected tokens and their rivals are as they grow, all being equal in the "
        "limit; near 0 it certifies the limit. A standard deviation where the text says so.",
        r"\bspread\b",
    ),
    Term(
        "posterior difference",
        "of all occurrences of a token in texts, the share in texts of one label minus the share in texts of the "
        "other: +1 and -1 for a token that tells the label, about 0 for one that tells nothing.",
        r"\bposterior difference\b",
    ),
    Term(
        "overlap",
        "⟨E_s, p⟩ is how much attention the token s asks for, ⟨E_s, v⟩ which label it speaks for; E_s is the vector "
        "of the token, p that of attention, and v that of the classifier.",
        r"\boverlaps?\b|<E_s, [pv]>|⟨E_s, [pv]⟩",
    ),
    Term(
        "claim",
        "a theorem as a program: it is checked on an example that meets its conditions, and could fail.",
        r"\bclaims?\b",
    ),
)

#: Meaning of each verdict, in the order in which they are counted.
VERDICTS = {
    Verdict.HOLDS: ("hold", "what the paper prints, or mathematics demands"),
    Verdict.FAILS: ("fail", "not what we expect"),
    Verdict.FINDING: ("findings", "the paper says otherwise"),
    Verdict.NOT_DECIDED: ("not decided", "chance leaves it open"),
    Verdict.NOT_COMPARABLE: ("not comparable", "this run is smaller than the paper's"),
    Verdict.REPORTED: ("only shown", "nobody says what they should be"),
}


def write_page(results: Path, preset: str | None = None, missing: Sequence[tuple[str, str]] = ()) -> Path:
    """Write `results/index.html` from the results saved below `results`, and return its path.

    Args:
        results: the folder with `<id>/<preset>/` in it.
        preset: show only results of this preset.
        missing: (id, reason) of figures that were not reproduced; shown as "not reproduced: <reason>".

    Raises:
        InvalidInputError: if there is nothing to show, or a result cannot be read.
    """
    found = saved_results(results, preset)
    if not found:
        wanted = f" --preset {preset}" if preset else ""
        raise InvalidInputError(
            f"{results} holds no saved result{f' of preset {preset}' if preset else ''}: "
            f"run `tokenmargin reproduce all{wanted}` first."
        )
    target = results / "index.html"
    write_text(target, results_page(found, missing))
    return target


def saved_results(results: Path, preset: str | None = None) -> list[store.Saved]:
    """All saved results, or those of one preset: paper by paper, fig2 before fig10, then by preset."""
    recover_below(results)
    # A leading dot marks a folder that is still being written.
    folders = [
        file.parent
        for file in results.glob("*/*/summary.json")
        if not any(part.startswith(".") for part in file.relative_to(results).parts)
        and preset in (None, file.parent.name)
    ]
    saved = map(store.load, folders)
    return sorted(saved, key=lambda one: figure_order(f"{one.folder.parent.name}/{one.folder.name}"))


def results_page(results: Sequence[store.Saved], missing: Sequence[tuple[str, str]] = ()) -> str:
    """The page as HTML; `missing` as for `write_page`."""
    claims = registry.claims()
    counts = _counts(results)
    return render(
        "results.html",
        n_figures=len({saved.summary["id"] for saved in results}),
        presets=list(dict.fromkeys(saved.summary["preset"] for saved in results)),
        counts=counts,
        outcome=_outcome(counts),
        verdicts=[(*VERDICTS[verdict], counts[verdict.value], verdict.value) for verdict in VERDICTS],
        n_missing=len(missing),
        absent=_by_reason(missing),
        figures=[_figure(saved, claims) for saved in results],
        glossary=GLOSSARY,
        papers=[paper for paper in papers().values() if paper.cited_as in {one.summary["paper"] for one in results}],
    )


def _figure(saved: store.Saved, claims: Mapping[str, Claim[Any, Any]]) -> dict[str, Any]:
    """Contents of the card of one result; a word of the glossary is linked where the card first uses it."""
    summary, manifest = saved.summary, saved.manifest
    counts = _counts([saved])
    linked = _Linker()
    opening = linked(summary.get("in_plain_words", ""))
    sentences = [linked(sentence) for sentence in summary["sentences"]]
    numbers = [(linked(row["name"]), number_cells(row)) for row in summary["numbers"]]
    return {
        "id": summary["id"],
        "anchor": _anchor(saved),
        "title": summary["title"],
        "opening": opening,
        "citation": _citation(summary),
        "preset": summary["preset"],
        "counts": counts,
        "outcome": _outcome(counts),
        "badge": _badge(counts),
        "picture": _picture(saved),
        "sentences": sentences,
        "columns": [(name, "words" if name in ("number", "verdict") else "number") for name in COLUMNS],
        "judged": [row for row in numbers if row[1].verdict != Verdict.REPORTED.value],
        "reported": [row for row in numbers if row[1].verdict == Verdict.REPORTED.value],
        "claims": list(_claims(summary, manifest, claims)),
        "command": manifest["command"],
        "manifest": manifest_rows(manifest),
    }


class _Linker:
    """Cuts texts into (words, anchor): the anchor of the glossary where a word of it is used for the first time."""

    def __init__(self) -> None:
        self.unused = list(GLOSSARY)

    def __call__(self, text: str) -> list[tuple[str, str]]:
        found = [(match, term) for term in self.unused if (match := re.search(term.pattern, text))]
        if not found:
            return [(text, "")]
        match, term = min(found, key=lambda pair: (pair[0].start(), -pair[0].end()))
        self.unused.remove(term)
        before = [(text[: match.start()], "")] if match.start() else []
        return [*before, (match[0], term.anchor), *(self(text[match.end() :]) if text[match.end() :] else [])]


def _anchor(saved: store.Saved) -> str:
    """The name by which the table of contents points to the section."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"{saved.folder.parent.name}-{saved.folder.name}")


def _citation(summary: Mapping[str, Any]) -> str:
    """The paper's figure as `[M, Fig. 1]`."""
    figure = str(summary["figure"])
    return f"[{summary['paper']}, {f'Fig. {figure}' if figure[:1].isdigit() else figure}]"


def _counts(results: Iterable[store.Saved]) -> Counter[str]:
    """Number of numbers with each verdict."""
    return Counter(row["verdict"] for saved in results for row in saved.summary["numbers"])


def _outcome(counts: Mapping[str, int]) -> str:
    """Summary of the verdicts, in a sentence or two."""
    holds, fails, findings, undecided, smaller, shown = (counts[verdict.value] for verdict in VERDICTS)
    judged = holds + fails + findings + undecided
    said = [f"{holds} hold{'s' * (holds == 1)}"]
    said += [f"{fails} fail{'s' * (fails == 1)}"] * bool(fails)
    said += [f"{findings} refute{'s' * (findings == 1)} the paper"] * bool(findings)
    said += [f"{undecided} {'is' if undecided == 1 else 'are'} not decided"] * bool(undecided)
    if not judged:
        sentence = "No number could be judged in this run."
    elif holds == judged:
        sentence = f"All {judged} numbers that could be judged hold." if judged > 1 else "The one number judged holds."
    else:
        sentence = f"Of {judged} number{'s' * (judged > 1)} that could be judged, {', '.join(said)}."
    rest = [f"{smaller} cannot be compared at this size"] * bool(smaller)
    rest += [f"{shown} {'is' if shown == 1 else 'are'} only shown"] * bool(shown)
    return f"{sentence} Besides, {' and '.join(rest)}." if rest else sentence


def _badge(counts: Mapping[str, int]) -> str:
    """The verdict on a figure in a few words; how they begin says which colour they have."""
    holds, fails, findings, undecided, smaller, _ = (counts[verdict.value] for verdict in VERDICTS)
    judged = holds + fails + findings + undecided
    if fails:
        return f"fails: {fails} of {judged}"
    if findings:
        return f"finding: {findings} of {judged}"
    if holds:
        return f"holds: {holds} of {judged}"
    if undecided:
        return "not decided"
    return "not comparable at this size" if smaller else "only shown"


def _by_reason(missing: Sequence[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Each reason once, with the figures that it kept from being reproduced."""
    reasons: dict[str, list[str]] = {}
    for name, reason in missing:
        reasons.setdefault(reason, []).append(name)
    return list(reasons.items())


def _picture(saved: store.Saved) -> dict[str, Any]:
    """The figure, its size, and the boxes of its panels in pixels; a result from before there were any has none."""
    file, boxes = saved.folder / "figure.png", saved.folder / "panels.json"
    if not file.is_file():
        raise InvalidInputError(f"{saved.folder} holds no figure.png: reproduce the figure again.")
    content = file.read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    shares = json.loads(boxes.read_text()) if boxes.is_file() else []
    panels = [[round(s * size) for s, size in zip(box, (width, height) * 2, strict=True)] for box in shares]
    return {"content": content, "width": width, "height": height, "panels": panels if len(panels) > 1 else []}


def _claims(
    summary: Mapping[str, Any], manifest: Mapping[str, Any], claims: Mapping[str, Claim[Any, Any]]
) -> Iterator[dict[str, str]]:
    """The claims that a result names or checked; one that this version lacks says so."""
    for key in dict.fromkeys((*summary["claims"], *manifest["claims"])):
        claim = claims.get(key)
        yield {
            "key": key,
            "outcome": str(manifest["claims"].get(key, "not checked in this run")),
            "citation": f"[{claim.paper}, {claim.label}]" if claim else "",
            "statement": claim.statement if claim else "This version has no claim of this name.",
            "correction": claim.correction if claim else "",
        }
