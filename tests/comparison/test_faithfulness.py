"""Leaving words out and in, on classifiers whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from tokenmargin.comparison.explained import explained_texts
from tokenmargin.comparison.faithfulness import FEW, SHARES, faithfulness, mean_interval

WEIGHTS = np.array([2.0, 1.0, -1.0, 0.0])


class Additive:
    """Log-odds that are a sum over the tokens that are there."""

    def margins(self, counts):
        return np.asarray((sp.csr_array(counts) > 0).astype(float) @ WEIGHTS)[:, None]

    def probabilities(self, counts):
        margins = self.margins(counts)
        return np.concatenate([expit(-margins), expit(margins)], axis=1)


class Stubborn(Additive):
    def margins(self, counts):
        return np.ones((sp.csr_array(counts).shape[0], 1))


COUNTS = sp.csr_array(np.array([[1, 2, 1, 1], [1, 1, 0, 5]]))


def test_curves_by_hand():
    texts = explained_texts("", "", Additive(), COUNTS)
    found = faithfulness(texts, WEIGHTS[texts.counts.indices])
    # One of four tokens up to a quarter, then two, three and all of them; the first is left out first.
    left = [1, 1, 1, 2, 2, 2, 3, 4]
    out = expit(2.0 - np.array([0, *np.cumsum([2.0, 1.0, 0.0, -1.0])[[k - 1 for k in left]]]))
    np.testing.assert_allclose(found.deletion[0], out)
    into = expit(np.array([0, *np.cumsum([2.0, 1.0, 0.0, -1.0])[[k - 1 for k in left]]]))
    np.testing.assert_allclose(found.insertion[0], into)
    few = [SHARES.index(share) for share in FEW]
    np.testing.assert_allclose(found.comprehensiveness[0], (out[0] - out[few]).mean())
    np.testing.assert_allclose(found.sufficiency[0], (out[0] - into[few]).mean())


def test_the_true_order_beats_chance_and_the_wrong_sign_loses_to_it():
    texts = explained_texts("", "", Additive(), COUNTS)
    own = WEIGHTS[texts.counts.indices]
    right, wrong = faithfulness(texts, own), faithfulness(texts, -own)
    assert (right.comprehensiveness > wrong.comprehensiveness + 0.2).all()
    assert (right.sufficiency < wrong.sufficiency - 0.2).all()
    tenfold = faithfulness(texts, 10 * own)
    np.testing.assert_array_equal(tenfold.deletion, right.deletion)


def test_a_classifier_that_no_word_moves_says_nothing_of_any_method():
    texts = explained_texts("", "", Stubborn(), COUNTS)
    found = faithfulness(texts, WEIGHTS[texts.counts.indices])
    np.testing.assert_array_equal(found.comprehensiveness, 0.0)
    np.testing.assert_array_equal(found.sufficiency, 0.0)


def test_an_interval_holds_the_mean_and_shrinks():
    rng = np.random.default_rng(0)
    few, many = rng.normal(1.0, 1.0, 50), rng.normal(1.0, 1.0, 5000)
    mean, low, high = mean_interval(few, 0)
    assert low < mean < high
    assert high - low == pytest.approx(2 * 1.96 * few.std() / np.sqrt(50), rel=0.2)
    _, low, high = mean_interval(many, 0)
    assert high - low < 0.1
