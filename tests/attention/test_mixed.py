"""Part of p converges while the rest diverges: followed to the end, certified, and unchanged by units and bases."""

import numpy as np
import pytest

from tokenmargin.attention import (
    AttentionRisk,
    Flow,
    LimitKind,
    NormalizedDescent,
    Outcome,
    continued,
    exponential,
    follow,
    follow_all,
    logistic,
)
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import pair_svm
from tokenmargin.theory import basin_map, compare, one_minus_cosine

KEYS = np.array([[(1.0, 0.0), (0.0, 0.0)], [(-1.0, 0.0), (0.0, 0.0)], [(0.0, 1.0), (0.0, 0.0)]])


def problem(gamma=((1.0, 0.0), (1.0, 0.0), (1.0, 0.0)), keys=KEYS):
    return EmbeddedSequences.from_scores(keys, np.array(gamma))


@pytest.mark.parametrize("start", [(0.0, 0.0), (3.0, -2.0), (-0.5, 4.0), (0.0, -5.0)])
@pytest.mark.parametrize("loss", [logistic, exponential], ids=["logistic", "exponential"])
def test_two_inputs_hold_one_coordinate_and_the_third_drives_the_other(start, loss):
    run = follow(AttentionRisk(problem(), loss), start, Flow())
    limit = run.limit
    assert run.outcome is Outcome.NORM_REACHED
    assert limit.kind is LimitKind.MIXED
    assert limit.mixed
    assert not limit.diverges
    assert not limit.finite
    assert not limit.stalled
    np.testing.assert_allclose(limit.finite_part, [0, 0], atol=1e-9)
    np.testing.assert_allclose(limit.velocity, [0, 1], atol=1e-12)
    assert limit.selection == Selection([[True, True], [True, True], [True, False]])
    assert limit.newton_step <= 1e-9
    assert limit.largest_eigenvalue < 0
    assert run.norms[-1] >= 1e6
    assert (np.diff(run.times) > 0).all()


def test_the_finite_part_is_where_the_held_gradient_vanishes():
    """With score gaps 2 and 1 the balance is off 0, at the root of one equation in p_1."""
    from scipy.optimize import brentq

    def pull(x):
        def one(gap, logit):
            s = 1 / (1 + np.exp(-logit))
            return gap * s * (1 - s) / (1 + np.exp(gap * s))

        return one(2.0, x) - one(1.0, -x)

    limit = follow(AttentionRisk(problem([(2.0, 0.0), (1.0, 0.0), (1.0, 0.0)])), [0.0, 0.0], Flow()).limit
    np.testing.assert_allclose(limit.finite_part, [brentq(pull, -5, 5, xtol=1e-14), 0.0], atol=1e-9)


def test_units_bases_and_origins_change_nothing(rng):
    reference = follow(AttentionRisk(problem([(2.0, 0.0), (1.0, 0.0), (1.0, 0.0)])), [0.0, 0.0], Flow()).limit
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    for scale in (2.0**-20, 1.0, 2.0**20):
        for shift in (0.0, 4.0):
            moved = problem([(2.0, 0.0), (1.0, 0.0), (1.0, 0.0)], scale * ((KEYS + shift) @ turn))
            limit = follow(AttentionRisk(moved), [0.0, 0.0], Flow()).limit
            assert limit.mixed
            assert limit.selection == reference.selection
            np.testing.assert_allclose(limit.finite_part * scale, reference.finite_part @ turn, atol=1e-8)
            assert one_minus_cosine(limit.velocity, reference.velocity @ turn) <= 1e-15


def test_a_descent_of_a_mixed_problem_is_continued_to_the_same_limit():
    risk = AttentionRisk(problem())
    descent = follow(risk, [1.0, -1.0], NormalizedDescent(0.1), steps=300)
    assert descent.limit.stalled
    assert continued(descent).limit.mixed


def test_many_starts_of_a_mixed_problem_are_each_alone():
    risk = AttentionRisk(problem())
    starts = np.array([[0.0, 0.0], [2.0, 1.0], [-3.0, -1.0]])
    for run, start in zip(follow(risk, starts, Flow()), starts, strict=True):
        alone = follow(risk, start, Flow())
        assert len(run.points) == 2
        np.testing.assert_allclose(run.final, alone.final, rtol=1e-9, atol=1e-9)
        assert run.limit.mixed


def test_the_direction_is_that_of_the_rows_left_with_the_held_ones_level():
    limit = follow(AttentionRisk(problem()), [0.0, 0.0], Flow()).limit
    agreement = compare(limit)
    assert agreement.agrees
    assert "Part of p converges" in agreement.explain()
    other_side = pair_svm([[0.0, 1.0]], [[1.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_allclose(other_side.p, [0, 1], atol=1e-12)
    assert one_minus_cosine(limit.velocity, other_side.p) <= 1e-15
    basins = basin_map(problem(), [(0.0, 0.0), (1.0, 1.0)])
    assert basins.basin.tolist() == [0, 0]
    assert all(each.agrees for each in basins.agreements)


def next_tokens(rng, d, contexts):
    """Sequences of tokens of one vocabulary, each with the token that follows: score 1 for it, 0 for the others."""
    E = rng.normal(size=(6, d))
    T = max(len(tokens) for tokens, _ in contexts)
    keys, gamma, mask = (
        np.zeros((len(contexts), T, d)),
        np.zeros((len(contexts), T)),
        np.zeros((len(contexts), T), bool),
    )
    for i, (tokens, label) in enumerate(contexts):
        keys[i, : len(tokens)] = E[list(tokens)]
        gamma[i, : len(tokens)] = [float(t == label) for t in tokens]
        mask[i, : len(tokens)] = True
    return E, EmbeddedSequences.from_scores(keys, gamma, mask)


def test_next_token_training_goes_to_the_graph_svm(rng):
    """Tokens 0 and 1 follow each other, so they stay level; both come before 2, and 2 before 3: a chain of demands."""
    contexts = [((0, 1), 0), ((0, 1), 1), ((0, 2), 0), ((1, 2), 1), ((2, 3), 2)]
    for d in (4, 6, 9):
        E, data = next_tokens(rng, d, contexts)
        limit = follow(AttentionRisk(data), np.zeros(d), Flow()).limit
        graph = pair_svm([E[0] - E[2], E[1] - E[2], E[2] - E[3]], [E[0] - E[1]])
        assert limit.mixed
        assert graph.is_optimal()
        assert one_minus_cosine(limit.velocity, graph.p) <= 1e-10
        assert abs((E[0] - E[1]) @ limit.finite_part) <= 1e-7  # equally many of each: balanced at 0
        assert compare(limit).agrees


def test_an_unbalanced_circle_has_its_finite_part_off_zero(rng):
    """Three inputs of four want token 0, but with scores of their own: the balance is where the pulls are equal."""
    contexts = [((0, 1), 0), ((0, 1), 1), ((0, 2), 0), ((1, 2), 1)]
    E, data = next_tokens(rng, 5, contexts)
    gamma = np.where(data.mask, data.tokens[:, :, 0], 0.0)
    gamma[0] *= 2.0
    limit = follow(AttentionRisk(EmbeddedSequences.from_scores(data.keys, gamma)), np.zeros(5), Flow()).limit
    assert limit.mixed
    assert (E[0] - E[1]) @ limit.finite_part > 0.1
    force = AttentionRisk(limit.risk.sequences).gradient(limit.finite_part + 40 * limit.velocity)
    held = (E[0] - E[1]) / np.linalg.norm(E[0] - E[1])
    assert abs(force @ held) <= 1e-12


def test_a_majority_that_outweighs_the_others_is_selected_against_their_score(rng):
    """Two inputs want token 0 over 1 and one the reverse; at any p the two pull harder, so all select token 0.

    The third input selects a token of lower score than its neighbour: no locally optimal direction in the sense of
    [M, Def. 2], and still the limit, as what the inputs pull along one difference adds up.
    """
    contexts = [((0, 1), 0), ((0, 1), 0), ((0, 1), 1), ((0, 2), 0), ((1, 2), 1)]
    _, data = next_tokens(rng, 5, contexts)
    limit = follow(AttentionRisk(data), np.zeros(5), Flow()).limit
    assert limit.diverges
    assert limit.selection.chosen[:3, 0].all()
    agreement = compare(limit)
    assert agreement.agrees
    assert not agreement.is_lmm


@pytest.mark.long
def test_how_often_it_occurs_on_random_problems(rng):
    """Keys in general position cannot cancel on a part of their span: none. Tokens shared by inputs can: often."""
    drawn = [EmbeddedSequences.from_scores(rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3))) for _ in range(40)]
    runs = follow_all([AttentionRisk(data) for data in drawn], np.zeros((40, 3)), Flow())
    kinds = [run.limit.kind for run in runs]
    assert LimitKind.MIXED not in kinds
    assert LimitKind.STALLED not in kinds
    found = dict.fromkeys(LimitKind, 0)
    for _ in range(40):
        contexts = []
        for _ in range(4):
            tokens = tuple(rng.choice(4, size=2, replace=False).tolist())
            contexts.append((tokens, int(rng.choice(tokens))))
        _, data = next_tokens(rng, 4, contexts)
        limit = follow(AttentionRisk(data), np.zeros(4), Flow()).limit
        found[limit.kind] += 1
        if limit.mixed or limit.diverges:
            assert compare(limit).agrees
    assert found[LimitKind.MIXED] >= 5
    assert found[LimitKind.STALLED] == 0
