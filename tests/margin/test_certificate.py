"""Proofs that a selection is impossible: no weight is lost, what is asked is counted, and one row is never beaten."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tokenmargin import EmbeddedSequences, Selection, Status, att_svm, relaxed_svm
from tokenmargin.margin.certificate import FarkasCertificate, WholeRows, _certificate, farkas_certificate
from tokenmargin.margin.exact_shortest import ExactShortest

NO_TIES, NO_WEIGHTS = np.zeros((0, 3), dtype=np.int64), np.zeros(0)


def of_rows(*rows: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Keys and pairs: one input for each row, which is its first token, and 0 its second."""
    keys = np.stack([np.array(rows), np.zeros_like(np.array(rows))], axis=1)
    return keys, np.array([[i, 0, 1] for i in range(len(rows))])


def test_a_small_weight_of_a_long_row_is_not_lost():
    """(1,1) + (-1,1) + 2e-10 (0,-1e10) = 0: cut off at 1e-9 of the largest, the last left a bound of 1."""
    keys, pairs = of_rows((1.0, 1.0), (-1.0, 1.0), (0.0, -1e10))
    found = farkas_certificate(keys, pairs, np.array([1.0, 1.0, 2e-10]), NO_TIES, NO_WEIGHTS)
    assert found.exact
    assert found.verify(keys)
    assert set(found.pairs) == {(0, 0, 1), (1, 0, 1), (2, 0, 1)}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_rows_and_ties_that_cancel_in_one_way_need_no_search(order, monkeypatch):
    """Rows (1,1,2), (-1,2,1) with the weights 2 and 1, and a tie (1,4,5) with -1; whichever row comes last."""
    undecided = ExactShortest(Status.UNDECIDED)
    monkeypatch.setattr("tokenmargin.margin.certificate.exact_shortest", lambda *_: undecided)
    keys, triples = of_rows((1.0, 1.0, 2.0), (-1.0, 2.0, 1.0), (1.0, 4.0, 5.0))
    keys, ties = keys[list(order)], triples[[order.index(2)]]
    pairs = np.delete(triples, order.index(2), axis=0)
    found = farkas_certificate(keys, pairs, np.ones(2), ties, np.ones(1))
    assert found.exact
    assert found.verify(keys)
    assert sorted(found.weights) == [1, 2]
    assert found.tie_weights == (-1,)
    twice, pairs = of_rows((1.0, 0.0), (2.0, 0.0))  # they cancel with weights of unlike signs, which proves nothing
    assert not farkas_certificate(twice, pairs, np.array([1.0, 0.1]), NO_TIES, NO_WEIGHTS).exact


def test_weights_that_are_not_there_are_found_again():
    """A solver that names two of three rows: the exact problem finds the third."""
    keys, pairs = of_rows((1.0, 1.0), (-1.0, 1.0), (0.0, -1e10))
    for rough in ([1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.3, 0.9, 1e-30]):
        found = farkas_certificate(keys, pairs, np.array(rough), NO_TIES, NO_WEIGHTS)
        assert found.exact
        assert found.verify(keys)


def test_rows_that_p_can_meet_are_bounded_by_the_shortest():
    keys, pairs = of_rows((1.0, 0.0), (-1.0, 2.0**-40))
    found = farkas_certificate(keys, pairs, np.ones(2), NO_TIES, NO_WEIGHTS)
    assert not found.exact
    assert found.verify(keys)
    shortest = Fraction(1) + Fraction(2**41) ** 2  # p = (1, 2^41)
    assert shortest * (1 - Fraction(1, 2**50)) <= Fraction(found.norm_bound) ** 2 <= shortest


@pytest.mark.parametrize("rough", [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)])
def test_a_bound_is_never_less_than_what_one_row_asks_for(rough, monkeypatch):
    """Where nothing can be solved exactly: 1/447 asks for |p| >= 447, whatever the weights prove."""
    monkeypatch.setattr("tokenmargin.margin.certificate.ROWS_LIMIT", 0)
    monkeypatch.setattr("tokenmargin.margin.exact_shortest.ROWS_LIMIT", 0)
    keys, pairs = of_rows((1 / 447.0, 0.0), (-1.0, 0.5))
    found = farkas_certificate(keys, pairs, np.array(rough), NO_TIES, NO_WEIGHTS)
    assert not found.exact
    assert found.verify(keys)
    assert found.norm_bound >= 447 * (1 - 2**-50)


def test_margins_of_zero_ask_for_nothing():
    """Opposite rows contradict each other where one of them has to be met by more than 0, and only there."""
    keys, pairs = of_rows((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0))
    found = farkas_certificate(keys, pairs, np.array([1.0, 1.0, 0.0]), NO_TIES, NO_WEIGHTS, np.array([0.0, 0.0, 1.0]))
    assert not found.exact
    assert found.norm_bound == 1.0
    assert found.verify(keys)
    data = EmbeddedSequences.from_scores(keys, np.zeros((3, 2)))
    solution = relaxed_svm(data, Selection.from_indices([0, 0, 0], 2), np.array([True, False, False]))
    assert solution.status is Status.INFEASIBLE
    assert solution.certificate is not None
    assert solution.certificate.exact
    assert solution.certificate.required == (0, 1)
    assert solution.certificate.verify(keys)


def test_conflicts_of_whole_numbers_with_ties_are_exact():
    """Several ways to cancel at once, so that the weights of the solver are no circuit."""
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        keys = rng.integers(-1, 2, size=(3, 4, 3)).astype(float)
        chosen = rng.random((3, 4)) < 0.4
        chosen[:, 0] = True
        data = EmbeddedSequences.from_scores(keys, np.zeros((3, 4)))
        solution = att_svm(data, Selection(chosen))
        if solution.status is Status.INFEASIBLE:
            found += 1
            assert solution.certificate is not None
            assert solution.certificate.exact
            assert solution.certificate.verify(keys)
    assert found >= 20


def said(keys: np.ndarray, weights, required, bound: float | None = None) -> FarkasCertificate:
    """One row of an input each, with these weights: exact, or with a bound on |p|."""
    pairs = tuple((i, 0, 1) for i in range(len(weights)))
    whole, asked = tuple(map(Fraction, weights)), tuple(map(Fraction, required))
    return FarkasCertificate(pairs, whole, (), (), bound is None, bound if bound is not None else np.inf, asked)


class TestVerify:
    def test_weights_are_there_and_positive(self):
        keys, _ = of_rows((1.0,), (-1.0,), (0.0,))
        assert said(keys, (1, 1), (1, 0)).verify(keys)
        assert not said(keys, (), ()).verify(keys)
        assert not said(keys, (1, 1, 0), (1, 0, 1)).verify(keys)
        assert not said(keys, (1, 1, -1), (1, 0, 0)).verify(keys)

    def test_something_is_asked_and_all_cancels(self):
        keys, _ = of_rows((1.0,), (-1.0,))
        assert not said(keys, (1, 1), (0, 0)).verify(keys)
        assert not said(keys, (1, 2), (1, 1)).verify(keys)
        assert not said(keys, (1, 1), (0, 0), bound=0.5).verify(keys)
        assert not said(keys, (1, 2), (0, 0), bound=0.0).verify(keys)

    @pytest.mark.parametrize(
        ("row", "gain", "bound"), [(2.0, Fraction(1), 0.5), (0.5, Fraction(1), 2.0), (1.0, Fraction(1, 2), 0.5)]
    )
    def test_a_bound_is_what_is_asked_over_the_length_of_the_sum(self, row, gain, bound):
        keys, _ = of_rows((row,))
        for norm, holds in ((bound, True), (np.nextafter(bound, 9), False), (bound / 2, True)):
            assert said(keys, (1,), (gain,), float(norm)).verify(keys) == holds


def test_fractions_are_kept_whatever_the_weights_of_ties_are_given_as():
    keys, pairs = of_rows((1.0,), (-2.0,))
    weights = [Fraction(2, 3), Fraction(1, 3)]
    for none in (NO_WEIGHTS, []):
        found = farkas_certificate(keys, pairs, weights, NO_TIES, none)
        assert found.weights == (2, 1)
        assert found.exact


def test_long_weights_lose_no_digit():
    keys, triples = of_rows((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
    rows = WholeRows(keys, triples[:2].tolist(), triples[2:].tolist(), [1.0, 1.0])
    found = _certificate(rows, [0, 1], [3 * (2**60 + 1), 3], [3 * (2**70 + 1)])
    assert found.weights == (2**60 + 1, 1)
    assert found.tie_weights == (2**70 + 1,)


@pytest.mark.parametrize(("row", "asks", "bound"), [((0.0, 4.0), 8.0, 2.0), ((0.0, 0.25), 1.0, 4.0)])
def test_one_row_that_asks_for_more_than_all_together(row, asks, bound, monkeypatch):
    """Where nothing exact is found; ties, which pull in another direction, take no part in it."""
    undecided = ExactShortest(Status.UNDECIDED)
    monkeypatch.setattr("tokenmargin.margin.certificate.exact_shortest", lambda *_: undecided)
    keys, triples = of_rows((1.0, 0.0), row, (3.0, 0.0))
    found = farkas_certificate(
        keys, triples[:2], np.array([1.0, 1e-3]), triples[2:], np.zeros(1), np.array([1.0, asks])
    )
    assert found.pairs == ((1, 0, 1),)
    assert found.norm_bound == pytest.approx(bound, rel=1e-15)
    assert found.verify(keys)


def test_tokens_of_one_key_that_must_differ():
    """Row and tie are both 0: the row alone asks for what no p does."""
    keys = np.ones((1, 3, 2))
    found = farkas_certificate(keys, np.array([[0, 0, 1]]), np.ones(1), np.array([[0, 0, 2]]), np.ones(1))
    assert found.exact
    assert found.verify(keys)
    assert found.pairs == ((0, 0, 1),)
