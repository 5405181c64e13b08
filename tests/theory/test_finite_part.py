"""The finite part by a convex solve, beside dynamics, beside SciPy; and what a false one is told."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from tests import references
from tests.attention.test_next_token_risk import published
from tokenmargin import Flow, NextTokenRisk, compare, follow, graph_svm
from tokenmargin.attention import label_squared
from tokenmargin.attention.follow import follow_all
from tokenmargin.errors import InvalidInputError, NotDecidedError
from tokenmargin.theory import finite_part, proven_finite


def random_risk(seed, n=24, T=4, V=8, d=9):
    rng = np.random.default_rng(seed)
    sequences = np.array([rng.permutation(V)[:T] for _ in range(n)])
    sequences[:, -1] = rng.integers(0, 3, n)
    labels = sequences[np.arange(n), rng.integers(0, T, n)]
    return NextTokenRisk(sequences, labels, rng.normal(size=(V, d)))


@pytest.fixture(scope="module")
def runs():
    risks = [random_risk(seed) for seed in range(8)]
    return follow_all(risks, [np.zeros((9, 9))] * len(risks), Flow())


def test_the_published_floor():
    part = finite_part(published())
    assert part.floor == pytest.approx(2 * np.log(2) / 6, abs=1e-15)
    assert len(part.basis) == 1
    assert part.proof.is_proven
    assert np.abs(part.matrix).max() < 1e-14


def test_dynamics_go_to_both_parts(runs):
    """Neither knows the other: the flow is judged by its own weights, the rest sees the sequences alone."""
    seen = set()
    for run in runs:
        agreement = compare(run.limit)
        assert agreement.agrees, agreement.explain()
        assert agreement.velocity_error < 1e-10
        assert agreement.finite_error < 1e-9
        assert agreement.projection_error < 1e-6
        assert abs(run.risk.value(run.final) - agreement.finite_part.floor) < 1e-9
        seen.add(run.limit.kind)
    assert seen
    assert any(np.abs(compare(run.limit).finite_part.matrix).max() > 0.1 for run in runs)


def test_a_false_limit_does_not_agree(runs):
    """A turned velocity, a shifted finite part, and the limit of other sequences."""
    limit = next(run.limit for run in runs if run.limit.mixed)
    assert not compare(replace(limit, velocity=-limit.velocity)).agrees
    part = compare(limit).finite_part
    assert not compare(replace(limit, finite_part=limit.finite_part + 1e-3 * part.basis[0])).agrees
    assert "do not converge" in compare(replace(limit, finite_part=limit.finite_part + 1e-3 * part.basis[0])).explain()
    assert not compare(replace(limit, finite_part=1.1 * limit.finite_part)).agrees
    other = next(run.risk for run in runs if run.risk is not limit.risk)
    assert not compare(replace(limit, risk=other)).agrees


def test_it_is_the_minimiser_that_scipy_finds():
    risk = random_risk(2)
    part = finite_part(risk)
    flags = risk.graph.competes(risk.rows).reshape(24, 4)
    rows = [row[own].tolist() for row, own in zip(risk.rows.tokens.reshape(24, 4), flags, strict=True)]

    def loss(W):
        total = 0.0
        for row, label, last in zip(rows, risk.rows.labels, risk.rows.last, strict=True):
            logits = risk.embeddings[row] @ W.reshape(9, 9) @ risk.embeddings[last]
            total += np.logaddexp.reduce(logits) - np.logaddexp.reduce(logits[np.array(row) == label])
        return total / 24

    found = minimize(loss, np.zeros(81), method="BFGS", options={"gtol": 1e-9})
    assert found.fun == pytest.approx(part.floor, abs=1e-9)
    np.testing.assert_allclose(part.projected(found.x), part.matrix.ravel(), atol=1e-4)


def test_what_stands_behind_the_end_of_a_short_sequence_counts_for_nothing():
    """Also where the label has the number that fills the table."""
    rows, labels = [[0, 1], [0, 2, 1], [2, 0, 1], [0, 1], [0, 2, 1]], [0, 2, 0, 1, 1]
    risk = NextTokenRisk(rows, labels, np.eye(3))
    part = finite_part(risk)
    assert risk.graph.tied_share == 1.0
    assert part.floor == pytest.approx(references.next_token_loss(rows, labels, np.eye(3), part.matrix), rel=1e-12)


def test_the_proof_holds_the_solution_and_is_refused_around_another_point():
    part = finite_part(random_risk(1))
    assert part.proof.is_proven
    assert part.proof.radius < 1e-6
    assert np.linalg.norm(part.proof.point - part.matrix.ravel()) <= part.proof.radius


def test_the_part_of_a_run_that_stays_is_proven_on_its_span(runs):
    proven = 0
    for run in runs:
        if run.limit.mixed:
            found = proven_finite(run.limit)
            assert found.is_proven, found.reason
            assert found.dimensions == len(finite_part(run.risk, prove=False).basis)
            assert np.linalg.norm(found.point - run.limit.finite_part) <= 2 * found.radius
            proven += 1
    assert proven >= 4


def test_log_odds_of_two_tokens_are_their_counts():
    risk = NextTokenRisk([[0, 1], [0, 1], [0, 1]], [0, 1, 1], np.eye(2))
    part = finite_part(risk)
    assert part.log_odds(risk, 1, 1, 0) == pytest.approx(np.log(2.0), rel=1e-12)
    agreement = compare(follow(risk, np.zeros((2, 2)), Flow()).limit)
    assert agreement.agrees
    assert "nothing diverges" in agreement.explain()


def test_without_competition_there_is_nothing_finite_and_another_loss_is_refused():
    risk = NextTokenRisk([[0, 1]] * 3, [0] * 3, np.eye(2))
    part = finite_part(risk)
    assert part.floor == 0.0
    assert not len(part.basis)
    assert compare(follow(risk, np.zeros((2, 2)), Flow()).limit).agrees
    with pytest.raises(InvalidInputError, match="no convex problem"):
        finite_part(published(label_squared))


def test_where_no_matrix_keeps_the_graph_training_does_not_agree(runs):
    """In a plane the demands contradict each other: the loss stays above its floor, and that is said."""
    risk = runs[0].risk
    flat = np.where(np.arange(9) < 2, risk.embeddings, 0.0)
    narrow = NextTokenRisk(risk.rows.tokens.reshape(24, 4), risk.rows.labels, flat)
    assert graph_svm(narrow.graph, flat).is_infeasible
    (run, *_) = follow_all([narrow] * 8, [np.zeros((9, 9))] * 8, Flow())
    agreement = compare(run.limit)
    assert not agreement.agrees
    assert not agreement.is_compared
    assert "No W can meet these preferences" in agreement.explain()


#: Logarithms of lengths of queries, in units: the first three tokens are the last of a sequence.
LENGTHS = np.array([-1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])[:, None]


@pytest.mark.parametrize("spread", [0.0, 3.0, 6.0])
def test_queries_of_lengths_far_apart_are_solved(spread):
    """Queries at right angles: whatever the lengths of the three that ask, log-odds are the same."""
    risk, rng = random_risk(3), np.random.default_rng(0)
    queries = np.linalg.qr(rng.normal(size=(9, 9)))[0][:8]
    far = queries * 10.0 ** (spread * LENGTHS)
    rows = risk.rows.tokens.reshape(24, 4), risk.rows.labels
    parts = [finite_part(NextTokenRisk(*rows, risk.embeddings, queries=Q), prove=False) for Q in (queries, far)]
    assert parts[0].floor == pytest.approx(parts[1].floor, rel=1e-12)
    odds = [(part.matrix @ Q.T)[:, :3] for part, Q in zip(parts, (queries, far), strict=True)]
    np.testing.assert_allclose(*odds, atol=1e-7)


def test_what_floats_do_not_tell_is_said():
    """Queries nearly along one line and 10^12 apart in length: W has no digits left for the shorter ones."""
    risk = random_risk(3)
    line = np.random.default_rng(1).normal(size=9) + 1e-3 * risk.embeddings
    with pytest.raises(NotDecidedError, match="divide queries by their lengths"):
        finite_part(
            NextTokenRisk(
                risk.rows.tokens.reshape(24, 4),
                risk.rows.labels,
                risk.embeddings,
                queries=line * 10.0 ** (7 * LENGTHS),
            )
        )


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3])
def test_the_verdict_does_not_depend_on_the_units_of_embeddings(unit):
    """A distance of W means nothing by itself: in units of 1e-6 a rounding of it is far more than 1e-6."""
    rows = [[1, 2, 5, 4], [5, 0, 1, 2], [4, 5, 3, 1], [3, 5, 0, 2], [3, 1, 0, 4], [5, 1, 3, 0]]
    embeddings = unit * np.random.default_rng(0).normal(size=(6, 8))
    risk = NextTokenRisk(rows, [1, 5, 5, 0, 1, 3], embeddings)
    told = compare(follow(risk, np.zeros((8, 8)), Flow()).limit)
    assert told.agrees
    assert told.finite_error < 1e-12
