"""Several heads: a W, a v and a selection each, their outputs added before the loss."""

import numpy as np
import pytest

from tokenmargin import (
    CrossSequences,
    FactoredRisk,
    Flow,
    MatrixRisk,
    NormalizedDescent,
    SteepestDescent,
    compare,
    follow,
)
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import one_minus_cosine

n, T, d, e, H = 3, 4, 3, 2, 2


@pytest.fixture
def case(rng):
    X, Z = rng.normal(size=(n, T, d)), rng.normal(size=(n, e))
    data = CrossSequences(X, queries=Z, labels=rng.choice([-1, 1], n), head=np.zeros(d))
    return data, rng.normal(size=(H, d))


def textbook(data, heads, W):
    """The risk as it is written."""
    total = 0.0
    for v, own in zip(heads, W, strict=True):
        logits = np.einsum("ntd,de,ne->nt", data.key_tokens, own, data.queries)
        s = np.exp(logits - logits.max(axis=1, keepdims=True))
        total = total + np.einsum("nt,ntd,d->n", s / s.sum(axis=1, keepdims=True), data.tokens, v)
    return float(np.log1p(np.exp(-data.labels * total)).mean())


def test_the_risk_and_its_gradient_are_those_that_are_written(rng, case):
    data, heads = case
    risk, W = MatrixRisk(data, heads=heads), rng.normal(size=(H, d, e))
    assert risk.value(W) == pytest.approx(textbook(data, heads, W), rel=1e-12)
    steps = 1e-5 * np.eye(W.size).reshape(-1, *W.shape)
    slopes = [(textbook(data, heads, W + h) - textbook(data, heads, W - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(risk.gradient(W).ravel(), slopes, atol=1e-8)
    K, Q = rng.normal(size=(H, d, 2)), rng.normal(size=(H, e, 2))
    factored = FactoredRisk(data, rank=2, heads=heads)
    W = K @ Q.swapaxes(1, 2)
    G = risk.gradient(W)
    assert factored.value((K, Q)) == pytest.approx(risk.value(W), rel=1e-12)
    for part, expected in zip(factored.gradient((K, Q)), (G @ Q, G.swapaxes(1, 2) @ K), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-13)


def test_one_head_of_several_is_the_head(rng, case):
    data, heads = case
    alone = CrossSequences(data.key_tokens, queries=data.queries, labels=data.labels, head=heads[0])
    start = 0.1 * rng.normal(size=(d, e))
    one = follow(MatrixRisk(alone), start, SteepestDescent("spectral", 0.1), steps=20)
    listed = follow(MatrixRisk(data, heads=heads[:1]), start, SteepestDescent("spectral", 0.1), steps=20)
    np.testing.assert_allclose(listed.final, one.final, rtol=1e-9)
    np.testing.assert_allclose(listed.margin_interval, one.margin_interval, rtol=1e-9)


def test_each_head_selects_for_itself_and_all_go_to_one_margin(case):
    data, heads = case
    risk = MatrixRisk(data, heads=heads)
    run = follow(risk, np.zeros((H, d, e)), Flow())
    agreement = compare(run.limit)
    assert run.final.shape == (H, d, e)
    assert run.limit.selection.chosen.shape == (H * n, T)
    assert agreement.agrees
    assert agreement.velocity_error < 1e-12
    matrix = agreement.solution.matrix
    assert matrix.shape == (H * d, H * e)
    np.testing.assert_allclose(matrix[:d, e:], 0.0, atol=1e-12)  # outside the blocks nothing moves


@pytest.mark.parametrize("name", ["spectral", "nuclear"])
def test_a_step_is_that_of_the_block_diagonal_matrix(rng, case, name):
    data, heads = case
    risk, method = MatrixRisk(data, heads=heads), SteepestDescent(name, 0.1)
    W = 0.1 * rng.normal(size=(H, d, e))
    G = -risk.gradient(W)
    whole = np.zeros((H * d, H * e))
    whole[:d, :e], whole[d:, e:] = G
    step = method.norm.steepest(whole)
    moved = (follow(risk, W, method, steps=1).final - W) / 0.1
    np.testing.assert_allclose(moved, [step[:d, :e], step[d:, e:]], atol=1e-9)
    assert follow(risk, W, method, steps=40).limit.margin_interval[1] > 0


def test_factors_of_several_heads_keep_their_balance(rng, case):
    data, heads = case
    K, Q = rng.normal(size=(H, d, 1)), 0.3 * rng.normal(size=(H, e, 1))
    run = follow(FactoredRisk(data, rank=1, heads=heads), (K, Q), NormalizedDescent(1e-3), steps=200)
    after = [np.einsum("hdr,hds->hrs", one, one) for one in run.final]
    before = [np.einsum("hdr,hds->hrs", one, one) for one in (K, Q)]
    np.testing.assert_allclose(after[0] - after[1], before[0] - before[1], atol=5e-4)  # of the order of lr^2 a step
    moved = run.final[0] - K
    assert one_minus_cosine(moved.ravel(), K.ravel()) > 1e-6
    assert np.abs(moved).max() > 1e-3


def test_heads_that_do_not_fit_are_refused(case):
    data, heads = case
    with pytest.raises(InvalidInputError, match=r"\(H, 3\)"):
        MatrixRisk(data, heads=heads[:, :2])
    from tokenmargin.attention import LinearHead

    with pytest.raises(InvalidInputError, match="give one of them"):
        MatrixRisk(data, head=LinearHead(heads[0]), heads=heads)
