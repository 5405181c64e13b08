"""Several kept tokens: the flow over log t beside short steps, and mixtures beside what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.attention import MatrixRisk, QuadraticHead
from tokenmargin.papers.transformers_as_svms.claims.several_tokens import (
    BEGIN,
    SEVERAL,
    Mixing,
    best_mixture,
    flowed,
    keeps_the_best,
    misses,
    three_tokens,
)
from tokenmargin.papers.transformers_as_svms.laws.random_mixtures import random_mixing
from tokenmargin.papers.transformers_as_svms.problems import uneven_problem, unit_problem


def test_the_flow_over_log_t_is_that_of_short_steps():
    case = random_mixing(rng := np.random.default_rng(0), unit_problem(rng, 2, 3, 3))
    risk = MatrixRisk(case.sequences, head=QuadraticHead(case.matrix, case.weights))
    ends = []
    for steps in (200, 400):
        W = np.zeros((3, 3))
        for _ in range(steps):
            W = W - (np.exp(1.0) - np.exp(BEGIN)) / steps * risk.gradient(W)
        ends.append(W)
    (found,) = flowed(risk, np.zeros((3, 3)), np.array([1.0]))
    np.testing.assert_allclose(found, 2 * ends[1] - ends[0], rtol=1e-4)
    assert not np.allclose(found, ends[1], rtol=1e-4)


def test_a_best_mixture_is_where_no_token_has_a_larger_slope(rng):
    for _ in range(5):
        X, B, b = rng.normal(size=(5, 3)), rng.normal(size=(3, 3)), rng.normal(size=3)
        A = -B @ B.T
        shares = best_mixture(X, A, b)
        slopes = X @ (2 * A @ (shares @ X) + b)
        assert shares.sum() == pytest.approx(1.0)
        assert (slopes <= shares @ slopes + 1e-6).all()


def test_both_parts_of_the_limit_are_those_of_their_problems():
    case = three_tokens()
    np.testing.assert_allclose(case.shares, [[0.5, 0.5, 0.0]], atol=1e-7)
    np.testing.assert_allclose(case.finite, 0.0, atol=1e-6)
    np.testing.assert_allclose(case.direction.matrix.ravel(), [0.0, -2 / 3], atol=1e-9)
    attention, speed, early = misses(case, case.path)
    assert attention < 1e-6
    assert speed < 1e-5 < early


def test_a_run_may_drop_a_token_that_the_best_mixture_has():
    """What is kept is a matter of the run: a token of larger slope falls behind faster than 1/t, and stays there."""
    rng = np.random.default_rng([1, 12])
    case = random_mixing(rng, uneven_problem(rng, 2, 4, 4, most=2.0))
    assert SEVERAL.check(case).holds
    assert keeps_the_best(case) is False
    assert keeps_the_best(three_tokens()) is True


def test_a_head_that_is_not_concave_and_a_line_lie_outside():
    case = three_tokens()
    convex = Mixing(case.sequences, -case.matrix, case.weights)
    assert SEVERAL.check(convex).holds is None
    assert SEVERAL.check(three_tokens(width=1)).holds is None
