"""From labelled texts to a model, its judgement on held-out texts, and everything that its page shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked
from tokenmargin._progress import Progress, silent
from tokenmargin._provenance import commit, machine, versions
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.explain._baseline import tfidf_logistic_regression
from tokenmargin.explain._corpus_claims import corpus_claims
from tokenmargin.explain._page_texts import documents_shown, examples_shown
from tokenmargin.explain._plain_words import how_far_to_trust_it, what_was_learnt
from tokenmargin.explain._splitting import held_out, repeated_across
from tokenmargin.explain.deciding_tokens import DEFINITIONS, TokenTable, deciding_tokens, mean_pull
from tokenmargin.explain.evaluation import SMALLEST, Evaluation, evaluate, paired_interval
from tokenmargin.explain.fit_report import DocumentView, FitReport
from tokenmargin.explain.fit_tokens import Fitted, fit_tokens
from tokenmargin.explain.text_model import TextModel
from tokenmargin.text import CountedTexts, Recipe, TokenCounter, count_tokens

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "numpy", "scipy", "scikit-learn", "pyarrow", "PyStemmer", "stopwordsiso")


#: Ridges that are tried on a part of the texts learnt from; a class smaller than this has too few texts for that.
RIDGES = (0.02, 0.05, 0.12, 0.25, 0.5, 1.0, 2.0, 5.0)
CHOOSING_SHARE, FEWEST_TO_CHOOSE = 0.1, 50

#: A ridge is judged long before its minimum is exact.
CHOOSING_TOL = 1e-3


@checked
@dataclass(frozen=True)
class LabelledCorpus:
    """Texts with their classes."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        """One label a text, and at least one text."""
        if len(self.texts) != len(self.labels):
            raise InvalidInputError(f"{len(self.texts)} texts with {len(self.labels)} labels: give one label a text.")
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
class _Part:
    """Some of the texts, counted."""

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
    progress: Progress = silent,
) -> FittedTexts:
    """Count, train, judge on texts held out, compare with TF-IDF and logistic regression, and collect the page.

    Args:
        corpus: the texts to learn from; a share of them is held out where no `test` is given.
        settings: how.
        test: texts to judge by.
        origin: where the texts came from, for the page.
        progress: called as progress(done, total, what).
    """
    classes = tuple(sorted(set(corpus.labels)))
    if len(classes) < 2:
        raise InvalidInputError(f"all texts are of the class {classes[0]!r}: give texts of at least two classes.")
    counted, learnt, judged = _counted(corpus, test, classes, settings, progress)
    fitted = _trained(learnt, len(classes), settings.seed, progress)
    tokens = fitted.model
    counter = TokenCounter(settings.recipe, counted.vocabulary)
    model = TextModel(counter, tokens, classes, words_behind(counted))
    probabilities = tokens.probabilities(judged.counts)
    evaluation = evaluate(probabilities, judged.targets, classes)
    spread = _spread(learnt, fitted, settings, progress)
    table = deciding_tokens(
        tokens, learnt.counts, learnt.targets, classes, counted.vocabulary, model.words, spread=spread
    )
    progress(0, 1, "comparing with TF-IDF and logistic regression")
    metrics = _metrics(evaluation, learnt, judged, probabilities, settings.seed)
    progress(1, 1, "comparing with TF-IDF and logistic regression")
    repeated = repeated_across(learnt.texts, judged.texts)
    metrics["repeated_test_documents"] = repeated
    report = _report(model, table, evaluation, metrics, learnt, judged, probabilities, settings, origin or Origin())
    return FittedTexts(model, table, evaluation, metrics, report)


def words_behind(counted: CountedTexts, most: int = 5) -> tuple[str, ...]:
    """The words that became each token, the most frequent first; "" where a token is its own only word."""
    if not counted.recipe.word_piece and not counted.recipe.cuts_stems:
        return ("",) * len(counted.vocabulary)
    names = []
    for column, token in enumerate(counted.vocabulary):
        words = list(counted.word_map.words_of(column))
        names.append("" if words in ([], [token]) else ", ".join(words[:most]))
    return tuple(names)


def _counted(
    corpus: LabelledCorpus,
    test: LabelledCorpus | None,
    classes: tuple[str, ...],
    settings: FitSettings,
    progress: Progress,
) -> tuple[CountedTexts, _Part, _Part]:
    """The texts cut in two; the vocabulary is that of the texts learnt from, so that nothing leaks."""
    number = {name: k for k, name in enumerate(classes)}
    targets = np.array([number[label] for label in corpus.labels])
    if test is None:
        out = held_out(targets, settings.test_share, settings.seed)
        texts, rows, wanted = list(corpus.texts), np.flatnonzero(out), targets[out]
        judged_texts = [texts[row] for row in rows]
    else:
        unknown = sorted(set(test.labels) - set(classes))
        if unknown:
            raise InvalidInputError(
                f"the test texts have the label {unknown[0]!r}, which no text that is learnt from has: leave it out "
                "with a label map."
            )
        out, texts = np.zeros(len(targets), dtype=bool), list(corpus.texts)
        judged_texts, rows = list(test.texts), np.arange(len(test.texts))
        wanted = np.array([number[label] for label in test.labels])
    kept = np.flatnonzero(~out)
    learnt_texts = [texts[row] for row in kept]
    counted = count_tokens(learnt_texts, settings.recipe, progress=progress)
    judged = TokenCounter(settings.recipe, counted.vocabulary).counts(judged_texts)
    return (
        counted,
        _Part(learnt_texts, kept.tolist(), targets[kept], counted.counts),
        _Part(judged_texts, rows.tolist(), wanted, judged),
    )


def _trained(learnt: _Part, n_classes: int, seed: int, progress: Progress) -> Fitted:
    """A fit to all texts learnt from, with the ridge that does best on a tenth of them when fitted to the others."""
    if np.bincount(learnt.targets).min() < FEWEST_TO_CHOOSE:
        return fit_tokens(learnt.counts, learnt.targets, n_classes, progress=progress)
    out = held_out(learnt.targets, CHOOSING_SHARE, seed)
    losses = []
    for done, ridge in enumerate(RIDGES):
        tried = fit_tokens(learnt.counts[~out], learnt.targets[~out], n_classes, ridge_value=ridge, tol=CHOOSING_TOL)
        p = tried.model.probabilities(learnt.counts[out])[np.arange(out.sum()), learnt.targets[out]]
        losses.append(-np.log(np.maximum(p, SMALLEST)).mean())
        progress(done + 1, len(RIDGES), "choosing the ridge")
    return fit_tokens(
        learnt.counts, learnt.targets, n_classes, ridge_value=RIDGES[int(np.argmin(losses))], progress=progress
    )


def _spread(learnt: _Part, fitted: Fitted, settings: FitSettings, progress: Progress) -> np.ndarray | None:
    """The standard deviation of each token's pull over fits to texts drawn with repeats, shape (V, K')."""
    if not settings.bootstrap:
        return None
    n = len(learnt.targets)
    rng = np.random.default_rng([settings.seed, 1])
    pulls = []
    for done in range(settings.bootstrap):
        weights = rng.multinomial(n, np.full(n, 1 / n)).astype(np.float64)
        again = fit_tokens(
            learnt.counts,
            learnt.targets,
            fitted.model.n_classes,
            sample_weight=weights,
            ridge_value=fitted.ridge_value,
        )
        pulls.append(mean_pull(again.model, learnt.counts))
        progress(done + 1, settings.bootstrap, "fitting again to resampled texts")
    return np.std(pulls, axis=0, ddof=1 if len(pulls) > 1 else 0)


def _metrics(
    evaluation: Evaluation, learnt: _Part, judged: _Part, probabilities: np.ndarray, seed: int
) -> dict[str, Any]:
    """What metrics.json holds."""
    baseline = tfidf_logistic_regression(learnt.counts, learnt.targets, judged.counts, seed)
    theirs = evaluate(baseline.probabilities, judged.targets, evaluation.classes)
    most = int(np.bincount(learnt.targets).argmax())
    ours_right = probabilities.argmax(axis=1) == judged.targets
    theirs_right = baseline.probabilities.argmax(axis=1) == judged.targets
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
        "tokens": int(learnt.counts.shape[1]),
        "per_class": evaluation.per_class,
    }


def _report(
    model: TextModel,
    table: TokenTable,
    evaluation: Evaluation,
    metrics: dict[str, Any],
    learnt: _Part,
    judged: _Part,
    probabilities: np.ndarray,
    settings: FitSettings,
    origin: Origin,
) -> FitReport:
    """Everything that the page shows."""
    difference = (metrics["difference"], *metrics["difference_interval"])
    shown: tuple[DocumentView, ...] = ()
    examples: dict[int, tuple[tuple[str, str], ...]] = {}
    if settings.show_texts:
        shown = documents_shown(model, table, judged.texts, judged.rows, judged.targets, probabilities, settings.seed)
        examples = examples_shown(model, table, learnt.texts, learnt.targets, learnt.counts)
    return FitReport(
        origin.title,
        model.classes,
        what_was_learnt(table, evaluation, len(learnt.targets), len(judged.targets)),
        how_far_to_trust_it(
            evaluation,
            difference,
            metrics["baseline_accuracy"],
            metrics["majority"],
            metrics["repeated_test_documents"],
        ),
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


def _dataset(learnt: _Part, model: TextModel) -> TokenDataset | None:
    """The texts learnt from as the papers see them, where there are two classes."""
    if len(model.classes) != 2:
        return None
    return TokenDataset(learnt.counts, learnt.targets, model.counter.vocabulary, drop_empty=True)


def _manifest(settings: FitSettings, origin: Origin) -> dict[str, Any]:
    """What is needed to make it again; no time of day and no duration, so that the same run gives the same bytes."""
    recorded = {"test_share": settings.test_share, "seed": settings.seed, "bootstrap": settings.bootstrap}
    return {
        "command": origin.command,
        "files": origin.files,
        "settings": recorded | {"recipe": settings.recipe.to_json()},
        "commit": commit(),
        "versions": versions(RECORDED),
        **machine(),
    }
