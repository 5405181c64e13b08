"""What a fit found, in plain sentences with numbers: the first paragraph of its page and of its command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tokenmargin.explain.deciding_tokens import TokenTable
from tokenmargin.explain.evaluation import Evaluation

#: Tokens named for each class.
NAMED = 8

#: With more classes than this the sentence names fewer tokens of each.
MANY_CLASSES = 3


def what_was_learnt(table: TokenTable, evaluation: Evaluation, n_learnt: int, n_judged: int) -> tuple[str, ...]:
    """What the model is, how well it does, and which tokens decide."""
    low, high = evaluation.accuracy_interval
    sentences = [
        f"From {n_learnt:,} texts labelled {_listed(table.classes, 'or')} the model learnt two numbers for each of "
        f"{len(table):,} tokens: how much attention it gets, and what it then says.",
        f"On {n_judged:,} texts that it had not seen, {_percent(evaluation.accuracy)} of its predictions are right "
        f"(95% interval {_percent(low)} to {_percent(high)}).",
    ]
    top = NAMED if len(table.classes) <= MANY_CLASSES else NAMED // 2
    for name in table.classes:
        rows = table.towards(name, top)
        if rows:
            told = ", ".join(f"“{shown_as(table, row)}”" for row in rows)
            sentences.append(f"What decides for {name} above all: {told}.")
        else:
            sentences.append(f"No token decides for {name} beyond what chance would explain.")
    return tuple(sentences)


def how_far_to_trust_it(
    evaluation: Evaluation,
    difference: tuple[float, float, float],
    baseline_accuracy: float,
    majority: float,
    repeated: int,
) -> tuple[str, ...]:
    """Beside what the numbers stand, and what they do not say."""
    mean, low, high = difference
    points = f"{abs(100 * mean):.1f} points {'more' if mean >= 0 else 'less'}"
    sure = "a difference that chance would explain" if low <= 0 <= high else "more than chance would explain"
    sentences = [
        f"TF-IDF with logistic regression is right in {_percent(baseline_accuracy)} of the same texts, and always "
        f"naming the most frequent class in {_percent(majority)}: this model has {points} than the first "
        f"(95% interval {100 * low:+.1f} to {100 * high:+.1f}), {sure}.",
    ]
    if evaluation.accuracy_interval[0] <= majority:
        sentences.append("It is not clearly better than naming the most frequent class: do not read much into it.")
    texts = sum(size for _, _, size in evaluation.calibration)
    gap = 100 * sum(size * abs(said - true) for said, true, size in evaluation.calibration) / max(texts, 1)
    points = "less than a point" if gap < 1 else "1 point" if round(gap) == 1 else f"{gap:.0f} points"
    sentences.append(
        f"When it says 80%, take it as 80% give or take {points}: that is how far its probabilities are off, on "
        "average."
    )
    if repeated:
        sentences.append(
            f"{repeated:,} of the texts that it was judged by also stand, word for word, among those that it learnt "
            "from; they make it look better than it is."
        )
    sentences.append(
        "A token that decides is one that this model uses. It need not be the cause of anything, and another model may "
        "use others."
    )
    return tuple(sentences)


def shown_as(table: TokenTable, row: int) -> str:
    """A token as a person would write it: the most frequent word behind it, where it is not a word itself."""
    words = table.words[row]
    return words.split(", ")[0] if words else str(table.token[row])


def as_written(texts: Iterable[str], apostrophes: str, counts: Mapping[str, int]) -> dict[str, str]:
    """Words that counting writes without their apostrophe, each as most of its occurrences are written: doesn't.

    Args:
        texts: as they were given.
        apostrophes: the characters that counting deletes.
        counts: how often each word occurs, as counting writes it.
    """
    if not apostrophes:
        return {}
    within = re.compile(rf"\w+(?:[{re.escape(apostrophes)}]\w+)+")
    found = Counter(form for text in texts for form in within.findall(text.lower()))
    deleted = str.maketrans("", "", apostrophes)
    written: dict[str, str] = {}
    for form, times in found.most_common():
        bare = form.translate(deleted)
        if bare not in written and 2 * times > counts.get(bare, 2 * times):
            written[bare] = form
    return written


def _listed(names: Sequence[str], last: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
