"""A fitted model, judged on texts held out: its numbers beside a peer's, and everything that its page shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._notebook import Told
from tokenmargin._provenance import manifest
from tokenmargin.classify._corpus_claims import corpus_claims
from tokenmargin.classify._page_texts import confused_pairs, documents_shown, examples_shown
from tokenmargin.classify._peers import Peer
from tokenmargin.classify._plain_words import how_far_to_trust_it, what_decides, what_was_learnt
from tokenmargin.classify._resampling import Resampled
from tokenmargin.classify._scale import scale_metrics
from tokenmargin.classify.evaluation import Evaluation, apart_from_repeats, evaluate, paired_interval
from tokenmargin.classify.fit_report import NO_ROW, DocumentView, FitReport
from tokenmargin.classify.fit_settings import CountedPart, FitSettings, Origin
from tokenmargin.classify.text_model import TextModel
from tokenmargin.classify.token_definitions import definitions_for
from tokenmargin.classify.token_fit import Fitted
from tokenmargin.classify.token_table import TokenTable, deciding_tokens
from tokenmargin.data.tokens import TokenDataset

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "numpy", "scipy", "scikit-learn", "pyarrow", "PyStemmer")


#: Tokens of a page times classes; for tokens of the texts that it shows there is as much room. The model keeps all.
PAGE_NUMBERS = 40_000

#: Tokens that a page has for every class, however rare it is.
WORDS_OF_CLASS = 5


@dataclass(frozen=True, eq=False, repr=False)
class FittedTexts(Told):
    """Result of a fit: the model, the table of its tokens, its evaluation, and the page's content."""

    model: TextModel
    tokens: TokenTable
    evaluation: Evaluation
    metrics: dict[str, Any]
    report: FitReport
    chosen: tuple[str, ...] = ()  #: features and cut, in sentences


def evaluated_fit(
    model: TextModel,
    learnt: CountedPart,
    held_out: CountedPart,
    settings: FitSettings,
    origin: Origin,
    seen: np.ndarray,
    known: dict[str, Any],
    *,
    fitted: Fitted,
    peer: tuple[Any, sp.csr_array],
    again: Resampled | None = None,
) -> FittedTexts:
    """A fitted model, judged on texts held out and compared, with everything that its page shows.

    Args:
        model: fitted.
        learnt: the texts learnt from, or some of them: tokens are measured on them.
        held_out: the texts to test on.
        settings: settings of the fit.
        origin: origin of the texts.
        seen: True for held-out texts that also occur among those learnt from, shape (n,) of booleans.
        known: metrics to add to those measured here, or to put in their place.
        fitted: the fit that found the model.
        peer: a classifier that others would use, and the counts by which it is judged, in columns of its own.
        again: results of the fits to resampled texts, if there were any.
    """
    probabilities = model.probabilities(held_out.counts)
    evaluation = evaluate(probabilities, held_out.targets, model.classes)
    names, words = model.counter.vocabulary, model.words
    own = model.tokens, learnt.counts, learnt.targets, model.classes, names, words
    within = model.counter.within_words()
    table = deciding_tokens(*own, None if again is None else again.columns, within)
    # The papers speak of the tokens that were trained: runs of characters are among them.
    trained, is_held = table if within is None else deciding_tokens(*own), not np.isfinite(fitted.ridge_score)
    claims = corpus_claims(trained, fitted.start, _dataset(learnt, model), is_held=is_held)
    repeats = apart_from_repeats(probabilities.argmax(axis=1) == held_out.targets, seen)
    metrics = _metrics(evaluation, learnt, held_out, probabilities, *peer) | _how(fitted) | repeats | known
    metrics |= scale_metrics(model.classes, evaluation.confusion)
    if again is not None:
        metrics["resamples"] = settings.bootstrap
        metrics["first_tokens_that_stay"] = again.steady
    report = _report(model, table, evaluation, metrics, learnt, held_out, probabilities, settings, origin, claims)
    return FittedTexts(model, table, evaluation, metrics, report)


def _metrics(
    evaluation: Evaluation,
    learnt: CountedPart,
    held_out: CountedPart,
    probabilities: np.ndarray,
    peer: Peer,
    of_peer: sp.csr_array,
) -> dict[str, Any]:
    """The content of metrics.json."""
    of_baseline = peer.probabilities(of_peer)
    theirs = evaluate(of_baseline, held_out.targets, evaluation.classes)
    most = int(np.bincount(learnt.targets).argmax())
    ours_right = probabilities.argmax(axis=1) == held_out.targets
    theirs_right = of_baseline.argmax(axis=1) == held_out.targets
    difference, low, high = paired_interval(ours_right, theirs_right)
    return {
        "accuracy": evaluation.accuracy,
        "accuracy_interval": list(evaluation.accuracy_interval),
        "baseline_accuracy": theirs.accuracy,
        "baseline": peer.name,
        "baseline_settings": f"C={peer.C:g}, {len(peer.coefficient):,} tokens, chosen on texts learnt from",
        "majority": float((held_out.targets == most).mean()),
        "majority_class": evaluation.classes[most],
        "difference": difference,
        "difference_interval": [low, high],
        "macro_f1": evaluation.macro_f1,
        "baseline_macro_f1": theirs.macro_f1,
        "auc": evaluation.auc,
        "baseline_auc": theirs.auc,
        "log_loss": evaluation.log_loss,
        "baseline_log_loss": theirs.log_loss if peer.has_probabilities else None,
        "train_documents": len(learnt.targets),
        "test_documents": len(held_out.targets),
        "unread_test_documents": int((np.diff(held_out.counts.indptr) == 0).sum()),
        "tokens": int(learnt.counts.shape[1]),
        "per_class": evaluation.per_class,
    }


def _report(
    model: TextModel,
    table: TokenTable,
    evaluation: Evaluation,
    metrics: dict[str, Any],
    learnt: CountedPart,
    held_out: CountedPart,
    probabilities: np.ndarray,
    settings: FitSettings,
    origin: Origin,
    claims: tuple[dict[str, str], ...],
) -> FitReport:
    """Everything that the page shows."""
    shown: tuple[DocumentView, ...] = ()
    examples: dict[int, tuple[tuple[str, str], ...]] = {}
    if settings.show_texts:
        own = held_out.texts, held_out.rows, held_out.targets
        shown = documents_shown(model, table, *own, probabilities, settings.seed)
        examples = examples_shown(model, table, learnt.texts, learnt.targets, learnt.counts)
    of_page, shown = _selected(table, shown)
    confused = confused_pairs(model, table, held_out.texts, held_out.targets, probabilities.argmax(axis=1))
    return FitReport(
        origin.title,
        model.classes,
        what_was_learnt(table, evaluation, metrics, confused, model.counter.recipe.characters > 0),
        what_decides(of_page),
        how_far_to_trust_it(evaluation, metrics, table),
        of_page,
        shown,
        examples,
        metrics,
        evaluation.calibration,
        evaluation.confusion,
        confused,
        claims,
        origin.reading,
        origin.rows_left_out,
        _manifest(settings, origin, model),
        origin.command,
        definitions_for(len(model.classes)),
        model.counter.recipe.characters > 0,
    )


def _selected(table: TokenTable, shown: tuple[DocumentView, ...]) -> tuple[TokenTable, tuple[DocumentView, ...]]:
    """The tokens that decide most and those of the texts shown, for a page; and the texts with the rows of these."""
    most = max(1, PAGE_NUMBERS // len(table.classes))
    if len(table) <= 2 * most:
        return table, shown
    pulled = np.zeros(len(table))
    for view in shown:
        for mark in view.marks:
            if mark.token != NO_ROW:
                pulled[mark.token] += abs(mark.contribution)
    pulled[:most] = np.inf
    for name in table.classes:
        pulled[table.towards(name, WORDS_OF_CLASS)] = np.inf
    rows = sorted(np.argsort(-pulled, kind="stable")[: 2 * most].tolist())
    number = {row: place for place, row in enumerate(rows)}
    moved = (
        replace(view, marks=tuple(mark._replace(token=number.get(mark.token, NO_ROW)) for mark in view.marks))
        for view in shown
    )
    return table.only(rows), tuple(moved)


def _how(fitted: Fitted) -> dict[str, Any]:
    """The settings that were chosen, for metrics.json."""
    is_held = not np.isfinite(fitted.ridge_score)
    attention = "held where it starts" if is_held else "learnt"
    return {"prior": fitted.prior.value, "ridge": fitted.ridge_value, "attention": attention}


def _dataset(learnt: CountedPart, model: TextModel) -> TokenDataset | None:
    """The texts learnt from as the papers see them, where there are two classes."""
    if len(model.classes) != 2:
        return None
    return TokenDataset(learnt.counts, learnt.targets, model.counter.vocabulary, drop_empty=True)


def _manifest(settings: FitSettings, origin: Origin, model: TextModel) -> dict[str, Any]:
    """Manifest to repeat the fit; no time of day and no duration, so that the same run gives the same bytes."""
    recorded = {"test_share": settings.test_share, "seed": settings.seed, "bootstrap": settings.bootstrap}
    return manifest(origin.command, origin.files, recorded | {"recipe": model.counter.recipe.to_json()}, RECORDED)
