"""A list of token numbers is taken as a selection, one token an input."""

from __future__ import annotations

import numpy as np
import pytest

import tokenmargin as tm
from tests.instances import fig1b
from tokenmargin.errors import InvalidInputError


@pytest.mark.parametrize("given", [[1], np.array([1]), (1,)])
def test_numbers_of_tokens_are_a_selection(given):
    chosen = tm.Selection.from_indices([1], 3)
    np.testing.assert_array_equal(tm.att_svm(fig1b(), given).p, tm.att_svm(fig1b(), chosen).p)
    np.testing.assert_array_equal(tm.att_svm(fig1b(), given).selection.chosen, chosen.chosen)


@pytest.mark.parametrize(
    "given", [[3], [-4], [0, 1], [0.5], ["a"], [None], [[]], [{0, 3}], [{0.5}], [[0, "a"]], [[0], 1]]
)
def test_what_names_no_token_of_each_input_is_refused(given):
    with pytest.raises(InvalidInputError):
        tm.att_svm(fig1b(), given)


def test_every_function_of_a_selection_takes_a_list():
    data = fig1b()
    chosen = tm.Selection.from_indices([1], 3)
    pairs = (
        (tm.margin.att_svm_batch([data], [[1]])[0].p, tm.att_svm(data, chosen).p),
        (tm.att_svm_any(data, [{1}]).minimisers, tm.att_svm_any(data, chosen).minimisers),
        (tm.relaxed_svm(data, [1]).p, tm.relaxed_svm(data, chosen).p),
        (tm.margin.rate_direction(data, [1], 0.0), tm.margin.rate_direction(data, chosen, 0.0)),
        (tm.margin.selected_label_svm(data, [1]).p, tm.margin.selected_label_svm(data, chosen).p),
    )
    for listed, expected in pairs:
        np.testing.assert_array_equal(listed, expected)
    corpus = tm.TokenDataset.from_token_ids([[0, 1], [1, 2]], [0, 1])
    by_hand = tm.data.CorpusSelection.of_tokens(corpus, [0, 2])
    np.testing.assert_array_equal(
        tm.corpus_svm(corpus, np.eye(3), [0, 2]).p, tm.corpus_svm(corpus, np.eye(3), by_hand).p
    )


def test_a_list_may_tie_tokens():
    keys, scores = np.zeros((3, 4, 2)), np.zeros((3, 4))
    data = tm.EmbeddedSequences.from_scores(keys, scores)
    tied = tm.Selection.of([{0, 2}, 3, {1}], data)
    assert repr(tied) == "Selection({0,2} 3 1; T=4)"
    assert tm.Selection.of(tied.chosen.tolist(), data) == tied


def test_functions_of_a_risk_take_its_data_and_call_it_risk():
    data, risk = fig1b(), tm.AttentionRisk(fig1b())
    axis, radii = [1.0, 0.0], (10.0, 20.0)
    for one in (data, risk):
        assert len(tm.local_margins(risk=one)) == 2
        assert tm.basin_map(risk=one, starts=np.zeros((1, 2))).counts.tolist() == [1]
        assert (
            tm.attention.local_path(risk=one, axis=axis, epsilon=0.1, radii=radii).risk.sequences is data or one is risk
        )
        assert tm.regularization_path(risk=one, radii=radii).points.dtype == np.float64
        assert tm.follow(risk=one, start=np.zeros(2), method=tm.Flow()).limit.diverges


def test_norms_have_their_usual_names():
    for usual, own in (("l1", "sum"), ("linf", "max"), ("frobenius", "l2")):
        assert tm.global_margin(fig1b(), norm=usual).value == tm.global_margin(fig1b(), norm=own).value


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda u: np.log1p(np.exp(-u)), "with jax.numpy"),
        (lambda u: u * np.ones(3), r"shape \(3,\)"),
        (lambda: 0, "TypeError"),
    ],
)
def test_a_loss_that_jax_cannot_trace_is_refused_in_words(function, words):
    with pytest.raises(tm.errors.WrongTypeError, match=words):
        tm.losses.CustomLoss(function)
