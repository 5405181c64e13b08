"""From labelled texts to a model, its judgement on held-out texts, and everything that its page shows."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked, share, whole_number
from tokenmargin._fingerprint import fingerprint
from tokenmargin._progress import Progress, silent
from tokenmargin._provenance import manifest
from tokenmargin._types import Map
from tokenmargin.classify._corpus_claims import corpus_claims
from tokenmargin.classify._page_texts import documents_shown, examples_shown
from tokenmargin.classify._plain_words import as_written, how_far_to_trust_it, what_was_learnt
from tokenmargin.classify._repeated_fits import chosen_fit, pull_spread
from tokenmargin.classify._splitting import copies, held_out, repeated_across
from tokenmargin.classify.baseline import fit_tfidf_logistic
from tokenmargin.classify.deciding_tokens import DEFINITIONS, TokenTable, deciding_tokens
from tokenmargin.classify.evaluation import Evaluation, apart_from_repeats, evaluate, paired_interval
from tokenmargin.classify.fit_report import DocumentView, FitReport
from tokenmargin.classify.fit_tokens import Fitted
from tokenmargin.classify.text_model import TextModel
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import CountedTexts, Recipe, TokenCounter, count_tokens
from tokenmargin.training.checkpoint import Checkpoint, Stages, computed_by

#: Parts of the package that decide what a fit computes.
COMPUTED_BY = ("data", "sources", "text", "classify")

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "numpy", "scipy", "scikit-learn", "pyarrow", "PyStemmer")


@checked
@dataclass(frozen=True)
class LabelledCorpus:
    """Texts with their classes, and their rows in the file, from 0, where they are not all of it in order."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    rows: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """One label a text, and at least one text."""
        if len(self.texts) != len(self.labels):
            raise InvalidInputError(f"{len(self.texts)} texts with {len(self.labels)} labels: give one label a text.")
        if self.rows is not None and len(self.rows) != len(self.texts):
            raise InvalidInputError(f"{len(self.texts)} texts with {len(self.rows)} rows: give one row a text.")
        if not self.texts:
            raise InvalidInputError("there are no texts: give texts of at least two classes.")


@checked
@dataclass(frozen=True)
class FitSettings:
    """What a fit depends on besides the texts.

    Args:
        recipe: how texts become tokens.
        test_share: of the texts, held out to judge by, where no test texts are given.
        seed: of everything random.
        bootstrap: how many times the model is fitted again to texts drawn with repeats.
        show_texts: whether texts may be shown on the page.
    """

    recipe: Recipe
    test_share: float = 0.2
    seed: int = 0
    bootstrap: int = 0
    show_texts: bool = True

    def __post_init__(self) -> None:
        """A share that leaves texts to learn from, 0 where others are judged by; and numbers that count."""
        share(self.test_share or 0.5, "test_share")  # 0 is right where other texts are judged by
        whole_number(self.seed, "seed", 0)
        whole_number(self.bootstrap, "bootstrap", 0)


@dataclass(frozen=True)
class Origin:
    """Where the texts came from, for the page and the manifest."""

    title: str = "texts"
    command: str = ""
    reading: tuple[str, ...] = ()
    rows_left_out: tuple[tuple[str, int, str], ...] = ()
    files: dict[str, str] = field(default_factory=dict)  #: names with digests


@dataclass(frozen=True, eq=False)
class FittedTexts:
    """What a fit gives: the model, the table of its tokens, how it was judged, and the page's content."""

    model: TextModel
    tokens: TokenTable
    evaluation: Evaluation
    metrics: dict[str, Any]
    report: FitReport


@dataclass(frozen=True, eq=False)
class CountedPart:
    """Some of the texts, counted; `texts` and `rows` are empty where texts are not kept."""

    texts: list[str]
    rows: list[int]  # places in the file, from 0
    targets: np.ndarray
    counts: sp.csr_array


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
    """Count, train, judge on texts held out, compare with TF-IDF and logistic regression, and collect the page.

    Args:
        corpus: the texts to learn from; a share of them is held out where no `test` is given.
        settings: how.
        test: texts to judge by.
        origin: where the texts came from, for the page.
        map: spreads counting and the fits to resampled texts, such as the `map` of a cluster; with the same numbers.
        progress: called as progress(done, total, what).
        checkpoint: where finished stages (a ridge, the fit, one of the resampled fits) and the fit under way are kept,
            and taken up by the same fit.
    """
    classes = tuple(sorted(set(corpus.labels)))
    if len(classes) < 2:
        raise InvalidInputError(f"all texts are of the class {classes[0]!r}: give texts of at least two classes.")
    counted, learnt, judged = counted_parts(corpus, test, classes, settings, progress, map)
    stages = Stages(checkpoint, lambda: _belongs_to(learnt))
    fitted = train_tokens(learnt, len(classes), settings.seed, progress, stages)
    model = TextModel(
        TokenCounter(settings.recipe, counted.vocabulary), fitted.model, classes, words_behind(counted, learnt.texts)
    )
    drawn = settings.seed, settings.bootstrap
    spread = pull_spread(learnt.counts, learnt.targets, fitted, drawn, stages, map, progress)
    seen, known = repeated_across(learnt.texts, judged.texts), {"copied_train_documents": copies(learnt.texts)}
    told = origin or Origin()
    return judged_fit(model, learnt, judged, settings, told, seen, known, spread=spread, progress=progress)


def judged_fit(
    model: TextModel,
    learnt: CountedPart,
    judged: CountedPart,
    settings: FitSettings,
    origin: Origin,
    seen: np.ndarray,
    known: dict[str, Any],
    *,
    spread: np.ndarray | None = None,
    progress: Progress = silent,
) -> FittedTexts:
    """A fitted model, judged on texts held out and compared, with everything that its page shows.

    Args:
        model: fitted.
        learnt: the texts learnt from, or some of them: tokens are measured on them, and the peer learns from them.
        judged: the texts to judge by.
        settings: of the fit.
        origin: of the texts.
        seen: which texts to judge by also stand among those learnt from, shape (n,) of booleans.
        known: what metrics hold beside what is measured here, or in its place.
        spread: of the pulls, where the model was fitted again.
        progress: called as progress(done, total, what).
    """
    probabilities = model.tokens.probabilities(judged.counts)
    evaluation = evaluate(probabilities, judged.targets, model.classes)
    names, words = model.counter.vocabulary, model.words
    table = deciding_tokens(model.tokens, learnt.counts, learnt.targets, model.classes, names, words, spread=spread)
    progress(0, 1, "comparing with TF-IDF and logistic regression")
    repeats = apart_from_repeats(probabilities.argmax(axis=1) == judged.targets, seen)
    metrics = _metrics(evaluation, learnt, judged, probabilities, settings.seed) | repeats | known
    progress(1, 1, "comparing with TF-IDF and logistic regression")
    report = _report(model, table, evaluation, metrics, learnt, judged, probabilities, settings, origin)
    return FittedTexts(model, table, evaluation, metrics, report)


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
    names = []
    for column, token in enumerate(counted.vocabulary):
        words = [token] if is_whole else list(counted.word_map.words_of(column))[:most]
        shown = [" ".join(written.get(word, word) for word in each.split(" ")) for each in words]
        names.append("" if shown in ([], [token]) else ", ".join(shown))
    return tuple(names)


def counted_parts(
    corpus: LabelledCorpus,
    test: LabelledCorpus | None,
    classes: tuple[str, ...],
    settings: FitSettings,
    progress: Progress,
    map: Map = builtins.map,
) -> tuple[CountedTexts, CountedPart, CountedPart]:
    """The texts cut in two; the vocabulary is that of the texts learnt from, so that nothing leaks."""
    number = {name: k for k, name in enumerate(classes)}
    targets = np.array([number[label] for label in corpus.labels])
    if test is None:
        out = held_out(targets, settings.test_share, settings.seed, classes)
        texts, rows, wanted = list(corpus.texts), np.flatnonzero(out), targets[out]
        judged_texts, own_rows = [texts[row] for row in rows], corpus.rows
    else:
        unknown = sorted(set(test.labels) - set(classes))
        if unknown:
            raise InvalidInputError(
                f"the test texts have the label {unknown[0]!r}, which no text that is learnt from has: leave it out "
                "with a label map."
            )
        out, texts = np.zeros(len(targets), dtype=bool), list(corpus.texts)
        judged_texts, rows, own_rows = list(test.texts), np.arange(len(test.texts)), test.rows
        wanted = np.array([number[label] for label in test.labels])
    kept = np.flatnonzero(~out)
    learnt_texts = [texts[row] for row in kept]
    counted = count_tokens(learnt_texts, settings.recipe, map=map, progress=progress)
    judged = TokenCounter(settings.recipe, counted.vocabulary).counts(judged_texts)
    return (
        counted,
        CountedPart(learnt_texts, kept.tolist(), targets[kept], counted.counts),
        CountedPart(judged_texts, rows.tolist() if own_rows is None else [own_rows[j] for j in rows], wanted, judged),
    )


def train_tokens(
    learnt: CountedPart, n_classes: int, seed: int, progress: Progress, stages: Stages | None = None
) -> Fitted:
    """A fit to all texts learnt from, with the ridge that does best on a tenth of them when fitted to the others."""
    return chosen_fit(learnt.counts, learnt.targets, n_classes, seed, stages or Stages(None, dict), progress)


def _belongs_to(learnt: CountedPart) -> dict[str, str]:
    counts = learnt.counts
    texts = fingerprint(counts.indptr, counts.indices, counts.data, learnt.targets)
    return {"texts": texts} | computed_by(*COMPUTED_BY, device=False)


def _metrics(
    evaluation: Evaluation, learnt: CountedPart, judged: CountedPart, probabilities: np.ndarray, seed: int
) -> dict[str, Any]:
    """What metrics.json holds."""
    baseline = fit_tfidf_logistic(learnt.counts, learnt.targets, seed=seed)
    of_baseline = baseline.probabilities(judged.counts)
    theirs = evaluate(of_baseline, judged.targets, evaluation.classes)
    most = int(np.bincount(learnt.targets).argmax())
    ours_right = probabilities.argmax(axis=1) == judged.targets
    theirs_right = of_baseline.argmax(axis=1) == judged.targets
    difference, low, high = paired_interval(ours_right, theirs_right)
    return {
        "accuracy": evaluation.accuracy,
        "accuracy_interval": list(evaluation.accuracy_interval),
        "baseline_accuracy": theirs.accuracy,
        "baseline": f"TF-IDF with logistic regression, C={baseline.C:g} chosen on a tenth of the texts learnt from",
        "majority": float((judged.targets == most).mean()),
        "majority_class": evaluation.classes[most],
        "difference": difference,
        "difference_interval": [low, high],
        "macro_f1": evaluation.macro_f1,
        "baseline_macro_f1": theirs.macro_f1,
        "auc": evaluation.auc,
        "baseline_auc": theirs.auc,
        "log_loss": evaluation.log_loss,
        "baseline_log_loss": theirs.log_loss,
        "train_documents": len(learnt.targets),
        "test_documents": len(judged.targets),
        "unread_test_documents": int((np.diff(judged.counts.indptr) == 0).sum()),
        "tokens": int(learnt.counts.shape[1]),
        "per_class": evaluation.per_class,
    }


def _report(
    model: TextModel,
    table: TokenTable,
    evaluation: Evaluation,
    metrics: dict[str, Any],
    learnt: CountedPart,
    judged: CountedPart,
    probabilities: np.ndarray,
    settings: FitSettings,
    origin: Origin,
) -> FitReport:
    """Everything that the page shows."""
    shown: tuple[DocumentView, ...] = ()
    examples: dict[int, tuple[tuple[str, str], ...]] = {}
    if settings.show_texts:
        shown = documents_shown(model, table, judged.texts, judged.rows, judged.targets, probabilities, settings.seed)
        examples = examples_shown(model, table, learnt.texts, learnt.targets, learnt.counts)
    return FitReport(
        origin.title,
        model.classes,
        what_was_learnt(table, evaluation, metrics),
        how_far_to_trust_it(evaluation, metrics),
        table,
        shown,
        examples,
        metrics,
        evaluation.calibration,
        evaluation.confusion,
        corpus_claims(table, len(learnt.targets), _dataset(learnt, model)),
        origin.reading,
        origin.rows_left_out,
        _manifest(settings, origin),
        origin.command,
        DEFINITIONS,
    )


def _dataset(learnt: CountedPart, model: TextModel) -> TokenDataset | None:
    """The texts learnt from as the papers see them, where there are two classes."""
    if len(model.classes) != 2:
        return None
    return TokenDataset(learnt.counts, learnt.targets, model.counter.vocabulary, drop_empty=True)


def _manifest(settings: FitSettings, origin: Origin) -> dict[str, Any]:
    """What is needed to make it again; no time of day and no duration, so that the same run gives the same bytes."""
    recorded = {"test_share": settings.test_share, "seed": settings.seed, "bootstrap": settings.bootstrap}
    return manifest(origin.command, origin.files, recorded | {"recipe": settings.recipe.to_json()}, RECORDED)
