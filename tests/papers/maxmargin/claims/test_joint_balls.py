"""Random problems for Theorems 5 and 6 have what their docstrings say."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.margin import Status, selected_label_svm
from tokenmargin.papers.maxmargin.claims.joint_balls import random_equal_margins, random_spare_margins


@pytest.fixture(scope="module")
def drawn():
    """Some instances of each law."""
    rng = np.random.default_rng(0)
    laws = (random_equal_margins, random_spare_margins)
    return {law.__name__: [law(rng) for _ in range(12)] for law in laws}


def test_every_selected_token_is_a_support_vector_where_margins_are_equal(drawn):
    for balls in drawn["random_equal_margins"]:
        found = selected_label_svm(balls.sequences, balls.selection)
        assert found.status is Status.OPTIMAL
        assert found.support.all()
        assert found.label_margin == pytest.approx(1.0)  # |a|


def test_some_have_label_margin_to_spare_where_they_are_not(drawn):
    found = [selected_label_svm(balls.sequences, balls.selection) for balls in drawn["random_spare_margins"]]
    assert any(not one.support.all() for one in found if one.status is Status.OPTIMAL)


@pytest.mark.parametrize("law", ["random_equal_margins", "random_spare_margins"])
def test_the_other_tokens_are_short_and_the_keys_are_gaussian(drawn, law):
    tokens = np.concatenate([balls.sequences.tokens[:, 1:].ravel() for balls in drawn[law]])
    assert tokens.std() == pytest.approx(0.3, rel=0.2)
    assert np.abs(tokens).max() < 0.3 * 5
    keys = np.concatenate([balls.sequences.keys.ravel() for balls in drawn[law]])
    assert keys.std() == pytest.approx(1.0, rel=0.2)
