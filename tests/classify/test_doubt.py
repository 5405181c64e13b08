"""Labels that other documents contradict are doubted, beyond chance alone; no label is where there is no reason to."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tokenmargin.classify import doubted_labels, fit_tokens


def drawn(
    K: int, n: int, flipped: float, seed: int, strength: float = 3.0
) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Counts of documents, their classes, and labels of which a share was exchanged for another class."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % K
    rates = np.full((K, 40 + 8 * K), 0.3)
    for k in range(K):
        rates[k, 40 + 8 * k : 48 + 8 * k] *= strength
    wrong = rng.permutation(n)[: round(flipped * n)]
    labels = classes.copy()
    labels[wrong] = (classes[wrong] + rng.integers(1, K, len(wrong))) % K
    return sp.csr_array(rng.poisson(rates[classes]).astype(float)), classes, labels


def doubted(counts, labels, K):
    return doubted_labels(counts, labels, K, fit_tokens(counts, labels, K))


@pytest.mark.parametrize("K", [2, 3])
def test_labels_that_were_flipped_are_doubted(K):
    for seed in range(3):
        counts, classes, labels = drawn(K, 600, 0.2, seed, strength=6.0)
        told = doubted(counts, labels, K)
        np.testing.assert_allclose(told.sum(axis=1), 1)
        assert (told >= 0).all()
        is_wrong, kept = labels != classes, told[np.arange(600), labels]
        assert (told.argmax(axis=1) != classes).mean() <= is_wrong.mean()
        assert kept[~is_wrong].mean() > 0.95
        assert kept[is_wrong].mean() < kept[~is_wrong].mean() - 0.15


@pytest.mark.parametrize("K", [2, 3])
def test_right_labels_stand(K):
    for seed in range(3):
        counts, classes, _ = drawn(K, 600, 0.0, seed, strength=6.0)
        told = doubted(counts, classes, K)
        assert (told.argmax(axis=1) == classes).all()
        assert told[np.arange(600), classes].mean() > 0.99


def test_labels_of_which_texts_say_nothing_stand():
    for seed in range(3):
        counts, _, _ = drawn(2, 300, 0.0, seed, strength=1.0)
        labels = np.random.default_rng(seed).permutation(np.arange(300) % 2)
        assert doubted(counts, labels, 2)[np.arange(300), labels].min() > 0.8


def test_the_order_of_documents_tokens_and_classes_does_not_matter():
    counts, _, labels = drawn(2, 300, 0.2, 0)
    fitted = fit_tokens(counts, labels, 2)
    told = doubted_labels(counts, labels, 2, fitted)
    order = np.random.default_rng(1).permutation(300)
    again = doubted_labels(sp.csr_array(counts[order]), labels[order], 2, fitted)
    np.testing.assert_allclose(again, told[order], atol=1e-6)
    # Fits end at a tolerance, and those of exchanged classes a little elsewhere.
    np.testing.assert_allclose(doubted(counts, 1 - labels, 2), told[:, ::-1], atol=0.01)


def test_too_few_documents_of_a_class_are_not_doubted():
    counts, _, _ = drawn(2, 30, 0.0, 0)
    labels = (np.arange(30) == 7).astype(int)
    np.testing.assert_array_equal(doubted(counts, labels, 2), np.eye(2)[labels])
