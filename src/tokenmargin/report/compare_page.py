"""The page of a comparison of methods: where ours loses, whether the named words matter, and whether methods agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tokenmargin._sentences import ABSENT, fixed, percent
from tokenmargin.comparison.comparison import ClassifierPart, Comparison, Interval, TextRow
from tokenmargin.comparison.faithfulness import SHARES
from tokenmargin.comparison.methods import METHODS, OURS, RAN
from tokenmargin.comparison.verdicts import not_run, where_it_is_a_tie, where_ours_loses, where_ours_wins
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render
from tokenmargin.report._shades import shade

#: Width and height of a curve's drawing.
WIDTH, HEIGHT = 300, 200


def compare_page(comparison: Comparison) -> str:
    """The page as HTML: one file that needs no network and no script."""
    keys = [row.method for row in comparison.corpus]
    return render(
        "compare.html",
        comparison=comparison,
        losses=where_ours_loses(comparison),
        wins=where_ours_wins(comparison),
        ties=where_it_is_a_tie(comparison),
        not_run=not_run(comparison),
        parts=[_part(part) for part in comparison.classifiers],
        corpus=[_corpus_row(comparison, row) for row in range(len(comparison.corpus))],
        matrices=[
            ("correlation", "Rank correlation", _matrix(keys, comparison.correlation)),
            ("overlap", f"Overlap of the top {comparison.settings.top}", _matrix(keys, comparison.overlap)),
        ],
        methods=METHODS,
        ours=OURS,
        ran=RAN,
        manifest=manifest_rows(comparison.manifest),
        percent=percent,
        width=WIDTH,
        height=HEIGHT,
        absent=ABSENT,
    )


def _part(part: ClassifierPart) -> dict[str, Any]:
    """One classifier: its rows, the most comprehensive first, its curves and its matrix."""
    ran = sorted((row for row in part.rows if row.comprehensiveness), key=lambda row: -_mean(row.comprehensiveness))
    others = [row for row in part.rows if not row.comprehensiveness]
    best = next((row.method for row in ran if row.method != OURS), "")
    return {
        "part": part,
        "rows": [_text_row(row) for row in (*ran, *others)],
        "best": best,
        "curves": [
            _curve("Left out", "the probability that remains without the first words", ran, best, "deletion"),
            _curve("Left in", "the probability with the first words alone", ran, best, "insertion"),
        ],
        "matrix": _matrix(part.agreeing, part.agreement),
    }


def _text_row(row: TextRow) -> dict[str, Any]:
    """A method's numbers in words; the verdict is about ours."""
    return {
        "row": row,
        "name": METHODS[row.method].name,
        "comprehensiveness": _interval(row.comprehensiveness),
        "sufficiency": _interval(row.sufficiency),
        "verdicts": [
            _verdict(row, "comprehensiveness_over_ours", 1),
            _verdict(row, "sufficiency_over_ours", -1),
        ],
        "seconds": _seconds(row.seconds) if row.status == RAN else ABSENT,
        "rate": _rate(row),
        "other_seed": ABSENT if row.other_seed is None else fixed(row.other_seed, 2),
    }


def _verdict(row: TextRow, measure: str, sign: int) -> tuple[str, str]:
    """The difference to ours, and who is better: (interval in words, "ours loses", "ours wins" or "tie")."""
    interval: Interval | None = getattr(row, measure)
    if interval is None or row.method == OURS:
        return ABSENT, ""
    low, high = sorted(sign * end for end in interval[1:])
    return _interval(interval, signed=True)[0], "ours loses" if low > 0 else "ours wins" if high < 0 else "tie"


def _curve(title: str, meaning: str, rows: Sequence[TextRow], best: str, which: str) -> dict[str, Any]:
    """Curves of mean probability over the share of tokens: ours and the best other drawn out, random dashed."""
    lines = []
    for row in rows:
        points = getattr(row, which)
        path = "".join(
            f"{'M' if j == 0 else 'L'}{WIDTH * share:.1f} {HEIGHT * (1 - p):.1f}"
            for j, (share, p) in enumerate(zip(SHARES, points, strict=True))
        )
        look = "ours" if row.method == OURS else "best" if row.method == best else row.method
        lines.append((look if look in ("ours", "best", "random") else "other", path))
    order = {"other": 0, "random": 1, "best": 2, "ours": 3}  # what matters is drawn last, on top
    told = [row for row in rows if row.method in (OURS, best, "random")]
    label = "; ".join(
        f"{METHODS[row.method].name}: "
        + ", ".join(f"{100 * p:.0f}% at {100 * q:.0f}%" for q, p in zip(SHARES, getattr(row, which), strict=True))
        for row in told
    )
    return {"title": title, "meaning": meaning, "lines": sorted(lines, key=lambda line: order[line[0]]), "label": label}


def _corpus_row(comparison: Comparison, place: int) -> dict[str, Any]:
    """A method's tokens, and how steady it is."""
    row = comparison.corpus[place]
    return {
        "name": METHODS[row.method].name,
        "seconds": ABSENT if row.seconds is None else _seconds(row.seconds),
        "tokens": f"{row.tokens:,}",
        "top": [(f"→ {name}" if name else "either way", ", ".join(tokens)) for name, tokens in row.top.items()],
        "stability": _interval(row.stability, decimals=2),
        "stability_top": _interval(row.stability_top, decimals=2),
    }


def _matrix(keys: Sequence[str], numbers: Sequence[Sequence[float]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """(name, [(number, look)]) for each row; the names of the columns are the numbers of the rows."""
    return [
        (METHODS[key].name, [(fixed(value, 2), shade(value)) for value in row])
        for key, row in zip(keys, numbers, strict=True)
    ]


def _interval(interval: Interval | None, decimals: int = 3, signed: bool = False) -> tuple[str, str]:
    """A mean and its interval."""
    if interval is None:
        return ABSENT, ""
    mean, low, high = (fixed(value, decimals, signed=signed) for value in interval)
    return mean, f"{low} to {high}"


def _rate(row: TextRow) -> str:
    """Texts a second, with two digits."""
    if row.status != RAN or row.seconds <= 0:
        return ABSENT
    rate = row.texts / row.seconds
    digits = max(0, 1 - math.floor(math.log10(rate))) if rate > 0 else 0
    return f"{round(rate, 1 - math.floor(math.log10(rate))):,.{digits}f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def _mean(interval: Interval | None) -> float:
    return float("nan") if interval is None else interval[0]
