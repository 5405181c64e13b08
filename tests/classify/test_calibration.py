"""One scale for all values, from documents that were not fitted: it is the best one, and the sum stays exact."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from tests.classify.test_token_model import corpus
from tokenmargin.classify import fit_tokens
from tokenmargin.classify._calibration import (
    LEAST_SCALE,
    WEIGHT_OF_SCALE,
    Calibration,
    Uncalibrated,
    calibrated,
    mean_sums,
)
from tokenmargin.classify._candidates import HELD, Columns
from tokenmargin.classify._choosing import Chooser, _Fold
from tokenmargin.classify._objective import Documents, Parameters, losses_of, mean_loss
from tokenmargin.classify.prior import Prior
from tokenmargin.classify.token_model import TokenModel

#: Newton's method ends at a gain of 1e-6 nats, near which parameters differ by its root.
NEAR = 2e-3


def judged(n_margins, n=400, seed=0, strength=3.0):
    """Documents whose classes were drawn by `strength` times the sums, plus an intercept of their own."""
    rng = np.random.default_rng(seed)
    sums, intercepts = rng.normal(size=(n_margins, n)), np.repeat(rng.normal(size=(n_margins, 1)), n, axis=1)
    margins = strength * sums + intercepts + 0.7 * np.arange(1, n_margins + 1)[:, None]
    if n_margins == 1:
        targets = (rng.random(n) < 1 / (1 + np.exp(-margins[0]))).astype(int)
    else:
        powers = np.exp(margins)
        targets = (rng.random(n) > np.cumsum(powers / powers.sum(axis=0), axis=0)).sum(axis=0)
    return Uncalibrated(sums, intercepts, targets, rng.uniform(0.5, 2, n))


def penalised(where, documents):
    """The obvious sum that is minimised."""
    margins = where[0] * documents.sums + documents.intercepts + where[1:, None]
    loss = documents.weights @ losses_of(margins.T, documents.targets)
    return loss + WEIGHT_OF_SCALE * (where[0] - 1) ** 2 / 2 + (where[1:] ** 2).sum() / 2


@pytest.mark.parametrize("n_margins", [1, 3])
def test_the_scale_and_the_shifts_are_those_of_least_loss(n_margins):
    documents = judged(n_margins)
    found, losses = calibrated(documents)
    start = np.concatenate([[1.0], np.zeros(n_margins)])
    known = minimize(penalised, start, args=(documents,), method="BFGS").x
    np.testing.assert_allclose([found.scale, *found.shift], known, rtol=NEAR, atol=NEAR)
    assert 2.0 < found.scale < 4.5
    margins = found.scale * documents.sums + documents.intercepts + found.shift[:, None]
    np.testing.assert_allclose(losses, losses_of(margins.T, documents.targets), rtol=1e-12)


def test_a_document_of_weight_two_is_two_documents():
    documents = judged(3, n=60)
    twice = Uncalibrated(*(np.concatenate([own, own], axis=-1) for own in documents))
    heavy = documents._replace(weights=2 * documents.weights)
    for one, two in zip(calibrated(twice)[0], calibrated(heavy)[0], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_documents_told_apart_without_an_error_and_documents_that_say_nothing_have_a_finite_scale():
    sums = np.array([[-1.0, -2.0, 1.0, 2.0]])
    sure = Uncalibrated(sums, np.zeros((1, 4)), np.array([0, 0, 1, 1]), np.ones(4))
    assert 1.0 < calibrated(sure)[0].scale < 100.0
    assert calibrated(sure._replace(targets=np.array([1, 1, 0, 0])))[0].scale == LEAST_SCALE


def test_a_calibration_is_undone():
    rng = np.random.default_rng(0)
    parameters = Parameters(rng.normal(size=5), rng.normal(size=(5, 3)), rng.normal(size=3))
    own = Calibration(2.5, rng.normal(size=3))
    for one, two in zip(own.undone(own.applied(parameters)), parameters, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-14)


def test_a_ridge_that_is_far_too_strong_is_made_good():
    counts, targets = corpus(n=900, V=60, clean=3.0)
    rows, others = np.arange(900) < 600, np.arange(900) >= 600
    found = fit_tokens(counts[rows], targets[rows], 2, prior=Prior.PLAIN, ridge_value=300.0, ridge_score=None, tol=1e-5)
    given = found.penalties | {"calibration": None}
    plain = fit_tokens(counts[rows], targets[rows], 2, tol=1e-5, **given)
    again = fit_tokens(counts[rows], targets[rows], 2, tol=1e-5, **found.penalties)
    losses = [
        mean_loss(own.model.margins(counts[others]), targets[others], np.ones(300)) for own in (found, again, plain)
    ]
    assert found.calibration.scale > 3
    assert losses[0] < 0.8 * losses[2]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)  # the same, but for where the fit began
    exact = found.model.contributions(counts[:5]).sums() + found.model.intercept
    assert (found.model.margins(counts[:5]) == exact).all()


def test_rare_tokens_are_counted_in_the_documents_fitted_alone():
    """A token that is seen once in the fit and once in what judges it is one that the last fit would not have."""
    counts = sp.csr_array(np.array([[1, 1, 0], [1, 0, 1], [1, 1, 0], [1, 0, 1]], dtype=float))
    chooser = Chooser(Documents(counts, np.array([0, 1, 0, 1]), np.ones(4)), 2, 0.5)
    fitted = np.array([True, True, True, False])
    assert _Fold(chooser, (fitted, ~fitted), Columns(None, 2)).seen.tolist() == [True, True, False]
    assert _Fold(chooser, (fitted, ~fitted), Columns(None, 1)).seen.tolist() == [True, True, True]
    only = Columns(np.array([False, True, True]), 2)
    assert _Fold(chooser, (fitted, ~fitted), only).seen.tolist() == [False, True, False]


def test_attention_that_is_held_is_calibrated_too():
    counts, targets = corpus(n=300, V=40, clean=3.0)
    found = fit_tokens(counts, targets, 2, ridge_score=HELD)
    assert found.calibration is not None
    assert (found.model.score == found.start).all()


def test_what_stands_in_an_intercept_or_in_the_values_does_not_matter_to_the_shift():
    """Classes of unlike shares under a strong ridge: fits to parts stop early, with shares of classes in the values.

    The last fit goes on, until they are in the intercepts; mean probabilities are the shares all the same.
    """
    rng = np.random.default_rng(3)
    shares = np.array([0.07, 0.1, 0.13, 0.3, 0.4])
    targets = rng.choice(5, size=800, p=shares)
    rates = np.where(rng.random((5, 300)) < 0.1, 0.25, 0.1)
    counts = sp.csr_array((rng.random((800, 300)) < rates[targets]).astype(float))
    found = fit_tokens(counts[:600], targets[:600], 5, ridge_score=HELD)
    assert found.calibration is not None
    told = found.model.probabilities(counts[600:]).mean(axis=0)
    np.testing.assert_allclose(told, np.bincount(targets[600:], minlength=5) / 200, atol=0.08)
    mean = mean_sums(
        TokenModel(found.model.score, found.model.value / found.moved.scale, np.zeros(5), 0.5),
        Documents(counts[:600], targets[:600], np.ones(600)),
    )
    np.testing.assert_allclose(found.moved.shift, found.calibration.about(mean).shift, atol=1e-12)


@pytest.mark.parametrize("margins", [1, 3])
@pytest.mark.parametrize("root_length", [True, False])
def test_the_mean_sum_is_that_of_every_document_one_by_one(margins, root_length):
    counts, targets = corpus(n=60, V=20)
    counts = sp.csr_array(sp.vstack([counts, sp.csr_array((1, 20))]), dtype=float)
    rng = np.random.default_rng(0)
    model = TokenModel(5 * rng.normal(size=20), rng.normal(size=(20, margins)), np.ones(margins), 0.5, root_length)
    weights = rng.uniform(0.5, 2, 61)
    slow = weights @ (model.margins(counts) - model.intercept) / weights.sum()
    np.testing.assert_allclose(mean_sums(model, Documents(counts, np.append(targets, 0), weights)), slow, atol=1e-12)
