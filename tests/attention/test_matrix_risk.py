"""Self-attention as a risk of W and of (K, Q): the same risk as that of vectors, by factors, past saturation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin import (
    AttentionRisk,
    CrossSequences,
    Descent,
    EmbeddedSequences,
    FactoredRisk,
    Flow,
    HeadRisk,
    MatrixRisk,
    NormalizedDescent,
    SteepestDescent,
    compare,
    follow,
    optimal_selection,
)
from tokenmargin.attention import LinearHead, QuadraticHead, ReLUHead, follow_all, stationarity
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import RunVerdict, one_minus_cosine

n, T, d, e = 3, 4, 3, 2


def crossed(rng, mask=None, scale=1.0):
    X, Z = scale * rng.normal(size=(n, T, d)), rng.normal(size=(n, e))
    return CrossSequences(X, queries=Z, labels=rng.choice([-1, 1], n), head=rng.normal(size=d), mask=mask)


def textbook(data, W, psi):
    """The risk as it is written, one input after the other."""
    total = 0.0
    for i in range(data.n_inputs):
        X = data.key_tokens[i][data.mask[i]]
        logits = X @ W @ data.queries[i]
        s = np.exp(logits - logits.max())
        total += np.log1p(np.exp(-data.labels[i] * psi(data.tokens[i][data.mask[i]].T @ (s / s.sum()))))
    return total / data.n_inputs


@pytest.fixture
def data(rng):
    return crossed(rng)


def test_the_risk_is_the_one_that_is_written(rng):
    mask = np.ones((n, T), bool)
    mask[1, 2:] = False
    data, W = crossed(rng, mask), rng.normal(size=(d, e))
    np.testing.assert_allclose(MatrixRisk(data).value(W), textbook(data, W, lambda z: data.head @ z), rtol=1e-12)
    A = rng.normal(size=(d, d))
    head = QuadraticHead(A, data.head)
    behind = MatrixRisk(data, head=head)
    np.testing.assert_allclose(behind.value(W), textbook(data, W, lambda z: z @ A @ z + data.head @ z), rtol=1e-12)
    K, Q = rng.normal(size=(d, 2)), rng.normal(size=(e, 2))
    for one in (MatrixRisk(data), behind):
        factored = FactoredRisk(data, rank=2, head=one.head)
        np.testing.assert_allclose(factored.value((K, Q)), one.value(K @ Q.T), rtol=1e-12)
        G = one.gradient(K @ Q.T)
        for part, expected in zip(factored.gradient((K, Q)), (G @ Q, G.T @ K), strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-14)


def test_gradients_are_those_of_torch(rng):
    torch = pytest.importorskip("torch")
    data = crossed(rng)
    hidden, bias, output = rng.normal(size=(5, d)), rng.normal(size=5), rng.normal(size=5)
    X, Z, Y = (torch.tensor(x) for x in (data.key_tokens, data.queries, data.labels))
    K, Q = (torch.tensor(rng.normal(size=s), requires_grad=True) for s in ((d, 2), (e, 2)))
    attention = torch.softmax(torch.einsum("ntd,de,ne->nt", X, K @ Q.T, Z), dim=1)
    attended = torch.einsum("nt,ntd->nd", attention, X)
    out = torch.relu(attended @ torch.tensor(hidden).T + torch.tensor(bias)) @ torch.tensor(output)
    torch.nn.functional.softplus(-Y * out).mean().backward()
    risk = FactoredRisk(data, rank=2, head=ReLUHead(hidden, bias, output))
    for ours, theirs in zip(risk.gradient((K.detach().numpy(), Q.detach().numpy())), (K.grad, Q.grad), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-9, atol=1e-13)


def test_a_matrix_is_the_vector_of_its_entries_over_outer_products(rng, data):
    """The keys as an array, and as factors: one flow, one descent, one limit; and none makes the array."""
    written_out = AttentionRisk(EmbeddedSequences(data.tokens, data.labels, data.head, keys=data.keys))
    fresh = crossed(np.random.default_rng(5))
    start = 0.1 * rng.normal(size=(d, e))
    for method, steps in ((NormalizedDescent(0.3), 40), (Descent(0.5), 40), (Flow(), None)):
        ours = follow(MatrixRisk(data), start, method, steps=steps)
        theirs = follow(written_out, start.ravel(), method, steps=steps)
        if steps is not None:
            np.testing.assert_allclose(ours.final.ravel(), theirs.final, rtol=1e-9)
    assert one_minus_cosine(ours.limit.velocity, theirs.limit.velocity) < 1e-12
    assert ours.limit.kind is theirs.limit.kind
    assert compare(ours.limit).agrees
    follow(MatrixRisk(fresh), np.zeros((d, e)), SteepestDescent("max", 0.1), steps=2)
    assert "keys" not in fresh.__dict__


def test_with_one_query_for_all_it_is_the_query_p(rng):
    """[M, Lemma 1]: with z the same everywhere, W z moves as p does, |z|^2 times as fast, and W = (W z) z'/|z|^2."""
    X, z = rng.normal(size=(n, T, d)), np.array([0.6, -0.8])
    Y, v = rng.choice([-1, 1], n), rng.normal(size=d)
    wide = CrossSequences(X, queries=np.tile(z, (n, 1)), labels=Y, head=v)
    W = follow(MatrixRisk(wide), np.zeros((d, 2)), Descent(0.5), steps=60).final
    p = follow(AttentionRisk(EmbeddedSequences(X, Y, v)), np.zeros(d), Descent(0.5), steps=60).final
    np.testing.assert_allclose(W @ z, p, rtol=1e-10)
    np.testing.assert_allclose(W, np.outer(p, z), rtol=1e-9, atol=1e-12)


def test_wide_tokens_run_in_the_span_of_few_differences(rng):
    """The path in the span, and in the spans of rows and columns, is the path in all coordinates."""
    X, Z, Y, v = rng.normal(size=(2, 2, 7)), rng.normal(size=(2, 6)), [1, -1], rng.normal(size=7)
    data = CrossSequences(X, queries=Z, labels=Y, head=v)
    risk, start = MatrixRisk(data), 0.1 * rng.normal(size=(7, 6))
    assert risk.in_span[0].keys.shape == (2, 2, 2)
    W = start.copy()
    for _ in range(20):
        G = -risk.gradient(W)
        U, s, Vt = np.linalg.svd(G)
        W = W + 0.1 * U[:, s.argsort()[::-1][:2]] @ Vt[:2]
    np.testing.assert_allclose(follow(risk, start, SteepestDescent("spectral", 0.1), steps=20).final, W, rtol=1e-9)
    factored = FactoredRisk(data, rank=2)
    K, Q = rng.normal(size=(7, 2)), rng.normal(size=(6, 2))
    assert factored.followed_in(NormalizedDescent(1.0).geometry)[1].basis.shape == (26, 8)
    run = follow(factored, (K, Q), NormalizedDescent(0.1), steps=15)
    for _ in range(15):
        grad = factored.gradient((K, Q))
        size = np.sqrt(sum((g**2).sum() for g in grad))
        K, Q = (one - 0.1 * g / size for one, g in zip((K, Q), grad, strict=True))
    for ours, theirs in zip(run.final, (K, Q), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_gradients_are_right_past_saturation(rng, data):
    """At 1e5 times W, where all attention rounds to 0 and 1, against sums over pairs in whole logarithms."""
    W = 1e5 * rng.normal(size=(d, e))
    direction, log_scale = MatrixRisk(data).descent_direction(W)
    logits = np.einsum("ntd,de,ne->nt", data.key_tokens, W, data.queries)
    behind = logits.max(axis=1, keepdims=True) - logits
    assert (np.sort(behind, axis=1)[:, 1] > 800).all()  # the gradient itself underflows
    gamma = data.labels[:, None] * (data.tokens @ data.head)
    top, each = logits.argmax(axis=1), np.arange(n)
    f = gamma[each, top]
    log_w = -behind - np.logaddexp(0, f)[:, None] - np.log(n)
    log_w[each, top] = -np.inf
    terms = (gamma - f[:, None])[..., None, None] * np.einsum(
        "ntd,ne->ntde", data.key_tokens - data.key_tokens[each, top][:, None], data.queries
    )
    expected = (np.exp(log_w - log_scale)[..., None, None] * terms).sum(axis=(0, 1))
    np.testing.assert_allclose(direction, expected, rtol=1e-6, atol=1e-9)


def test_a_flow_of_factors_conserves_the_difference_of_their_squares(rng, data):
    """K'K - Q'Q stays to the tolerance of the integrator; and breaks where each factor has a length of its own."""
    K, Q = rng.normal(size=(d, 2)), 0.3 * rng.normal(size=(e, 2))
    drift = []
    for atol in (1e-2, 1e-4):
        run = follow(FactoredRisk(data, rank=2), (K, Q), Flow(until_norm=100.0, atol=atol))
        K1, Q1 = run.final
        drift.append(np.abs(K1.T @ K1 - Q1.T @ Q1 - (K.T @ K - Q.T @ Q)).max())
        assert np.linalg.norm(K1) >= 10.0  # W is of order 100
    assert drift[1] < 1e-3
    assert drift[1] < 0.2 * drift[0]
    apart, risk = (K.copy(), Q.copy()), FactoredRisk(data, rank=2)
    for _ in range(100):
        grad = risk.gradient(apart)
        apart = tuple(one - 0.05 * g / np.linalg.norm(g) for one, g in zip(apart, grad, strict=True))
    off = apart[0].T @ apart[0] - apart[1].T @ apart[1] - (K.T @ K - Q.T @ Q)
    assert np.abs(off).max() > 0.1


def test_factors_go_to_the_nuclear_margin(rng, data):
    run = follow(FactoredRisk(data, rank=2), (0.1 * rng.normal(size=(d, 2)), np.zeros((e, 2))), Flow(until_norm=1e5))
    agreement = compare(run.limit, norm="nuclear")
    assert run.limit.norm.name == "nuclear"
    assert agreement.agrees
    assert run.limit.margin_ratio > 0.99
    assert not compare(run.limit, norm="frobenius").agrees


def test_a_start_of_rank_one_ends_at_a_saddle_and_is_told_apart():
    """W stays of rank one, where the nuclear optimum has rank two."""
    first = [(1.0, 0.5), (-0.19, -0.8), (-0.8, 0.31), (-0.62, -0.02), (-1.17, 0.25)]
    second = [(1.0, -0.5), (-0.76, 0.1), (-0.83, 0.68), (-0.81, 0.01), (-0.61, -0.05)]
    queries = [(-0.54, -0.84), (0.95, 0.3)]
    data = CrossSequences([first, second], queries=queries, labels=[1, 1], head=[0.98, 0.21])
    risk, nothing = FactoredRisk(data, rank=2), np.zeros((2, 2))
    saddle = follow(risk, (np.outer([0.1, 0.05], [1.0, 0.0]), nothing), Flow(until_norm=1e5))
    free = follow(risk, ([[0.1, 0.03], [0.05, -0.1]], nothing), Flow(until_norm=1e5))
    assert np.linalg.svd(risk.logit_point(saddle.final), compute_uv=False)[1] < 1e-6
    told, best = stationarity(saddle.limit), stationarity(free.limit)
    assert told.is_stationary
    assert told.is_saddle
    assert told.largest > 1.2
    assert best.is_stationary
    assert not best.is_saddle
    assert best.largest == pytest.approx(1.0, abs=2e-3)
    assert compare(free.limit).verdict is RunVerdict.AGREES
    apart = compare(saddle.limit)
    assert apart.verdict is RunVerdict.CONTRADICTS
    assert "saddle" in apart.explain()
    assert saddle.limit.margin_ratio < apart.margin_ratio < 0.99
    with pytest.raises(InvalidInputError, match="FactoredRisk"):
        stationarity(follow(MatrixRisk(data), nothing, Flow(until_norm=1e3)).limit)


def test_many_starts_are_each_start_alone(rng, data):
    starts = 0.1 * rng.normal(size=(3, d, e))
    many = follow(MatrixRisk(data), starts, SteepestDescent("nuclear", 0.1), steps=30)
    for start, run in zip(starts, many, strict=True):
        alone = follow(MatrixRisk(data), start, SteepestDescent("nuclear", 0.1), steps=30)
        np.testing.assert_allclose(run.final, alone.final, rtol=1e-9)
        np.testing.assert_allclose(run.margin_interval[0], alone.margin_interval[0], rtol=1e-9)
    pairs = [(rng.normal(size=(d, 1)), rng.normal(size=(e, 1))) for _ in range(2)]
    runs = follow(FactoredRisk(data, rank=1), pairs, Descent(0.1), steps=5)
    assert [run.final[0].shape for run in runs] == [(d, 1)] * 2
    both = follow_all([MatrixRisk(data)] * 2, starts[:2], Flow(until_norm=1e3))
    assert [run.limit.kind for run in both]


def test_queries_are_given_or_a_place(rng):
    X, Y, v = rng.normal(size=(n, T, d)), np.ones(n), rng.normal(size=d)
    mask = np.ones((n, T), bool)
    mask[0, 3] = False
    last = CrossSequences(X, queries=-1, labels=Y, head=v, mask=mask)
    np.testing.assert_array_equal(last.queries, [X[0, 2], X[1, 3], X[2, 3]])
    np.testing.assert_array_equal(CrossSequences(X, queries=0, labels=Y, head=v).queries, X[:, 0])
    W = rng.normal(size=(d, d))
    np.testing.assert_allclose(last.logits(W)[1], X[1] @ W @ X[1, 3], rtol=1e-12)
    np.testing.assert_allclose(last.logits(W.ravel()), last.logits(W))
    np.testing.assert_allclose(last.attention(W.ravel()).sum(axis=1), 1.0)


def test_a_null_token_has_a_key_and_no_value(rng):
    """The sink: an input whose tokens all pull the wrong way attends to nothing."""
    X = rng.normal(size=(1, 3, d))
    v, values = np.array([1.0, 0.0, 0.0]), X.copy()
    values[0, :, 0], values[0, 0] = -1.0, 0.0
    data = CrossSequences(X, queries=rng.normal(size=(1, e)), labels=[1], head=v, values=values)
    assert data.shape == (d, e)
    assert optimal_selection(data).indices.tolist() == [0]
    run = follow(MatrixRisk(data), np.zeros((d, e)), Flow())
    assert run.limit.selection.indices.tolist() == [0]
    assert compare(run.limit).agrees


def test_bad_input_says_what_to_do(rng, data):
    with pytest.raises(InvalidInputError, match="CrossSequences"):
        MatrixRisk(EmbeddedSequences(data.tokens, data.labels, data.head))
    with pytest.raises(InvalidInputError, match="rank above 2"):
        FactoredRisk(data, rank=3)
    with pytest.raises(InvalidInputError, match="rank"):
        FactoredRisk(data, rank=0)
    risk = FactoredRisk(data, rank=2)
    for wrong in ((np.zeros((d, 2)), np.zeros((e, 1))), (np.zeros((d, 1)), np.zeros((e, 1))), np.zeros((d, e))):
        with pytest.raises(InvalidInputError, match=r"shape \(\d, 2\)|\(3, 2\)"):
            follow(risk, wrong, Flow())
    with pytest.raises(InvalidInputError, match=r"shape \(3, 2\)"):
        follow(MatrixRisk(data), np.zeros((e, d)), Flow())
    with pytest.raises(InvalidInputError, match="width"):
        MatrixRisk(data, head=LinearHead(np.ones(d + 1)))


def test_the_field_is_pure_jax(data):
    field = MatrixRisk(data).field
    y = 0.2 * jnp.ones(d * e)
    np.testing.assert_allclose(-jax.jit(lambda y: field.descent(y)[0].value)(y), -jax.grad(field.value)(y), rtol=1e-9)
    assert HeadRisk(data, LinearHead(data.head)).value(y) == pytest.approx(float(field.value(y)))
