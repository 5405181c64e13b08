"""The page of a study with planted tokens: which method is best when, and what each finds of every level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tokenmargin.comparison.comparison import Interval
from tokenmargin.comparison.methods import OURS
from tokenmargin.comparison.planted import ASKED, PlantedCell, PlantedRow, PlantedStudy
from tokenmargin.comparison.verdicts import conditions_of, planted_verdicts
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render
from tokenmargin.report.number_cells import ABSENT

#: Width and height of a drawing.
WIDTH, HEIGHT = 300, 200

#: A cell has one of as many shades.
SHADES = 4

#: What is varied: the field of a cell, what it is called, and how a value is written.
FACTORS = (("n", "number of texts"), ("noise", "share of labels flipped"), ("rarity", "share of relevant tokens"))


def planted_page(study: PlantedStudy) -> str:
    """The page as HTML: one file that needs no network and no script."""
    ran = [key for key in ASKED if study.cells[0].row(key).found is not None]
    best = max((key for key in ran if key != OURS), key=lambda key: _mean_over(study.cells, key))
    return render(
        "planted.html",
        study=study,
        told=planted_verdicts(study),
        heads=[(f"{cell.n:,}", f"{100 * cell.noise:g}%", f"{100 * cell.rarity:g}%") for cell in study.cells],
        rows=[(ASKED[key].name, key == OURS, [_overall(cell.row(key)) for cell in study.cells]) for key in ran],
        absent_rows=[(ASKED[key].name, study.cells[0].row(key).status) for key in ASKED if key not in ran],
        charts=[_chart(study, ran, best, field, words) for field, words in FACTORS],
        best_name=ASKED[best].name,
        cells=[_cell(study, cell, ran) for cell in study.cells],
        levels=[f"level {k}, δ = {delta:g}" for k, delta in enumerate(study.settings.law.levels, 1)],
        methods=ASKED,
        manifest=manifest_rows(study.manifest),
        width=WIDTH,
        height=HEIGHT,
    )


def _overall(row: PlantedRow) -> tuple[str, str, str, bool]:
    """(share found, interval, look, whether it is best)."""
    mean, interval = _shown(row.found)
    return mean, interval, _look(row.found), row.is_best


def _cell(study: PlantedStudy, cell: PlantedCell, ran: list[str]) -> dict[str, Any]:
    """Precision and recall of each level under one set of conditions."""
    return {
        "conditions": conditions_of(cell),
        "rows": [
            (
                ASKED[key].name,
                key == OURS,
                [
                    (*_shown(each), _look(each))
                    for pair in zip(cell.row(key).precision, cell.row(key).recall, strict=True)
                    for each in pair
                ],
            )
            for key in ran
        ],
    }


def _chart(study: PlantedStudy, ran: list[str], best: str, field: str, words: str) -> dict[str, Any]:
    """What is found over the values of one factor, mean over the others."""
    values = sorted({getattr(cell, field) for cell in study.cells})
    places = np.linspace(0.0, 1.0, len(values)) if len(values) > 1 else np.array([0.5])
    lines, told = [], []
    for key in ran:
        means = [_mean_over([c for c in study.cells if getattr(c, field) == value], key) for value in values]
        look = "ours" if key == OURS else "best" if key == best else "random" if key == "random" else "other"
        points = [(WIDTH * x, HEIGHT * (1 - y)) for x, y in zip(places, means, strict=True)]
        path = "".join(f"{'M' if j == 0 else 'L'}{x:.1f} {y:.1f}" for j, (x, y) in enumerate(points))
        lines.append((look, path, [(f"{x:.1f}", f"{y:.1f}") for x, y in points]))
        if look != "other":
            told.append(f"{ASKED[key].name}: " + ", ".join(f"{100 * mean:.0f}%" for mean in means))
    ticks = [
        (f"{WIDTH * x:.1f}", f"{v:,}" if field == "n" else f"{100 * v:g}%") for x, v in zip(places, values, strict=True)
    ]
    order = {"other": 0, "random": 1, "best": 2, "ours": 3}
    label = f"Share of planted tokens found by {words} ({', '.join(tick for _, tick in ticks)}). {'; '.join(told)}"
    return {"words": words, "lines": sorted(lines, key=lambda line: order[line[0]]), "ticks": ticks, "label": label}


def _mean_over(cells: Any, key: str) -> float:
    found = [cell.row(key).found for cell in cells]
    return float(np.mean([interval[0] for interval in found if interval is not None]))


def _shown(interval: Interval | None) -> tuple[str, str]:
    """A share as a percentage with its interval, which ends at 0 and 100%."""
    if interval is None or not math.isfinite(interval[0]):
        return ABSENT, ""
    mean, low, high = (100 * min(max(value, 0.0), 1.0) for value in interval)
    return f"{mean:.0f}%", f"{low:.0f} to {high:.0f}" if math.isfinite(low) else ""


def _look(interval: Interval | None) -> str:
    if interval is None or not math.isfinite(interval[0]):
        return ""
    shade = min(SHADES, int(interval[0] * (SHADES + 0.99)))
    return f"for shade{shade}" if shade else ""
