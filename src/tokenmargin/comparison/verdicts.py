"""What a comparison, or a study with planted tokens, comes to in sentences with numbers: where ours loses first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tokenmargin.comparison.comparison import ClassifierPart, Comparison, Interval, TextRow
from tokenmargin.comparison.methods import METHODS, OURS, RAN
from tokenmargin.comparison.planted import ASKED, PlantedCell, PlantedStudy

#: What varies: the field of a cell, and how a sentence begins about one of its values.
FACTORS: dict[str, Callable[[Any], str]] = {
    "n": lambda n: f"With {n:,} texts",
    "noise": lambda share: f"With {100 * share:g}% of labels flipped",
    "rarity": lambda share: f"With {100 * share:g}% of tokens relevant",
}

#: A method is named among the slow where it needs this many times our seconds.
MUCH = 100.0

MEASURES = {
    "comprehensiveness": "Comprehensiveness (more is better)",
    "sufficiency": "Sufficiency (less is better)",
}

NAME = METHODS[OURS].name.removesuffix(" (ours)")


def where_ours_loses(comparison: Comparison) -> tuple[str, ...]:
    """Each measure on which another method, or the other classifier, is better than chance would explain."""
    told = []
    mean, low, high = comparison.accuracy_difference
    if high < 0:
        told.append(
            f"Our classifier is right less often than TF-IDF with logistic regression: {100 * mean:+.1f} points "
            f"(95% interval {100 * low:+.1f} to {100 * high:+.1f})."
        )
    for part in comparison.classifiers:
        for measure, sign in (("comprehensiveness", 1), ("sufficiency", -1)):
            better = _better(part, measure, sign)
            if better:
                told.append(_loss(part, measure, better))
    stable = [row for row in comparison.corpus if row.stability is not None]
    own = next((row.stability for row in stable if row.method == OURS), None)
    if own is not None:
        steadier = [row for row in stable if row.stability is not None and row.stability[1] > own[2]]
        if steadier:
            names = _listed([f"{METHODS[row.method].name} ({_mean(row.stability):.2f})" for row in steadier])
            told.append(
                f"On resampled texts {NAME} changes its order of tokens more (rank correlation with itself "
                f"{own[0]:.2f}) than {names}."
            )
    return tuple(told) or ("On these texts no method is better than ours beyond what chance would explain.",)


def where_ours_wins(comparison: Comparison) -> tuple[str, ...]:
    """The same the other way round, and the time that it took."""
    told = []
    for part in comparison.classifiers:
        for measure, sign in (("comprehensiveness", 1), ("sufficiency", -1)):
            rows = [row for row in _ran(part) if row.method not in (OURS, "random")]
            beaten = [row for row in rows if sign * _ends(row, measure)[0 if sign < 0 else 1] < 0]
            if beaten:
                names = _listed([METHODS[row.method].name for row in beaten])
                who = "all others" if len(beaten) == len(rows) else f"{len(beaten)} of {len(rows)} others: {names}"
                told.append(f"{MEASURES[measure]} for {part.name}: {NAME} is better, beyond chance, than {who}.")
    own = next(row for row in comparison.classifiers[0].rows if row.method == OURS)
    slow = [row for row in _ran(comparison.classifiers[0]) if row.seconds > MUCH * own.seconds]
    if slow:
        names = _listed([f"{METHODS[row.method].name} ({row.seconds / own.seconds:,.0f} times)" for row in slow])
        told.append(f"For the same {own.texts:,} texts of our classifier, more seconds than {NAME}: {names}.")
    return tuple(told)


def not_run(comparison: Comparison) -> tuple[str, ...]:
    """Methods that did not finish, or could not run, and why."""
    return tuple(
        f"{METHODS[row.method].name} for {part.name}: {row.status}."
        for part in comparison.classifiers
        for row in part.rows
        if row.status != RAN
    )


def conditions_of(cell: PlantedCell) -> str:
    """A cell's conditions."""
    return (
        f"{cell.n:,} texts, {100 * cell.noise:g}% of labels flipped, {100 * cell.rarity:g}% of tokens relevant "
        f"(a planted token occurs {cell.occurrences:,.0f} times)"
    )


def planted_verdicts(study: PlantedStudy) -> tuple[str, ...]:
    """Where ours is behind first, then which method is best when."""
    behind = [cell for cell in study.cells if not cell.row(OURS).is_best]
    total, name = len(study.cells), METHODS[OURS].name
    told = []
    if behind:
        worst = max(behind, key=lambda cell: _mean(cell.row(OURS).behind_best))
        finder = max(worst.rows, key=lambda row: _mean(row.found))
        told.append(
            f"{name} is behind the best method, beyond chance, under {len(behind)} of {total} conditions; farthest "
            f"with {conditions_of(worst)}: it finds {100 * _mean(worst.row(OURS).found):.0f}% of the planted tokens, "
            f"{ASKED[finder.method].name} {100 * _mean(finder.found):.0f}%."
        )
    else:
        told.append(f"{name} is behind the best method, beyond chance, under none of {total} conditions.")
    best: dict[str, int] = {}
    level: dict[str, int] = {}
    for key, description in ASKED.items():
        where = [cell.row(key).behind_best for cell in study.cells if cell.row(key).is_best]
        best[description.name] = sum(behind == (0.0, 0.0, 0.0) for behind in where)
        level[description.name] = len(where)
    for words, counts in (("Best", best), ("Best, or not to be told from it by these draws", level)):
        counted = sorted(((name, count) for name, count in counts.items() if count), key=lambda pair: -pair[1])
        told.append(f"{words}, of {total} conditions: {', '.join(f'{name} {count}' for name, count in counted)}.")
    for factor, begin in FACTORS.items():
        values = sorted({getattr(cell, factor) for cell in study.cells})
        for value in dict.fromkeys((values[0], values[-1])) if len(values) > 1 else ():
            told.append(_on_average([c for c in study.cells if getattr(c, factor) == value], begin(value)))
    return tuple(told)


def _on_average(cells: Sequence[PlantedCell], words: str) -> str:
    """Who finds most under some of the conditions, and what ours finds there."""
    keys = [key for key in ASKED if all(cell.row(key).found for cell in cells)]
    means = {key: float(np.mean([_mean(cell.row(key).found) for cell in cells])) for key in keys}
    first = max(means, key=lambda key: means[key])
    return f"{words}: {ASKED[first].name} finds most, {100 * means[first]:.0f}%; ours {100 * means[OURS]:.0f}%."


def _loss(part: ClassifierPart, measure: str, better: Sequence[TextRow]) -> str:
    """One measure of one classifier."""
    own = next(row for row in part.rows if row.method == OURS)
    best = better[0]
    mean, low, high = getattr(best, f"{measure}_over_ours")
    others = (
        f"; better than ours too: {_listed([METHODS[row.method].name for row in better[1:]])}" if better[1:] else ""
    )
    return (
        f"{MEASURES[measure]} for {part.name}: {METHODS[best.method].name} has {_mean(getattr(best, measure)):.3f}, "
        f"{NAME} {_mean(getattr(own, measure)):.3f} (difference {mean:+.4f}, 95% interval {low:+.4f} to "
        f"{high:+.4f}){others}."
    )


def _better(part: ClassifierPart, measure: str, sign: int) -> list[TextRow]:
    """Methods whose whole interval of the difference to ours is on the better side, the best first."""
    found = [row for row in _ran(part) if sign * _ends(row, measure)[0 if sign > 0 else 1] > 0]
    return sorted(found, key=lambda row: -sign * _mean(getattr(row, f"{measure}_over_ours")))


def _ran(part: ClassifierPart) -> list[TextRow]:
    return [row for row in part.rows if row.status == RAN]


def _ends(row: TextRow, measure: str) -> tuple[float, float]:
    interval: Interval = getattr(row, f"{measure}_over_ours")
    return interval[1], interval[2]


def _mean(interval: Interval | None) -> float:
    return float("nan") if interval is None else interval[0]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
