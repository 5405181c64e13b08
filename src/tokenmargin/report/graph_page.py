"""The page of a corpus as next-token data: the words that compete after a word, and those that are ruled out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tokenmargin._sentences import fixed, percent
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render
from tokenmargin.theory.word_competition import Standing, WordCompetition
from tokenmargin.theory.word_graphs import WordGraphs

#: Words of a component, and of a standing, that are shown before it is said how many more there are.
COMPETITORS, WORDS = 10, 12

#: Windows in which a word must have stood to be listed: one preference alone makes a winner of a rare word.
SEEN_OFTEN = 5


def graph_page(found: WordGraphs, title: str, manifest: Mapping[str, Any]) -> str:
    """The page as HTML: one file that needs no network and no script."""
    return render(
        "graph.html",
        found=found,
        title=title,
        lasts=[_last(one, near) for one, near in zip(found.competitions, found.neighbours, strict=True)],
        manifest=manifest_rows(manifest),
        command=manifest["command"],
        percent=percent,
        fixed=fixed,
        seen_often=SEEN_OFTEN,
    )


def _last(one: WordCompetition, near: Any) -> dict[str, Any]:
    """One last word: its bars, its lists and its numbers in words."""
    main = one.main
    return {
        "word": one.last,
        "windows": f"{one.n_sequences:,}",
        "sample": f"{one.n_solved:,}" if one.n_solved < one.n_sequences else "",
        "bars": [
            {
                "word": word.word,
                "log_odds": fixed(word.log_odds, 2),
                "width": max(0.5, 100 * word.share / max(own.share for own in main.words)),
                "share": percent(word.share),
                "chosen": f"{word.chosen:,} of {word.present:,}",
                "rare": word.present < SEEN_OFTEN,
            }
            for word in main.words[:COMPETITORS]
        ],
        "more": max(0, len(main.words) - COMPETITORS),
        "in_all": one.n_compete,
        "alone": len(main.words) == 1,
        "has_rare": any(word.present < SEEN_OFTEN for word in main.words[:COMPETITORS]),
        "ruled_out": _listed(one, Standing.RULED_OUT),
        "wins": _listed(one, Standing.WINS),
        "not_compared": _listed(one, Standing.NOT_COMPARED),
        "others": [
            ", ".join(f"{word.word} {fixed(word.log_odds, 2)}" for word in other.words[:COMPETITORS])
            for other in one.components[1:]
            if len(other.words) > 1
        ],
        "floor": fixed(one.floor, 3),
        "start": fixed(one.start, 3),
        "proven": f"{one.proven_within:.0e}" if math.isfinite(one.proven_within) else "",
        "training": one.training,
        "neighbours": near,
    }


def _listed(one: WordCompetition, standing: Standing) -> dict[str, Any]:
    """Words of one standing with their rates, those that stood often first, and how many are not shown."""
    found = one.standing(standing)
    often = [(word, rate) for word, rate in found if word.present >= SEEN_OFTEN]
    return {
        "words": [
            {"word": word.word, "rate": fixed(rate, 2), "present": f"{word.present:,}"} for word, rate in often[:WORDS]
        ],
        "more": max(0, len(often) - WORDS),
        "rare": len(found) - len(often),
        "total": len(found),
    }
