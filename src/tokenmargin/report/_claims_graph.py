"""The graph of what proofs rest on: a picture of the claims, coloured by their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tokenmargin.theory.claim import Claim
from tokenmargin.theory.evidence import Evidence

#: Width of a picture, which a phone shows without making it smaller; of a letter; and what a box has beside its label.
WIDEST, LETTER, MARGIN = 350, 6.6, 14

#: Height of a box, and the space between boxes and between rows.
HEIGHT, BESIDE, BELOW = 28, 10, 40

#: Rows are moved aside in turn, so that lines that pass them by are seen.
ASIDE = 18.0

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
    """HTML: a picture for each paper, a box for each claim, those that a proof rests on below it; or nothing."""
    own = {
        paper: [claim for claim in claims if claim.paper == paper] for paper in dict.fromkeys(c.paper for c in claims)
    }
    pictures = "".join(_picture(paper, some, evidence) for paper, some in own.items() if any(rows_of(some)))
    if not pictures:
        return ""
    legend = "".join(
        f'<li><span style="display:inline-block;width:1em;height:1em;margin-right:.5em;border:1px solid #555;'
        f'vertical-align:-.15em;background:{colour}"></span>{escape(words)}</li>'
        for words, colour in COLOURS.items()
    )
    return (
        f'<div><div style="display:flex;flex-wrap:wrap;gap:1em">{pictures}</div>'
        f'<ul style="list-style:none;margin-left:0;padding-left:0">{legend}</ul></div>\n'
    )


def _picture(paper: str, claims: Sequence[Claim[Any, Any]], evidence: Mapping[str, Sequence[Evidence]]) -> str:
    """SVG of the claims of one paper, each a link to its section."""
    rows = rows_of(claims)
    there = {key for keys in rows for key in keys}
    boxes = [claim for claim in claims if claim.key in there]
    width = max(len(claim.label) for claim in boxes) * LETTER + MARGIN
    place = _places(rows, boxes, width)
    lines = "".join(
        f'<path d="M{x + width / 2:.0f} {y + HEIGHT:.0f} L{place[below][0] + width / 2:.0f} {place[below][1]:.0f}" '
        'stroke="#888"/>'
        for claim in boxes
        for below in claim.uses
        if below in place
        for x, y in (place[claim.key],)
    )
    drawn = "".join(_box(claim, place[claim.key], width, standing(evidence.get(claim.key))) for claim in boxes)
    tall = max(y for _, y in place.values()) + HEIGHT + 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDEST} {tall:.0f}" width="{WIDEST}" role="group" '
        f'aria-label="What the proofs of [{escape(paper)}] rest on" font-family="sans-serif" font-size="12" '
        'fill="#111" style="max-width:100%;height:auto;background:#fff;border:1px solid #ddd">'
        f'<text x="6" y="18" font-weight="bold">[{escape(paper)}]</text>{lines}{drawn}</svg>'
    )


def _places(
    rows: Sequence[Sequence[str]], claims: Sequence[Claim[Any, Any]], width: float
) -> dict[str, tuple[float, float]]:
    """Corners of boxes: rows in the middle, in the order of what rests on them; long ones are cut into equal parts."""
    place: dict[str, tuple[float, float]] = {}
    most, line = int((WIDEST - 2 * ASIDE + BESIDE) // (width + BESIDE)), 0
    for keys in rows:
        above = {key: [place[one.key][0] for one in claims if key in one.uses and one.key in place] for key in keys}
        ordered = sorted(keys, key=lambda key: sum(above[key]) / len(above[key]) if above[key] else 0.0)
        parts = -(-len(ordered) // most)
        for part in range(parts):
            some = ordered[part::parts]
            start = (WIDEST - len(some) * (width + BESIDE) + BESIDE) / 2 + (line % 3 - 1) * ASIDE
            place |= {key: (start + k * (width + BESIDE), line * (HEIGHT + BELOW) + 28.0) for k, key in enumerate(some)}
            line += 1
    return place


def _box(claim: Claim[Any, Any], place: tuple[float, float], width: float, words: str) -> str:
    x, y = place
    return (
        f'<a href="#{escape(claim.key)}"><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HEIGHT}" rx="4" '
        f'fill="{COLOURS[words]}" stroke="#555"/><text x="{x + width / 2:.1f}" y="{y + 19:.1f}" text-anchor="middle">'
        f"{escape(claim.label)}</text></a>"
    )
