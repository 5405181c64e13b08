"""Sentences with the numbers of a comparison: where ours loses comes first."""

from __future__ import annotations

from collections.abc import Sequence

from tokenmargin._sentences import listed
from tokenmargin.comparison.comparison import ClassifierPart, Comparison, Interval, TextRow
from tokenmargin.comparison.methods import METHODS, OURS, RAN

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
            names = listed([f"{METHODS[row.method].name} ({_mean(row.stability):.2f})" for row in steadier])
            told.append(
                f"On resampled texts {NAME} changes its order of tokens more (rank correlation with itself "
                f"{own[0]:.2f}) than {names}."
            )
    return tuple(told) or ("On these texts no method is better than ours beyond what chance would explain.",)


def where_ours_wins(comparison: Comparison) -> tuple[str, ...]:
    """Each measure on which ours is better by more than chance would explain, and the time that it took."""
    told = []
    for part in comparison.classifiers:
        for measure, sign in (("comprehensiveness", 1), ("sufficiency", -1)):
            rows = [row for row in _ran(part) if row.method not in (OURS, "random")]
            beaten = [row for row in rows if sign * _ends(row, measure)[0 if sign < 0 else 1] < 0]
            if beaten:
                names = listed([METHODS[row.method].name for row in beaten])
                who = "all others" if len(beaten) == len(rows) else f"{len(beaten)} of {len(rows)} others: {names}"
                told.append(f"{MEASURES[measure]} for {part.name}: {NAME} is better, beyond chance, than {who}.")
    own = next(row for row in comparison.classifiers[0].rows if row.method == OURS)
    slow = [row for row in _ran(comparison.classifiers[0]) if row.seconds > MUCH * own.seconds]
    if slow:
        names = listed([f"{METHODS[row.method].name} ({row.seconds / own.seconds:,.0f} times)" for row in slow])
        told.append(f"For the same {own.texts:,} texts of our classifier, more seconds than {NAME}: {names}.")
    return tuple(told)


def where_it_is_a_tie(comparison: Comparison) -> tuple[str, ...]:
    """Each measure on which a difference to ours is within chance: nobody wins there."""
    told = []
    mean, low, high = comparison.accuracy_difference
    if low <= 0 <= high:
        told.append(
            f"Accuracy: our classifier and TF-IDF with logistic regression are a tie ({100 * mean:+.1f} points, 95% "
            f"interval {100 * low:+.1f} to {100 * high:+.1f})."
        )
    for part in comparison.classifiers:
        for measure, name in MEASURES.items():
            rows = [row for row in _ran(part) if row.method not in (OURS, "random")]
            tied = [row for row in rows if _ends(row, measure)[0] <= 0 <= _ends(row, measure)[1]]
            if tied:
                names = listed([METHODS[row.method].name for row in tied])
                told.append(f"{name} for {part.name}: {NAME} and {names} are a tie, within chance.")
    stable = {row.method: row.stability for row in comparison.corpus if row.stability is not None}
    own = stable.pop(OURS, None)
    if own is not None:
        tied_names = [METHODS[key].name for key, ends in stable.items() if ends[1] <= own[2] and own[1] <= ends[2]]
        if tied_names:
            told.append(f"Stability of the order of tokens: {NAME} and {listed(tied_names)} are a tie, within chance.")
    return tuple(told)


def not_run(comparison: Comparison) -> tuple[str, ...]:
    """Methods that did not finish, or could not run, and why."""
    return tuple(
        f"{METHODS[row.method].name} for {part.name}: {row.status}."
        for part in comparison.classifiers
        for row in part.rows
        if row.status != RAN
    )


def _loss(part: ClassifierPart, measure: str, better: Sequence[TextRow]) -> str:
    """One measure of one classifier."""
    own = next(row for row in part.rows if row.method == OURS)
    best = better[0]
    mean, low, high = getattr(best, f"{measure}_over_ours")
    others = f"; better than ours too: {listed([METHODS[row.method].name for row in better[1:]])}" if better[1:] else ""
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
