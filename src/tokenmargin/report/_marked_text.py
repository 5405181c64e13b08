"""A text with the words and phrases that decided, for pages without a script: phrases are lines below their words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

#: A word is marked in one of as many shades, by the size of its contribution beside the largest of its text.
SHADES = 4
#: Lines below each other, for phrases that overlap; a further one is listed alone.
LINES = 3


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
