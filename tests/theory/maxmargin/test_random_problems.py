"""What is drawn for a claim has what the sentence of its law says; that sentence stands beside the counts."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.data import scores
from tokenmargin.theory.maxmargin.random_problems import LAWS, scored, two_scores

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
