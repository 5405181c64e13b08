"""What the classifier of the selected tokens relaxes, and what the growth of |v| makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.instances import fig3, random_sphere
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, att_svm
from tokenmargin.margin.label_svm import selected_label_svm
from tokenmargin.margin.relaxed import rate_direction, relaxed_inputs, relaxed_svm, relaxing_rate

OPTIMAL = Selection.from_indices([1, 1, 1], 2)
A, B = (0.5, 1.0), (0.5, 1.5)
HAND = 1e-12  # problems small enough to be solved by hand come out to rounding


def test_the_relaxed_set_is_found():
    assert not relaxed_inputs(fig3(A), OPTIMAL).any()
    assert relaxed_inputs(fig3(B), OPTIMAL).tolist() == [False, False, True]
    np.testing.assert_allclose(relaxed_svm(fig3(A), OPTIMAL).p, [4 / 3, 1 / 3], atol=HAND)
    np.testing.assert_allclose(relaxed_svm(fig3(B), OPTIMAL).p, [1, 0], atol=HAND)
    np.testing.assert_allclose(att_svm(fig3(B), OPTIMAL).p, [1.25, 0.25], atol=HAND)
    assert "[2]" in selected_label_svm(fig3(B), OPTIMAL).explain()


@pytest.mark.parametrize("third", [A, B])
def test_the_relaxed_inputs_may_be_found_or_given(third):
    data = fig3(third)
    found, given = relaxed_svm(data, OPTIMAL), relaxed_svm(data, OPTIMAL, relaxed_inputs(data, OPTIMAL))
    assert found.p.tobytes() == given.p.tobytes()
    assert found.required.tolist() == given.required.tolist()
    np.testing.assert_array_equal(relaxed_svm(data, OPTIMAL, [False] * 3).p, att_svm(data, OPTIMAL).p)


def test_nothing_is_relaxed_where_nothing_separates():
    inseparable = EmbeddedSequences([[[1.0, 0.0]], [[2.0, 0.0]]], [1, -1], [1.0, 0.0])
    with pytest.raises(InvalidInputError, match="no support vectors"):
        relaxed_inputs(inseparable, Selection.from_indices([0, 0], 1))


class TestGrowth:
    def test_ends_are_the_strict_and_the_relaxed_problem(self):
        assert relaxing_rate(fig3(B), OPTIMAL) == pytest.approx(1.0, abs=HAND)
        assert relaxing_rate(fig3(A), OPTIMAL) == 0.0
        for rate, p in ((0.0, [1.25, 0.25]), (1.0, [1.0, 0.0]), (7.0, [1.0, 0.0])):
            np.testing.assert_allclose(rate_direction(fig3(B), OPTIMAL, rate), p / np.linalg.norm(p), atol=1e-9)

    def test_half_way_by_hand(self):
        # p1 - p2 + 1/2 = p1/2 + 3 p2/2 + 3/4 on the unit circle: 26 p2^2 + 5 p2 - 3/4 = 0.
        second = (-5 + np.sqrt(103)) / 52
        expected = [np.sqrt(1 - second**2), second]
        np.testing.assert_allclose(rate_direction(fig3(B), OPTIMAL, 0.5), expected, atol=1e-9)

    def test_against_a_search_over_the_circle(self, rng):
        circle = np.linspace(-np.pi, np.pi, 40_001)
        units = np.stack([np.cos(circle), np.sin(circle)], axis=1)
        tried = 0
        while tried < 8:
            data = random_sphere(rng, n=3, T=2, d=2)
            selection = Selection.from_indices(rng.integers(0, 2, size=3), 2)
            label = selected_label_svm(data, selection)
            strict = att_svm(data, selection)
            if label.status is not Status.OPTIMAL or strict.status is not Status.OPTIMAL:
                continue
            if label.support.all():
                continue
            tried += 1
            inputs, chosen, others = strict.triples.T
            gaps = units @ (data.keys[inputs, chosen] - data.keys[inputs, others]).T
            for rate in (0.3, relaxing_rate(data, selection), 2.0):
                values = (gaps + rate * label.label_margin * (label.margins[inputs] - 1)).min(axis=1)
                best = units[np.where(gaps.min(axis=1) >= 0, values, -np.inf).argmax()]
                assert rate_direction(data, selection, rate) @ best >= 1 - 1e-6
            relaxed, least = relaxed_svm(data, selection).direction, relaxing_rate(data, selection)
            np.testing.assert_allclose(rate_direction(data, selection, 1.001 * least), relaxed, atol=1e-8)
            if least > 0:
                assert np.linalg.norm(rate_direction(data, selection, 0.9 * least) - relaxed) > 1e-6

    def test_a_negative_rate_is_refused(self):
        with pytest.raises(InvalidInputError, match="rate"):
            rate_direction(fig3(B), OPTIMAL, -1.0)
