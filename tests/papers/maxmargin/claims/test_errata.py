"""Where [M] is printed wrong: both sides on an instance, the printed one failing and the corrected one holding.

What has a claim of its own is refuted beside that claim; here are the steps of proofs, the misprints and the remarks.
Rows of docs/errata.md point to these tests.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.instances import fig1b, fig1c, fig3, planar, random_sphere
from tokenmargin.attention import AttentionRisk, Flow, JointRisk, correlation, follow
from tokenmargin.data import EmbeddedSequences, Selection, scores
from tokenmargin.margin import (
    att_svm,
    att_svm_any,
    directional_margin,
    global_margin,
    least_norm,
    neighbors,
    rate_direction,
    relaxed_svm,
    relaxing_rate,
    selected_label_svm,
)
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims.assumption_c import assumption_c
from tokenmargin.papers.maxmargin.claims.lemma7_cone import LEMMA_7, ConeCase
from tokenmargin.papers.maxmargin.claims.thm1_4_7_paths import THEOREM_7, LocalPathCase, in_general_position
from tokenmargin.papers.maxmargin.claims.thm8_lemma14_heads import mixing_constants, two_ways
from tokenmargin.papers.maxmargin.trials import COLUMNS, SATURATED, Study, run_trials
from tokenmargin.theory import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies

#: Seed of every trial in `tokenmargin reproduce maxmargin-fig9 --preset paper`, so that they can be run alone here.
TRIALS = 1089934416

#: Both sides of an identity in float64, a few operations on numbers of order one.
ROUNDING = 1e-12


def key_spread(data: EmbeddedSequences) -> float:
    """max |k_it - k_itau| of data without a mask."""
    return float(np.linalg.norm(data.keys[:, :, None] - data.keys[:, None], axis=-1).max())


class TestTheorem1:
    def mixed(self, data, p):
        """(Z, q) of the proof: what the tokens other than the best, which is the first, add, and their attention."""
        s = AttentionRisk(data).attention(p)[0]
        return float(scores(data)[0, 1:] @ s[1:]), float(s[1:].sum())

    def test_the_proof_ends_in_one_minus_epsilon(self):
        data = fig1b()
        gamma = scores(data)[0]
        epsilon = 1 - gamma[1:].max() / gamma[0]
        assert epsilon == pytest.approx(0.1)
        for p in ((0.0, 0.0), (1.0, 0.0), (3.0, -1.0), (-2.0, 2.0)):
            Z, q = self.mixed(data, p)
            assert gamma[0] * q * (1 - epsilon) >= Z
        Z, q = self.mixed(data, (3.0, -1.0))
        assert gamma[0] * q * epsilon < Z

    def test_the_proof_has_no_epsilon_where_the_best_score_is_negative(self):
        """Its epsilon > 0 comes out as -1, and its bound with that is false; Lemma 14 asks for nu > 0."""
        data = planar(fig1b().keys, [[-1.0, -1.1, -2.0]])
        gamma = scores(data)[0]
        epsilon = 1 - (gamma[1:] / gamma[0]).max()
        assert epsilon == pytest.approx(-1.0)
        Z, q = self.mixed(data, (5.0, -5.0))
        assert gamma[0] * q * (1 - epsilon) < Z


class TestLemma7:
    def test_35_goes_through_a_neighbour_and_not_through_the_selected_token(self):
        """Q <= T e^(-R Theta delta) s_t <= T e^(-R Theta delta) S for a neighbour t; s_alpha <= S is false."""
        selection = Selection.from_indices([1], 3)
        solution = att_svm(fig1b(), selection)
        constants, near = cone_constants(solution), neighbors(solution)[0]
        R = constants.radius
        s = AttentionRisk(fig1b()).attention(R * solution.direction)[0]
        factor = 3 * np.exp(-R * constants.margin * constants.delta)
        S, Q = s[near].sum(), s[~near & ~selection.chosen[0]].sum()
        assert factor * s[1] > factor * S
        assert factor * s[near].min() >= Q
        assert factor * s[near].max() <= factor * S

    def test_35_has_nothing_to_go_through_without_a_neighbour(self):
        solution = global_margin(fig1c())
        near = neighbors(solution)
        assert near.any(axis=1).tolist() == [True, True, False]
        s = AttentionRisk(fig1c()).attention(20 * solution.direction)[2]
        S, Q = s[near[2]].sum(), s[1:].sum()
        assert S == 0 < Q

    def test_31c_asks_for_a_long_p_and_not_for_a_long_q(self):
        """Keys 1, 0, -1 of scores 1, 0, 100: near 0 descent leads away from p_mm = 1, however long q is."""
        data = EmbeddedSequences([[[1.0], [0.0], [100.0]]], [1], [1.0], keys=[[[1.0], [0.0], [-1.0]]])
        selection = Selection.from_indices([0], 3)
        constants = cone_constants(att_svm(data, selection))
        # c = gap/8 and C = 2 gap with |l'| = 1 and one neighbour
        bound = constants.margin / (16 * key_spread(data))
        q = 2 * constants.radius
        for p, holds in ((1e-3, False), (constants.radius, True)):
            descent = AttentionRisk(data, correlation).force([p])
            assert bool(float(descent[0]) * q / (abs(float(descent[0])) * q) >= bound) is holds
        case = ConeCase(data, selection, (constants.radius,), (1.0,), correlation)
        assert LEMMA_7.check(case).holds is True

    @pytest.fixture
    def step(self):
        """One step of descent, 1/L_p long, from the border of the cone: (p, next p, gradient, axis, mu, 1/L_p)."""
        data = planar([[(0.5, 0.0), (-0.5, 0.0)]], [[1.0, 0.0]])
        solution = global_margin(data)
        constants, risk = cone_constants(solution), AttentionRisk(data)
        angle = np.arccos(1 - constants.mu)
        p = constants.radius * np.array([np.cos(angle), np.sin(angle)])
        gradient, eta = risk.gradient(p), 1 / risk.smoothness
        return p, p - eta * gradient, gradient, solution.direction, constants.mu, eta

    def test_54a_divides_by_the_norm_before_the_step(self, step):
        p, after, gradient, axis, mu, eta = step
        epsilon, before = mu / 2, float(np.linalg.norm(p))
        rho = -float(gradient @ axis) / (1 - epsilon)
        right = 1 - mu + eta * rho * (1 - epsilon) / before
        assert float(after @ axis) / before == pytest.approx(right, abs=ROUNDING)
        cosine = float(after @ axis) / float(np.linalg.norm(after))
        assert cosine < right - 1e6 * ROUNDING  # as printed it would be an equality
        assert cosine > 1 - mu  # (55), which divides by the ratio of the norms, is right

    def test_below_56_a_minus_is_missing(self, step):
        _, _, gradient, axis, mu, _ = step
        unit, epsilon = gradient / np.linalg.norm(gradient), mu / 2
        rho = -float(gradient @ axis) / (1 - epsilon)
        ratio = rho / float(np.linalg.norm(gradient))
        assert ratio == pytest.approx(-float(unit @ axis) / (1 - epsilon), abs=ROUNDING)
        assert ratio > 0 > float(unit @ axis)


def test_lemma_8_case_2_has_kappa_as_a_factor_and_one_half():
    """L(Rq) - L_star <= -(M_-/2n) kappa e^(-R Gamma_q) + M_+ K_+ T e^(-R (Gamma_q + delta_q)), and no less."""
    data = planar([[(0, 0), (-1, 0), (-9, 0)]], [[0.5, 0.6, 0.0]])
    kappa, margin, delta, most = 0.1, 1.0, 8.0, 0.5
    for R in (3.0, 6.0, 12.0):  # above log(T)/margin
        sign, size, _ = AttentionRisk(data, correlation).log_excess([[R, 0.0]], Selection.from_indices([0], 3))
        excess = float(sign[0] * np.exp(size[0]))
        rest = most * 3 * np.exp(-R * (margin + delta))
        assert excess > -np.exp(-R * margin * kappa) + rest  # as printed
        assert excess > -kappa * np.exp(-R * margin) + rest  # kappa in its place, the half of (62) forgotten
        assert excess <= -kappa * np.exp(-R * margin) / 2 + rest


class TestTheorem7:
    def test_footnote_6_needs_a_smaller_neighbourhood(self):
        """(68) in N_delta: false beyond any norm with delta as printed, true with delta <= delta_q/4M as well.

        A better token comes delta_q after the only neighbour of q, and within the printed delta it comes first.
        """
        delta_q, epsilon = 2e-3, 0.1
        data = planar([[(0, 0), (-1, -2), (-1 - delta_q, -3)]], [[0.5, 0.49, 1.5]])
        q, selection = np.array([1.0, 0.0]), Selection.from_indices([0], 3)
        assert directional_margin(data, q).is_neighbor_optimal
        best, M = att_svm(data, selection), key_spread(data)
        printed = epsilon / (4 * M) * (best.margin - 1.0)
        competitor = q + epsilon * best.direction
        competitor /= np.linalg.norm(competitor)
        risk = AttentionRisk(data, correlation)

        def excess(norms, directions):
            points = (np.array(norms)[:, None, None] * directions[None]).reshape(-1, 2)
            return risk.log_excess(points, selection)[:2]

        def neighbourhood(delta):
            angles = 2 * np.arcsin(delta / 2) * np.linspace(-1, 1, 41)
            return np.stack([np.cos(angles), np.sin(angles)], axis=1)

        for R in (1e2, 1e3, 1e4):
            assert (excess(np.geomspace(R, 1e3 * R, 7), competitor[None])[0] > 0).all()
            assert (excess([R], neighbourhood(printed))[0] < 0).any()
        repaired = min(printed, delta_q / (4 * M))
        apart = min(epsilon / 4 * (best.margin - 1.0), delta_q / 2)
        radius = np.log(4 * 3 * 1.0 / 0.01) / apart  # score gaps between 0.01 and 1, slope 1, three tokens
        for R in (1.001 * radius, 2 * radius, 8 * radius):
            sign, size = excess(np.geomspace(radius, R, 9), neighbourhood(repaired))
            assert (sign > 0).all()
            assert excess([R], competitor[None])[1] < size.min()

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_no_keys_are_general_when_alpha_is_free(self, seed):
        """t and alpha_i may then change places: k_0 - k_1 and k_1 - k_0 are two rows, and dependent, for d = T = 2."""
        data = random_sphere(np.random.default_rng(seed), 2, 2, 2)
        k = data.keys[0]
        assert np.linalg.matrix_rank(np.stack([k[0] - k[1], k[1] - k[0]])) == 1
        assert in_general_position(data) is True

    def test_fewer_rows_than_dimensions_must_be_independent_too(self):
        """Two equal differences in R^3: both printed conditions are empty, and the path goes to q outside P^mm."""

        def case(second):
            keys = [[(1.0, 0.0, 0.0), (0.0, 0.0, 0.0)], [second, (0.0, 0.0, 0.0)]]
            tokens = np.array([[[0.0], [-1.0]], [[5.0], [6.0]]])
            return LocalPathCase(EmbeddedSequences(tokens, [1, 1], [1.0], keys=keys), (1.0, 0.0, 0.0))

        parallel = case((1.0, 0.0, 0.0))
        assert parallel.sequences.n_inputs * (parallel.sequences.n_places - 1) < parallel.sequences.width
        assert THEOREM_7.check(parallel).applies is Applies.NO
        assert THEOREM_7.conclude(parallel, THEOREM_7.observe(parallel)).holds is False
        turned = case((1.0, 0.5, 0.0))
        assert THEOREM_7.check(turned).applies is Applies.YES
        assert THEOREM_7.check(turned).holds is True

    def test_the_bullets_after_lemma_10(self):
        """The second is about M_q without M_q^+, the third says at least, and 1_+ has as many entries as M_q."""
        keys, gamma = np.array([(0, 0), (-1, -1), (-1, 1), (-3, 0.0)]), [0.5, 1.0, 0.0, 0.0]
        data, q, small = planar([keys], [gamma]), np.array([1.0, 0.0]), 0.05
        seen = directional_margin(data, q)
        assert seen.neighbors[0].tolist() == [False, True, True, False]
        D = keys[1:3] - keys[0]
        aside = np.linalg.pinv(D) @ np.array([1.0, 0.0])  # token 1 alone scores higher
        turned = q + small * aside
        length = float(np.linalg.norm(turned))
        better, worse, far = ((keys[0] - keys[1:]) @ turned / length).tolist()
        assert better == pytest.approx((seen.margin - small) / length, abs=ROUNDING)
        assert worse == pytest.approx(seen.margin / length, abs=ROUNDING)
        assert better < worse - small / 2
        delta_q, K = 2.0, float(np.linalg.norm(aside)) * 3.0
        assert far > (seen.margin + delta_q - small * K) / length


def test_theorem_8_the_competitor_is_small_and_not_the_path():
    """log q_hat <= rho can be out of reach at every R; log q_star <= rho is what Assumption D asks for."""
    case, delta = two_ways(), 1.0  # gamma / (3 - 2 gamma) at gamma = 1, the case of footnote 7
    best = att_svm_any(case.risk.sequences, case.allowed)
    rho = mixing_constants(case).threshold(delta)
    directions = np.array([[0.0, -1.0], best.minimisers[0] * best.margin])
    for R in (1e2, 1e3, 1e4):
        sign, excess, (log_hat, log_star) = case.risk.log_excess(R * directions, case.allowed)
        assert log_hat >= -np.log(3) > rho
        assert log_star <= min((1 + delta) * log_hat, rho)
        assert (sign > 0).all()
        assert excess[1] < excess[0]


class TestTheorems5And6:
    def test_the_factor_dropped_for_brevity_asks_for_a_fast_head(self):
        """(75) exceeds (74) beyond twice the printed R_0 when |v| = e^(Xi R), and at no R when |v| = R: Fig. 3(a)."""
        data, selection, gamma = fig3((0.5, 1.0)), Selection.from_indices([1, 1, 1], 2), 0.1
        nu, Xi = assumption_c(data, selection).nu, att_svm(data, selection).margin
        M, T, n = key_spread(data), 2, 3  # tokens are their own keys here
        first = np.log(M * T**2 / nu) / (gamma * Xi)

        def exponents(r, R):
            """What stands over r Gamma in (75), but for its factor 1/2n, and in (74)."""
            return r * nu / T * np.exp(-(1 - gamma) * Xi * R), r * M * T * np.exp(-Xi * R)

        for R in first * np.array([1.01, 2.0, 10.0]):
            lower, upper = exponents(R, R)
            assert lower > upper  # what is printed, without the factor
            assert lower - np.log(2 * n) < upper
        for R in first * np.array([2.0, 4.0]):
            lower, upper = exponents(np.exp(Xi * R), R)
            assert lower - np.log(2 * n) > upper

    @pytest.mark.parametrize(("rate", "relaxed"), [(0.5, False), (0.9, False), (0.99, False), (1.0, True), (2.0, True)])
    def test_theorem_6_holds_from_the_relaxing_rate_on_and_not_below(self, rate, relaxed):
        """Fig. 3(b): the limit is the relaxed direction if and only if |v| grows at least as fast as |p|."""
        data, selection = fig3((0.5, 1.5)), Selection.from_indices([1, 1, 1], 2)
        assert relaxing_rate(data, selection) == pytest.approx(1.0, abs=ROUNDING)
        run = follow(JointRisk(data, speeds=(rate, 1.0)), ((0.1, 1.0), (1.0, 0.1)), Flow())
        assert run.limit.selection == selection
        away = one_minus_cosine(run.limit.blocks["p"].velocity, relaxed_svm(data, selection).p)
        assert (away <= SAME_DIRECTION) is relaxed
        assert one_minus_cosine(run.limit.blocks["p"].velocity, rate_direction(data, selection, rate)) <= SAME_DIRECTION

    def test_76_needs_twice_the_longest_token(self):
        """There M is the longest token, not the longest difference: x_1 = -x_2 moves by 2 M q, and by no more."""
        rng, r = np.random.default_rng(0), 3.0
        opposite = np.array([[1.0, 0.0], [-1.0, 0.0]])
        for tokens in (opposite, *rng.normal(size=(20, 3, 2))):
            longest, v = float(np.linalg.norm(tokens, axis=1).max()), r * np.array([1.0, 0.0])
            s = np.array([0.9, *rng.dirichlet(np.ones(len(tokens) - 1)) * 0.1])
            moved = abs(float(v @ (s @ tokens - tokens[0])))
            assert moved <= 2 * longest * 0.1 * r + ROUNDING
            if tokens is opposite:
                assert moved == pytest.approx(2 * longest * 0.1 * r)
                assert moved > longest * 0.1 * r

    @pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01])
    def test_78_and_80_hold_as_printed(self, epsilon):
        """The competitor of Lemma 13: tightened by epsilon on the inputs that are no support vectors, none of which
        falls below margin 1 beyond the printed radius; the printed margin of the mixture is a lower bound."""
        data, selection = fig3((0.5, 1.5)), Selection.from_indices([1, 1, 1], 2)
        label, strict, relaxed = (solve(data, selection) for solve in (selected_label_svm, att_svm, relaxed_svm))
        i, own, other = strict.triples.T
        rows, spare = data.keys[i, own] - data.keys[i, other], ~label.support
        tightened = least_norm(rows, np.where(spare[i], epsilon, 1.0)).p  # (78)
        xi, delta, xi_epsilon = (1 / float(np.linalg.norm(p)) for p in (relaxed.p, strict.p, tightened))
        mixture = epsilon * strict.p + (1 - epsilon) * relaxed.p
        assert (rows @ mixture >= np.where(spare[i], epsilon, 1.0) - ROUNDING).all()
        assert xi >= xi_epsilon >= 1 / float(np.linalg.norm(mixture)) - ROUNDING
        assert 1 / float(np.linalg.norm(mixture)) >= delta * xi / (delta + epsilon * (xi - delta)) - ROUNDING
        buffer = float(label.margins[spare].min()) - 1
        M = float(np.linalg.norm(data.tokens[:, :, None] - data.tokens[:, None], axis=-1).max())
        radius = max(0.0, np.log(2 * M / (label.label_margin * buffer))) / (epsilon * xi_epsilon)
        for R in (radius, 2 * radius, 10 * radius + 1):
            attended = np.einsum("nt,ntk->nk", data.attention(R * xi_epsilon * tightened), data.tokens)
            assert (data.labels * (attended @ label.v))[spare].min() >= 1 - ROUNDING  # (80)


class TestAppendixE:
    def treated(self, number, treatment):
        """A trial of d = 5, by column."""
        table, _ = run_trials(Study(), TRIALS, 5, range(number, number + 1), treatment)
        return dict(zip(COLUMNS, table[0], strict=True))

    @pytest.mark.parametrize("number", [513, 681])
    def test_a_negative_gap_can_be_a_finite_minimum_that_is_saturated(self, number):
        """Two of d = 5: finite norm, yet more than 1 - 1e-5 of the attention on the selected tokens."""
        printed, decided = self.treated(number, "printed"), self.treated(number, "decided")
        assert printed["ended"] == 1
        assert printed["gap"] < 0
        assert decided["ended"] == decided["undecided"] == 0
        assert decided["softmax"] >= SATURATED
        assert decided["newton_step"] < 1e-7 * decided["norm"]

    def test_a_negative_gap_can_come_from_few_iterations(self):
        printed, decided = self.treated(100, "printed"), self.treated(100, "decided")
        assert printed["ended"] == 1
        assert printed["gap"] < 0
        assert decided["is_lmm"] == 1

    def test_the_counts_in_the_errata_are_those_of_the_saved_study(self):
        docs = Path(__file__).resolve().parents[4] / "docs"
        study = " ".join(json.loads((docs / "results" / "maxmargin-fig9" / "summary.json").read_text())["sentences"])
        found = re.findall(r"d = (\d+): of (\d+) saturated .*? (\d+) are finite local minima", study)
        finite = {int(d): (int(share), int(count)) for d, count, share in found}
        assert all(share == 0 for d, (share, _) in finite.items() if d >= 10)
        row = next(line for line in (docs / "errata.md").read_text().splitlines() if "negative score gaps" in line)
        for d in (2, 5):
            share, count = finite[d]
            assert f"{share} of {count} at d = {d}" in row
