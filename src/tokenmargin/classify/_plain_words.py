"""Plain sentences with numbers that say what a fit found: the first paragraph of its page and of its command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import pi, sqrt
from typing import Any

from tokenmargin._sentences import listed, percent
from tokenmargin.classify.evaluation import Evaluation
from tokenmargin.classify.token_table import TokenTable

#: Tokens named for each class.
NAMED = 8

#: With more classes than this the sentence names fewer tokens of each.
MANY_CLASSES = 3

#: Classes that are named in a sentence at most, and the share below which a class is rare.
MOST_CLASSES, RARE = 8, 0.2

#: With a smaller share of copies among the texts learnt from, intervals are too narrow by less than half of it; with a
#: smaller share of texts that the model can read nothing of, accuracy moves by less.
FEW = 0.01


def what_was_learnt(table: TokenTable, evaluation: Evaluation, metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences that say what the model is, how well it does, and which tokens decide."""
    low, high = evaluation.accuracy_interval
    learnt, held_out, repeated = (metrics[f"{name}_documents"] for name in ("train", "test", "repeated_test"))
    unseen = f"held out, {repeated:,} of them learnt from as well," if repeated else "that it had not seen,"
    sentences = [
        f"From {learnt:,} texts labelled {_labels(table.classes)} the model learnt two numbers for each of "
        f"{len(table):,} tokens: how much attention it gets, and what it then says.",
        f"On {held_out:,} texts {unseen} {percent(evaluation.accuracy)} of its predictions are right "
        f"(95% interval {percent(low)} to {percent(high)}).",
    ]
    sentences.extend(_on_small_classes(evaluation))
    top = NAMED if len(table.classes) <= MANY_CLASSES else NAMED // 2
    if len(table.classes) > MOST_CLASSES:
        worst = sorted(table.classes, key=lambda name: evaluation.per_class[name]["f1"])[:MOST_CLASSES]
        told = ", ".join(f"{name} ({percent(evaluation.per_class[name]['f1'])})" for name in worst)
        return (*sentences, f"It does worst, by F1, on {told}.")
    for name in table.classes:
        rows = table.towards(name, top)
        if rows:
            told = ", ".join(f"“{name}”" for name in dict.fromkeys(shown_as(table, row) for row in rows))
            sentences.append(f"What decides for {name} above all: {told}.")
        else:
            sentences.append(f"No token decides for {name} beyond what chance would explain.")
    return tuple(sentences)


def _labels(classes: Sequence[str]) -> str:
    """The classes by name, or their number where there are many."""
    return listed(classes, "or") if len(classes) <= MOST_CLASSES else f"with one of {len(classes)} classes"


def _on_small_classes(evaluation: Evaluation) -> Iterable[str]:
    """Say how well the smallest class is found, if it is rare: accuracy says little about it."""
    there = evaluation.confusion.sum(axis=1)
    rarest = int(there.argmin())
    name = evaluation.classes[rarest]
    if 0 < there[rarest] < RARE * there.sum():
        own = evaluation.per_class[name]
        yield (
            f"{name} is rare ({percent(there[rarest] / there.sum())} of the texts): of its texts "
            f"{percent(own['recall'])} are found (recall), and of those that are called so "
            f"{percent(own['precision'])} are (precision); F1 is {percent(own['f1'])}, the area under the ROC curve "
            f"{own['auc']:.3f}."
        )


def how_far_to_trust_it(evaluation: Evaluation, metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """Beside what the numbers stand, and what they do not say."""
    baseline, majority, mean = (metrics[name] for name in ("baseline_accuracy", "majority", "difference"))
    low, high = metrics["difference_interval"]
    points = f"{abs(100 * mean):.1f} points {'more' if mean >= 0 else 'less'}"
    sure = "a difference that chance would explain" if low <= 0 <= high else "more than chance would explain"
    sentences = [
        f"The strongest of three usual classifiers ({metrics['baseline']}) is right in {percent(baseline)} of the "
        f"same texts, and always naming the most frequent class in {percent(majority)}: this model has {points} than "
        f"the first (95% interval {100 * low:+.1f} to {100 * high:+.1f}), {sure}.",
    ]
    if evaluation.accuracy_interval[0] <= majority:
        sentences.append("It is not clearly better than naming the most frequent class: do not read much into it.")
    gap, chance = _calibration_gaps(evaluation.calibration)
    sentences.append(
        f"When it says 80%, take it as 80% give or take {_points(gap)}: that is how far its probabilities are off, on "
        f"average; probabilities without fault would seem off by {_points(chance)} with so many texts."
    )
    sentences.extend(_on_repeats(metrics))
    unread, held_out = metrics["unread_test_documents"], metrics["test_documents"]
    if unread > FEW * held_out:
        sentences.append(
            f"{unread:,} of the {held_out:,} texts that it was judged by hold no token that it knows: of all these it "
            "says how frequent each class is."
        )
    sentences.append(
        "A token that decides is one that this model uses. It need not be the cause of anything, and another model may "
        "use others."
    )
    return tuple(sentences)


def _on_repeats(metrics: Mapping[str, Any]) -> Iterable[str]:
    """Say how texts that occur more than once change the numbers."""
    repeated, learnt = metrics["repeated_test_documents"], metrics["train_documents"]
    copied = metrics.get("copied_train_documents", 0)
    if repeated:
        others = "there is no other to judge by"
        if "unrepeated_accuracy" in metrics:
            low, high = metrics["unrepeated_accuracy_interval"]
            others = (
                f"of the other {metrics['test_documents'] - repeated:,}, {percent(metrics['unrepeated_accuracy'])} "
                f"are right (95% interval {percent(low)} to {percent(high)})"
            )
        yield (
            f"{repeated:,} of the texts that it was judged by also stand, word for word, among those that it learnt "
            f"from; they make it look better than it is: {others}."
        )
    if copied > FEW * learnt:
        yield (
            f"{copied:,} of the {learnt:,} texts that it learnt from are copies of others. The intervals of the pulls "
            "take each for a text of its own, and are too narrow: leave the copies out and fit again."
        )


def _calibration_gaps(calibration: Sequence[tuple[float, float, int]]) -> tuple[float, float]:
    """Mean error of the probabilities, in percentage points, and the mean error that chance alone would give.

    Of n texts whose probabilities are p and true, the share that comes true is off by sqrt(2 p (1 - p) / (pi n)).
    """
    texts = max(sum(size for _, _, size in calibration), 1)
    gap = sum(size * abs(said - true) for said, true, size in calibration)
    chance = sum(sqrt(2 * size * max(said * (1 - said), 0.0) / pi) for said, _, size in calibration)
    return 100 * gap / texts, 100 * chance / texts


def _points(gap: float) -> str:
    return "less than a point" if gap < 1 else "1 point" if round(gap) == 1 else f"{gap:.0f} points"


def shown_as(table: TokenTable, row: int) -> str:
    """A token as a person would write it: the most frequent word behind it, where it is not a word itself."""
    words = table.words[row]
    return words.split(", ")[0] if words else str(table.token[row])


def as_written(texts: Iterable[str], apostrophes: str, counts: Mapping[str, int]) -> dict[str, str]:
    """Words that counting writes without their apostrophe, each as most of its occurrences are written: doesn't.

    Args:
        texts: the texts as they were given.
        apostrophes: the characters that counting deletes.
        counts: number of occurrences of each word, as written by counting.
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
