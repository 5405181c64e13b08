"""The graph of what proofs rest on: a picture of the claims, coloured by their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tokenmargin.theory.claim import Claim
from tokenmargin.theory.evidence import Evidence

#: Width and height of a box, and the space between boxes and between rows.
WIDTH, HEIGHT, BESIDE, BELOW = 96, 28, 12, 40

#: Short rows are moved aside in turn, so that lines that pass them by are seen.
ASIDE = 60.0

#: What the evidence says, as a colour that can be told from the others in grey too, and in words.
COLOURS = {
    "held wherever it was decided": "#b7e1cd",
    "held, and often not decided": "#fce8b2",
    "held, and would without training": "#d9d2e9",
    "refuted on an instance": "#f4a7a0",
    "no evidence": "#eeeeee",
}

#: Share of the instances drawn that may be undecided before it is called often.
OFTEN = 0.1


def standing(found: Sequence[Evidence] | None) -> str:
    """One of the words of `COLOURS`."""
    if not found:
        return "no evidence"
    if any(one.refuted for one in found):
        return "refuted on an instance"
    if all(one.is_vacuous for one in found):
        return "held, and would without training"
    undecided, drawn = sum(one.not_decided for one in found), sum(one.drawn for one in found)
    return "held, and often not decided" if undecided > OFTEN * drawn else "held wherever it was decided"


def rows_of(claims: Sequence[Claim[Any, Any]]) -> list[list[str]]:
    """Keys of the claims whose proofs rest on others, or are rested on, by the longest chain below them.

    Raises:
        ValueError: if proofs rest on each other in a circle.
    """
    uses = {claim.key: [key for key in claim.uses if any(one.key == key for one in claims)] for claim in claims}
    joined = {key for key, below in uses.items() if below} | {key for below in uses.values() for key in below}
    level: dict[str, int] = {}

    def height(key: str, above: tuple[str, ...] = ()) -> int:
        if key in above:
            raise ValueError(f"the proof of {key} rests on itself: {' <- '.join((*above, key))}")
        if key not in level:
            level[key] = max((1 + height(below, (*above, key)) for below in uses[key]), default=0)
        return level[key]

    top = max((height(key) for key in joined), default=-1)
    return [[key for key in uses if key in joined and level[key] == row] for row in range(top, -1, -1)]


def claims_graph(claims: Sequence[Claim[Any, Any]], evidence: Mapping[str, Sequence[Evidence]]) -> str:
    """SVG: a box for each claim, those that a proof rests on below it; empty where no proof rests on another claim."""
    place: dict[str, tuple[float, float]] = {}
    wide = 0.0
    for paper in dict.fromkeys(claim.paper for claim in claims):
        found = _places([claim for claim in claims if claim.paper == paper], wide)
        place |= found
        wide = max([wide, *(x + WIDTH + 3 * BESIDE for x, _ in found.values())])
    if not place:
        return ""
    high = max(y for _, y in place.values()) + HEIGHT + 20
    lines = [
        f'<path d="M{x + WIDTH / 2} {y + HEIGHT} L{place[below][0] + WIDTH / 2} {place[below][1]}" stroke="#888"/>'
        for claim in claims
        if claim.key in place
        for below in claim.uses
        if below in place
        for x, y in (place[claim.key],)
    ]
    boxes = [_box(claim, place[claim.key], standing(evidence.get(claim.key))) for claim in claims if claim.key in place]
    legend = "".join(
        f'<g transform="translate(4 {high + 22 * k})"><rect width="16" height="16" fill="{colour}" stroke="#555"/>'
        f'<text x="24" y="13">{escape(words)}</text></g>'
        for k, (words, colour) in enumerate(COLOURS.items())
    )
    tall = high + 22 * len(COLOURS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" role="img" '
        'style="max-width:100%;height:auto;background:#fff" font-family="sans-serif" font-size="12" fill="#111">'
        f"<title>What the proofs of the claims rest on</title>{''.join(lines)}{''.join(boxes)}{legend}</svg>\n"
    )


def _places(claims: Sequence[Claim[Any, Any]], left: float) -> dict[str, tuple[float, float]]:
    """Corners of the boxes of one paper: each row in the middle, in the order of what rests on it."""
    rows = rows_of(claims)
    whole = max((len(keys) for keys in rows), default=0) * (WIDTH + BESIDE)
    place: dict[str, tuple[float, float]] = {}
    for row, keys in enumerate(rows):
        above = {key: [place[one.key][0] for one in claims if key in one.uses and one.key in place] for key in keys}
        ordered = sorted(keys, key=lambda key: sum(above[key]) / len(above[key]) if above[key] else 0.0)
        turned = (row % 3 - 1) * ASIDE if len(keys) < max(map(len, rows)) else 0.0
        start = left + (whole - len(keys) * (WIDTH + BESIDE)) / 2 + turned + 4
        place |= {key: (start + k * (WIDTH + BESIDE), row * (HEIGHT + BELOW) + 4.0) for k, key in enumerate(ordered)}
    return place


def _box(claim: Claim[Any, Any], place: tuple[float, float], words: str) -> str:
    x, y = place
    return (
        f'<a href="#{escape(claim.key)}"><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4" '
        f'fill="{COLOURS[words]}" stroke="#555"/><text x="{x + WIDTH / 2}" y="{y + 19}" text-anchor="middle">'
        f"[{escape(claim.paper)}, {escape(claim.label)}]</text></a>"
    )
