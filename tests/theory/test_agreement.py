"""Limits of every kind of run beside the max-margin problem that theory names for them."""

import numpy as np
import pytest

from tests.instances import fig1b, fig1c
from tokenmargin.attention import (
    AttentionRisk,
    Flow,
    HeadRisk,
    JointRisk,
    LinearHead,
    NormalizedDescent,
    QuadraticHead,
    continued,
    follow,
)
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import att_svm, is_locally_optimal
from tokenmargin.papers.maxmargin import toys
from tokenmargin.theory import Agreement, RunVerdict, basin_map, compare, one_minus_cosine

START = ((-1.0, 0.0), (0.0, -1.0))


def test_compare_needs_nothing_but_the_limit():
    agreement = compare(follow(AttentionRisk(fig1b()), [0.0, -1.0], Flow()).limit)
    assert isinstance(agreement, Agreement)
    assert agreement.agrees
    assert agreement.is_lmm
    assert not agreement.is_gmm


def test_a_run_that_is_not_far_enough_is_compared_by_its_margin_and_does_not_agree_yet():
    short = follow(AttentionRisk(fig1b()), [0.0, -1.0], NormalizedDescent(0.1), steps=10)
    early = compare(short.limit)
    assert early.verdict is RunVerdict.NOT_YET
    assert 0 < early.margin_ratio < 0.9
    assert not early.agrees
    assert "not yet" in early.explain()
    assert compare(continued(short).limit).agrees
    joint = follow(JointRisk(toys.fig3((0.5, 1.0))), START, NormalizedDescent(0.1), steps=10)
    assert "nothing to compare" in compare(joint.limit).explain()


@pytest.mark.long
def test_a_linear_head_written_as_a_head_goes_where_the_attention_risk_goes():
    for data, start in ((fig1b(), [0.0, -1.0]), (fig1b(), [0.0, 1.0]), (fig1c(), [0.0, 0.0])):
        plain = follow(AttentionRisk(data), start, Flow()).limit
        behind = follow(HeadRisk(data, LinearHead(data.head)), start, Flow()).limit
        assert behind.kind is plain.kind
        assert behind.selection == plain.selection
        assert one_minus_cosine(behind.velocity, plain.velocity) <= 1e-12
        one, other = compare(plain), compare(behind)
        assert (one.is_lmm, one.is_gmm) == (other.is_lmm, other.is_gmm)
        assert other.agrees


def quadratic_case(rng):
    """Tokens in R^3 whose first two coordinates are keys; psi(z) = |z|^2 + b'z is convex."""
    tokens = rng.normal(size=(2, 3, 3))
    data = EmbeddedSequences(tokens, np.ones(2), np.zeros(3), keys=rng.normal(size=(2, 3, 4)))
    return HeadRisk(data, QuadraticHead(0.5 * np.eye(3), [0.3, -0.2, 0.1]))


def test_behind_a_nonlinear_head_the_limit_is_that_of_the_scores_it_feels(rng):
    """The selected tokens are locally optimal for the scores to first order, and p goes to their max margin."""
    decided = 0
    for _ in range(6):
        risk = quadratic_case(rng)
        limit = follow(risk, np.zeros(4), Flow()).limit
        if not limit.diverges:
            continue
        decided += 1
        agreement = compare(limit)
        assert agreement.agrees
        assert agreement.is_lmm
        chosen = limit.selection.indices
        attended = risk.sequences.tokens[np.arange(2), chosen]
        slope = attended + np.array([0.3, -0.2, 0.1])  # psi'(z) = z + b
        felt = np.einsum("nk,ntk->nt", slope, risk.sequences.tokens)
        ours = limit.sequences.tokens[:, :, 0]
        np.testing.assert_allclose(ours - ours[:, :1], felt - felt[:, :1], rtol=1e-9, atol=1e-12)
    assert decided >= 4


def test_the_highest_score_behind_a_head_is_the_heads_own(rng):
    risk = quadratic_case(rng)
    limit = follow(risk, np.zeros(4), Flow()).limit
    values = np.einsum("ntk,ntk->nt", risk.sequences.tokens, 0.5 * risk.sequences.tokens + np.array([0.3, -0.2, 0.1]))
    assert risk.optimal == Selection.from_indices(values.argmax(axis=1), 3)
    assert compare(limit).is_gmm == (limit.selection == risk.optimal)


def test_a_wrong_selection_behind_a_head_is_not_locally_optimal(rng):
    from dataclasses import replace

    risk = quadratic_case(rng)
    limit = follow(risk, np.zeros(4), Flow()).limit
    worst = np.where(limit.selection.chosen, np.inf, risk.scores).argmin(axis=1)
    other = replace(limit, selection=Selection.from_indices(worst, 3))
    solution = att_svm(limit.sequences, other.selection)
    assert not (compare(other).agrees and is_locally_optimal(solution))


@pytest.mark.parametrize(
    ("third", "speeds", "direction"),
    [
        ((0.5, 1.0), (1.0, 1.0), (4 / 3, 1 / 3)),  # every input a support vector: the strict problem
        ((0.5, 1.5), (1.0, 1.0), (1.0, 0.0)),  # equal speeds relax the third input
        ((0.5, 1.5), (3.0, 1.0), (1.0, 0.0)),
    ],
)
def test_joint_runs_agree_with_the_problem_of_their_speeds(third, speeds, direction):
    agreement = compare(follow(JointRisk(toys.fig3(third), speeds=speeds), START, Flow()).limit)
    assert list(agreement.blocks) == ["v", "p"]
    assert agreement.agrees
    assert one_minus_cosine(agreement.blocks["p"].predicted, direction) <= 1e-12
    assert one_minus_cosine(agreement.blocks["v"].solution.direction, (0.0, 1.0)) <= 1e-12
    assert "v and p go" in agreement.explain()


def test_between_the_two_problems_the_speeds_decide():
    agreement = compare(follow(JointRisk(toys.fig3((0.5, 1.5)), speeds=(1.0, 2.0)), START, Flow()).limit)
    assert agreement.agrees
    np.testing.assert_allclose(agreement.blocks["p"].predicted, (0.995, 0.099), atol=5e-4)
    assert one_minus_cosine(agreement.blocks["p"].predicted, agreement.solution.direction) > 1e-4


def test_a_joint_limit_that_goes_elsewhere_does_not_agree():
    from dataclasses import replace

    limit = follow(JointRisk(toys.fig3((0.5, 1.0))), START, Flow()).limit
    against = compare(replace(limit, velocity=np.array([*limit.blocks["v"].velocity, 1.0, 0.0])))
    assert not against.agrees
    assert "do not both go" in against.explain()
    wrong = compare(replace(limit, selection=Selection.from_indices([0, 0, 0], 2)))
    assert not wrong.agrees
    assert np.isnan(wrong.velocity_error)


def tied_best(second=(0.0, 1.0)):
    """Two tokens share the highest score; the third, at the origin, is what either is separated from."""
    return EmbeddedSequences.from_scores([[(1.0, 0.0), second, (0.0, 0.0)]], [[1.0, 1.0, 0.0]])


def test_with_tied_best_scores_the_problem_is_the_one_that_either_solves():
    """Token 0 at (1, 0) and token 1 at (.9, .1) tie: (ATT-SVM) for token 0 asks them apart, which nothing pulls for."""
    data = tied_best((0.9, 0.1))
    limit = follow(AttentionRisk(data), [3.0, -3.0], Flow()).limit
    assert limit.selection == Selection.from_indices([0], 3)
    agreement = compare(limit)
    assert agreement.agrees
    assert one_minus_cosine(limit.velocity, (1.0, 0.0)) <= 1e-12
    strict = att_svm(data, limit.selection)
    assert one_minus_cosine(limit.velocity, strict.direction) > 0.1
    assert limit.sequences.mask.tolist() == [[True, False, True]]
    assert basin_map(data, [(3.0, -3.0)]).agreements[0].agrees


def test_of_two_tied_tokens_the_one_of_larger_margin_is_the_globally_optimal():
    data = tied_best((0.0, 0.5))
    far, near = (follow(AttentionRisk(data), start, Flow()).limit for start in ([3.0, -3.0], [-6.0, 3.0]))
    assert far.selection == Selection.from_indices([0], 3)
    assert near.selection == Selection.from_indices([1], 3)
    assert compare(far).agrees
    assert compare(near).agrees
    assert compare(far).is_gmm
    assert not compare(near).is_gmm


def test_tokens_of_equal_margin_that_tie_are_both_globally_optimal():
    for start in ([3.0, -3.0], [-3.0, 3.0]):
        assert compare(follow(AttentionRisk(tied_best()), start, Flow()).limit).is_gmm


def test_what_is_no_limit_and_what_is_no_problem_is_refused_in_words():
    from tokenmargin.theory import check

    with pytest.raises(InvalidInputError, match="limit of a run"):
        compare(None)
    with pytest.raises(InvalidInputError, match="Problem or EmbeddedSequences"):
        check(None)


def test_tokens_of_one_key_are_compared_by_their_mean_score():
    """The first two tokens of input 0 score -2 and 2, together 0: they tie with the third, and nothing pulls."""
    keys = [[(-2, -1), (-2, -1), (1, 2)], [(0, 1), (2, -1), (1, -2)]]
    data = EmbeddedSequences.from_scores(keys, [[-2, 2, 0], [-2, 1, 1]])
    limit = follow(AttentionRisk(data), [0.0, 0.0], Flow()).limit
    assert limit.diverges
    assert compare(limit).agrees
    lone = EmbeddedSequences.from_scores([[(1, 0), (1, 0), (0, 1)]], [[1, -1, 0.2]])  # 0 together, below the third
    found = compare(follow(AttentionRisk(lone), [0.0, 0.0], Flow()).limit)
    assert found.agrees
    assert found.is_lmm
    assert not found.is_gmm
