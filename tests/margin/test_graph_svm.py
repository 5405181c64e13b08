"""(Graph-SVM): published values, all constraints at once against a working set, and proofs in tokens' names."""

import sys
from fractions import Fraction

import numpy as np
import pytest

from tests.data.test_token_graph import LABELS, SEQUENCES, random_rows
from tokenmargin import TokenGraph, graph_svm
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, pair_svm

module = sys.modules["tokenmargin.margin.graph_svm"]

#: Unit embeddings as the published repository draws them, rounded: values below are solved from these digits.
EMBEDDINGS = np.random.default_rng(7).normal(size=(6, 8))


def rows_of(graph, E):
    rows = [np.outer(E[a] - E[b], E[k]).ravel() for k, a, b in graph.apart]
    ties = [np.outer(E[a] - E[b], E[k]).ravel() for k, a, b in graph.ties]
    return np.array(rows), np.array(ties).reshape(-1, E.shape[1] ** 2)


@pytest.mark.parametrize("norm", ["frobenius", "nuclear", "max"])
def test_it_is_the_pair_problem_of_every_edge(norm):
    """Edges asked one by one, tokens of a component spoken for by themselves, give the same answer."""
    graph = TokenGraph(SEQUENCES, LABELS)
    solution = graph_svm(graph, EMBEDDINGS, norm)
    assert solution.is_optimal(1e-8)
    tied = {(2, 0, 5), (2, 5, 0)}
    every = [tuple(t) for t in graph.triples.tolist() if tuple(t) not in tied]
    rows = np.array([np.outer(EMBEDDINGS[a] - EMBEDDINGS[b], EMBEDDINGS[k]).ravel() for k, a, b in every])
    level = np.outer(EMBEDDINGS[0] - EMBEDDINGS[5], EMBEDDINGS[2]).reshape(1, -1)
    assert solution.value == pytest.approx(pair_svm(rows, level, norm, (8, 8)).value, rel=1e-8)
    assert solution.gaps.min() == pytest.approx(1.0, abs=1e-8)
    assert "after" in solution.explain()


@pytest.mark.parametrize("norm", ["frobenius", "nuclear"])
def test_a_working_set_gives_the_answer_of_all_constraints(norm, monkeypatch):
    sequences, labels = random_rows(3, n=60, T=4, V=12, lasts=4)
    E = np.random.default_rng(0).normal(size=(12, 14))
    graph = TokenGraph(sequences, labels)
    assert len(graph.apart) > 10
    assert len(graph.ties) > 3
    whole = graph_svm(graph, E, norm)
    assert whole.status is Status.OPTIMAL
    monkeypatch.setattr(module, "AT_ONCE", 0)
    told = []
    few = graph_svm(graph, E, norm, progress=lambda *step: told.append(step))
    assert told
    assert few.status is Status.OPTIMAL
    assert few.value == pytest.approx(whole.value, rel=1e-8)
    np.testing.assert_allclose(few.matrix, whole.matrix, atol=1e-6 * np.abs(whole.matrix).max())
    np.testing.assert_array_equal(few.tie_triples, graph.ties)
    rows, ties = rows_of(graph, E)
    assert (rows @ few.p).min() >= 1 - 1e-7
    if norm == "frobenius":
        pull = few.duals @ rows + few.tie_duals @ ties
        np.testing.assert_allclose(pull, few.p, atol=1e-7 * np.abs(few.p).max())


@pytest.mark.parametrize("at_once", [600, 0])
def test_infeasible_is_proved_in_the_tokens_names_and_without_rounding(at_once, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    names = ["ant", "bee", "cat", "dog", "eel", "fox"]
    graph = TokenGraph(SEQUENCES, LABELS, names=names)
    E = np.round(EMBEDDINGS[:, :1] * 4) / 4 + 0.125  # on a line, in quarters: nothing is rounded
    solution = graph_svm(graph, E)
    assert solution.is_infeasible
    assert "over" in solution.explain()
    assert any(f"'{name}'" in solution.explain() for name in names)
    left, total = Fraction(0), Fraction(0)
    for (k, a, b), weight in solution.conflict:
        left += Fraction(weight) * (Fraction(E[a, 0]) - Fraction(E[b, 0])) * Fraction(E[k, 0])
        total += abs(Fraction(weight))
    assert abs(float(left)) <= 1e-12 * float(total)
    asked = [weight for (k, a, b), weight in solution.conflict if [k, a, b] in graph.apart.tolist()]
    assert sum(asked) == pytest.approx(1.0)
    assert min(asked) > 0


def test_ties_of_a_large_component_are_said_by_few():
    rng = np.random.default_rng(0)
    n, V = 200, 30
    sequences = np.stack([rng.integers(0, V, n), rng.integers(0, V, n), np.zeros(n, int)], axis=1)
    graph = TokenGraph(sequences, sequences[:, 0])
    E = rng.normal(size=(V, 4))
    assert len(graph.ties) > 4
    kept = module.independent_ties(graph.ties, E)
    assert len(kept) == 4
    held = graph_svm(graph, E)
    assert held.is_infeasible or held.status is Status.TRIVIAL


def test_nothing_to_separate_is_an_answer_and_wrong_embeddings_are_refused():
    graph = TokenGraph([[0, 0]], [0])
    solution = graph_svm(graph, [[1.0, 2.0]])
    assert solution.status is Status.TRIVIAL
    assert solution.value == 0.0
    assert "nothing diverges" in solution.explain()
    for wrong in ([[1.0]] * 3, np.full((6, 2), np.nan), np.zeros((6, 0)), "x"):
        with pytest.raises(InvalidInputError):
            graph_svm(TokenGraph(SEQUENCES, LABELS), wrong)


@pytest.mark.long
def test_a_hundred_thousand_constraints():
    rng = np.random.default_rng(0)
    n, V, d = 24_000, 200, 16
    E = rng.normal(size=(V, d)) / d**0.5
    W = rng.normal(size=(d, d))
    sequences = rng.integers(0, V, (n, 8))
    logits = np.einsum("ntd,de,ne->nt", E[sequences], W, E[sequences[:, -1]])
    graph = TokenGraph(sequences, sequences[np.arange(n), logits.argmax(axis=1)])
    assert len(graph.apart) > 100_000
    assert graph_svm(graph, E).is_optimal(1e-8)
