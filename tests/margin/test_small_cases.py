"""Inputs of one token: nothing is asked anywhere, and every problem says so instead of failing."""

import numpy as np
import pytest

from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import (
    Status,
    att_svm,
    att_svm_any,
    att_svm_batch,
    directional_margin,
    feasible_selections,
    global_margin,
    is_locally_optimal,
    local_margins,
    neighbors,
    rate_direction,
    relaxed_inputs,
    relaxed_svm,
    relaxing_rate,
)

ONE = EmbeddedSequences(np.array([[[1.0, 2.0]], [[-1.0, 0.5]]]), [1, -1], [1.0, 0.0])
ONLY = Selection.from_indices([0, 0], 1)


@pytest.mark.parametrize(
    "solution",
    [
        att_svm(ONE, ONLY),
        att_svm_batch([ONE, ONE], [ONLY, ONLY])[1],
        global_margin(ONE),
        relaxed_svm(ONE, ONLY),
        relaxed_svm(ONE, ONLY, [True, False]),
    ],
    ids=["att_svm", "batch", "global", "relaxed", "relaxed as told"],
)
def test_inputs_of_one_token_are_trivial(solution):
    assert solution.status is Status.TRIVIAL
    assert solution.p.tolist() == [0.0, 0.0]
    assert solution.margin == float("inf")
    assert solution.residuals.worst == 0.0
    assert "nothing to separate" in solution.explain()
    assert not neighbors(solution).any()
    assert not is_locally_optimal(solution)
    assert solution.certificate is None


def test_choices_and_enumerations_of_inputs_of_one_token():
    any_of = att_svm_any(ONE, ONLY)
    assert any_of.status is Status.TRIVIAL
    assert any_of.choices.tolist() == [[0, 0]]
    assert feasible_selections(ONE) == [ONLY]
    assert local_margins(ONE) == []
    assert directional_margin(ONE, [1.0, 0.0]).margin == float("inf")


def test_rates_of_inputs_of_one_token():
    assert relaxing_rate(ONE, ONLY) == 0.0
    assert relaxed_inputs(ONE, ONLY).shape == (2,)
    with pytest.raises(InvalidInputError, match="no direction to find"):
        rate_direction(ONE, ONLY, 1.0)


def test_a_problem_in_which_every_input_is_relaxed_asks_for_nothing():
    sequences = EmbeddedSequences.from_scores([[[1.0], [0.0]]], [[1.0, 0.0]])
    solution = relaxed_svm(sequences, Selection.from_indices([0], 2), [True])
    assert solution.status is Status.TRIVIAL
    assert solution.p.tolist() == [0.0]
    assert solution.explain() == "No input asks for a margin, so there is nothing to separate and p = 0."
