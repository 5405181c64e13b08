"""The bound on how far from max-margin a minimiser can be: its sandwich, its duality, and what would break it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import fig1b, fig1c
from tokenmargin.attention import CustomLoss, correlation, exponential, logistic
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import LinearHead
from tokenmargin.attention.regularization_path import regularization_path
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection
from tokenmargin.margin import global_margin
from tokenmargin.papers.maxmargin.claims._path_bound import (
    BESIDE_THE_BOUND,
    SAME_LOG_EXCESS,
    BoundedPath,
    PathSeen,
    look,
    score_gap_sandwich,
)
from tokenmargin.papers.maxmargin.claims.thm1_4_7_paths import PathCase
from tokenmargin.papers.maxmargin.claims.thm8_lemma14_heads import mixing_constants, two_ways
from tokenmargin.theory import one_minus_cosine


@pytest.fixture(scope="module")
def on_fig1b():
    path = PathCase(fig1b()).bounded
    return path, look(path)


def linear(data: EmbeddedSequences, loss=logistic) -> tuple[HeadRisk, Selection]:
    return HeadRisk(data, LinearHead(data.head), loss), optimal_selection(data)


@pytest.mark.parametrize("loss", [logistic, exponential, correlation], ids=lambda one: type(one).__name__)
def test_the_sandwich_from_score_gaps_holds_and_is_attained(loss, rng):
    """Over random attention, negative scores too; for one input of two tokens and a straight loss it is an equality."""
    data = EmbeddedSequences(rng.normal(size=(3, 4, 3)), [1, -1, 1], [1.0, -0.5, 0.2])
    risk, best = linear(data, loss)
    lower, upper = score_gap_sandwich(risk, best)
    attention = rng.dirichlet(np.full(4, 0.3), size=(500, 3))
    top = risk.scores.max(axis=1)
    outputs = np.einsum("snt,nt->sn", attention, risk.scores)
    excess = np.mean(np.asarray(loss.value(outputs)) - np.asarray(loss.value(top)), axis=1)
    q = 1 - attention[:, best.chosen].min(axis=1)
    assert (excess >= lower * q * (1 - 1e-9)).all()
    assert (excess <= upper * q * (1 + 1e-9)).all()
    pair = EmbeddedSequences([[[1.0], [0.25]]], [1], [1.0])
    assert score_gap_sandwich(*linear(pair, correlation)) == (0.75, 0.75)


def test_a_loss_of_unknown_slope_has_no_sandwich():
    assert score_gap_sandwich(*linear(fig1b(), CustomLoss(lambda u: -u))) is None


def test_what_is_as_good_as_the_competitor_lies_within(on_fig1b):
    path, seen = on_fig1b
    assert seen.miss(path.lower, path.upper) <= SAME_LOG_EXCESS
    assert seen.unaided
    assert (seen.excess <= seen.competitor + SAME_LOG_EXCESS).all()
    beyond = seen.probe_off > seen.bounds[np.searchsorted(seen.levels, seen.probe_levels)]
    rivals = seen.competitor[np.searchsorted(seen.levels, seen.probe_levels)]
    assert beyond.sum() >= 4 * 8  # points beyond the bound were looked at, and all are worse
    assert (seen.probe_excess > rivals)[beyond].all()


def test_points_are_looked_at_where_the_bound_ends(on_fig1b):
    """Four at each stated share of the bound off the axis, at each level: within, just beyond and farther."""
    _, seen = on_fig1b
    shares = seen.probe_off / seen.bounds[np.searchsorted(seen.levels, seen.probe_levels)]
    for level in seen.levels:
        for share in BESIDE_THE_BOUND:
            assert (np.abs(shares[seen.probe_levels == level] / share - 1) < 1e-6).sum() >= 4


def test_the_bound_falls_like_one_over_the_radius(on_fig1b):
    path, _ = on_fig1b
    constant = np.log(2 * path.upper / path.lower)
    for level in (1e2, 1e4, 1e6):
        assert path.bound(level) == pytest.approx(constant / level, rel=1e-3)
    assert path.bound(0.5 * constant) == np.inf


def test_wrong_constants_directions_and_minimisers_are_seen(on_fig1b):
    path, seen = on_fig1b
    assert seen.miss(3 * path.lower, path.upper) > 0.1
    assert seen.miss(path.lower, path.upper / 3) > 0.1
    assert seen.miss(path.upper, path.lower) > 1
    off = path.off(-seen.points, seen.levels)
    np.testing.assert_allclose(off, 2.0)
    assert replace(seen, off=off).miss(path.lower, path.upper) > 1
    assert np.isnan(replace(seen, excess=seen.excess + 1.0).miss(path.lower, path.upper))
    runner_up = Selection.from_indices([1], 3)  # of second highest score
    wrong = look(BoundedPath(path.risk, runner_up, path.lower, path.upper), levels=(1e2,))
    assert not wrong.miss(path.lower, path.upper) <= SAME_LOG_EXCESS


def test_any_point_as_good_as_the_competitor_beyond_the_bound_is_a_miss():
    """By the share that it lies beyond; a worse point may lie there."""
    one, level = np.ones(2), np.array([100.0])
    seen = PathSeen(
        level, np.eye(2)[:1], True, bounds=np.array([0.01]), off=np.array([0.005]), excess=-level, competitor=-level,
        probe_levels=100.0 * one, probe_off=np.array([0.005, 0.015]), probe_sign=one, probe_excess=-100.0 * one,
        probe_q=-100.0 * one,
    )  # fmt: skip
    assert seen.miss(1.0, 1.0) == pytest.approx(0.5)
    worse = np.array([-100.0, -99.0])
    assert replace(seen, probe_excess=worse, probe_q=worse).miss(1.0, 1.0) == 0.0


def test_the_search_agrees_with_the_projected_flow():
    case, data = PathCase(fig1c()), fig1c()
    seen = look(case.bounded, levels=(1e2, 1e3))
    path = regularization_path(data, radii=seen.levels / case.bounded.solution.margin)
    for ours, theirs in zip(seen.points, path.points, strict=True):
        assert one_minus_cosine(ours, theirs) < 1e-12
    target = global_margin(data).direction
    np.testing.assert_allclose(seen.off, [one_minus_cosine(p, target) for p in seen.points], rtol=1e-6)


def tilted_path() -> BoundedPath:
    """Two choices whose norms differ by a thousandth: near one another in margin, far apart in direction."""
    case = two_ways()
    data = case.risk.sequences
    keys = data.keys.copy()
    keys[0, 1] *= 0.999
    tilted = EmbeddedSequences(data.tokens, data.labels, data.head, keys)
    constants = mixing_constants(case)
    return BoundedPath(HeadRisk(tilted, case.risk.head), case.allowed, constants.lower, constants.upper)


def test_choices_that_can_compete_count_until_they_cannot():
    path = tilted_path()
    assert len(path.solution.minimisers) == 1
    assert path.bound(1e3) > 0.5  # the other choice still competes
    assert path.bound(1e6) == pytest.approx(path.shortfall(1e6) / 1e6, rel=1e-6)


@pytest.mark.parametrize("level", [30.0, 1e2, 1e3])
def test_every_direction_of_enough_margin_is_within_the_bound(level):
    """All of the circle, where another choice competes: the farthest is near it, and the bound is not much farther."""
    path, angles = tilted_path(), np.linspace(0, 2 * np.pi, 20_001)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) / path.solution.margin
    logits, best = np.einsum("ntd,sd->snt", path.risk.sequences.keys, circle), path.allowed.chosen
    margins = np.where(best, logits, -np.inf).max(axis=2) - np.where(best, -np.inf, logits).max(axis=2)
    enough = circle[margins.min(axis=1) >= 1 - path.shortfall(level) / level]
    farthest = path.off(level * enough, np.full(len(enough), level)).max()
    assert 0.8 < farthest <= path.bound(level) < 2 * farthest
