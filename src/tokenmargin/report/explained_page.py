"""Texts with the words that decided, on one page that needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenmargin.classify import Explanation
from tokenmargin.report._render import render

#: Shades of a word, by its part of the strongest contribution of its text; fainter ones are not marked.
SHADES = (0.08, 0.25, 0.5, 0.75)


def explained_page(classes: Sequence[str], explanations: Sequence[Explanation]) -> str:
    """The page as HTML: each text, what it was predicted to be, and its words shaded by what they contributed."""
    return render("explained.html", classes=classes, texts=[_shown(told) for told in explanations])


def _shown(told: Explanation) -> dict[str, Any]:
    strongest = max((abs(unit.contribution) for unit in told.units), default=0.0) or 1.0
    without = {own.name: own.probability for own in told.without()}
    return {
        "predicted": told.predicted,
        "against": told.against,
        "probability": told.probability,
        "parts": [
            (words, "", 0)
            if unit is None
            else (words, "for" if unit.contribution > 0 else "against", _shade(abs(unit.contribution) / strongest))
            for words, unit in told.stretches
        ],
        "words": [(unit.name, unit.contribution, without[unit.name]) for unit in told.units[:8]],
    }


def _shade(strength: float) -> int:
    return sum(strength >= least for least in SHADES)
