"""What is drawn for a claim has what the sentence of its law says; that sentence stands beside the counts."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.data import optimal_selection, scores
from tokenmargin.margin import Status, att_svm, is_locally_optimal, relaxing_rate, selected_label_svm
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims.cone_radius import WITHIN, cone_radius
from tokenmargin.papers.maxmargin.claims.lemma5_correlation import LEMMA_5, correlation_radius
from tokenmargin.papers.maxmargin.laws.random_problems import LAWS, scored, two_scores

LAW = {law.key: law for law in LAWS}


def test_scores_are_those_asked_for(rng):
    gamma = rng.normal(size=(5, 4))
    data = scored(rng, 5, 4, 2, gamma)
    np.testing.assert_allclose(scores(data), gamma)
    np.testing.assert_array_equal(data.tokens[:, :, :2], data.keys)
    assert set(data.labels) <= {-1.0, 1.0}


def test_one_token_scores_above_what_the_others_share(rng):
    gamma = np.sort(scores(two_scores(rng, 200, 4, 2)), axis=1)
    np.testing.assert_allclose(gamma[:, 0], gamma[:, -2])
    ahead = gamma[:, -1] - gamma[:, -2]
    assert ahead.min() == pytest.approx(0.2, abs=0.05)
    assert ahead.max() == pytest.approx(1.2, abs=0.05)


def test_the_token_that_p_prefers_is_first_and_ahead_on_one_input_of_few_tokens(rng):
    cases = [LAW["maxmargin-lemma3"].draw(rng) for _ in range(40)]
    assert {case.sequences.n_inputs for case in cases} == {1}
    assert {case.sequences.n_places for case in cases} == {2, 3, 4, 5}
    assert {case.sequences.width for case in cases} == {1, 2, 3}
    for case in cases:
        logits = case.sequences.keys[0] @ case.p
        assert 5 <= logits[0] - logits[1:].max() <= 8


def test_other_tokens_are_shorter_than_the_selected_and_v_grows_about_as_fast_as_p(rng):
    for _ in range(10):
        balls = LAW["maxmargin-thm5"].draw(rng)
        lengths = np.linalg.norm(balls.sequences.tokens, axis=2)
        assert lengths.shape == (2, 3)
        assert balls.selection.indices.tolist() == [0, 0]
        shares = lengths[:, 1:] / lengths[:, :1]
        assert 0.2 <= shares.min() < shares.max() <= 0.8
        assert 10**-0.5 <= balls.rate <= 10**0.5


@pytest.mark.parametrize(("key", "slowest", "fastest"), [("thm6", 1.0, 3.0), ("thm6-below", 0.2, 0.9)])
def test_rates_are_where_the_law_says(rng, key, slowest, fastest):
    found = []
    while len(found) < 2:
        balls = LAW[f"maxmargin-{key}"].draw(rng)
        if selected_label_svm(balls.sequences, balls.selection).status is Status.OPTIMAL:
            needed = relaxing_rate(balls.sequences, balls.selection)
            found += [balls.rate / needed] if needed > 0 else []
    assert slowest <= min(found) < max(found) <= fastest


def test_v_is_in_the_row_space_of_the_keys_of_lemma_2(rng):
    cases = [LAW["maxmargin-lemma2"].draw(rng) for _ in range(60)]
    assert {case.n_inputs for case in cases} == {1, 2, 3, 4, 5}
    assert {case.n_places for case in cases} == {2, 3, 4}
    for case in cases:
        tokens, keys = case.tokens.reshape(-1, 4), case.keys.reshape(-1, 3)
        W = np.linalg.lstsq(tokens, keys, rcond=None)[0].T
        if len(tokens) >= 4:  # else the tokens do not tell W
            p = np.linalg.lstsq(W.T, case.head, rcond=None)[0]
            np.testing.assert_allclose(W.T @ p, case.head, atol=1e-6)


def test_p_is_beyond_the_radius_of_the_lemma_and_nearly_as_good_as_the_max_margin_direction(rng):
    """In a random direction descent along p is far below what the lemma allows: nearly any bound would hold."""
    shares = []
    for _ in range(12):
        case = LAW["maxmargin-lemma5"].draw(rng)
        assert 0.05 <= case.pi <= 1.0
        assert 2 <= case.sequences.n_places <= 4
        best = att_svm(case.sequences, optimal_selection(case.sequences))
        if best.status is Status.OPTIMAL:
            assert 1 <= np.linalg.norm(case.p) / correlation_radius(case.sequences, case.pi) <= 3
            field = LEMMA_5.observe(case)
            shares.append(field @ case.p / np.linalg.norm(case.p) / (field @ best.direction))
    assert np.median(shares) > 0.9


def test_runs_of_theorem_3_start_on_the_border_of_a_cone_however_far_it_is(rng):
    shares, radii = [], []
    for _ in range(12):
        run = LAW["maxmargin-thm3"].draw(rng)
        solution = att_svm(run.sequences, run.selection)
        if not is_locally_optimal(solution):
            continue
        found = cone_radius(solution)
        radii.append(found.theorem_3)
        shares.append(np.linalg.norm(run.start) / found.theorem_3)
        cosine = np.dot(run.start, solution.direction) / np.linalg.norm(run.start)
        assert cosine == pytest.approx(np.cos(WITHIN * np.arccos(1 - found.mu)), abs=1e-12)
    assert 1 <= min(shares) < max(shares) <= 10
    assert max(radii) > 1e10


def test_p_and_q_are_on_the_border_of_the_cone(rng):
    """On its axis the bounds on the descent along q have nothing to bound: every margin of p_mm is 1."""
    found = 0
    while found < 2:
        case = LAW["maxmargin-lemma7"].draw(rng)
        solution = att_svm(case.sequences, case.selection)
        if case.q == (1.0, 0.0, 0.0):  # no local solution: outside the hypotheses
            continue
        found, constants = found + 1, cone_constants(solution)
        assert constants.every_input_has_neighbors
        assert 1 <= np.linalg.norm(case.p) / constants.radius <= 10
        for x in (case.p, case.q):
            away = 1 - np.dot(x, solution.direction) / np.linalg.norm(x)
            assert away / constants.mu == pytest.approx(WITHIN**2, abs=1e-2)
        assert np.dot(case.p, case.q) < np.linalg.norm(case.p) * (1 - 1e-6 * constants.mu)
