"""Fit a model to labelled texts, test it on held-out texts, and make everything that its page shows."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._fingerprint import fingerprint
from tokenmargin._progress import Progress, silent
from tokenmargin._types import Map
from tokenmargin.classify._candidates import Choice
from tokenmargin.classify._peers import strongest_peer
from tokenmargin.classify._plain_words import as_written
from tokenmargin.classify._resampling import resampled
from tokenmargin.classify._scale import class_names
from tokenmargin.classify._splitting import copies, held_out_mask, repeated_across
from tokenmargin.classify.features import choose_features
from tokenmargin.classify.fit_settings import CountedPart, FitSettings, LabelledCorpus, Origin
from tokenmargin.classify.judging import FittedTexts, evaluated_fit
from tokenmargin.classify.text_model import TextModel
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import CUT, CountedTexts, TokenCounter, count_tokens
from tokenmargin.training.checkpoint import Checkpoint, Stages, computed_by

#: What tables write where there is no value.
MISSING = ("nan", "na", "n/a", "none", "null", "?")

#: Classes that are left out and named.
SHOWN = 10

#: More words than there are.
ALL = 1 << 40

#: Parts of the package that decide what a fit computes.
COMPUTED_BY = ("data", "sources", "text", "classify")


@checked
def fit_texts(
    corpus: LabelledCorpus,
    settings: FitSettings,
    test: LabelledCorpus | None = None,
    *,
    origin: Origin | None = None,
    map: Map = builtins.map,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
) -> FittedTexts:
    """Choose features, count, train, judge on texts held out beside the strongest peer, and collect the page.

    Args:
        corpus: the texts to learn from; a share of them is held out where no `test` is given.
        settings: settings of the fit.
        test: texts to test on.
        origin: origin of the texts, for the page.
        map: spreads counting and the fits to resampled texts, such as the `map` of a cluster; with the same numbers.
        progress: called as progress(done, total, what).
        checkpoint: store of the choices, of the fit and of fits to resampled texts; the same fit continues from it.
    """
    ready = counted_parts(corpus, test, settings, progress, map)
    counted, learnt, held_out = ready.counted, ready.learnt, ready.held_out
    stages = Stages(checkpoint, lambda: _belongs_to(learnt))
    fitted = train_tokens(ready, progress, stages)
    words = words_behind(counted, learnt.texts)
    base = np.bincount(learnt.targets) / len(learnt.targets)
    model = TextModel(TokenCounter(counted.recipe, counted.vocabulary), fitted.model, ready.classes, words, base)
    drawn = settings.seed, settings.bootstrap
    again = resampled(learnt.counts, learnt.targets, fitted, drawn, stages, model.counter.within_words(), map, progress)
    seen, known = repeated_across(learnt.texts, held_out.texts), {"copied_train_documents": copies(learnt.texts)}
    progress(0, 1, "comparing with peers")
    uncut = count_tokens(learnt.texts, replace(counted.recipe, minimum_count=1), map=map)
    peer = strongest_peer(uncut.counts, learnt.targets, settings.seed)
    of_peer = TokenCounter(uncut.recipe, uncut.vocabulary).counts(held_out.texts)
    progress(1, 1, "comparing with peers")
    told = origin or Origin()
    told = replace(told, reading=(*told.reading, *ready.said))
    evaluated = evaluated_fit(
        model, learnt, held_out, settings, told, seen, known, fitted=fitted, peer=(peer, of_peer), again=again
    )
    return replace(evaluated, chosen=ready.said)


class Counted(NamedTuple):
    """Texts cut in two and counted in the same columns."""

    classes: tuple[str, ...]
    counted: CountedTexts  #: counts of the texts learnt from
    learnt: CountedPart
    held_out: CountedPart
    choice: Choice | None  #: prior and ridges chosen with the features
    said: tuple[str, ...]  #: why, in sentences


def counted_parts(
    corpus: LabelledCorpus,
    test: LabelledCorpus | None,
    settings: FitSettings,
    progress: Progress = silent,
    map: Map = builtins.map,
) -> Counted:
    """Cut the texts in two and count them; features and vocabulary are those of the texts learnt from."""
    corpus, alone = _without_single_texts(corpus) if test is None else (corpus, ())
    classes = class_names(corpus.labels)
    if len(classes) < 2:
        raise InvalidInputError(f"all texts are of the class {classes[0]!r}: give texts of at least two classes.")
    number = {name: k for k, name in enumerate(classes)}
    targets = np.array([number[label] for label in corpus.labels])
    if test is None:
        out = held_out_mask(targets, settings.test_share, settings.seed, classes)
        rows, wanted, own_rows = np.flatnonzero(out), targets[out], corpus.rows
        test_texts = [corpus.texts[row] for row in rows]
    else:
        unknown = sorted(set(test.labels) - set(classes))
        if unknown:
            raise InvalidInputError(
                f"the test texts have the label {unknown[0]!r}, which no text that is learnt from has: leave it out "
                "with a label map."
            )
        out, rows, own_rows = np.zeros(len(targets), dtype=bool), np.arange(len(test.texts)), test.rows
        test_texts, wanted = list(test.texts), np.array([number[label] for label in test.labels])
    kept = np.flatnonzero(~out)
    texts = [corpus.texts[row] for row in kept]
    counted, choice, said = _counted(texts, targets[kept], settings, progress, map)
    counts = TokenCounter(counted.recipe, counted.vocabulary).counts(test_texts)
    return Counted(
        classes,
        counted,
        CountedPart(texts, kept.tolist(), targets[kept], counted.counts),
        CountedPart(test_texts, rows.tolist() if own_rows is None else [own_rows[j] for j in rows], wanted, counts),
        choice,
        (*alone, *alike_labels(classes), *said),
    )


def _without_single_texts(corpus: LabelledCorpus) -> tuple[LabelledCorpus, tuple[str, ...]]:
    """The texts of classes that have two or more, if that leaves two classes; and what is said of the others."""
    sizes = Counter(corpus.labels)
    single = sorted(name for name, size in sizes.items() if size == 1)
    if not single or len(sizes) - len(single) < 2:
        return corpus, ()
    kept = [j for j, label in enumerate(corpus.labels) if sizes[label] > 1]
    rows = range(len(corpus.labels)) if corpus.rows is None else corpus.rows
    texts, labels = (tuple(column[j] for j in kept) for column in (corpus.texts, corpus.labels))
    named = ", ".join(map(repr, single[:SHOWN])) + (", ..." if len(single) > SHOWN else "")
    are = "class with one text only is" if len(single) == 1 else "classes with one text only are"
    said = f"{len(single)} {are} left out, as it cannot be both learnt from and judged by: {named}"
    return LabelledCorpus(texts, labels, tuple(rows[j] for j in kept)), (said,)


def alike_labels(classes: Sequence[str]) -> tuple[str, ...]:
    """Sentences about labels that are mostly a mistake: no value, or one class written in two ways."""
    alike: dict[str, list[str]] = {}
    for name in classes:
        alike.setdefault(" ".join(name.casefold().split()), []).append(name)
    missing = tuple(
        f"the label {name!r} reads like a missing value and is taken for a class: a label map leaves its texts out"
        for name in classes
        if name.strip().casefold() in MISSING
    )
    return missing + tuple(
        f"the labels {' and '.join(map(repr, names))} differ in capitals or blanks alone and are taken for classes of "
        "their own: a label map makes one class of them"
        for names in alike.values()
        if len(names) > 1
    )


def _counted(
    texts: Sequence[str], targets: np.ndarray, settings: FitSettings, progress: Progress, map: Map
) -> tuple[CountedTexts, Choice | None, tuple[str, ...]]:
    if settings.candidates is None:
        return count_tokens(texts, settings.recipe, map=map, progress=progress), None, ()
    return choose_features(texts, targets, settings.recipe, settings.candidates, map=map, progress=progress)


def train_tokens(ready: Counted, progress: Progress = silent, stages: Stages | None = None) -> Fitted:
    """Fit to all texts learnt from; what was not chosen with the features is chosen now."""
    choice, own = ready.choice, ready.learnt
    return fit_tokens(
        own.counts,
        own.targets,
        len(ready.classes),
        prior=None if choice is None else choice.prior,
        ridge_value=None if choice is None else choice.ridge_value,
        ridge_score=None if choice is None else choice.ridge_score,
        warm=None if choice is None else choice.warm,
        calibration=None if choice is None else choice.calibration,
        progress=progress,
        checkpoint=None if stages is None else stages.checkpoint("fit"),
    )


def fitted_model(
    corpus: LabelledCorpus, settings: FitSettings, progress: Progress = silent
) -> tuple[TextModel, tuple[str, ...]]:
    """Learn from all texts, with nothing held out and nothing judged: the model, and what was chosen in sentences."""
    classes = class_names(corpus.labels)
    number = {name: k for k, name in enumerate(classes)}
    targets = np.array([number[label] for label in corpus.labels])
    counted, choice, said = _counted(corpus.texts, targets, settings, progress, builtins.map)
    part = CountedPart(list(corpus.texts), list(range(len(targets))), targets, counted.counts)
    fitted = train_tokens(Counted(classes, counted, part, part, choice, said), progress)
    counter = TokenCounter(counted.recipe, counted.vocabulary)
    base = np.bincount(targets) / len(targets)
    return TextModel(counter, fitted.model, classes, ("",) * len(counted.vocabulary), base), said


def words_behind(counted: CountedTexts, texts: Sequence[str] = (), most: int = 5) -> tuple[str, ...]:
    """The words that became each token, the most frequent first; "" where a token is its own only word.

    Args:
        counted: the tokens and their words.
        texts: those that were counted; with them a word has the apostrophe that counting deletes.
        most: words of a token that are named.
    """
    listed = zip(counted.word_map.words, counted.word_map.counts.tolist(), strict=True)
    written = as_written(texts, counted.recipe.apostrophes, dict(listed))
    is_whole = not counted.recipe.word_piece and not counted.recipe.cuts_stems
    names, known = [], set(counted.vocabulary)
    for column, token in enumerate(counted.vocabulary):
        words = [token] if is_whole and CUT not in token else counted.word_map.most_frequent(column, most)
        if CUT in token and counted.recipe.characters:  # it speaks for words that are no tokens themselves
            words = [word for word in counted.word_map.most_frequent(column, ALL) if word not in known][:most] or words
        shown = [" ".join(written.get(word, word) for word in each.split(" ")) for each in words]
        names.append("" if shown in ([], [token]) else ", ".join(shown))
    return tuple(names)


def _belongs_to(learnt: CountedPart) -> dict[str, str]:
    counts = learnt.counts
    texts = fingerprint(counts.indptr, counts.indices, counts.data, learnt.targets)
    return {"texts": texts} | computed_by(*COMPUTED_BY, device=False)
