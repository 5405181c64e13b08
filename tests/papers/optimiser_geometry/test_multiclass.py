"""Linear classifiers in any norm: gradients, bounds and steps beside slow, obvious versions."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.margin import Unique
from tokenmargin.norms import as_norm
from tokenmargin.papers.optimiser_geometry._multiclass import Multiclass, Rule, descended, gaussian_classes
from tokenmargin.papers.optimiser_geometry.claims.steepest_adam import classified, three_classes


def loss_gradient(problem: Multiclass, W: np.ndarray) -> np.ndarray:
    """grad of the sum of -log softmax_y(W h_i), by its definition."""
    logits = problem.features @ W.T
    softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
    softmax /= softmax.sum(axis=1, keepdims=True)
    return (softmax - np.eye(problem.k)[problem.classes]).T @ problem.features


def slow_run(problem: Multiclass, rule: Rule, steps: int) -> np.ndarray:
    """The same method in plain NumPy, which loses its digits once gradients are small."""
    W, mean, square = (np.zeros(problem.shape) for _ in range(3))
    for t in range(steps):
        gradient = loss_gradient(problem, W)
        mean = rule.beta * mean + (1 - rule.beta) * gradient
        square = rule.second * square + (1 - rule.second) * gradient**2
        move = as_norm(rule.norm).steepest(-mean)
        if rule.second:
            move = -mean / (1 - rule.beta ** (t + 1)) / np.sqrt(square / (1 - rule.second ** (t + 1)))
        W = W + rule.lr * (t + 1.0) ** -rule.power * move
    return W


@pytest.mark.parametrize(
    "rule", [Rule("max", 0.3), Rule("l2", 0.3, beta=0.9), Rule("spectral", 0.2), Rule("max", 0.1, 0.5, 0.9, 0.99)]
)
def test_a_run_is_that_of_the_slow_version(rule):
    problem = gaussian_classes(np.random.default_rng(0), 3, 4, 2, 0.2)
    found = descended(problem, rule, 64, looks=3)
    assert found.steps.tolist() == [16, 32, 64]
    for steps, W in zip(found.steps, found.path, strict=True):
        np.testing.assert_allclose(W, slow_run(problem, rule, int(steps)), rtol=1e-8, atol=1e-10)


def test_the_bound_of_a_run_is_above_every_margin_and_near_the_largest():
    problem = three_classes()
    for norm in ("max", "l2", "spectral"):
        best = problem.solution(norm)
        run = descended(problem, classified(problem, norm).rule, 4000)
        assert problem.margin(run.W, norm) <= best.margin * (1 + 1e-9)
        assert best.margin <= run.high * (1 + 1e-9)
        assert run.high <= 1.05 * best.margin


def test_solutions_in_the_max_norm_are_not_unique():
    """One point on an axis: entries of W that it does not see are free up to the largest."""
    problem = Multiclass(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0, 1]), 2)
    assert problem.solution("max").unique is Unique.NO
    assert problem.margin(np.array([[1.0, 0.7], [-1.0, 0.2]]), "max") == problem.margin(
        np.array([[1.0, 0.0], [-1.0, 0.0]]), "max"
    )


def test_pairs_are_differences_of_classes_times_points():
    problem = three_classes()
    W = np.random.default_rng(1).normal(size=problem.shape)
    logits = problem.features @ W.T
    gaps = logits[np.arange(4), problem.classes][:, None] - logits
    expected = gaps[np.arange(3) != problem.classes[:, None]]
    np.testing.assert_allclose(problem.pairs @ W.ravel(), expected)
