"""Numbers that a token has in a whole corpus, beside other people's code and by the book."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.feature_selection import chi2
from sklearn.linear_model import LogisticRegression

from tests.comparison.models import learnt
from tokenmargin.classify.token_table import deciding_tokens
from tokenmargin.comparison.corpus_methods import (
    CORPUS_METHODS,
    PRIOR_WORDS,
    chi_squared,
    counts_by_class,
    dirichlet_log_odds,
    sizes,
)


@pytest.fixture(scope="module", params=[2, 3])
def own(request):
    return learnt(request.param)


def test_chi_squared_is_that_of_scikit_learn_with_a_sign(own):
    ours = chi_squared(own)
    directions = [1] if own.n_classes == 2 else range(own.n_classes)
    for column, k in enumerate(directions):
        theirs, _ = chi2(own.counts, own.targets == k)
        np.testing.assert_allclose(np.abs(ours[:, column]), theirs, rtol=1e-10)
        assert ours[k, column] > 0


def test_log_odds_with_a_prior_by_the_book(own):
    by_class = counts_by_class(own)
    total, words = by_class.sum(axis=1), by_class.sum()
    ours = dirichlet_log_odds(own)
    for column, k in enumerate([1] if own.n_classes == 2 else range(own.n_classes)):
        for s in range(len(total)):
            prior = PRIOR_WORDS * total[s] / words
            y, rest = by_class[s, k], total[s] - by_class[s, k]
            n, m = by_class[:, k].sum(), words - by_class[:, k].sum()
            odds = np.log((y + prior) / (n + PRIOR_WORDS - y - prior))
            odds -= np.log((rest + prior) / (m + PRIOR_WORDS - rest - prior))
            error = np.sqrt(1 / (y + prior) + 1 / (rest + prior))
            assert ours[s, column] == pytest.approx(odds / error, rel=1e-9)


def test_signed_frequency_and_posterior_difference_are_those_of_the_table(own):
    names = [str(k) for k in range(own.n_classes)]
    vocabulary = [str(s) for s in range(own.counts.shape[1])]
    table = deciding_tokens(own.attention, own.counts, own.targets, names, vocabulary)
    place = np.argsort(table.column)
    np.testing.assert_array_equal(CORPUS_METHODS["alpha"](own), table.alpha[place])
    np.testing.assert_array_equal(CORPUS_METHODS["posterior_difference"](own), table.posterior_difference[place])
    np.testing.assert_allclose(CORPUS_METHODS["attention_value"](own), table.pull[place], rtol=1e-12)
    np.testing.assert_allclose(CORPUS_METHODS["attention"](own)[:, 0], table.attention[place], rtol=1e-12)


@pytest.mark.parametrize("key", ["alpha", "posterior_difference", "chi_squared", "dirichlet_log_odds"])
def test_flipped_labels_flip_the_sign_and_shuffled_ones_leave_little(key):
    own = learnt(n=400)
    method = CORPUS_METHODS[key]
    flipped = replace(own, targets=1 - own.targets)
    np.testing.assert_allclose(method(flipped), -method(own), atol=1e-12)
    shuffled = replace(own, targets=np.random.default_rng(1).permutation(own.targets))
    assert sizes(method(shuffled))[:2].max() < 0.5 * sizes(method(own))[:2].min()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_telling_tokens_come_first_whatever_the_method(n_classes):
    own = learnt(n_classes, n=900)
    for key, method in CORPUS_METHODS.items():
        if key == "attention" or (key == "alpha" and n_classes > 2):
            continue  # no sign; and against two classes, what is in every text has a large signed frequency
        first = set(np.argsort(-sizes(method(own)))[: own.n_classes].tolist())
        assert first == set(range(own.n_classes)), key


def test_the_linear_classifier_is_scikit_learns(own):
    weights = TfidfTransformer(sublinear_tf=True)
    x = weights.fit_transform(own.counts)
    theirs = LogisticRegression(C=3.0, max_iter=1000).fit(x, own.targets)
    np.testing.assert_allclose(own.tfidf.features(own.counts).toarray(), x.toarray(), rtol=1e-12)
    np.testing.assert_allclose(own.tfidf.probabilities(own.counts), theirs.predict_proba(x), rtol=1e-9)
