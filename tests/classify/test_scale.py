"""Labels that are steps of a scale are told from codes that are numbers too."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.classify._scale import scale_metrics


def confusion_of(K, shares_of, seed, texts=2000, right=0.6):
    """Texts by truth and prediction: mistakes fall on each other class by its share."""
    rng = np.random.default_rng(seed)
    table = np.zeros((K, K), int)
    for truth in range(K):
        share = np.array([0.0 if k == truth else shares_of(truth, k, rng) for k in range(K)])
        share = (1 - right) * share / share.sum()
        share[truth] = right
        table[truth] = rng.multinomial(texts // K, share)
    return table


def near(a, b, rng):
    return 4.0 ** -abs(a - b)


def anywhere(a, b, rng):
    return rng.gamma(0.5) + 1e-3


@pytest.mark.parametrize("K", range(3, 12))
def test_mistakes_on_neighbours_make_a_scale_in_their_order_alone(K):
    table = confusion_of(K, near, seed=K)
    classes = [str(k) for k in range(K)]
    found = scale_metrics(classes, table)
    away = np.abs(np.subtract.outer(np.arange(K), np.arange(K)))
    assert found["mean_steps_off"] == pytest.approx((away * table).sum() / table.sum())
    assert found["within_one_step"] == pytest.approx(table[away <= 1].sum() / table.sum())
    if K > 3:
        mixed = np.argsort(np.arange(K) % 2, kind="stable")  # neighbours of the order before stand apart
        assert scale_metrics(classes, table[np.ix_(mixed, mixed)]) == {}


@pytest.mark.parametrize(("K", "most"), [(3, 0.45), (4, 0.2), (5, 0.12), (8, 0.12), (11, 0.12)])
def test_codes_seldom_pass_for_a_scale(K, most):
    """By chance one in three, one in twelve, and one in twenty; without a test of the order it was every other one."""
    classes = [str(k) for k in range(K)]
    found = [bool(scale_metrics(classes, confusion_of(K, anywhere, seed))) for seed in range(100)]
    assert np.mean(found) < most


def test_few_mistakes_and_names_are_no_scale():
    table = np.diag([100] * 5)
    table[0, 1] = 1
    assert scale_metrics([*"12345"], table) == {}
    assert scale_metrics([*"12345"], np.diag([100] * 5)) == {}
    assert scale_metrics([*"abcde"], confusion_of(5, near, 0)) == {}
    assert scale_metrics([f"{k} stars" for k in range(1, 6)], confusion_of(5, near, 0))
