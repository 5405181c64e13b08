"""The technical lemmas behind [E, Thm 5] as properties: 8, 9, 10, what 13 needs; and small steps of descent."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from tests.instances import random_sphere
from tokenmargin import AttentionRisk, Descent, Flow, follow
from tokenmargin.data import Selection, scores, single_relevant
from tokenmargin.first_step.bounds import embedding_bounds_log10_d, initial_events
from tokenmargin.margin import att_svm
from tokenmargin.papers.embeddings.case import EmbeddingCase
from tokenmargin.papers.embeddings.claims.thm5_lemma14_18_selection import SAME_VELOCITY
from tokenmargin.theory.agreement import one_minus_cosine

seeds = st.integers(0, 10**6)

#: Relative rounding of a sum of a few products, and of weights exp(-R gap) whose exponent carries R eps.
ROUNDING = 1e-9


@given(seeds, st.sampled_from([(1, 2), (3, 4)]), st.floats(0.1, 30))
def test_lemma_8_the_slope_is_a_sum_over_pairs(seed, size, scale):
    """-p_hat'grad L(p) = mean_i g_i sum_{s<t} (a_s - a_t) q_s q_t (gamma_s - gamma_t), a = p_hat'E, for any p."""
    rng, (n, T) = np.random.default_rng(seed), size
    data = random_sphere(rng, n=n, T=T, d=3)
    p, hat = scale * rng.normal(size=3), rng.normal(size=3)
    logits, gamma, a = data.keys @ p, scores(data), data.keys @ hat
    q = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
    g = 1 / (1 + np.exp((q * gamma).sum(axis=1)))
    s, t = np.triu_indices(T, 1)
    terms = g[:, None] * (a[:, s] - a[:, t]) * q[:, s] * q[:, t] * (gamma[:, s] - gamma[:, t]) / n
    slope = -float(hat @ AttentionRisk(data).gradient(p))
    assert abs(slope - terms.sum()) <= ROUNDING * np.abs(terms).sum()


@pytest.fixture(scope="module")
def wide_case():
    return EmbeddingCase(single_relevant(np.random.default_rng(1), 4, 4), 10.0, 6.0, 0)


def test_lemma_9_what_descends_as_fast_as_p_itself_is_the_limit(wide_case):
    """(15) holds for p_hat of the limit with any epsilon, its integral bounds the cosine, and no other has it."""
    risk = AttentionRisk(wide_case.sequences)
    points = follow(risk, wide_case.step.query, Flow(until_norm=1e4)).points
    norms = np.linalg.norm(points, axis=1)
    late = points[np.searchsorted(norms, 10.0) :]
    fields = np.array([risk.force(p) for p in late])
    norms = np.linalg.norm(late, axis=1)
    own = (fields * late).sum(axis=1) / norms  # the growth of |p|
    hat = att_svm(wide_case.sequences, wide_case.important).direction
    epsilon = np.maximum(0.0, 1 - fields @ hat / own)
    assert (own > 0).all()
    assert epsilon.max() <= ROUNDING
    for k in (0, len(late) // 2):  # the inequality of the proof, integrated from point k on
        bound = 1 - epsilon[k:].max()
        cosine = late[-1] @ hat / norms[-1]
        assert cosine >= bound - bound * norms[k] / norms[-1] + hat @ late[k] / norms[-1] - ROUNDING
    other = wide_case.important.chosen.copy()
    other[0] = True  # ties in one document
    rival = att_svm(wide_case.sequences, Selection(other)).direction
    assert (1 - fields @ rival / own).min() > 1e-2


class TestLemma10:
    @given(seeds, st.integers(2, 8), st.floats(0.1, 30))
    def test_shares_of_selected_and_other_tokens(self, seed, T, scale):
        """1/T <= q_* <= 1; for an unselected token at a gap tau, 1/(T e^tau) <= q_j <= 1/(1 + e^tau)."""
        logits = scale * np.random.default_rng(seed).normal(size=T)
        logits[: seed % 2 + 1] = logits.max()  # with and without a tie
        q = np.exp(logits - np.logaddexp.reduce(logits))
        selected = logits == logits.max()
        assert (q[selected] >= 1 / T - ROUNDING).all()
        assert (q[selected] <= 1).all()
        gap = logits.max() - logits[~selected]
        assert (q[~selected] <= (1 + ROUNDING) / (1 + np.exp(gap))).all()
        assert (q[~selected] >= (1 - ROUNDING) / (T * np.exp(gap))).all()

    def test_the_third_part_is_about_q_j(self):
        """Printed in the proof for q_*, where 1/(T e^tau) says nothing: q_* is at least 1/T."""
        logits = np.array([0.0, -2.0, -2.0])
        q = np.exp(logits - np.logaddexp.reduce(logits))
        assert q[1] == pytest.approx(1 / (2 + np.exp(2)))
        assert 1 / (3 * np.exp(2)) <= q[1] < 1 / 3 <= q[0]


def direction_of_one_token(case: EmbeddingCase, token: int) -> np.ndarray:
    """p_hat of the proof of Lemma 13: 1 on one token, 0 on the others."""
    wanted = np.eye(case.dataset.vocabulary_size)[token]
    return np.asarray(np.linalg.lstsq(case.step.tokens, wanted, rcond=None)[0])


class TestLemma13:
    def test_its_conditions_on_d_do_not_give_the_score_gap(self):
        """At d = 256 and eta0 = 1 E0'v outweighs eta0 alpha/2, and the direction of the proof climbs at some p."""
        data = single_relevant(np.random.default_rng(0), 4, 3)
        climbs = short = 0
        for seed in range(20):
            case = EmbeddingCase(data, 1.0, embedding_bounds_log10_d(data.vocabulary_size, 0.1), seed)
            if not all(bound.holds for bound in initial_events(case.step, 0.1)):
                continue
            gamma, chosen = scores(case.sequences), case.important.chosen
            best = np.where(chosen, gamma, -np.inf).max(axis=1)
            others = np.where(chosen, -np.inf, gamma)
            short += bool((best - others.max(axis=1) < 1.0 / (4 * 4 * 3)).any())
            for i in np.flatnonzero(best < others.max(axis=1)):
                j = int(others[i].argmax())
                keys = case.sequences.keys[i]
                raise_both = np.linalg.pinv(keys) @ np.where((np.arange(3) == j) | chosen[i], 20.0, 0.0)
                token = int(case.dataset.counts.indices[3 * i : 3 * i + 3][chosen[i]][0])
                climbs += bool(
                    direction_of_one_token(case, token) @ AttentionRisk(case.sequences).gradient(raise_both) > 0
                )
        assert short >= 15
        assert climbs >= 1

    def test_a_condition_that_does(self):
        """d >= (8 n T (1 + 11 eta0)/eta0)^4 leaves eta0/(4nT) of the gap eta0/(2nT) whatever the errors."""
        data = single_relevant(np.random.default_rng(0), 4, 3)
        for eta0 in (0.1, 1.0, 100.0):
            needed = 4 * np.log10(8 * 12 * (1 + 11 * eta0) / eta0)
            for seed in range(10):
                case = EmbeddingCase(data, eta0, float(needed), seed)
                gamma, chosen = scores(case.sequences), case.important.chosen
                gap = np.where(chosen, gamma, -np.inf).max(axis=1) - np.where(chosen, -np.inf, gamma).max(axis=1)
                assert (gap >= eta0 / 48).all() or not initial_events(case.step, 0.1)[0].holds


def test_descent_with_small_steps_follows_the_flow_at_first_order(wide_case):
    """[E, below (7)] extends its results to descent with small steps: the distance at a fixed time is of order h."""
    risk, start = AttentionRisk(wide_case.sequences), wide_case.step.query
    slope = jax.jit(lambda y: -risk.field.gradient(y))
    time = 64 / risk.smoothness * 100
    exact = solve_ivp(lambda _, y: np.asarray(slope(y)), (0, time), start, method="DOP853", rtol=1e-10, atol=1e-11)
    steps = np.array([64, 128, 256])
    errors = [
        float(np.linalg.norm(follow(risk, start, Descent(time / k), steps=int(k), every=int(k)).final - exact.y[:, -1]))
        for k in steps
    ]
    assert float(np.linalg.norm(exact.y[:, -1] - start)) > 0.1
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.05)


def test_descent_with_small_steps_goes_where_the_flow_goes(wide_case):
    """With a step of 1/L_p the direction of step k is off the limit of the flow, (9), by order 1/k, in 1 - cos.

    "Small enough" is needed: with 10^4 times that step some documents are left behind for good.
    """
    risk, start = AttentionRisk(wide_case.sequences), wide_case.step.query
    hat = att_svm(wide_case.sequences, wide_case.important).direction
    assert one_minus_cosine(wide_case.limit.velocity, hat) <= SAME_VELOCITY

    def errors(rate: float) -> np.ndarray:
        points = follow(risk, start, Descent(rate / risk.smoothness), steps=100_000, every=1000).points
        return np.array([one_minus_cosine(risk.force(points[k]), hat) for k in (1, 10, 100)])

    small = errors(1.0)
    assert small[-1] < 1e-5
    order = -np.polyfit(np.log([1e3, 1e4, 1e5]), np.log(small), 1)[0]
    assert order == pytest.approx(1.0, abs=0.2)
    assert errors(1e4)[-1] > 0.1
