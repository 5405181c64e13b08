"""Proofs of finite limits in arithmetic that counts rounding; forgeries and wrong points are refused."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tokenmargin import AttentionRisk, EmbeddedSequences, Flow, HeadRisk, follow
from tokenmargin.attention import LinearHead, correlation, exponential
from tokenmargin.attention.follow import follow_all
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import proven_finite
from tokenmargin.theory._enclosures import Enclosure
from tokenmargin.theory.krawczyk import proven_stationary


def enclosed(exact, found):
    return all(
        abs(value - Fraction(float(m))) <= Fraction(float(r))
        for value, m, r in zip(exact, found.middle.ravel(), found.radius.ravel(), strict=True)
    )


def test_enclosures_hold_the_exact_values():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 4)) * 10.0 ** rng.integers(-8, 8, (2, 4, 4))
    A, B = [[Fraction(x) for x in row] for row in a], [[Fraction(x) for x in row] for row in b]
    x, y = Enclosure.exactly(a), Enclosure.exactly(b)
    pairs = [(A[i][j], B[i][j]) for i in range(4) for j in range(4)]
    assert enclosed([p + q for p, q in pairs], x + y)
    assert enclosed([p - q for p, q in pairs], x - y)
    assert enclosed([p * q for p, q in pairs], x * y)
    assert enclosed([1 / p for p, _ in pairs], x.inverse())
    assert enclosed([sum(A[i][k] * B[k][j] for k in range(4)) for i in range(4) for j in range(4)], x @ y)
    assert enclosed([sum(A[i]) for i in range(4)], x.sum(1))
    third = Enclosure.exactly(np.array([1.0])) * Enclosure.exactly(np.array([3.0])).inverse()
    assert enclosed([Fraction(1, 3)], third)
    assert third.radius[0] < 1e-14


def test_exponentials_hold_those_of_many_digits():
    from decimal import Decimal, localcontext

    points = np.random.default_rng(1).uniform(-600, 600, 200)
    found = Enclosure.exactly(points).exp()
    with localcontext() as context:
        context.prec = 60
        exact = [Fraction(Decimal(float(x)).exp()) for x in points]
    assert enclosed(exact, found)
    assert np.isinf(Enclosure(np.zeros(1), np.ones(1)).inverse().radius).all()


def tied(seed):
    """Attention that is held between tokens: in each of many inputs over few keys the scores are drawn afresh."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(4, 2))
    return EmbeddedSequences.from_scores(np.stack([keys] * 12), rng.normal(size=(12, 4)))


def test_finite_limits_of_other_risks_are_proven():
    """Every one that the dynamics calls finite; with other losses the minimum next to it, where there is one."""
    risks = [AttentionRisk(tied(seed)) for seed in range(24)]
    limits = [run.limit for run in follow_all(risks, [np.zeros(2)] * len(risks), Flow()) if run.limit.finite]
    assert len(limits) >= 4
    near = {exponential: 0, correlation: 0}
    for limit in limits:
        found = proven_finite(limit)
        assert found.is_proven, found.reason
        assert np.linalg.norm(found.point - limit.point) <= 1e-7 * (1 + np.linalg.norm(limit.point))
        for loss in near:
            near[loss] += proven_stationary(AttentionRisk(limit.risk.sequences, loss).field, limit.point).is_proven
    assert min(near.values()) >= 1


def test_a_saddle_and_a_point_without_a_minimum_are_not_proven():
    keys = np.array([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]])
    data = EmbeddedSequences.from_scores(keys, [[1.0, 1.0, 0.0]])
    field = AttentionRisk(data, correlation).field
    assert not proven_stationary(field, np.zeros(2)).is_proven
    runaway = AttentionRisk(EmbeddedSequences.from_scores(keys, [[1.0, 0.5, 0.0]])).field
    assert not proven_stationary(runaway, np.array([1.0, 2.0])).is_proven


def test_only_what_stays_is_proven_and_a_diverging_limit_is_refused():
    data = tied(0)
    limit = follow(AttentionRisk(data), np.zeros(2), Flow()).limit
    with pytest.raises(InvalidInputError, match="only a finite or a mixed one"):
        proven_finite(replace(limit, kind=type(limit.kind).DIVERGES))
    behind = replace(limit, risk=HeadRisk(data, LinearHead([1.0])), kind=type(limit.kind).FINITE)
    assert not proven_finite(behind).is_proven
