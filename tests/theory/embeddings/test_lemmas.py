"""The technical lemmas behind [E, Thm 5] as properties: 10, 13 and 17; and that small steps follow the flow."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from tests.instances import random_sphere
from tokenmargin import AttentionRisk, Descent, follow, global_margin
from tokenmargin.data import scores, secondary_selection, selection_of, single_relevant
from tokenmargin.first_step.bounds import embedding_bounds_log10_d, initial_events
from tokenmargin.theory.embeddings.case import EmbeddingCase

seeds = st.integers(0, 10**6)

#: Relative rounding of a sum of a few products, and of weights exp(-R gap) whose exponent carries R eps.
ROUNDING = 1e-9


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
    @given(seeds, st.floats(-1, 1.5), st.floats(2.5, 60))
    def test_no_stationary_point_where_the_important_token_scores_highest(self, seed, log10_eta0, log10_d):
        case = EmbeddingCase(single_relevant(np.random.default_rng(seed), 4, 3), 10.0**log10_eta0, log10_d, seed)
        gamma, chosen = scores(case.sequences), case.important.chosen
        assume((np.where(chosen, gamma, -np.inf).max(axis=1) > np.where(chosen, -np.inf, gamma).max(axis=1)).all())
        important = np.flatnonzero(case.step.alpha)
        rng = np.random.default_rng(seed)  # logits of order one: no document's weight is lost beside another's
        p = rng.normal(size=case.sequences.width) / np.linalg.norm(case.sequences.keys, axis=2).max()
        G = AttentionRisk(case.sequences).field(p)
        assert all(direction_of_one_token(case, int(s)) @ G > 0 for s in important)

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


class TestLemma17:
    @given(seeds)
    def test_first_against_second_place_decides_the_gradient(self, seed):
        """The remainder is (T + T^2) C3 C4 exp(-tau_1 R) of the leading term; third places, S^<, fill its first sum."""
        rng = np.random.default_rng(seed)
        data = random_sphere(rng, n=3, T=4, d=14)
        gamma, solution = scores(data), global_margin(data)
        first = solution.selection.chosen
        levels = rng.permuted(np.tile([0.3, 0.6, 0.9], (3, 1)), axis=1)  # the others' places, at random
        logits = np.ones((3, 4))
        logits[~first] = levels.ravel()
        unit = np.linalg.lstsq(data.keys.reshape(12, 14), logits.ravel(), rcond=None)[0]
        unit /= np.linalg.norm(unit)
        assert selection_of(data, unit) == solution.selection
        second, logits = secondary_selection(data, unit), data.keys @ unit
        mu = float((gamma[first] - gamma[second]).min())
        third = np.where(first | second, -np.inf, logits).max(axis=1)
        tau_1 = float(min((logits[first] - logits[second]).min(), (logits[second] - third).min()))
        hat = data.keys @ solution.p
        assume(mu > 1e-3)  # else R below is so large that weights underflow
        largest = float(np.linalg.norm(data.keys, axis=2).max())
        C3 = 2 * float(np.linalg.norm(solution.p)) * largest  # tau_2 = 1
        C4 = 2 * 4 * float(np.abs(gamma).max()) / mu
        risk = AttentionRisk(data)
        for bound in (1.0, 1e-3, 1e-6):  # on the remainder, relative to the leading term
            R = float(np.log((4 + 16) * C3 * C4 / bound)) / tau_1
            shares = R * logits - np.logaddexp.reduce(R * logits, axis=1)[:, None]
            slope = 1 / (1 + np.exp((np.exp(shares) * gamma).sum(axis=1)))
            weight = slope * np.exp(shares[first] + shares[second])
            leading = float(np.mean(weight * (hat[first] - hat[second]) * (gamma[first] - gamma[second])))
            total = -float(solution.p @ risk.gradient(R * unit))
            assert abs(total - leading) <= (bound + ROUNDING) * leading


def test_descent_with_small_steps_follows_the_flow_at_first_order():
    """[E, below (7)] extends its results to descent with small steps: the distance at a fixed time is of order h."""
    case = EmbeddingCase(single_relevant(np.random.default_rng(1), 4, 4), 10.0, 6.0, 0)
    risk, start = AttentionRisk(case.sequences), case.step.query
    slope = jax.jit(lambda y: -risk.pair_field.gradient(y))
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
