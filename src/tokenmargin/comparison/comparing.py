"""Several methods on the same corpus: what they say, whether they agree, whether it is so, and the time each took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._progress import Progress, silent
from tokenmargin._provenance import manifest
from tokenmargin.classify.baseline import fit_tfidf_logistic
from tokenmargin.classify.evaluation import evaluate, paired_interval
from tokenmargin.classify.fit_settings import CountedPart, FitSettings, LabelledCorpus, Origin
from tokenmargin.classify.fitting import Counted, counted_parts, train_tokens
from tokenmargin.comparison.agreement import FEWEST_TOKENS, mean_size, on_single_texts, over_a_corpus
from tokenmargin.comparison.comparison import (
    ClassifierPart,
    CompareSettings,
    Comparison,
    CorpusRow,
    Interval,
    ShownText,
    TextRow,
)
from tokenmargin.comparison.corpus_methods import CORPUS_METHODS, Learnt, sizes
from tokenmargin.comparison.faithfulness import Faithfulness, faithfulness, mean_interval
from tokenmargin.comparison.judged import Judged, judged_by
from tokenmargin.comparison.methods import METHODS, OURS, Outcome, run
from tokenmargin.comparison.stability import over_resampled_texts, over_seeds
from tokenmargin.comparison.text_methods import Knowledge
from tokenmargin.errors import InvalidInputError

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "numpy", "scipy", "scikit-learn", "pyarrow", "PyStemmer", "shap", "lime")

#: Tokens in fewer of the texts learnt from are left out of what is compared over the corpus.
FEWEST_DOCUMENTS = 5

#: Texts on which a sampled method is asked twice.
ASKED_TWICE = 20

#: Texts shown with the words that each method names first, how many words, and how many tokens for the whole corpus.
SHOWN_TEXTS, SHOWN_WORDS, SHOWN_TOKENS = 6, 3, 8


@dataclass(frozen=True, eq=False)
class _Study:
    """What was learnt from, what is explained, and what all methods said."""

    classes: tuple[str, ...]
    vocabulary: Sequence[str]
    known: Knowledge
    held: CountedPart  # the texts not learnt from
    chosen: np.ndarray  # rows of them that are explained
    all_judged: tuple[Judged, ...]
    outcomes: dict[str, dict[str, Outcome]]  # by classifier and method
    settings: CompareSettings

    @property
    def tokens(self) -> np.ndarray:
        """Columns that are compared over the corpus."""
        counts = self.known.learnt.counts
        return np.flatnonzero(np.bincount(counts.indices, minlength=counts.shape[1]) >= FEWEST_DOCUMENTS)


def compare_texts(
    corpus: LabelledCorpus,
    fit: FitSettings,
    settings: CompareSettings | None = None,
    test: LabelledCorpus | None = None,
    *,
    origin: Origin | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Learn from labelled texts by two classifiers, explain held-out texts by every method, and judge the methods.

    Args:
        corpus: the texts to learn from; a share of them is held out where no `test` is given.
        fit: how texts become tokens, the share held out, the seed, and whether texts may be shown.
        settings: sizes and time.
        test: texts to explain.
        origin: where the texts came from, for the page.
        progress: called as progress(done, total, what).
    """
    settings, origin = settings or CompareSettings(), origin or Origin()
    ready = counted_parts(corpus, test, fit, progress)
    classes, held = ready.classes, ready.held_out
    learnt, seconds_to_fit = _learnt(ready, fit.seed, progress)
    known, corpus_seconds = _known(learnt, settings, fit.seed)
    chosen = _explained(held, settings.explained, fit.seed)
    all_judged = (
        judged_by("attention", "our classifier", learnt.attention, held.counts[chosen]),
        judged_by("tfidf", "TF-IDF + logistic regression", learnt.tfidf, held.counts[chosen]),
    )
    keys = tuple(key for key in METHODS if key in settings.methods or key == OURS)
    outcomes = {judged.key: _run_all(judged, known, keys, settings, progress) for judged in all_judged}
    study = _Study(classes, ready.counted.vocabulary, known, held, chosen, all_judged, outcomes, settings)
    rows, compared = _corpus_rows(study, corpus_seconds, progress)
    correlation, overlap = over_a_corpus(compared, settings.top)
    right = [judged.classifier.probabilities(held.counts).argmax(axis=1) == held.targets for judged in all_judged]
    return Comparison(
        origin.title,
        classes,
        learnt.counts.shape[0],
        len(chosen),
        len(study.tokens),
        settings,
        rows,
        _as_tuples(correlation),
        _as_tuples(overlap),
        tuple(_classifier_part(study, judged, seconds_to_fit[judged.key]) for judged in all_judged),
        paired_interval(*right),
        _shown(study) if fit.show_texts else (),
        origin.command,
        origin.reading,
        _manifest(fit, settings, origin),
    )


def _manifest(fit: FitSettings, settings: CompareSettings, origin: Origin) -> dict[str, Any]:
    """What is needed to make it again."""
    own = asdict(settings) | {"test_share": fit.test_share, "seed": fit.seed, "recipe": fit.recipe.to_json()}
    return manifest(origin.command, origin.files, own, RECORDED)


def _learnt(ready: Counted, seed: int, progress: Progress) -> tuple[Learnt, dict[str, float]]:
    """Both classifiers, and the seconds that each took, the choice of its penalty included."""
    part = ready.learnt
    begin = time.perf_counter()
    ours = train_tokens(ready, progress)
    middle = time.perf_counter()
    tfidf = fit_tfidf_logistic(part.counts, part.targets, seed=seed)
    end = time.perf_counter()
    learnt = Learnt(part.counts, part.targets, len(ready.classes), ours, tfidf)
    return learnt, {"attention": middle - begin, "tfidf": end - middle}


def _explained(held: CountedPart, most: int, seed: int) -> np.ndarray:
    """Which held-out texts are explained: of those with tokens to be put in order, as many as asked for, at random."""
    long_enough = np.flatnonzero(np.diff(sp.csr_array(held.counts).indptr) >= FEWEST_TOKENS)
    if not len(long_enough):
        raise InvalidInputError(
            f"no held-out text has {FEWEST_TOKENS} different tokens: there is no order of words to compare. Give "
            "longer texts, or a lower minimum count."
        )
    return np.random.default_rng([seed, 5]).permutation(long_enough)[:most]


def _known(learnt: Learnt, settings: CompareSettings, seed: int) -> tuple[Knowledge, dict[str, float]]:
    """The numbers of the methods of a corpus, and the seconds that each took."""
    numbers, seconds = {}, {}
    for key, method in CORPUS_METHODS.items():
        begin = time.perf_counter()
        numbers[key] = method(learnt)
        seconds[key] = time.perf_counter() - begin
    return Knowledge(learnt, numbers, settings.permutations, settings.samples, seed), seconds


def _run_all(
    judged: Judged, known: Knowledge, keys: Sequence[str], settings: CompareSettings, progress: Progress
) -> dict[str, Outcome]:
    found = {}
    for done, key in enumerate(keys):
        found[key] = run(key, judged, known, settings.budget)
        progress(done + 1, len(keys), f"explaining {judged.name}")
    return found


# --- the explanations of one classifier -------------------------------------------------------------------------------


def _classifier_part(study: _Study, judged: Judged, seconds: float) -> ClassifierPart:
    """The methods on one classifier, judged by leaving words out of its texts."""
    outcomes, known, held = study.outcomes[judged.key], study.known, study.held
    numbers = {key: each.numbers for key, each in outcomes.items() if each.numbers is not None}
    judgements = {key: faithfulness(judged, own) for key, own in numbers.items()}
    twice = over_seeds(judged, known, list(numbers), texts=ASKED_TWICE, budget=study.settings.budget)
    rows = []
    for key, outcome in outcomes.items():
        facts = {}
        if key in judgements:
            facts = _facts(judgements[key], judgements[OURS], known.seed) | {"other_seed": twice.get(key)}
        rows.append(TextRow(key, outcome.status, outcome.seconds, outcome.texts, **facts))
    evaluation = evaluate(judged.classifier.probabilities(held.counts), held.targets, study.classes)
    return ClassifierPart(
        judged.key,
        judged.name,
        evaluation.accuracy,
        evaluation.accuracy_interval,
        seconds,
        tuple(rows),
        tuple(numbers),
        _as_tuples(on_single_texts(numbers, judged.counts.indptr)),
    )


def _facts(own: Faithfulness, ours: Faithfulness, seed: int) -> dict[str, Any]:
    return {
        "comprehensiveness": mean_interval(own.comprehensiveness, seed),
        "sufficiency": mean_interval(own.sufficiency, seed),
        "comprehensiveness_over_ours": mean_interval(own.comprehensiveness - ours.comprehensiveness, seed),
        "sufficiency_over_ours": mean_interval(own.sufficiency - ours.sufficiency, seed),
        "deletion": tuple(own.deletion.mean(axis=0).tolist()),
        "insertion": tuple(own.insertion.mean(axis=0).tolist()),
    }


# --- the whole corpus -------------------------------------------------------------------------------------------------


def _corpus_rows(
    study: _Study, seconds: dict[str, float], progress: Progress
) -> tuple[tuple[CorpusRow, ...], dict[str, np.ndarray]]:
    """The methods of a corpus, and of texts as means over the explained ones; and how much each token matters to each.

    A method of texts is shown for the first classifier that it can explain.
    """
    known, tokens, settings = study.known, study.tokens, study.settings
    keys = list(study.outcomes[study.all_judged[0].key])
    own = {key: sizes(known.numbers[key]) for key in keys if key in known.numbers}
    for judged in study.all_judged:
        for key, outcome in study.outcomes[judged.key].items():
            if key not in own and outcome.numbers is not None and key != "random":
                own[key] = mean_size(outcome.numbers, judged.counts.indices, judged.counts.shape[1])
    compared = {key: own[key][tokens] for key in keys if key in own}
    stable = over_resampled_texts(
        known.learnt, tokens, times=settings.resamples, top=settings.top, seed=known.seed, progress=progress
    )
    rows = []
    for key, size in compared.items():
        numbers = known.numbers[key] if key in known.numbers else own[key][:, None]
        interval, interval_top = (_quantiles(stable[key][:, c]) if key in stable else None for c in (0, 1))
        top = _top(study, numbers, is_signed=key in known.numbers and key != "attention")
        rows.append(CorpusRow(key, seconds.get(key), int(np.isfinite(size).sum()), top, interval, interval_top))
    return tuple(rows), compared


def _top(study: _Study, numbers: np.ndarray, is_signed: bool) -> dict[str, tuple[str, ...]]:
    """The tokens that speak most for each class, among those that are compared."""
    own, classes = np.nan_to_num(numbers[study.tokens]), study.classes
    if not is_signed:
        columns = {"": own[:, 0]}
    elif len(classes) == 2:
        columns = {classes[0]: -own[:, 0], classes[1]: own[:, 0]}
    else:
        columns = {name: own[:, k] for k, name in enumerate(classes)}
    return {
        name: tuple(str(study.vocabulary[study.tokens[j]]) for j in np.argsort(-column, kind="stable")[:SHOWN_TOKENS])
        for name, column in columns.items()
    }


def _shown(study: _Study) -> tuple[ShownText, ...]:
    """The first texts of our classifier, with the words that each method names first."""
    judged, shown = study.all_judged[0], []
    for text in range(min(SHOWN_TEXTS, len(study.chosen))):
        own = slice(judged.counts.indptr[text], judged.counts.indptr[text + 1])
        names = [str(study.vocabulary[s]) for s in judged.counts.indices[own]]
        words = {
            key: tuple(names[j] for j in np.argsort(-outcome.numbers[own], kind="stable")[:SHOWN_WORDS])
            for key, outcome in study.outcomes[judged.key].items()
            if outcome.numbers is not None
        }
        row = int(study.chosen[text])
        truth, predicted = (study.classes[k] for k in (study.held.targets[row], judged.predicted[text]))
        shown.append(ShownText(study.held.texts[row], truth, judged.name, predicted, words))
    return tuple(shown)


def _quantiles(values: np.ndarray) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def _as_tuples(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())
