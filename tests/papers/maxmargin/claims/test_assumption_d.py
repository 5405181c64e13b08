"""Assumption D: what is proved is never contradicted, and what is refuted is refuted at a p."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ortho_group

from tests.torture import assumption_d as torture
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import LinearHead, QuadraticHead, ReLUHead
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin.claims.assumption_d import assumption_d
from tokenmargin.papers.maxmargin.claims.thm8_lemma14_heads import HeadCase, mixing_constants
from tokenmargin.theory.claim import Applies


def drawn(number, curvature=0.3):
    """Two inputs of three tokens behind a quadratic head that bends either way, keys of width 2."""
    rng = np.random.default_rng([2026, number])
    matrix = curvature * rng.normal(size=(3, 3))
    data = EmbeddedSequences(
        rng.normal(size=(2, 3, 3)), rng.choice([-1.0, 1.0], size=2), rng.normal(size=3), keys=rng.normal(size=(2, 3, 2))
    )
    return HeadRisk(data, QuadraticHead(matrix + matrix.T, data.head))


def quotients(risk, i, attention):
    """(nu - Y psi)/q of input i at attention of shape (s, T)."""
    data, head, own = risk.sequences, risk.head, risk.optimal.indices[i]
    x = attention @ data.tokens[i]
    value = np.einsum("sk,kl,sl->s", x, np.asarray(head.matrix), x) + x @ np.asarray(head.weights)
    return (risk.scores[i, own] - data.labels[i] * value) / (1 - attention[:, own])


def test_both_answers_are_borne_out():
    rng, seen = np.random.default_rng(5), []
    for number in range(14):
        risk = drawn(number)
        found = assumption_d(risk, risk.optimal)
        seen.append(found.applies)
        if found.applies is Applies.YES:
            for i in range(2):
                nu = risk.scores[i, risk.optimal.indices[i]]
                seen_here = quotients(risk, i, rng.dirichlet(np.full(3, 0.5), size=500) * (1 - 1e-9) + 1e-9 / 3)
                assert seen_here.min() >= found.epsilon * nu - 1e-9
                assert seen_here.max() <= found.C + nu + 1e-9
        elif found.applies is Applies.NO:
            s = risk.sequences.attention(found.violation)
            x = np.einsum("nt,ntk->nk", s, risk.sequences.tokens)
            value = np.einsum("nk,kl,nl->n", x, np.asarray(risk.head.matrix), x) + x @ np.asarray(risk.head.weights)
            risks = [np.log1p(np.exp(-y)).mean() for y in (risk.sequences.labels * value, risk.scores.max(axis=1))]
            assert risks[0] < risks[1]
    assert {Applies.YES, Applies.NO} <= set(seen)
    assert seen.count(Applies.YES) >= 4  # the test by convexity alone proves one of these


def test_a_linear_head_gives_the_exact_constants():
    tokens = np.array([[[1.0], [0.5], [-1.0]]])
    risk = HeadRisk(EmbeddedSequences(tokens, [1], [1.0]), LinearHead([1.0]))
    found = assumption_d(risk, risk.optimal)
    assert found.epsilon == pytest.approx(0.5)  # (1 - 0.5)/1
    assert pytest.approx(1.0) == found.C  # (1 + 1) - 1


def test_it_is_no_weaker_than_convexity():
    """Where Y psi is convex the corners alone decide: branch and bound proves the same, with no larger an epsilon."""
    proved = 0
    for number in range(6):
        rng = np.random.default_rng(number)
        factor, data = 0.4 * rng.normal(size=(3, 3)), drawn(number).sequences
        data = EmbeddedSequences(data.tokens, np.ones(2), data.head, keys=data.keys)
        risk = HeadRisk(data, QuadraticHead(factor @ factor.T, data.head))
        if mixing_constants(HeadCase(risk, risk.optimal)) is not None:
            proved += 1
            assert assumption_d(risk, risk.optimal).applies is Applies.YES
    assert proved >= 2


def test_a_bump_between_the_tokens_is_no_proof_and_is_found_where_a_p_attends_to_it():
    head = QuadraticHead([[-1.0]], [1.0], 1.0)  # 1 + x - x^2: 1 at x = 0 and x = 1, 1.25 between
    tokens = np.array([[[0.0], [1.1]]])
    risk = HeadRisk(EmbeddedSequences(tokens, [1], [1.0], keys=np.array([[[1.0], [0.0]]])), head)
    found = assumption_d(risk, Selection.from_indices([0], 2))
    assert found.applies is Applies.NO
    assert "below its limit" in found.because
    # no p attends to it where the keys are one, and then none attends to the optimal token alone either
    still = HeadRisk(EmbeddedSequences(tokens, [1], [1.0], keys=np.zeros((1, 2, 1))), head)
    assert assumption_d(still, Selection.from_indices([0], 2)).applies is Applies.NOT_DECIDED


def test_heads_without_a_known_constant_need_one():
    data = EmbeddedSequences(np.array([[[1.0], [0.2]]]), [1], [1.0])
    risk = HeadRisk(data, ReLUHead([[1.0]], [0.0], [1.0]))
    assert assumption_d(risk, risk.optimal).applies is Applies.NOT_DECIDED
    assert assumption_d(risk, risk.optimal, lipschitz=0.1).applies is Applies.YES
    three = HeadRisk(EmbeddedSequences(np.array([[[1.0], [0.2], [0.1]]]), [1], [1.0]), risk.head)
    assert assumption_d(three, Selection([[True, True, False]])).applies is Applies.NOT_DECIDED
    with pytest.raises(InvalidInputError, match="lipschitz"):
        assumption_d(risk, risk.optimal, lipschitz=float("nan"))


def test_axes_and_units_change_no_answer():
    for number in (0, 1, 2):
        risk = drawn(number)
        data, matrix = risk.sequences, np.asarray(risk.head.matrix)
        found, turn = assumption_d(risk, risk.optimal), ortho_group.rvs(3, random_state=number)
        turned = EmbeddedSequences(data.tokens @ turn, data.labels, data.head @ turn, keys=data.keys + 1.0)
        unit = 2.0**20
        longer = EmbeddedSequences(unit * data.tokens, data.labels, data.head / unit, keys=2.0**-30 * data.keys)
        for other, head in (
            (turned, QuadraticHead(turn.T @ matrix @ turn, data.head @ turn)),
            (longer, QuadraticHead(matrix / unit**2, data.head / unit)),
        ):
            again = assumption_d(HeadRisk(other, head), risk.optimal)
            assert again.applies is found.applies
            if found.applies is Applies.YES:
                assert again.epsilon == pytest.approx(found.epsilon, rel=1e-6)


@pytest.mark.parametrize("law", torture.LAWS)
def test_no_answer_is_refuted_exactly_or_changed_by_the_order(law):
    """Two of each law; `python -m tests.torture.assumption_d` tries a thousand."""
    for number in range(2):
        rng = np.random.default_rng([1, list(torture.LAWS).index(law), number])
        risk = torture.LAWS[law](rng)
        found, other = assumption_d(risk, risk.optimal), torture.reordered(risk, rng)
        assert torture.verdict(risk, found, rng) in ("yes", "no", "undecided")
        assert assumption_d(other, other.optimal).applies is found.applies


@pytest.mark.long
def test_a_thousand_answers_are_borne_out_exactly():
    assert torture.main(1000) == 0


def test_scores_that_are_rounding_beside_their_terms_decide_nothing():
    """(z - s)^2 terms of 1e16 that add up to scores of order one."""
    for number in (7, 18, 21):
        risk = torture.cancelling(np.random.default_rng([0, list(torture.LAWS).index("cancelling"), number]))
        found = assumption_d(risk, risk.optimal)
        assert torture.verdict(risk, found, np.random.default_rng(0)) in ("yes", "no", "undecided")


def test_scores_beyond_floats_decide_nothing():
    """Terms of 1e320 make NaN of every bound, and none of these is a proof."""
    tokens = np.array([[[1e160, 1e160], [1.0, 0.0], [0.0, 1.0]]])
    head = QuadraticHead([[1.0, 0.0], [0.0, -1.0]], [0.0, 0.0], 2.0)
    risk = HeadRisk(EmbeddedSequences(tokens, [1], [1.0, 1.0], keys=np.eye(3)[None]), head)
    with np.errstate(all="ignore"):
        assert assumption_d(risk, Selection.from_indices([0], 3)).applies is Applies.NOT_DECIDED


def test_where_nothing_can_be_mixed_no_p_is_better_than_another():
    risk = HeadRisk(EmbeddedSequences(np.ones((2, 1, 1)), [1, 1], [1.0]), LinearHead([1.0]))
    found = assumption_d(risk, risk.optimal)
    assert found.applies is Applies.NO
    assert "nothing to mix" in found.because
