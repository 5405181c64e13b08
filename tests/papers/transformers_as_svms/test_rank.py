"""The rank of nuclear solutions: bounds that no figure can beat, and problems that have no solution at all."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.margin import Status, Unique, att_svm
from tokenmargin.papers.transformers_as_svms.claims.rank_bound import (
    Selected,
    dual_matrix,
    largest_rank,
    two_pairs,
)
from tokenmargin.papers.transformers_as_svms.figures import _peer_solver, rank_over_width
from tokenmargin.papers.transformers_as_svms.problems import (
    best_tokens,
    unit_problem,
    visualization_1,
    visualization_2,
)


def test_the_drawn_ranks_are_forbidden_by_the_number_of_pairs():
    """Rank n at T = 5 asks for n(n+1)/2 tight pairs of 4n: more than there are from n = 8 on."""
    assert [largest_rank(n * 4) for n in (5, 10, 15)] == [5, 8, 10]
    assert [largest_rank(r * (r + 1) // 2) for r in range(12)] == list(range(12))
    assert [largest_rank(r * (r + 1) // 2 - 1) for r in range(1, 12)] == list(range(11))
    data = unit_problem(np.random.default_rng(3), 10, 5, 12)
    nuclear, frobenius = (att_svm(data, best_tokens(data), norm=norm) for norm in ("nuclear", "l2"))
    assert nuclear.unique is Unique.YES
    assert frobenius.rank == 10
    assert nuclear.rank <= largest_rank(int(nuclear.tight.sum())) < 10


def test_an_infeasible_problem_counts_as_rank_1_in_the_notebook_and_apart_here():
    data = unit_problem(np.random.default_rng(0), 15, 5, 2)
    assert att_svm(data, best_tokens(data), norm="nuclear").status is Status.INFEASIBLE
    row = rank_over_width.problem_row(0, (15, 5, 2), 0)
    assert row[0] == 0
    assert np.isnan(row[1:]).all()
    assert np.linalg.matrix_rank(None, tol=1e-7) == 1


@pytest.mark.parametrize(
    ("data", "value", "rank"), [(visualization_1(), 9.75480955, 1), (visualization_2(), 1.87260443, 2)]
)
def test_the_instances_have_their_known_values(data, value, rank):
    found = Selected(data, best_tokens(data)).nuclear
    assert found.value == pytest.approx(value, rel=1e-8)
    assert found.rank == rank
    np.testing.assert_allclose(np.linalg.norm(dual_matrix(found), ord=2), 1.0, rtol=1e-12)


def test_two_pairs_have_solutions_of_two_ranks():
    case = two_pairs()
    assert case.nuclear.value == pytest.approx(2.0)
    for a, rank in ((1.0, 1), (0.0, 2)):
        W = np.array([[1.0, a], [a, 1.0]])
        assert np.linalg.norm(W, ord="nuc") == pytest.approx(2.0)
        assert np.linalg.matrix_rank(W) == rank


@pytest.mark.skipif(not _peer_solver.installed(), reason="cvxpy, SCS or Clarabel is not installed")
def test_a_solver_of_few_digits_counts_more_than_one_of_many():
    data = unit_problem(np.random.default_rng([1, 10]), 10, 5, 10)
    ranks = {name: _peer_solver.peer_rank(data, best_tokens(data), **how) for name, how in _peer_solver.PEERS.items()}
    certified = att_svm(data, best_tokens(data), norm="nuclear").rank
    assert ranks["SCS, eps 1e-8"] == ranks["Clarabel"] == certified
    assert ranks["SCS, default"] > certified
