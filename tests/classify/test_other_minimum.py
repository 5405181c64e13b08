"""A fit that learns attention under a strong ridge may end in another minimum than its calibration came from."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tokenmargin.classify import Prior, fit_tokens
from tokenmargin.classify._calibration import Calibration, is_elsewhere
from tokenmargin.classify._candidates import HELD
from tokenmargin.classify._objective import Documents, Parameters, mean_loss

#: More than chance between the loss that was judged and that of a thousand new documents.
CHANCE = 0.3


def drawn(law: str, n: int, V: int, told: int, strength: float, seed: int) -> tuple[sp.csr_array, np.ndarray]:
    """Documents of two or three classes whose tokens are independent; the first `told` differ between classes."""
    rng = np.random.default_rng(seed)
    K = 3 if law == "three classes" else 2
    targets = np.arange(n) % K
    rates = np.tile(rng.uniform(0.05, 0.6, V), (K, 1))
    for k in range(K - 1):
        rates[k, :told] *= np.exp(rng.normal(0, strength, told))
    if law == "once":
        return sp.csr_array((rng.random((n, V)) < 1 - np.exp(-rates[targets])).astype(float)), targets
    return sp.csr_array(rng.poisson(rates[targets])), targets


@pytest.mark.parametrize(
    ("n", "V", "told", "strength", "seed", "prior"),
    [
        (400, 150, 50, 0.6, 3, Prior.PLAIN),
        (400, 150, 50, 0.6, 6, Prior.PLAIN),
        (400, 150, 50, 0.6, 11, Prior.PLAIN),
        (200, 150, 50, 1.0, 3, Prior.IDF),
        (200, 400, 60, 1.0, 6, Prior.PLAIN),
        (200, 400, 60, 1.0, 0, Prior.IDF),
        (400, 400, 60, 1.0, 3, Prior.IDF),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_no_fit_is_sure_and_wrong(n, V, told, strength, seed, prior, is_reversed):
    counts, targets = drawn("often", n + 1000, V, told, strength, seed)
    counts = sp.csr_array(counts[:, ::-1]) if is_reversed else counts
    found = fit_tokens(counts[:n], targets[:n], 2, prior=prior)
    judged = [loss for _, _, ridge, loss in found.tried if (ridge == HELD) == (found.ridge_score == HELD)][-1]
    assert mean_loss(found.model.margins(counts[n:]), targets[n:], np.ones(1000)) < judged + CHANCE


@pytest.mark.parametrize("law", ["often", "once", "three classes"])
def test_losses_are_those_that_were_judged(law):
    for seed in range(20, 30):
        counts, targets = drawn(law, 1400, 150, 50, 0.7, seed)
        found = fit_tokens(counts[:400], targets[:400], int(targets.max()) + 1, prior=Prior.PLAIN)
        judged = [loss for _, _, ridge, loss in found.tried if (ridge == HELD) == (found.ridge_score == HELD)][-1]
        assert mean_loss(found.model.margins(counts[400:]), targets[400:], np.ones(1000)) < judged + CHANCE


def test_attention_is_held_where_the_documents_fitted_ask_for_shorter_values():
    counts, targets = drawn("often", 400, 150, 50, 0.6, 3)
    assert fit_tokens(counts, targets, 2, prior=Prior.PLAIN).ridge_score == HELD
    documents = Documents(counts.astype(float), targets, np.ones(400))
    own = fit_tokens(counts, targets, 2, prior=Prior.PLAIN, ridge_value=0.25, ridge_score=8.0)
    plain = Parameters(own.model.score, own.model.value, own.model.intercept)
    assert not is_elsewhere(plain, 0.5, None, documents)
    assert not is_elsewhere(plain, 0.5, Calibration(1.0, np.zeros(1)), documents)
    assert is_elsewhere(plain, 0.5, Calibration(30.0, np.zeros(1)), documents)


def test_the_ridge_on_scores_grows_with_the_documents_as_that_on_values_does():
    counts, targets = drawn("often", 400, 60, 20, 0.6, 1)
    free = next(
        found for found in (fit_tokens(counts, targets, 2, prior=prior) for prior in Prior) if found.ridge_score != HELD
    )
    of_value = [
        own for own in free.tried if own[2] != HELD and np.isclose(own[1] * free.ridge_score / 8, free.ridge_value)
    ]
    assert of_value
    assert free.ridge_score > 8
