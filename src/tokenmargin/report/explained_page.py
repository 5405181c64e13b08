"""Texts with the words that decided, on one page that needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenmargin._sentences import fixed, percent
from tokenmargin.classify import Explanation
from tokenmargin.report._marked_text import marked_pieces
from tokenmargin.report._render import render

#: Words and phrases that are listed below a text.
LISTED = 8


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
