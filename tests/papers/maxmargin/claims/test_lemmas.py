"""The lemmas of [M]: the disputed ones with the counterexamples to what is printed, the technical ones as properties.

The page of claims lists those that are tested here and in other files.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.instances import fig1c, planar, theorem2_counterexample
from tokenmargin import AttentionRisk, EmbeddedSequences, global_margin
from tokenmargin.attention import correlation, logistic
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import LinearHead, ReLUHead
from tokenmargin.data import Selection, scores
from tokenmargin.margin import Status, att_svm, directional_margin, neighbors
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims.lemma2_11_feasibility import LEMMA_2, optimal_between_others
from tokenmargin.papers.maxmargin.claims.lemma3_key import LEMMA_3, KeyLemmaCase, key_lemma_case, key_lemma_terms
from tokenmargin.papers.maxmargin.claims.lemma5_correlation import LEMMA_5, CorrelationCase, correlation_radius
from tokenmargin.papers.maxmargin.claims.lemma7_cone import LEMMA_7, ConeCase
from tokenmargin.papers.maxmargin.claims.lemma8_dominance import LEMMA_8, DominanceCase, dominance_radius, excess_risks
from tokenmargin.theory import one_minus_cosine
from tokenmargin.theory.claim import Applies

seeds = st.integers(0, 10**6)
few = settings(max_examples=15)


def assumption_b_data(seed: int, n: int = 2, T: int = 3) -> EmbeddedSequences:
    rng = np.random.default_rng(seed)
    gamma = np.where(np.arange(T) == 0, rng.uniform(0.1, 2.0, (n, 1)), rng.uniform(-2.0, 0.0, (n, 1)))
    return planar(rng.normal(size=(n, T, 2)), gamma, rng.choice([-1.0, 1.0], n))


RELU = ReLUHead([[1.0, 2.0, 0.5], [-1.0, 1.0, 1.0]], [0.1, 0.3], [1.0, -2.0])


@pytest.mark.parametrize("head", [LinearHead([0.5, -1.0, 2.0]), RELU])
def test_lemma_1_descent_in_the_matrix_is_descent_in_the_query(rng, head):
    """[M, Lemma 1] behind any head psi: W'u follows the path of p when the step is divided by |u|^2; autodiff in W."""
    tokens, labels, u = rng.normal(size=(3, 4, 3)), np.array([1.0, -1.0, 1.0]), rng.normal(size=3)
    risk = HeadRisk(EmbeddedSequences(tokens, labels, np.zeros(3)), head)

    def of_p(p):
        z = jnp.einsum("nt,ntk->nk", jax.nn.softmax(tokens @ p, axis=1), tokens)
        return jnp.log1p(jnp.exp(-labels * jax.vmap(head)(z))).mean()

    slope, W, lr = jax.jit(jax.grad(lambda W: of_p(W.T @ u))), rng.normal(size=(3, 3)), 0.3
    start = p = W.T @ u
    for _ in range(20):
        direction, log_scale = risk.descent_direction(p)
        p, W = p + lr * np.exp(log_scale) * direction, W - lr / (u @ u) * np.asarray(slope(W))
        np.testing.assert_allclose(W.T @ u, p, atol=1e-12)
    assert np.linalg.norm(p - start) > 0.01


class TestLemma2:
    @given(seeds, st.integers(1, 4))
    @few
    def test_holds_for_any_map_whose_rows_span_the_head(self, seed, rank):
        rng = np.random.default_rng(seed)
        tokens, W = rng.normal(size=(6, 4, 4)), rng.normal(size=(rank, 4))
        head = rng.normal(size=rank) @ W
        outcome = LEMMA_2.check(EmbeddedSequences(tokens, np.ones(6), head, keys=tokens @ W.T))
        assert outcome.applies is Applies.YES
        assert outcome.holds is True

    def test_each_hypothesis_is_needed(self):
        for sequences in (optimal_between_others(), theorem2_counterexample()):
            assert LEMMA_2.check(sequences).applies is Applies.NO
            assert global_margin(sequences).status is Status.INFEASIBLE


class TestLemma3:
    @given(seeds)
    def test_the_bound_and_the_exact_remainder(self, seed):
        rng = np.random.default_rng(seed)
        sequences = EmbeddedSequences(rng.normal(size=(1, 4, 3)), [1], rng.normal(size=3))
        p, q = rng.normal(size=3) * rng.uniform(0, 3), rng.normal(size=3)
        size = float(np.linalg.norm(sequences.keys[0], axis=1).max() * np.linalg.norm(q))
        case = KeyLemmaCase(sequences, tuple(p.tolist()), tuple(q.tolist()), size)
        assert LEMMA_3.check(case).holds is True
        gamma, a = sequences.tokens[0] @ sequences.head, sequences.keys[0] @ q
        s = AttentionRisk(sequences).attention(p)[0]
        exact = abs((a[0] - a @ s) * (gamma[0] - gamma @ s)) / (2 * size * np.ptp(gamma) * (1 - s[0]) ** 2)
        assert key_lemma_terms(case).remainder == pytest.approx(exact, rel=1e-10)

    def test_the_last_display_as_printed_is_false(self):
        terms = key_lemma_terms(key_lemma_case(read_with_q=True))
        assert terms.printed_display > 1.5

    def test_two_is_the_best_constant_and_A_needs_the_norm_of_q(self):
        terms = key_lemma_terms(key_lemma_case(read_with_q=True))
        assert terms.remainder == pytest.approx(1.0, rel=1e-12)
        short = key_lemma_terms(key_lemma_case(read_with_q=False))
        assert short.remainder > 2.9

    def test_both_sides_keep_their_digits_where_no_float_has_any(self):
        """Logits 600 apart: (1 - s_1)^2 is 1e-521."""
        for ahead in (10.0, 600.0):
            terms = key_lemma_terms(replace(key_lemma_case(read_with_q=True), p=(ahead / 2,)))
            assert terms.remainder == pytest.approx(1.0, rel=1e-12)
        far = LEMMA_3.check(replace(key_lemma_case(read_with_q=True), p=(1e5,)))
        assert far.applies is Applies.NOT_DECIDED


@given(seeds, st.floats(0.0, 200.0))
@few
def test_lemma_4_the_max_margin_direction_descends_everywhere(seed, norm):
    """[M, Lemma 4]: <grad L(p), p_mm> < 0 for all p, under Assumption B where p_mm exists."""
    sequences = assumption_b_data(seed)
    solution = global_margin(sequences)
    assume(solution.status is Status.OPTIMAL)
    p = np.random.default_rng(seed + 1).normal(size=2)
    field = AttentionRisk(sequences).force(p * norm / np.linalg.norm(p))
    assert float(field @ solution.p) > 0


class TestLemma5:
    @given(seeds, st.floats(0.2, 2.0), st.floats(-np.pi, np.pi), st.floats(1.0, 3.0))
    @few
    def test_holds_beyond_the_explicit_radius(self, seed, pi, angle, scale):
        sequences = assumption_b_data(seed, n=1)
        assume(global_margin(sequences).status is Status.OPTIMAL)
        radius = scale * 1.001 * correlation_radius(sequences, pi)
        outcome = LEMMA_5.check(
            CorrelationCase(sequences, pi, (radius * float(np.cos(angle)), radius * float(np.sin(angle))))
        )
        assert outcome.applies is Applies.YES
        assert outcome.holds is True

    def test_a_radius_is_needed(self):
        """Near 0 the same data descend along the gradient 1.118 times as fast as along p_mm: pi = 0.1 fails."""
        sequences = planar([[(0, 1), (1, 0), (-2, 0)]], [[1.0, 0.0, 0.0]])
        field = AttentionRisk(sequences).force([0.0, 0.0])
        p = tuple((1e-6 * field / np.linalg.norm(field)).tolist())
        case = CorrelationCase(sequences, 0.1, p)
        assert LEMMA_5.check(case).applies is Applies.NO
        assert LEMMA_5.conclude(case, LEMMA_5.observe(case)).holds is False

    @pytest.mark.parametrize("R", [1e2, 1e4, 1e6])
    def test_pi_is_zero_at_no_finite_radius(self, R):
        """Differences (-1, 1) and (2, 1): p_mm = (0, 1) with duals 2/3 and 1/3, but at p_mm both weigh 1/2."""
        sequences = planar([[(0, 1), (1, 0), (-2, 0)]], [[1.0, 0.0, 0.0]])
        np.testing.assert_allclose(global_margin(sequences).p, [0, 1], atol=1e-12)
        angle = 0.1 / R
        field = AttentionRisk(sequences).force([R * np.sin(angle), R * np.cos(angle)])
        gain = field @ np.array([np.sin(angle), np.cos(angle) - 1]) / np.linalg.norm(field)
        assert gain * R > 0.01


@given(seeds)
@few
def test_lemma_6_descent_with_the_stated_step_decreases_enough(seed):
    """[M, Lemma 6, (25)]: L(p+) - L(p) <= -(eta/2)|grad L(p)|^2 with eta = 1/L_p."""
    sequences = assumption_b_data(seed)
    risk, p = AttentionRisk(sequences), np.random.default_rng(seed).normal(size=2)
    eta, gradient = 1 / risk.smoothness, risk.gradient(p)
    gain = risk.value(p - eta * gradient) - risk.value(p)
    assert gain <= -eta / 2 * float(gradient @ gradient) + 1e-15


class TestLemma7:
    @given(seeds, st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
    @few
    def test_holds_in_the_corrected_cone(self, seed, at_p, at_q):
        sequences = planar(
            np.random.default_rng(seed).normal(size=(2, 3, 2)), np.random.default_rng(seed + 1).normal(size=(2, 3))
        )
        solution = global_margin(sequences)
        assume(solution.status is Status.OPTIMAL)
        constants = cone_constants(solution)
        assume(constants.every_input_has_neighbors)
        width = 0.999 * float(np.arccos(1 - constants.mu))
        angle = float(np.arctan2(solution.p[1], solution.p[0]))
        p, q = (
            (float(length * np.cos(angle + at * width)), float(length * np.sin(angle + at * width)))
            for length, at in ((1.001 * constants.radius, at_p), (1.0, at_q))
        )
        outcome = LEMMA_7.check(ConeCase(sequences, solution.selection, p, q))
        assert outcome.applies is Applies.YES
        assert outcome.holds is True

    def test_with_delta_as_printed_the_direction_does_not_descend(self):
        """The second input has no neighbour, a margin of 1.02 and a better token there: printed delta is infinite."""
        sequences = EmbeddedSequences(
            [[[1.0], [0.0]], [[0.0], [1e5]]], [1, 1], [1.0], keys=[[[1.0], [0.0]], [[1.02], [0.0]]]
        )
        selection = Selection.from_indices([0, 0], 2)
        solution = att_svm(sequences, selection)
        constants = cone_constants(solution)
        assert constants.delta_as_printed == np.inf
        assert constants.delta == pytest.approx(0.01)
        assert not constants.every_input_has_neighbors
        gap = 1.0
        printed = 2.0 / constants.margin * np.log(64 * 2 * constants.score_spread * constants.key_norm / gap)
        assert printed < constants.radius
        loss_is_linear = AttentionRisk(sequences, correlation)
        assert float(loss_is_linear.force([printed])[0]) < 0
        assert float(loss_is_linear.force([constants.radius])[0]) > 0
        assert LEMMA_7.check(ConeCase(sequences, selection, (constants.radius,), (1.0,))).applies is Applies.NO


class TestLemma8:
    @given(seeds)
    @few
    def test_both_cases_hold_beyond_the_explicit_radius(self, seed):
        rng = np.random.default_rng(seed)
        sequences = planar(rng.normal(size=(1, 3, 2)), rng.normal(size=(1, 3)))
        angles = rng.uniform(-np.pi, np.pi, 2)
        units = [(float(np.cos(x)), float(np.sin(x))) for x in angles]
        units.sort(key=lambda x: directional_margin(sequences, x).margin)
        case = DominanceCase(sequences, units[0], units[1], 1.0)
        assume(directional_margin(sequences, case.q).selection == directional_margin(sequences, case.p).selection)
        beyond = DominanceCase(sequences, case.q, case.p, 1.001 * dominance_radius(case))
        outcome = LEMMA_8.check(beyond)
        assume(outcome.applies is Applies.YES)
        assert outcome.holds is True

    def test_the_case_of_a_better_neighbour(self):
        sequences = planar([[(0, 0), (-1, -2), (-3, -3)]], [[0.5, 1.0, 0.0]])
        case = DominanceCase(sequences, (1.0, 0.0), (0.0, 1.0), 20.0)
        outcome = LEMMA_8.check(case)
        assert outcome.applies is Applies.YES
        assert outcome.holds is True
        at_q, at_p = excess_risks(case)
        assert at_q.sign < 0
        assert at_q.above(at_p) < 0

    @pytest.mark.parametrize("epsilon", [1e-1, 1e-2, 1e-3])
    def test_no_radius_depends_on_the_margin_difference_alone(self, epsilon):
        """Margins 1 and 2 throughout, both neighbour-optimal; q beats p until R passes log(100)/epsilon."""
        sequences = planar([[(0, 0), (-1, -2), (-1 - epsilon, -3)]], [[0.5, 0.49, 1.5]])
        q, p = (1.0, 0.0), (0.0, 1.0)
        seen = [directional_margin(sequences, x) for x in (q, p)]
        assert [x.margin for x in seen] == pytest.approx([1.0, 2.0])
        assert all(x.is_neighbor_optimal for x in seen)
        at_q, at_p = excess_risks(DominanceCase(sequences, q, p, 4.0 / epsilon))
        assert at_q.above(at_p) < 0
        beyond = DominanceCase(sequences, q, p, 1.001 * dominance_radius(DominanceCase(sequences, q, p, 1.0)))
        assert LEMMA_8.check(beyond).holds is True


@given(seeds)
@few
def test_lemma_9_better_neighbours_beat_the_limit(seed):
    """[M, Lemma 9]: if all directional neighbours of p score higher, L(Rp) < L_star for all large R."""
    rng = np.random.default_rng(seed)
    sequences = planar(rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3)))
    p = rng.normal(size=2)
    seen = directional_margin(sequences, p / np.linalg.norm(p))
    gamma = scores(sequences)
    i, t = np.argwhere(seen.neighbors)[0]
    assume(gamma[i, t] > gamma[i, seen.selection.indices[i]] + 1e-3)
    risk = HeadRisk(sequences, LinearHead(sequences.head), logistic)
    sign, _, _ = risk.log_excess(np.array([[1e5], [1e6]]) * (p / np.linalg.norm(p))[None], seen.selection)
    assert (sign < 0).all()


@given(seeds, st.integers(1, 4))
def test_lemma_10_at_most_d_neighbours_in_general_position(seed, d):
    """[M, Lemma 10]: keys in general position give at most d neighbours, and max-margin solutions reach for them."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(3, 4, d))
    sequences = EmbeddedSequences(keys, np.ones(3), np.ones(d))
    q = np.linalg.solve(np.concatenate(keys[:, :1] - keys[:, 1:])[:d], np.ones(d))
    assert directional_margin(sequences, q).neighbors.sum() <= d
    solution = global_margin(sequences)
    assert neighbors(solution).sum() <= d


def test_lemma_10_needs_general_position():
    sequences = planar([[(0, 1), (-1, 0), (0, 0), (1, 0)]], [[1.0, 0.0, 0.0, 0.0]])
    assert directional_margin(sequences, [0.0, 1.0]).neighbors.sum() == 3


def test_lemma_8_is_what_makes_the_max_margin_direction_best():
    """At large R the max-margin direction has the lowest risk of all that select the optimal tokens."""
    sequences = fig1c()
    best = global_margin(sequences)
    angle = float(np.arctan2(best.p[1], best.p[0]))
    risk = HeadRisk(sequences, LinearHead(sequences.head))
    for turn in (0.05, -0.05, 0.2, -0.2):
        angles = angle + np.array([0.0, turn])
        points = 500.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        sign, size, _ = risk.log_excess(points, best.selection)
        assert (sign > 0).all()
        assert size[0] < size[1]


@given(seeds, st.floats(0.1, 20.0))
@few
def test_lemma_12_a_token_with_most_of_the_attention_has_the_largest_logit(seed, norm):
    """[M, Lemma 12]: once s exceeds 1/2 (the proof says .9) no other token of the input can be ahead."""
    rng = np.random.default_rng(seed)
    data = planar(rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4)))
    p = norm * rng.normal(size=2)
    attention = AttentionRisk(data).attention(p)
    for i, t in zip(*np.nonzero(attention > 0.5), strict=True):
        logits = data.keys[i] @ p
        assert (logits[t] >= logits).all()


def test_lemmas_12_and_13_along_the_joint_path():
    """[M, Lemma 13] with |v| = |p|, which is enough on Fig. 3(b): selected tokens ahead, p to (10), v to (SVM)."""
    from tokenmargin.attention import JointRisk
    from tokenmargin.margin import relaxed_svm
    from tokenmargin.papers.maxmargin.claims.joint_balls import joint_path
    from tokenmargin.papers.maxmargin.toys import fig3

    data = fig3((0.5, 1.5))
    radii = 2.0 ** np.arange(1, 13)
    path = joint_path(JointRisk(data), [0.0, 1.0], [1.0, 0.1], radii, radii)
    end = path.points[-1]
    differences = data.keys[:, 1] - data.keys[:, 0]
    assert (differences @ end >= 0).all()
    relaxed = relaxed_svm(data, Selection.from_indices([1, 1, 1], 2))
    errors = [one_minus_cosine(p, relaxed.p) for p in path.points[-6:]]
    assert errors[-1] < 1e-5
    assert (np.diff(errors) < 0).all()
    assert one_minus_cosine(path.heads[-1], [0.0, 1.0]) < 1e-5
