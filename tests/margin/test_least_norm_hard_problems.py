"""Two thousand random, degenerate and infeasible margin problems against an independent solver."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tokenmargin import EmbeddedSequences, Selection, Status, att_svm
from tokenmargin.margin import att_svm_batch
from tokenmargin.margin._daqp import active_set
from tokenmargin.margin.least_norm import least_norm, least_norm_batch

KKT = 1e-9
#: Relative distance of our p from the interior-point solver's, whose own tolerance is about 1e-8 on the squared norm.
PEER = 1e-4


def generic(rng):
    n, T, d = rng.integers(1, 5), rng.integers(2, 6), rng.integers(1, 7)
    return rng.normal(size=(n, T, d)), rng.integers(0, T, size=n)


def separable(rng):
    n, T, d = rng.integers(1, 5), rng.integers(2, 7), rng.integers(1, 8)
    keys = rng.normal(size=(n, T, d))
    return keys, (keys @ rng.normal(size=d)).argmax(axis=1)


def integer_grid(rng):
    n, T, d = rng.integers(1, 4), rng.integers(2, 6), rng.integers(1, 4)
    return rng.integers(-2, 3, size=(n, T, d)).astype(float), rng.integers(0, T, size=n)


def duplicates(rng):
    keys, alpha = separable(rng)
    i = rng.integers(len(keys))
    keys[i, rng.integers(keys.shape[1])] = keys[i, rng.integers(keys.shape[1])]
    return keys, alpha


def collinear(rng):
    """Tokens on a line through dyadic points, so that collinearity is exact."""
    n, T, d = rng.integers(1, 4), rng.integers(3, 6), rng.integers(1, 5)
    base = rng.integers(-64, 65, size=(n, 1, d)) / 32
    along = rng.integers(-64, 65, size=(n, 1, d)) / 32
    return base + rng.integers(-4, 5, size=(n, T, 1)) * along, rng.integers(0, T, size=n)


def shared_tokens(rng):
    """Inputs draw from one vocabulary, as texts do: the same difference occurs with both signs."""
    n, T, d = rng.integers(2, 5), rng.integers(2, 5), rng.integers(1, 6)
    vocabulary = rng.normal(size=(6, d))
    return vocabulary[rng.integers(0, 6, size=(n, T))], rng.integers(0, T, size=n)


def high_dimension(rng):
    n, T, d = rng.integers(1, 5), rng.integers(2, 6), rng.integers(20, 60)
    return rng.normal(size=(n, T, d)), rng.integers(0, T, size=n)


def single_token(rng):
    return rng.normal(size=(rng.integers(1, 4), 1, rng.integers(1, 4))), None


FAMILIES = [generic, separable, integer_grid, duplicates, collinear, shared_tokens, high_dimension, single_token]
PER_FAMILY = 250  # eight families: 2,000 problems


def problems(family, rng):
    for number in range(PER_FAMILY):
        keys, alpha = family(rng)
        scale = 2.0 ** rng.integers(-20, 21) if family in (collinear, integer_grid) else 10.0 ** rng.uniform(-6, 6)
        keys = keys * scale
        n, T, d = keys.shape
        chosen = np.zeros((n, T), bool)
        chosen[np.arange(n), 0 if alpha is None else alpha] = True
        if number % 4 == 1:  # ties: more than one selected token
            chosen[rng.integers(n), rng.integers(T)] = True
        if number % 50 == 2:
            chosen[:] = True
        yield EmbeddedSequences(keys, np.ones(n), np.ones(d)), Selection(chosen)


def unit_rows(solution):
    keys = solution.sequences.keys
    i, s, t = solution.triples.T
    rows = keys[i, s] - keys[i, t]
    j, a, b = solution.tie_triples.T
    ties = keys[j, a] - keys[j, b]
    return rows, solution.required, ties[np.linalg.norm(ties, axis=1) > 0]


def peer_verdict(rows, required, ties):
    """Clarabel on rows of unit norm; (status, p) with status None where it does not decide."""
    import clarabel
    from scipy import sparse

    d = rows.shape[1]
    norms = np.linalg.norm(rows, axis=1)
    if not norms.all():
        return Status.INFEASIBLE, None
    bound = required / norms
    unit_length = bound.max()
    ties = ties / np.linalg.norm(ties, axis=1, keepdims=True)
    A = sparse.csc_matrix(np.vstack([ties, -rows / norms[:, None]]))
    b = np.concatenate([np.zeros(len(ties)), -bound / unit_length])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(len(ties)), clarabel.NonnegativeConeT(len(rows))]
    solver = clarabel.DefaultSolver(sparse.csc_matrix(np.eye(d)), np.zeros(d), A, b, cones, settings)
    solution = solver.solve()
    if str(solution.status) == "Solved":
        return Status.OPTIMAL, np.array(solution.x) * unit_length
    if str(solution.status) == "PrimalInfeasible":
        return Status.INFEASIBLE, None
    return None, None


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_verdicts_residuals_and_certificates(family):
    pytest.importorskip("clarabel", reason="the independent solver is in the test extra: pip install tokenmargin[test]")
    rng = np.random.default_rng([FAMILIES.index(family), 7])
    decided = 0
    for sequences, selection in problems(family, rng):
        solution = att_svm(sequences, selection)
        assert solution.status is not Status.UNDECIDED
        if solution.status is Status.TRIVIAL:
            assert selection.chosen.all()
            continue
        rows, required, ties = unit_rows(solution)
        peer, p = peer_verdict(rows, required, ties)
        if peer is not None:
            decided += 1
            assert solution.status is peer, (sequences.keys, selection)
        if solution.status is Status.OPTIMAL:
            assert solution.residuals.worst <= KKT
            check_kkt_from_scratch(solution, rows, required)
            if p is not None:
                assert np.linalg.norm(solution.p - p) <= PEER * np.linalg.norm(p)
        else:
            certificate = solution.certificate
            assert certificate is not None
            assert certificate.exact
            assert certificate.verify(sequences.keys)
            assert solution.explain()
    if family is not single_token:
        assert decided >= 0.9 * PER_FAMILY * 0.97


def check_kkt_from_scratch(solution, rows, required):
    """The residuals again, from the public numbers alone and in unscaled terms."""
    keys = solution.sequences.keys
    j, a, b = solution.tie_triples.T
    ties = keys[j, a] - keys[j, b]
    length = np.linalg.norm(solution.p)
    stationarity = solution.p - rows.T @ solution.duals - ties.T @ solution.tie_duals
    assert np.linalg.norm(stationarity) <= KKT * length
    assert (solution.duals * np.linalg.norm(rows, axis=1) >= -KKT * length).all()
    norms = np.linalg.norm(rows, axis=1)
    assert ((rows @ solution.p - required) / norms >= -KKT * length).all()
    assert (np.abs(ties @ solution.p) <= KKT * length * np.linalg.norm(ties, axis=1)).all()


def test_batch_equals_one_at_a_time():
    rng = np.random.default_rng(3)
    for family in FAMILIES:
        pairs = [pair for _, pair in zip(range(40), problems(family, rng), strict=False)]
        batch = att_svm_batch([s for s, _ in pairs], [c for _, c in pairs])
        for (sequences, selection), answer in zip(pairs, batch, strict=True):
            alone = att_svm(sequences, selection)
            assert answer.status is alone.status
            if alone.status is Status.OPTIMAL:
                np.testing.assert_allclose(answer.p, alone.p, rtol=0, atol=1e-9 * np.linalg.norm(alone.p))


def test_without_daqp_the_same_is_decided(monkeypatch):
    rng = np.random.default_rng(4)
    pairs = [pair for family in FAMILIES for _, pair in zip(range(40), problems(family, rng), strict=False)]
    with_daqp = [att_svm(*pair) for pair in pairs]
    # The package exports a function of the module's name, so the module is asked for by its full name.
    for module in ("_float_verdict", "_least_norm_batch"):
        monkeypatch.setattr(sys.modules[f"tokenmargin.margin.{module}"], "active_set", lambda: None)
    for pair, expected in zip(pairs, with_daqp, strict=True):
        answer = att_svm(*pair)
        assert answer.status is expected.status
        if expected.status is Status.OPTIMAL:
            assert answer.residuals.worst <= KKT
            np.testing.assert_allclose(answer.p, expected.p, rtol=0, atol=1e-7 * np.linalg.norm(expected.p))


def test_the_active_set_says_whether_it_solved():
    backend = active_set()
    if backend is None:
        pytest.skip("daqp is not installed")
    p, duals = np.zeros(2), np.zeros(2)
    assert backend(np.eye(2), np.array([1.0, 0.5]), p, duals)
    np.testing.assert_allclose([p, duals], [[1.0, 0.5]] * 2, atol=1e-10)
    opposed = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert not backend(opposed, np.ones(2), p, duals)


@pytest.mark.parametrize("d", [3, 8])
def test_multipliers_of_a_batch_make_its_vectors(d):
    """p = rows' duals in the units that the rows came in, whatever their lengths and what is asked of them."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(6, 3, d)) * 10.0 ** rng.integers(-2, 3, size=(6, 3, 1))
    rhs = rng.uniform(0.5, 5.0, size=(6, 3))
    for A, b, answer in zip(rows, rhs, least_norm_batch(rows, rhs), strict=True):
        assert answer.status is Status.OPTIMAL
        np.testing.assert_allclose(answer.duals @ A, answer.p, rtol=0, atol=KKT * np.linalg.norm(answer.p))
        assert answer.duals @ b == pytest.approx(answer.p @ answer.p)
        np.testing.assert_allclose(answer.duals, least_norm(A, b).duals, rtol=1e-6, atol=1e-9 * answer.duals.max())


@pytest.mark.parametrize("narrow", [1e-3, 1e-4, 1e-5])
def test_nearly_opposed_rows_are_decided_in_any_width(narrow):
    """Multipliers of 1/narrow^2 make a vector of 1/narrow: what cancels among them must not decide the status."""
    rng = np.random.default_rng(7)
    for d in (2, 3, 20):
        along, aside = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
        for _ in range(4):
            rows = np.array([along, -along]) + narrow * rng.uniform(0.5, 2.0, size=(2, 1)) * aside
            assert least_norm(rows, np.ones(2)).is_optimal(KKT)


def test_collinear_up_to_rounding_is_infeasible_with_a_bound_that_checks():
    """Tokens on a line that floats cannot represent: no exact cancellation, but no p of sane length either."""
    rng = np.random.default_rng(5)
    bounds = 0
    for _ in range(40):
        along = rng.normal(size=3)
        keys = rng.normal(size=3) + np.array([-0.3, 0.1, 0.7])[:, None] * along
        sequences = EmbeddedSequences(keys[None], [1], np.ones(3))
        solution = att_svm(sequences, Selection.from_indices([1], 3))
        assert solution.status is Status.INFEASIBLE
        certificate = solution.certificate
        assert certificate is not None
        assert certificate.verify(keys[None])
        if not certificate.exact:
            bounds += 1
            assert certificate.norm_bound > 1e11
            assert "up to rounding" in solution.explain()
    assert bounds > 0


def test_a_forged_certificate_is_refused():
    from dataclasses import replace
    from fractions import Fraction

    from tests.instances import theorem2_counterexample

    solution = att_svm(theorem2_counterexample(), Selection.from_indices([0, 1], 2))
    good = solution.certificate
    assert good is not None
    keys = solution.sequences.keys
    assert good.verify(keys)
    assert not replace(good, weights=(Fraction(1), Fraction(2))).verify(keys)
    assert not replace(good, weights=(Fraction(1), Fraction(-1))).verify(keys)
    assert not replace(good, weights=(), pairs=()).verify(keys)
    assert not good.verify(keys + np.array([[[0.0], [0.0]], [[0.0], [1e-12]]]))
