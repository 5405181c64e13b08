"""The margin side of the papers' toys, against closed forms (1e-9) and printed digits."""

import numpy as np
import pytest

from tests.instances import fig1a, fig1b, fig1c, fig3, fig5, theorem2_counterexample
from tokenmargin import (
    Selection,
    Status,
    att_svm,
    global_margin,
    local_margins,
    relaxed_svm,
    scores,
)
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import is_locally_optimal, neighbors

CLOSED_FORM = 1e-9


def one(sequences, token):
    return att_svm(sequences, Selection.from_indices([token], sequences.n_places))


@pytest.mark.parametrize("data", [fig1a(), fig1b()], ids=["global", "local"])
def test_fig1_two_tokens(data):
    first, second = one(data, 0), one(data, 1)
    np.testing.assert_allclose(first.p, [-10 / 101, 100 / 101], atol=CLOSED_FORM)
    np.testing.assert_allclose(0.5 * first.p @ first.p, 50 / 101, atol=CLOSED_FORM)
    assert round(0.5 * float(first.p @ first.p), 6) == 0.495050
    np.testing.assert_allclose(second.p, [1, 0], atol=CLOSED_FORM)
    assert first.support == ((0, 0, 2),)
    assert second.support == ((0, 1, 2),)
    assert neighbors(second).tolist() == [[False, False, True]]


def test_fig1_token_1_is_locally_optimal_only_in_the_local_data():
    assert is_locally_optimal(one(fig1b(), 1))
    assert not is_locally_optimal(one(fig1a(), 1))
    assert [s.selection.indices.tolist() for s in local_margins(fig1b())] == [[0], [1]]
    assert [s.selection.indices.tolist() for s in local_margins(fig1a())] == [[0]]
    assert one(fig1a(), 2).status is Status.OPTIMAL  # (0,0) is a vertex too, but its neighbours score as much


def test_fig1c_global_direction_and_support():
    solution = global_margin(fig1c())
    assert np.round(solution.p, 6).tolist() == [0.844626, 0.171122]
    assert np.round(solution.direction, 6).tolist() == [0.980088, 0.198566]
    assert solution.support == ((0, 0, 6), (1, 0, 5))
    assert solution.is_optimal(1e-12)
    assert [s.selection for s in local_margins(fig1c())] == [solution.selection]


def test_fig3_strict_and_relaxed():
    selected = Selection.from_indices([1, 1, 1], 2)
    third = [False, False, True]
    a, b = fig3((0.5, 1)), fig3((0.5, 1.5))
    np.testing.assert_allclose(att_svm(a, selected).p, [4 / 3, 1 / 3], atol=CLOSED_FORM)
    np.testing.assert_allclose(att_svm(b, selected).p, [1.25, 0.25], atol=CLOSED_FORM)
    np.testing.assert_allclose(relaxed_svm(b, selected, third).p, [1, 0], atol=CLOSED_FORM)
    relaxed = relaxed_svm(b, selected, third)
    assert relaxed.support == ((0, 1, 0), (1, 1, 0))
    np.testing.assert_allclose(relaxed_svm(a, selected, [False] * 3).p, att_svm(a, selected).p, atol=CLOSED_FORM)
    assert relaxed_svm(a, selected, [True] * 3).p.tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match="one per input"):
        relaxed_svm(a, selected, [True])


def test_fig5_margin_is_that_of_the_symmetric_problem():
    for C in (1.0, 5.0, 100.0):
        np.testing.assert_allclose(global_margin(fig5(C)).p, [1, 0], atol=CLOSED_FORM)


def test_theorem_2_counterexample_is_infeasible_and_says_why():
    solution = global_margin(theorem2_counterexample())
    assert solution.status is Status.INFEASIBLE
    assert solution.margin == 0.0
    assert not solution.is_optimal(1.0)
    assert solution.certificate is not None
    assert solution.certificate.exact
    assert solution.certificate.verify(solution.sequences.keys)
    sentence = solution.explain()
    assert "input 0" in sentence
    assert "input 1" in sentence
    assert local_margins(theorem2_counterexample()) == []


def test_trivial_when_everything_is_selected():
    solution = att_svm(fig1a(), Selection(np.ones((1, 3), bool)))
    assert solution.status is Status.TRIVIAL
    assert solution.p.tolist() == [0, 0]
    assert solution.margin == np.inf
    assert "nothing to separate" in solution.explain()
    assert not is_locally_optimal(solution)


def test_ties_are_equality_rows():
    """[E, (9)]: tokens 0 and 1 tied and above token 2; the tie forces p onto the x axis."""
    from tests.instances import planar

    data = planar([[(1, 1), (1, -1), (0, 0)]], [[1, 1, 0]])
    solution = global_margin(data)
    assert solution.selection.tied_inputs.tolist() == [0]
    np.testing.assert_allclose(solution.p, [1, 0], atol=CLOSED_FORM)
    assert len(solution.tie_triples) == 1
    differences = data.keys[0, 0] - data.keys[0, 2], data.keys[0, 0] - data.keys[0, 1]
    np.testing.assert_allclose(solution.duals[0] * differences[0] + solution.tie_duals[0] * differences[1], solution.p)
    assert is_locally_optimal(solution)
    assert scores(data)[0].tolist() == [1, 1, 0]
    impossible = planar([[(1, 0), (-1, 0), (0, 0)]], [[1, 1, 0]])
    refused = global_margin(impossible)
    assert refused.status is Status.INFEASIBLE
    assert refused.certificate is not None
    assert refused.certificate.verify(impossible.keys)
    assert "tied" in refused.explain()


def test_relaxed_support_and_errata_lemma3_closed_form():
    """Rows (1,0),(2,1): the optimum is (1,0), not M^+ 1 = (1,-1) as [E, Lemma 3] has it."""
    from tests.instances import planar

    data = planar([[(2, 1), (1, 1), (0, 0)]], [[1, 0, 0]])
    solution = one(data, 0)
    np.testing.assert_allclose(solution.p, [1, 0], atol=CLOSED_FORM)
    rows = np.array([[1.0, 0], [2, 1]])
    np.testing.assert_allclose(np.linalg.pinv(rows) @ np.ones(2), [1, -1], atol=CLOSED_FORM)
