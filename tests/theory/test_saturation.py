"""Past saturation: descent and flow go to the max-margin direction that is computed without them."""

import numpy as np
import pytest

from tests.instances import FIG1_STARTS, FIG1C_STARTS, FIG8_STARTS, fig1a, fig1b, fig1c, fig8, random_sphere
from tokenmargin import (
    AttentionRisk,
    Flow,
    LimitKind,
    NormalizedDescent,
    Selection,
    Status,
    basin_map,
    compare,
    follow,
    global_margin,
    local_margins,
    optimal_selection,
    scores,
)
from tokenmargin.attention import follow_all, limits_of
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import is_locally_optimal
from tokenmargin.theory import FINITE, STALLED, one_minus_cosine

CASES = [
    pytest.param(data, start, id=f"fig1{name}{start}")
    for name, data, starts in (
        ("a", fig1a(), FIG1_STARTS),
        ("b", fig1b(), FIG1_STARTS),
        ("c", fig1c(), FIG1C_STARTS),
    )
    for start in starts
]


@pytest.mark.parametrize(("data", "start"), CASES)
def test_from_every_start_of_fig1(data, start):
    objective = AttentionRisk(data)
    limit = follow(objective, start, Flow()).limit
    assert limit.kind is LimitKind.DIVERGES
    agreement = compare(limit)
    assert agreement is not None
    assert agreement.agrees
    assert agreement.direction_error <= 1e-8
    assert agreement.velocity_error <= 1e-14
    assert agreement.weight_error <= 1e-6
    assert agreement.is_lmm
    descent = follow(objective, start, NormalizedDescent(0.1), steps=5000, every=5000)
    assert 1 - one_minus_cosine(descent.final, limit.velocity) >= 0.9999
    assert np.linalg.norm(limit.point) >= 1e6


def test_local_picture_splits_between_two_directions():
    data = fig1b()
    found = basin_map(data, FIG1_STARTS)
    selected = [limit.selection.indices.tolist() for limit in found.limits]
    assert selected == [[0], [0], [0], [0], [1], [1]]
    assert {s.selection for s in found.solutions} == {s.selection for s in local_margins(data)}
    assert found.counts.tolist() == [4, 2]
    assert found.basin.tolist() == [0, 0, 0, 0, 1, 1]
    assert all(a is not None and a.agrees for a in found.agreements)
    assert "4 of 6 starts" in found.explain()


def test_fig8_two_starts_two_directions_under_assumption_b():
    """[M, Thm 2] needs n = 1 for global convergence: Assumption B holds, yet one start misses the GMM."""
    data = fig8()
    gamma, best = scores(data), optimal_selection(data)
    assert best.is_single
    assert (np.where(best.chosen, -np.inf, gamma).max(axis=1) < gamma.max(axis=1)).all()  # Assumption B for T = 2
    enumerated = {s.selection: s for s in local_margins(data)}
    found = basin_map(data, FIG8_STARTS)
    assert found.basin.tolist() == [0, 1]
    assert set(enumerated) >= {s.selection for s in found.solutions}
    first, second = found.agreements
    assert first is not None
    assert second is not None
    assert first.agrees
    assert second.agrees
    assert first.is_gmm
    assert not second.is_gmm
    assert second.is_lmm
    np.testing.assert_allclose(found.solutions[0].direction, np.array([1, 1]) / np.sqrt(2), atol=1e-9)
    np.testing.assert_allclose(found.solutions[1].direction, [1, 0], atol=1e-9)
    assert "globally optimal" in first.explain()
    assert "locally optimal" in second.explain()


@pytest.mark.parametrize("d", [2, *(pytest.param(d, marks=pytest.mark.long) for d in (5, 10, 100))])
def test_random_problems_are_decided_and_every_diverging_one_is_an_lmm(d):
    """A hundred trials of [M, Fig. 9] at each d: decided all, and dynamics and margin agree on every one."""
    rng = np.random.default_rng(d)
    data = [random_sphere(rng, d=d) for _ in range(100)]
    objectives = [AttentionRisk(s) for s in data]
    ends = follow_all(objectives, np.zeros((100, d)), Flow())
    limits = limits_of(objectives, [end.final for end in ends])
    assert not any(limit.stalled for limit in limits)
    for limit in limits:
        if limit.finite:
            assert d <= 5
            assert limit.newton_step <= 1e-7
            continue
        agreement = compare(limit)
        assert agreement is not None
        assert agreement.agrees
        assert agreement.is_lmm
        assert agreement.direction_error <= 1e-6


def test_a_wrong_direction_does_not_agree():
    from dataclasses import replace

    data = fig1c()
    limit = follow(AttentionRisk(data), [0.0, 0.0], Flow()).limit
    tilted = replace(limit, velocity=np.array([1.0, 0.0]))
    agreement = compare(tilted)
    assert agreement is not None
    assert not agreement.agrees
    assert "does not go" in agreement.explain()
    infeasible = replace(limit, selection=Selection.from_indices([1, 0, 0], 7))
    against = compare(infeasible)
    assert against is not None
    assert against.solution.status is Status.INFEASIBLE
    assert not against.agrees


def test_basin_map_of_a_finite_problem_and_bad_starts():
    from tests.instances import theorem2_counterexample

    found = basin_map(theorem2_counterexample(), [[1.0], [-2.0]])
    assert found.basin.tolist() == [FINITE, FINITE]
    assert found.solutions == ()
    assert "finite" in found.explain()
    assert STALLED != FINITE
    with pytest.raises(InvalidInputError, match="width 1"):
        basin_map(theorem2_counterexample(), [[1.0, 2.0]])


def test_comparison_is_about_the_selected_tokens():
    solution = global_margin(fig1b())
    assert is_locally_optimal(solution)
    assert one_minus_cosine([1, 0], [1, 1e-9]) == pytest.approx(5e-19)
    assert np.isnan(one_minus_cosine([0, 0], [1, 0]))
