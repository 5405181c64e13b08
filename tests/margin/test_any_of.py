"""(ATT-SVM') against every choice one by one, and what the paper says of it [M, App. D]."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.instances import fig1c, random_sphere, theorem2_counterexample
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import global_margin
from tokenmargin.margin.any_of import NORM_TIE_TOLERANCE, att_svm_any
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.margin.solution import Status


def with_keys(keys) -> EmbeddedSequences:
    keys = np.asarray(keys, dtype=float)
    return EmbeddedSequences(keys, np.ones(len(keys)), np.ones(keys.shape[2]))


def appendix_d() -> tuple[EmbeddedSequences, list[list[bool]]]:
    """n = d = 1, T = 3: optimal keys 1 and -1, the other 0."""
    return with_keys([[[1.0], [-1.0], [0.0]]]), [[True, True, False]]


def by_brute_force(sequences: EmbeddedSequences, allowed: np.ndarray) -> tuple[float, list[np.ndarray]]:
    """The definition: one convex problem for every choice."""
    keys, best, found = sequences.keys, np.inf, []
    for alpha in itertools.product(*(np.flatnonzero(row) for row in allowed)):
        rows = [keys[i, a] - keys[i, b] for i, a in enumerate(alpha) for b in np.flatnonzero(~allowed[i])]
        answer = least_norm(np.array(rows), np.ones(len(rows)))
        if answer.status is Status.OPTIMAL:
            found.append(answer.p)
            best = min(best, float(np.linalg.norm(answer.p)))
    return best, [p for p in found if np.linalg.norm(p) <= best * (1 + NORM_TIE_TOLERANCE)]


def random_allowed(rng: np.random.Generator, n: int, T: int) -> np.ndarray:
    allowed = rng.random((n, T)) < 0.5
    allowed[np.arange(n), rng.integers(T, size=n)] = True
    forbidden = (np.argmax(allowed, axis=1) + 1) % T
    allowed[np.arange(n), forbidden] = False
    return allowed


def test_the_example_of_the_appendix_has_both_minimisers():
    sequences, allowed = appendix_d()
    solution = att_svm_any(sequences, allowed)
    assert solution.status is Status.OPTIMAL
    assert sorted(solution.minimisers[:, 0].tolist()) == pytest.approx([-1.0, 1.0])
    assert solution.distance([0.0]) == pytest.approx(1.0)
    assert solution.distance([0.75]) == pytest.approx(0.25)
    assert {(tuple(c), float(p[0])) for c, p in zip(solution.choices.tolist(), solution.minimisers, strict=True)} == {
        ((0,), 1.0),
        ((1,), -1.0),
    }
    assert "2 vectors" in solution.explain()


def test_agrees_with_brute_force_on_100_random_problems(rng):
    feasible = infeasible = 0
    for _ in range(100):
        n, T, d = rng.integers(1, 5), rng.integers(3, 5), rng.integers(1, 4)
        sequences = with_keys(rng.normal(size=(n, T, d)))
        allowed = random_allowed(rng, n, T)
        norm, minimisers = by_brute_force(sequences, allowed)
        solution = att_svm_any(sequences, allowed)
        if not np.isfinite(norm):
            assert solution.status is Status.INFEASIBLE
            assert solution.margin == 0.0
            assert solution.minimisers.shape == (0, d)
            infeasible += 1
            continue
        feasible += 1
        assert solution.status is Status.OPTIMAL
        assert solution.upper == pytest.approx(norm, rel=1e-9)
        assert solution.lower == pytest.approx(norm, rel=1e-9)
        assert max(solution.distance(p) for p in minimisers) < 1e-6 * norm
        for p in solution.minimisers:
            assert min(np.linalg.norm(p - other) for other in minimisers) < 1e-6 * norm
    assert min(feasible, infeasible) >= 10


def test_agrees_with_brute_force_where_the_search_has_to_branch(rng):
    """Three of five tokens allowed: the first vectors found are rarely the shortest."""
    for _ in range(40):
        sequences = with_keys(rng.normal(size=(4, 5, int(rng.integers(3, 6)))))
        allowed = np.tile(np.arange(5) < 3, (4, 1))
        solution = att_svm_any(sequences, allowed)
        assert solution.upper == pytest.approx(by_brute_force(sequences, allowed)[0], rel=1e-9)


def test_every_minimiser_of_a_symmetric_problem_is_found():
    # Allowed keys (+-1, +-1), forbidden 0: each sign pattern is a minimiser, in both inputs at once.
    corners = [(a, b) for a in (1.0, -1.0) for b in (1.0, -1.0)]
    sequences = with_keys([[*corners, (0.0, 0.0)]] * 2)
    solution = att_svm_any(sequences, np.array([[True] * 4 + [False]] * 2))
    expected = {(a / 2, b / 2) for a, b in corners}
    assert {tuple(np.round(p, 9).tolist()) for p in solution.minimisers} == expected
    assert len(solution.minimisers) == 4


def test_one_allowed_token_is_att_svm(rng):
    for sequences in (fig1c(), random_sphere(rng, 3, 4, 6)):
        solution, reference = att_svm_any(sequences, optimal_selection(sequences)), global_margin(sequences)
        assert solution.status is Status.OPTIMAL
        np.testing.assert_allclose(solution.minimisers, [reference.p], rtol=1e-9, atol=1e-12)
        assert solution.margin == pytest.approx(reference.margin)


def test_infeasible_trivial_and_masked():
    conflict = theorem2_counterexample()
    assert att_svm_any(conflict, [[True, False], [False, True]]).status is Status.INFEASIBLE
    everything = att_svm_any(conflict, [[True, True], [True, True]])
    assert everything.status is Status.TRIVIAL
    assert everything.margin == np.inf
    assert everything.n_solved == 0
    sequences, allowed = appendix_d()
    padded = EmbeddedSequences(
        np.concatenate([sequences.tokens, [[[np.nan]]]], axis=1), [1], [1.0], mask=[[True, True, True, False]]
    )
    assert len(att_svm_any(padded, [[*allowed[0], False]]).minimisers) == 2


def test_a_search_cut_short_brackets_the_minimum(rng):
    sequences = with_keys(rng.normal(size=(14, 5, 3)))
    allowed = np.array([[True, True, True, True, False]] * 14)
    whole = att_svm_any(sequences, allowed, max_nodes=10**6)
    assert whole.status is Status.OPTIMAL
    cut = att_svm_any(sequences, allowed, max_nodes=60)
    assert cut.status is Status.BRACKETED
    assert cut.lower <= whole.upper * (1 + 1e-9)
    assert whole.upper <= cut.upper * (1 + 1e-9)
    assert cut.lower < cut.upper
    assert "between" in cut.explain()


@pytest.mark.parametrize("allowed", [[[True, False, False, False]], [[False, False, False]], [[1, 0, 1]]])
def test_refuses_what_is_not_a_set_of_tokens_per_input(allowed):
    sequences, _ = appendix_d()
    with pytest.raises(InvalidInputError):
        att_svm_any(sequences, allowed)
    with pytest.raises(InvalidInputError, match="max_nodes"):
        att_svm_any(sequences, Selection([[True, True, False]]), max_nodes=0)
