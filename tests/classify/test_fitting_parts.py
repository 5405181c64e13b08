"""A fit to counts that come in parts: the objective of all of them, judged on samples of a fixed size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.classify.corpora import texts
from tokenmargin.classify import FitSettings, fit_parts, fitting_parts
from tokenmargin.classify._objective import Documents, PenalisedLoss
from tokenmargin.classify.prior import Prior, holders
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import count_tokens, plain_recipe
from tokenmargin.training import Checkpoint

SETTINGS = FitSettings(plain_recipe(minimum_count=1), show_texts=False)


@pytest.fixture(scope="module")
def corpus():
    made = texts(n=330)
    counted = count_tokens(made.texts, SETTINGS.recipe)
    return counted, np.array([int(label == "good") for label in made.labels])


def parts_of(corpus, sizes=(100, 7, 150, 73)):
    counted, targets = corpus
    edges = np.cumsum([0, *sizes])
    assert edges[-1] == len(targets)
    return lambda: ((counted.counts[a:b], targets[a:b]) for a, b in pairwise(edges))


def fitted(corpus, **sizes):
    counted, targets = corpus
    return fit_parts(parts_of(corpus, **sizes), len(targets), counted.vocabulary, ("bad", "good"), SETTINGS)


def test_value_and_gradient_are_those_of_all_documents_at_once(corpus):
    counted, targets = corpus
    weights = np.random.default_rng(0).uniform(0.5, 2, len(targets))
    whole = Documents(counted.counts.astype(float), targets, weights)
    cuts = [slice(0, 100), slice(100, 101), slice(101, 330)]
    both = [
        PenalisedLoss(documents, 1, 0.5, Prior.NAIVE_BAYES.belief(holders(*whole, 2)))
        for documents in (whole, lambda: (whole.rows(np.arange(330)[cut]) for cut in cuts))
    ]
    x = np.random.default_rng(1).normal(size=2 * counted.counts.shape[1] + 1)
    answers = []
    for objective in both:
        objective.penalise(0.3, 2.0)
        answers.append(objective.value_and_gradient(x))
    assert np.isclose(answers[0][0], answers[1][0], rtol=1e-13)
    np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=1e-10, atol=1e-13)


def test_what_is_learnt_does_not_depend_on_memory_but_on_the_parts_alone(corpus):
    first, again = fitted(corpus), fitted(corpus)
    assert first.metrics == again.metrics
    assert first.model.tokens.score.tobytes() == again.model.tokens.score.tobytes()
    assert first.metrics["accuracy"] > 0.8 > 0.6 > first.metrics["majority"]
    assert first.metrics["train_documents"] + first.metrics["test_documents"] == 330
    assert "measured_documents" not in first.metrics
    assert set(first.tokens.token[first.tokens.towards("good", 3)]) == {"superb", "lovely", "best"}


def test_a_large_corpus_is_learnt_from_whole_and_measured_on_a_sample(corpus, monkeypatch):
    whole = fitted(corpus)
    monkeypatch.setattr(fitting_parts, "SAMPLE", 130)
    monkeypatch.setattr(fitting_parts, "MOST_HELD_OUT", 60)
    found = fitted(corpus)
    metrics = found.metrics
    assert metrics["train_documents"] + metrics["test_documents"] == 330
    assert 90 < metrics["measured_documents"] < 170 < metrics["train_documents"]
    assert 35 < metrics["test_documents"] < 90
    assert metrics["accuracy"] > 0.75
    assert any("of the" in sentence and "texts learnt from" in sentence for sentence in found.report.reading)
    # The values are those of a fit to (nearly) all texts, not of a fit to the sample.
    assert np.corrcoef(found.model.tokens.value[:, 0], whole.model.tokens.value[:, 0])[0, 1] > 0.98


class Stop(Exception):
    """An interruption in the middle of the fit."""


def test_an_interrupted_fit_ends_in_the_same_bytes(corpus, monkeypatch, tmp_path):
    counted, targets = corpus
    monkeypatch.setattr(fitting_parts, "SAMPLE", 130)
    monkeypatch.setattr(fitting_parts, "MOST_HELD_OUT", 60)
    monkeypatch.setattr(fitting_parts, "MOST_STEPS", 199)  # which tells it from the fit to the sample
    monkeypatch.setattr(fitting_parts, "TOLERANCE", 1e-9)
    whole, steps = fitted(corpus), []

    def go_on(progress=lambda *_: None, targets=targets):
        given = (parts_of((counted, targets)), len(targets), counted.vocabulary, ("bad", "good"), SETTINGS)
        return fit_parts(*given, checkpoint=Checkpoint(tmp_path, every=1), progress=progress)

    def stop(done, total, what):
        if what == "fitting" and total == fitting_parts.MOST_STEPS and done == 4:
            raise Stop

    with pytest.raises(Stop):
        go_on(stop)
    found = go_on(lambda done, total, what: steps.append((done, total)) if what == "fitting" else None)
    of_sample = [done for done, total in steps if total != fitting_parts.MOST_STEPS]
    assert len(of_sample) == 1  # all but the last step of the fit to the sample were kept
    assert steps[1][0] == 4  # and three of the fit to all
    assert found.metrics == whole.metrics
    for name in ("score", "value", "intercept"):
        assert getattr(found.model.tokens, name).tobytes() == getattr(whole.model.tokens, name).tobytes()
    with pytest.raises(InvalidInputError, match="documents: saved"):
        go_on(targets=np.roll(targets, 1))


def test_copies_of_texts_learnt_from_are_counted(corpus):
    counted, targets = corpus
    twice = [(counted.counts, targets)] * 2
    found = fit_parts(lambda: iter(twice), 660, counted.vocabulary, ("bad", "good"), SETTINGS)
    # A copy is learnt from unless it is held out too, by a chance of one in five.
    assert 0.7 * found.metrics["test_documents"] < found.metrics["repeated_test_documents"]
    assert found.metrics["repeated_test_documents"] < found.metrics["test_documents"]


def test_what_cannot_be_done_is_refused(corpus):
    counted, targets = corpus
    again = FitSettings(SETTINGS.recipe, bootstrap=3)
    with pytest.raises(InvalidInputError, match="leave bootstrap out"):
        fit_parts(parts_of(corpus), 330, counted.vocabulary, ("bad", "good"), again)
    with pytest.raises(InvalidInputError, match="too few of each class"):
        fit_parts(lambda: iter([(counted.counts[:2], targets[:2])]), 2, counted.vocabulary, ("a", "b"), SETTINGS)
