"""Texts with the words and phrases that decided, without a script: phrases are lines below their words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tokenmargin._sentences import fixed, percent
from tokenmargin.classify import Explanation
from tokenmargin.report._render import render

#: A word is marked in one of as many shades, by the size of its contribution beside the largest of its text.
SHADES = 4
#: Lines below each other, for phrases that overlap; a further one is listed alone.
LINES = 3

#: Words and phrases that are listed below a text.
LISTED = 8


class Piece(NamedTuple):
    """A stretch of a text: the look of its word ("" for none), and those of the phrases over it, the inner first."""

    text: str
    word: str
    phrases: tuple[str, ...]


def marked_pieces(text: str, units: Sequence[tuple[str, Sequence[tuple[int, int]], float]]) -> list[Piece]:
    """Cut a text where words and phrases begin and end, as `markedText` of fit_texts.js does.

    Args:
        text: the text.
        units: name, places and contribution of each word and phrase, the most deciding first.
    """
    largest = max((abs(pull) for _, _, pull in units), default=0.0) or 1.0
    looks = [[""] * len(text) for _ in range(1 + LINES)]
    phrases = []
    for name, places, pull in reversed(units):
        shade = round(SHADES * abs(pull) / largest)
        look = f"{'for' if pull > 0 else 'against'} shade{shade}"
        if shade and " " in name:
            phrases += [(start, -end, look) for start, end in places]
        elif shade:
            for start, end in places:
                looks[0][start:end] = [look] * (end - start)
    free = [0] * LINES
    for start, end, look in sorted(phrases):
        line = next((k for k, until in enumerate(free) if until <= start), None)
        if line is not None:
            free[line] = -end
            looks[1 + line][start:-end] = [f"line{line} {look}"] * (-end - start)
    cut = groupby(zip(text, *looks, strict=True), lambda letter: letter[1:])
    return [
        Piece("".join(letter for letter, *_ in own), word, tuple(filter(None, lines))) for (word, *lines), own in cut
    ]


def explained_page(explanations: Sequence[Explanation]) -> str:
    """The page as HTML: each text, what it was predicted to be, and its words shaded by what they contributed."""
    return render("explained.html", listed=LISTED, texts=[_shown(told) for told in explanations])


def _shown(told: Explanation) -> dict[str, Any]:
    without = {own.name: own.probability for own in told.without()}
    return {
        "predicted": told.predicted,
        "against": told.against,
        "probability": percent(told.probability),
        "pieces": marked_pieces(told.text, [(unit.name, unit.places, unit.contribution) for unit in told.units]),
        "units": [
            (unit.name, unit.contribution > 0, fixed(unit.contribution, 2, signed=True), percent(without[unit.name]))
            for unit in told.units[:LISTED]
        ],
    }
