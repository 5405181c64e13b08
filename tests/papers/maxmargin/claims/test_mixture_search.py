"""The label margin of mixtures: the bound over all p, against the SVM solver at sampled p."""

from __future__ import annotations

import numpy as np
import pytest

from tests.instances import fig3
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import label_svm, selected_label_svm
from tokenmargin.papers.maxmargin.claims._mixture_search import (
    MOST_VERTICES,
    NOT_SEARCHED,
    least_weights,
    search_mixtures,
)
from tokenmargin.papers.maxmargin.claims.joint_balls import random_spare_margins

OPTIMAL = Selection.from_indices([1, 1, 1], 2)


def label_margin(data: EmbeddedSequences, p: np.ndarray) -> float:
    return label_svm(np.einsum("nt,ntk->nk", data.attention(p), data.tokens), data.labels).label_margin


def outside(data: EmbeddedSequences, selection: Selection, kappa: np.ndarray, p: np.ndarray) -> bool:
    return bool((1 - data.attention(p)[selection.chosen] > kappa).any())


def sampled_points(data: EmbeddedSequences, rng: np.random.Generator, count: int) -> np.ndarray:
    points = rng.normal(size=(count, data.width))
    return points * 10 ** rng.uniform(-1, 2, size=(count, 1))


def test_the_least_point_of_a_hull_is_the_label_margin(rng):
    points = rng.normal(size=(40, 3, 2)) + np.array([1.0, 0.0])
    weights = least_weights(points)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    for features, w in zip(points, weights, strict=True):
        expected = label_svm(features, np.ones(3)).label_margin
        assert np.linalg.norm(w @ features) == pytest.approx(expected, abs=1e-6)


def test_no_sampled_mixture_exceeds_a_proved_bound():
    rng, proved = np.random.default_rng(1), 0
    while proved < 5:
        balls = random_spare_margins(rng)
        data, selection = balls.sequences, balls.selection
        if selected_label_svm(data, selection).label_margin == 0:
            continue
        kappa = np.full(data.n_inputs, 0.6)
        found = search_mixtures(data, selection, kappa, most_cells=500)
        if not found.is_proved:
            continue
        proved += 1
        gamma = selected_label_svm(data, selection).label_margin
        for p in sampled_points(data, rng, 60):
            if outside(data, selection, kappa, p):
                assert label_margin(data, p) <= gamma - found.clearance + 1e-9


def test_the_bound_is_close_on_figure_3():
    """The clearance is not much less than what some p attains: of use, and not vacuous."""
    data, kappa, rng = fig3((0.5, 1.0)), np.full(3, 0.1), np.random.default_rng(0)
    found = search_mixtures(data, OPTIMAL, kappa)
    margins = [label_margin(data, p) for p in sampled_points(data, rng, 300) if outside(data, OPTIMAL, kappa, p)]
    assert 0 < found.clearance <= 1 - max(margins)
    assert found.clearance > 0.2 * (1 - max(margins))


def test_a_better_mixture_is_found():
    """Two tokens that point apart are selected, and two that agree are not."""
    tokens = np.array([[[1.0, 2.0], [1.0, -1.9]], [[1.0, -2.0], [1.0, 2.1]]])
    keys = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    data = EmbeddedSequences(tokens, [1, 1], [1.0, 0.0], keys)
    wrong = Selection.from_indices([0, 0], 2)
    found = search_mixtures(data, wrong, np.array([0.1, 0.1]))
    assert not found.is_proved
    assert found.violation is not None
    assert outside(data, wrong, np.array([0.1, 0.1]), found.violation)
    assert label_margin(data, found.violation) > selected_label_svm(data, wrong).label_margin


def test_what_costs_no_label_margin_is_not_decided():
    """Fig. 3(b): the third input has label margin to spare, so a tenth of attention elsewhere costs nothing."""
    found = search_mixtures(fig3((0.5, 1.5)), OPTIMAL, np.full(3, 0.1), most_cells=400)
    assert not found.is_proved
    assert found.violation is None
    assert search_mixtures(fig3((0.5, 1.5)), OPTIMAL, np.array([0.1, 0.1, 0.7])).is_proved


def test_units_and_origin_of_the_keys_change_nothing():
    data, kappa = fig3((0.5, 1.0)), np.full(3, 0.1)
    here = search_mixtures(data, OPTIMAL, kappa)
    for keys in (2.0**40 * data.keys, 2.0**-40 * data.keys, data.keys + 8.0):
        there = search_mixtures(EmbeddedSequences(data.tokens, data.labels, data.head, keys), OPTIMAL, kappa)
        assert there.clearance == here.clearance
        assert there.cells == here.cells


def test_large_problems_are_not_searched(rng):
    data = EmbeddedSequences(rng.normal(size=(2, 3, 4)), [1, -1], np.ones(4))
    assert search_mixtures(data, Selection.from_indices([0, 0], 3), np.array([0.1, 0.1])) is NOT_SEARCHED
    assert NOT_SEARCHED.cells == 0  # as the sentence of a verdict tells
    assert not NOT_SEARCHED.is_proved


@pytest.mark.parametrize(("n", "T", "vertices"), [(4, 3, 12**4), (5, 3, 12**5), (3, 5, 80**3), (5, 2, 2**5)])
def test_problems_of_too_many_vertices_are_not_searched(rng, n, T, vertices):
    """Choices of one vertex an input, T 2^(T - 1) of them, and 2 for two tokens: one product too many is refused."""
    data = EmbeddedSequences(rng.normal(size=(n, T, 1)) + 3.0, np.ones(n), [1.0])
    found = search_mixtures(data, Selection.from_indices([0] * n, T), np.full(n, 0.1), most_cells=0)
    assert (found is NOT_SEARCHED) == (vertices > MOST_VERTICES)
    assert (found.cells > 0) == (vertices <= MOST_VERTICES)


def test_what_p_attends_to_far_out_is_seen_before_a_cell_is_halved():
    """On a line there are two directions: far along the other one the other tokens, twice as long, are attended to."""
    tokens = np.array([[[1.0], [2.0]], [[-1.0], [-2.0]]])
    data = EmbeddedSequences(tokens, [1, -1], [1.0], np.array([[[1.0], [0.0]], [[1.0], [0.0]]]))
    chosen, kappa = Selection.from_indices([0, 0], 2), np.array([0.99, 0.99])
    found = search_mixtures(data, chosen, kappa, most_cells=0)
    assert found.violation is not None
    assert outside(data, chosen, kappa, found.violation)
    assert label_margin(data, found.violation) > 1
