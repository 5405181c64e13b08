"""Descent: reference numbers of the papers' figures, equivalence of W and p, parity with torch."""

import numpy as np
import pytest

from tests.instances import fig1c, fig5, random_sphere
from tests.references import descent_in_matrix_space
from tokenmargin import AttentionRisk, Descent, Flow, NormalizedDescent, follow
from tokenmargin.attention import correlation, follow_all, logistic
from tokenmargin.errors import InvalidInputError


def mean_softmax(objective, p):
    return objective.attention(p).max(axis=1).mean()


def test_fig4_norm_and_softmax():
    """(|p|, mean softmax of the optimal token) along normalised descent and descent, from 0."""
    objective = AttentionRisk(fig1c())
    normalised = follow(objective, [0, 0], NormalizedDescent(0.1), steps=200)
    plain = follow(objective, [0, 0], Descent(1.0), steps=200)
    for path, iteration, norm, softmax in (
        (normalised, 50, 4.972, 0.99308),
        (normalised, 100, 9.934, 0.99998),
        (plain, 50, 2.287, 0.81773),
        (plain, 199, 3.850, 0.97186),
    ):
        assert round(float(path.norms[iteration]), 3) == norm
        assert round(float(mean_softmax(objective, path.points[iteration])), 5) == softmax


@pytest.mark.parametrize(("C", "printed"), [(2, -0.060260), (5, -1.042008), (10, -3.192099)])
def test_fig5_asymptote_logistic(C, printed):
    """p approaches p2 = log(C(1+e)/(1+e^C))/2 for the logistic loss, p2 = log(C)/2 for the correlation loss."""
    formula = 0.5 * np.log(C * (1 + np.e) / (1 + np.exp(C)))
    assert round(formula, 6) == printed
    for loss, expected in ((logistic, formula), (correlation, 0.5 * np.log(C))):
        end = follow(AttentionRisk(fig5(C), loss), [0, 0], Flow(until_norm=1e4, atol=1e-9))
        assert end.final[1] == pytest.approx(expected, abs=1e-6)
        assert end.final[0] > 1e3


def test_lemma_1_iterates_in_matrix_and_vector_space_agree(rng):
    for loss in (logistic, correlation):
        data = random_sphere(rng, n=3, T=4, d=5)
        start, u = rng.normal(size=5), 2 * rng.normal(size=5)
        in_p = follow(AttentionRisk(data, loss), start, Descent(0.7), steps=60)
        in_w = descent_in_matrix_space(data, loss, start, u, 0.7, 60)
        for p, W in zip(in_p.points, in_w, strict=True):
            np.testing.assert_allclose(W, np.outer(u, p) / (u @ u), atol=1e-13)


def test_same_path_as_torch_autograd(rng):
    torch = pytest.importorskip("torch", reason="parity peer, installed by `make peers`")
    data = random_sphere(rng, n=4, T=6, d=5)
    tokens, labels = torch.tensor(np.array(data.tokens)), torch.tensor(np.array(data.labels))
    head = torch.tensor(np.array(data.head))
    start = rng.normal(size=5)
    p = torch.tensor(start.copy(), requires_grad=True)
    optimiser = torch.optim.SGD([p], lr=0.5)
    for _ in range(100):
        optimiser.zero_grad()
        output = (torch.softmax(tokens @ p, dim=1)[:, :, None] * tokens).sum(dim=1) @ head
        torch.nn.functional.softplus(-labels * output).mean().backward()
        optimiser.step()
    ours = follow(AttentionRisk(data), start, Descent(0.5), steps=100)
    np.testing.assert_allclose(ours.final, p.detach().numpy(), atol=1e-12)


def test_wide_keys_are_followed_in_their_span(rng):
    """d > n(T-1): a QR reduces the problem; the part of p outside the span stays where it was."""
    data = random_sphere(rng, n=2, T=3, d=40)
    objective = AttentionRisk(data)
    start = rng.normal(size=40)
    ours = follow(objective, start, NormalizedDescent(0.3), steps=50)
    p = start.copy()
    for _ in range(50):
        gradient = objective.gradient(p)
        p = p - 0.3 * gradient / np.linalg.norm(gradient)
    np.testing.assert_allclose(ours.final, p, atol=1e-11)
    np.testing.assert_allclose(
        follow(objective, start, Descent(2.0), steps=5).points[1], start - 2 * objective.gradient(start), atol=1e-13
    )


def test_epsilon_is_added_to_the_gradient_norm(rng):
    data = random_sphere(rng, n=2, T=3, d=4)
    objective = AttentionRisk(data)
    start = rng.normal(size=4)
    gradient = objective.gradient(start)
    moved = follow(objective, start, NormalizedDescent(0.2, epsilon=0.05), steps=1).final
    np.testing.assert_allclose(moved, start - 0.2 * gradient / (np.linalg.norm(gradient) + 0.05), atol=1e-14)
    far = 500.0 * gradient / np.linalg.norm(gradient)
    frozen = follow(objective, -far, NormalizedDescent(0.2, epsilon=1e-12), steps=3).final
    np.testing.assert_allclose(frozen, -far, atol=1e-9)


def test_no_step_where_nothing_pulls():
    data = random_sphere(np.random.default_rng(0), n=2, T=1, d=3)
    path = follow(AttentionRisk(data), [1.0, 2.0, 3.0], NormalizedDescent(0.1), steps=5)
    assert (path.points == [1.0, 2.0, 3.0]).all()


def test_batch_equals_one_at_a_time(rng):
    objectives = [AttentionRisk(random_sphere(rng, d=d)) for d in (3, 3, 3, 30, 30)]
    starts = [rng.normal(size=o.sequences.width) for o in objectives]
    batch = follow_all(objectives, starts, NormalizedDescent(0.5), steps=100)
    for objective, start, together in zip(objectives, starts, batch, strict=True):
        alone = follow(objective, start, NormalizedDescent(0.5), steps=100)
        np.testing.assert_allclose(together.final, alone.final, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Descent(0.0), "lr must be a positive"),
        (lambda: Descent(-1.0), "lr must be a positive"),
        (lambda: NormalizedDescent(float("nan")), "lr must be a positive"),
        (lambda: NormalizedDescent(0.1, epsilon=-1.0), "epsilon"),
        (lambda: Flow(until_norm=0.0), "until_norm must be a positive"),
        (lambda: Flow(until_norm=float("inf")), "until_norm"),
        (lambda: Flow(atol=-1e-4), "atol must be a positive"),
        (lambda: Flow(max_steps=0), "max_steps"),
        (lambda: follow(AttentionRisk(fig1c()), [0.0], Descent(1.0)), "width 2"),
        (lambda: follow(AttentionRisk(fig1c()), [0.0, np.inf], Descent(1.0)), "finite"),
        (lambda: follow(AttentionRisk(fig1c()), [0.0, 0.0], Descent(1.0), steps=0), "positive integer"),
        (lambda: follow(AttentionRisk(fig1c()), [0.0, 0.0], Descent(1.0), steps=10, every=3), "divisor"),
        (lambda: follow(AttentionRisk(fig1c()), [0.0, 0.0], Flow(), steps=10), "max_steps"),
        (lambda: follow_all([AttentionRisk(fig1c())], [], Flow()), "one start for each"),
    ],
)
def test_bad_input(make, says):
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert says in str(caught.value)
