"""Plain sentences with numbers that say what a fit found: the first paragraph of its page and of its command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import pi, sqrt
from typing import Any

from tokenmargin._sentences import listed, percent
from tokenmargin.classify.evaluation import Evaluation
from tokenmargin.classify.fit_report import ConfusedPair, Deciding
from tokenmargin.classify.token_table import TokenTable

#: Tokens named for each class.
NAMED = 8

#: With more classes than this the sentence names fewer tokens of each.
MANY_CLASSES = 3

#: Classes that are named in a sentence at most, and the share below which a class is rare, if it is below half of an
#: equal share as well.
MOST_CLASSES, RARE = 8, 0.2

#: With a smaller share of copies among the texts learnt from, intervals are too narrow by less than half of it; with a
#: smaller share of texts that the model can read nothing of, accuracy moves by less.
FEW = 0.01


def what_was_learnt(
    table: TokenTable,
    evaluation: Evaluation,
    metrics: Mapping[str, Any],
    confused: Sequence[ConfusedPair] = (),
    has_runs: bool = False,
) -> tuple[str, ...]:
    """Sentences that say how well the model does and what it is; of many classes, those that it does worst on.

    Args:
        table: words and phrases, or tokens.
        evaluation: how held-out texts were judged.
        metrics: numbers of metrics.json.
        confused: pairs of classes that are confused, the most frequent first.
        has_runs: True if the model reads runs of characters, which the table counts with their words.
    """
    low, high = evaluation.accuracy_interval
    learnt, held_out, repeated = (metrics[f"{name}_documents"] for name in ("train", "test", "repeated_test"))
    unseen = f"held out, {repeated:,} of them learnt from as well," if repeated else "that it had not seen,"
    runs = " (words, phrases and runs of characters)" if has_runs else ""
    sentences = [
        f"On {held_out:,} texts {unseen} {percent(evaluation.accuracy)} of its predictions are right "
        f"(95% interval {percent(low)} to {percent(high)}).",
        *_on_the_scale(metrics),
        *_on_small_classes(evaluation),
        f"From {learnt:,} texts labelled {_labels(table.classes)} the model learnt two numbers for each of "
        f"{metrics['tokens']:,} tokens{runs}: how much attention it gets, and what it then says.",
    ]
    if len(table.classes) > MOST_CLASSES:
        sentences.extend(_on_many_classes(evaluation, confused))
    return tuple(sentences)


def what_decides(table: TokenTable) -> tuple[Deciding, ...]:
    """The tokens that decide most for each class, or those that nearly do; none where classes are many."""
    if len(table.classes) > MOST_CLASSES:
        return ()
    top = NAMED if len(table.classes) <= MANY_CLASSES else NAMED // 2
    found = []
    for name in table.classes:
        sure = table.towards(name, top)
        rows: dict[str, int] = {}
        for row in sure or table.nearly_sure(name, top // 2):
            rows.setdefault(shown_as(table, row), row)  # Of two that people write in the same way the first one counts.
        found.append(Deciding(name, rows, len(sure) > 0))
    return tuple(found)


def _labels(classes: Sequence[str]) -> str:
    """The classes by name, or their number where there are many."""
    return listed(classes, "or") if len(classes) <= MOST_CLASSES else f"with one of {len(classes)} classes"


def _on_the_scale(metrics: Mapping[str, Any]) -> Iterable[str]:
    """Say how far off predictions are where labels are steps of a scale, and what is made of their order."""
    if "within_one_step" in metrics:
        yield (
            f"The labels are steps of a scale: {percent(metrics['within_one_step'])} of the predictions are right or "
            f"one step off, and the mean error is {metrics['mean_steps_off']:.2f} steps. Each step is learnt as a "
            "class of its own; the order is used to judge, not to learn."
        )


def _on_many_classes(evaluation: Evaluation, confused: Sequence[ConfusedPair]) -> Iterable[str]:
    """Name the classes that the model does worst on, and the pairs that it confuses most."""
    score = {name: evaluation.per_class[name]["f1"] for name in evaluation.classes}
    worst = sorted((name for name in score if score[name] < 1), key=score.__getitem__)[: MOST_CLASSES // 2]
    if worst:
        yield f"It does worst, by F1, on {', '.join(f'{name} ({percent(score[name])})' for name in worst)}."
    if confused:
        pairs = (
            f"{pair.truth} for {pair.predicted} ({pair.texts:,} {'text' if pair.texts == 1 else 'texts'}"
            + (f": “{pair.words[0][0]}”)" if pair.words else ")")
            for pair in confused[: MOST_CLASSES // 4]
        )
        yield f"What it mistakes most often: {listed(pairs)}."


def _on_small_classes(evaluation: Evaluation) -> Iterable[str]:
    """Say how well the smallest class is found, if it is rare: accuracy says little about it."""
    there = evaluation.confusion.sum(axis=1)
    rarest = int(there.argmin())
    name = evaluation.classes[rarest]
    # Of seven equal classes each has a seventh, and none is rare.
    few = min(RARE, 0.5 / len(there)) * there.sum()
    if 0 < there[rarest] < few and len(evaluation.classes) <= MOST_CLASSES:
        own = evaluation.per_class[name]
        yield (
            f"{name} is rare ({percent(there[rarest] / there.sum())} of the texts): of its texts "
            f"{percent(own['recall'])} are found (recall), and of those that are called so "
            f"{percent(own['precision'])} are (precision); F1 is {percent(own['f1'])}, the area under the ROC curve "
            f"{own['auc']:.3f}."
        )


def how_far_to_trust_it(
    evaluation: Evaluation, metrics: Mapping[str, Any], table: TokenTable | None = None
) -> tuple[str, ...]:
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
    if table is not None:
        sentences.extend(_on_ranks(table, metrics))
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


def _on_ranks(table: TokenTable, metrics: Mapping[str, Any]) -> Iterable[str]:
    """Say how steady the order of the tokens is, beside the usual methods; who is steadier is named."""
    if table.first is None or table.rank_low is None or table.rank_high is None or not len(table):
        return
    stay = metrics["first_tokens_that_stay"]
    ours, others = stay["this model"], {name: share for name, share in stay.items() if name != "this model"}
    better = [name for name, share in others.items() if share > ours]
    beside = listed(f"{percent(share, 0)} of those of {name}" for name, share in others.items())
    verdict = f"{listed(better)} {'is' if len(better) == 1 else 'are'} steadier" if better else "neither is steadier"
    yield (
        f"Fitted again to {metrics['resamples']} draws of the texts, “{shown_as(table, 0)}” stands first in "
        f"{percent(float(table.first[0]), 0)} (in 95% of them from rank {table.rank_low[0]:,} to "
        f"{table.rank_high[0]:,}), and {percent(ours, 0)} of its first 20 tokens stay among them; {beside} do: "
        f"{verdict}."
    )


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
    token, words = table.as_written(row)
    return words.split(", ")[0] if words else token


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
