"""Margins in every norm where rows are of unlike sizes, oppose each other or say nothing; the bound behind a yes."""

from __future__ import annotations

import numpy as np
import pytest

import tokenmargin as tm
from tokenmargin.margin import Status, Unique, least_norm
from tokenmargin.margin import _face as face
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin._other_norms import _SOLVERS, GAP_TOLERANCE
from tokenmargin.margin._scaled_rows import Candidate, ScaledRows
from tokenmargin.margin.least_norm import least_norm_of
from tokenmargin.norms import Lp, Max, Nuclear, Spectral, Sum

FACES = (Max(), Sum(), Nuclear(), Spectral())
EVERY = (*FACES, Lp(1.1), Lp(3.0), Lp(8.0))


def by_name(norms):
    return pytest.mark.parametrize("norm", norms, ids=lambda norm: norm.name)


def data_of(X, Z=None):
    Z = np.random.default_rng(1).normal(size=(len(X), 2)) if Z is None else Z
    return tm.CrossSequences(X, queries=Z, labels=np.ones(len(X)), head=np.ones(np.shape(X)[2]))


def tokens(first=1.0, second=1.0):
    X = np.random.default_rng(0).normal(size=(2, 3, 2))
    X[0] *= first
    X[1] *= second
    return X


@by_name(EVERY)
@pytest.mark.parametrize("apart", [1e6, 1e150])
def test_inputs_of_sizes_far_apart_are_decided(norm, apart):
    """The larger input asks next to nothing of W: what is left is the margin of the smaller, or little more."""
    both = tm.att_svm(data_of(tokens(1 / apart, apart)), tm.Selection.from_indices([0, 2], 3), norm=norm)
    asked = tm.relaxed_svm(data_of(tokens()), tm.Selection.from_indices([0, 2], 3), [False, True], norm=norm)
    assert both.is_optimal(GAP_TOLERANCE)
    assert both.value / apart == pytest.approx(asked.value, rel=1e-6 if apart < 1e7 else 1e-8)


@by_name(EVERY)
def test_keys_at_the_end_of_float64_are_counted_in_other_units(norm):
    selection = tm.Selection.from_indices([0, 2], 3)
    plain, X = tm.att_svm(data_of(tokens()), selection, norm=norm), tokens()
    unit = 2.0**1023 / 2 ** np.ceil(np.log2(np.abs(X).max()))
    Z = np.random.default_rng(1).normal(size=(2, 2))
    far = tm.att_svm(data_of(X * unit, Z / 4), selection, norm=norm)
    assert far.value * (unit / 4) == pytest.approx(plain.value, rel=GAP_TOLERANCE)


@by_name(EVERY)
def test_ties_of_equal_tokens_ask_nothing(norm):
    X = tokens()
    twice = X[:, [0, 0, 1, 2]]
    plain = tm.att_svm(data_of(X), tm.Selection.from_indices([0, 0], 3), norm=norm)
    tied = tm.att_svm(data_of(twice), tm.Selection([[True, True, False, False]] * 2), norm=norm)
    assert tied.is_optimal(GAP_TOLERANCE)
    assert tied.value == pytest.approx(plain.value, rel=GAP_TOLERANCE)


@by_name(EVERY)
def test_relaxed_rows_that_oppose_each_other_are_ties(norm):
    """Of 0 <= W_12 and 0 <= -W_12 remains W_12 = 0; the multipliers of both are >= 0, and prove the same value."""
    rows = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, -2, 0, 0], [1, 1, 1, 1]])
    rhs = np.array([1.0, 0, 0, 2])
    answer = least_norm(rows, rhs, norm=norm, shape=(2, 2))
    told = least_norm(rows[[0, 3]], rhs[[0, 3]], rows[1:2], norm=norm, shape=(2, 2))
    assert answer.is_optimal(GAP_TOLERANCE)
    assert answer.value == pytest.approx(told.value, rel=GAP_TOLERANCE)
    assert answer.duals.min() >= 0
    pull = (answer.duals @ rows).reshape(2, 2)
    assert answer.duals @ rhs / norm.dual.value(pull) == pytest.approx(answer.value, rel=GAP_TOLERANCE)


def test_three_rows_that_cancel_hold_each_other_and_a_fourth_behind_them():
    """z1 + z2 + z3 = 0 holds all three level; only then -z4 - z1 and z4 oppose each other."""
    rows = np.array([[1.0, 0, 0], [0, 1, 0], [-1, -1, 0], [0, 0, 1], [-1, 0, -1], [1, 2, 0], [3, 1, 1]])
    rows = np.hstack([rows, np.array([[0], [0], [0], [0], [0], [1], [2.0]])])
    rhs = np.array([0, 0, 0, 0, 0, 1, 1.0])
    for norm in EVERY:
        answer = least_norm(rows, rhs, norm=norm, shape=(2, 2))
        assert answer.is_optimal(GAP_TOLERANCE)
        np.testing.assert_allclose(answer.p, [0, 0, 0, 1], atol=1e-8)
        assert answer.duals.min() >= 0


@by_name(EVERY)
@pytest.mark.parametrize("margin", [1e-3, 1e-9, 1e-12])
def test_nearly_infeasible_problems_are_decided(norm, margin):
    X = np.array([[[1.0, margin], [0, 0]], [[0, 0], [1.0, -margin]]])
    answer = tm.att_svm(data_of(X, np.ones((2, 1))), tm.Selection.from_indices([0, 0], 2), norm=norm)
    assert answer.status is Status.OPTIMAL
    assert answer.value == pytest.approx(1 / margin, rel=GAP_TOLERANCE)


@pytest.mark.parametrize("q", [8.0, 20.0, 100.0])
def test_large_powers_are_solved_where_queries_are_all_alike(q):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(3, 5, 5)), np.outer(rng.normal(size=3), rng.normal(size=3))
    data = data_of(X, Z)
    selection = tm.Selection.from_indices(data.logits(rng.normal(size=15)).argmax(axis=1), 5)
    assert tm.att_svm(data, selection, norm=Lp(q)).is_optimal(GAP_TOLERANCE)


# --- what a yes rests on ----------------------------------------------------------------------------------------------


def scaled(seed, norm):
    """A problem in matrices of rank one, of whole numbers for every other seed."""
    rng = np.random.default_rng(seed)
    shape = [(2, 2), (3, 2), (3, 3), (2, 4)][seed % 4]
    rows = np.array([np.outer(*(rng.normal(size=size) for size in shape)).ravel() for _ in range(rng.integers(2, 7))])
    rows = np.rint(2 * rows) if seed % 2 else rows
    reach = rows @ rng.normal(size=rows.shape[1])
    rows = (rows * np.sign(reach)[:, None])[reach != 0]
    given, rhs = GivenRows(rows), np.ones(len(rows))
    return ScaledRows.of(least_norm_of(given, rhs), given, rhs, norm, shape, least_norm_of)


@by_name(FACES)
def test_no_array_as_short_is_further_away_than_is_proved(norm):
    """From points of a gap that is made, the optimum is as short; beside free directions it is as near as is said."""
    tight, told = 0.0, 0
    for seed in range(12):
        problem = scaled(seed, norm)
        best = problem.meeting(_SOLVERS[type(norm)](problem))
        other = problem.meeting(Candidate(problem.start.point, best.duals, best.tie_duals)).point
        for share in (1e-9, 1e-6, 1e-3):
            mixed = Candidate((1 - share) * best.point + share * other, best.duals, best.tie_duals)
            W = problem.meeting(mixed)
            free, spread = face._free_directions(problem, W)
            off = best.point - W.point
            off = off - free @ (free.T @ off) if free.shape[1] else off
            assert np.linalg.norm(off) <= spread * np.linalg.norm(W.point) + 1e-12
            tight = max(tight, float(np.linalg.norm(off) / np.linalg.norm(W.point)) / spread)
        told += not free.shape[1] or norm == Max()
    assert tight > 0.01  # a bound of no use would be far above
    assert told >= 3


@by_name(FACES)
def test_a_yes_comes_with_the_bound_that_proves_it(norm):
    said = set()
    for seed in range(8):
        problem = scaled(seed, norm)
        answer = least_norm(problem.rows, problem.rhs, norm=norm, shape=problem.shape)
        said.add(answer.unique)
        assert (answer.unique is Unique.YES) is (answer.spread <= face.DIFFERENT)
        assert (answer.unique is Unique.NO) is (answer.other is not None)
    assert Unique.YES in said


def test_where_there_is_no_answer_nothing_is_said_of_others():
    data = tm.EmbeddedSequences([[[1.0], [0.0]], [[0.0], [1.0]]], [1, 1], [1.0])
    assert tm.att_svm(data, tm.Selection.from_indices([0, 0], 2), norm="max").unique is Unique.NOT_DECIDED
