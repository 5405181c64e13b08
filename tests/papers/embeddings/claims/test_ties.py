"""`docs/ties.md`, line by line: where the proof of [E, Lemma 18] fails under ties, and what repairs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tokenmargin.data import EmbeddedSequences, Selection, scores, selection_of, single_relevant
from tokenmargin.margin import att_svm
from tokenmargin.papers.embeddings.case import EmbeddingCase
from tokenmargin.papers.embeddings.claims.lemma13_17_descent import LocalDirection, logits_compared

#: Differences of logits along a unit vector below this are ties: the solutions have 1e-15, the margins here 0.1.
TIE = 1e-9


@dataclass(frozen=True)
class Pairs:
    """The terms of [E, Lemma 8] at one p, pair by pair, without cancellation."""

    data: EmbeddedSequences
    p: np.ndarray

    @property
    def q(self) -> np.ndarray:
        logits = self.data.keys @ self.p
        return np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])

    def slope(self, z: np.ndarray) -> float:
        """d(z'p)/dt, pairs that z ties left out."""
        q, gamma, a = self.q, scores(self.data), self.data.keys @ z
        g = 1 / (1 + np.exp((q * gamma).sum(axis=1)))
        s, t = np.triu_indices(self.data.n_places, 1)
        apart = a[:, s] - a[:, t]
        apart[np.abs(apart) < TIE * np.linalg.norm(z)] = 0.0
        return float((g[:, None] * apart * q[:, s] * q[:, t] * (gamma[:, s] - gamma[:, t])).sum() / len(q))


@pytest.fixture(scope="module")
def case():
    return EmbeddingCase(single_relevant(np.random.default_rng(0), 4, 3), 10.0, 6.0, 1)


@pytest.fixture(scope="module")
def tied(case):
    """A unit direction that selects every important token, and another token of the first document beside it."""
    chosen = case.important.chosen.copy()
    chosen[0] = True
    return att_svm(case.sequences, Selection(chosen))


def constants(case, u):
    """M, g_0, Gamma, D and c of the page."""
    gamma, chosen = scores(case.sequences), case.important.chosen
    M = float(np.abs(gamma).max())
    gap = float((np.where(chosen, gamma, np.inf).min(axis=1) - np.where(chosen, -np.inf, gamma).max(axis=1)).min())
    logits = case.sequences.keys @ u
    behind = logits.max(axis=1, keepdims=True) - logits
    return M, 1 / (1 + np.exp(M)), gap, float(behind.max()), float(behind[behind > TIE].min())


def spread(case, p, u):
    """rho of the page."""
    apart = case.sequences.keys @ (p / np.linalg.norm(p) - u)
    return float(np.ptp(apart, axis=1).max())


def away(case, R):
    """Points R u + sqrt(R) w: their directions go to u, their logits part without bound."""
    return np.sqrt(R) * np.random.default_rng(5).normal(size=case.sequences.width) / 2


class TestWhereItFails:
    def test_p_t_breaks_the_ties_of_its_limit(self, case, tied):
        for R in (1e2, 1e4, 1e6):
            p = R * tied.direction + away(case, R)
            assert spread(case, p, tied.direction) < 4 / np.sqrt(R)
            assert selection_of(case.sequences, tied.direction) == tied.selection
            assert selection_of(case.sequences, p, tolerance=1e-12) != tied.selection

    def test_the_tied_pair_outweighs_what_the_proof_keeps(self, case, tied):
        """Lemma 17 holds along p_hat, which keeps the ties, and is off by orders of magnitude along p_t."""
        local = LocalDirection(case.sequences, tuple(tied.p.tolist()), epsilon=1e-4)
        kept = logits_compared(local)
        assert abs(kept.total / kept.leading - 1) <= local.epsilon
        R = 40.0
        p = R * tied.direction + away(case, R)
        broken = logits_compared(local, p / np.linalg.norm(p))
        assert abs(broken.total / broken.leading - 1) > 100


class TestNoTies:
    def test_what_raises_the_important_tokens_outruns_what_raises_u(self, case, tied):
        """(1) and (2), and that their quotient grows exponentially."""
        u, (n, T) = tied.direction, case.important.chosen.shape
        wanted = (np.abs(case.step.alpha) > 0).astype(float)
        a = np.linalg.pinv(case.step.tokens) @ wanted
        np.testing.assert_allclose(case.step.tokens @ a, wanted, atol=1e-10)
        M, g0, gap, D, c = constants(case, u)
        quotients = []
        for R in (50.0, 200.0, 600.0):
            p = R * u + away(case, R)
            R = float(np.linalg.norm(p))
            rho, pairs = spread(case, p, u), Pairs(case.sequences, p)
            first, second = pairs.slope(a), abs(pairs.slope(u))
            assert first >= g0 * gap / (n * T**2) * np.exp(-3 * rho * R)
            assert second <= 2 * M * D * T * np.exp(-(c - rho) * R)
            quotients.append(np.log(first) - np.log(second))
        assert (np.diff(quotients) > 10).all()

    def test_a_tie_of_everything_is_never_gained(self, case):
        """[E, Lemma 6]: the right side of (2) is 0."""
        differences = (case.sequences.keys - case.sequences.keys[:, :1]).reshape(-1, case.sequences.width)
        u = np.linalg.svd(differences)[2][-1]
        assert Pairs(case.sequences, 5 * np.ones(len(u))).slope(u) == 0.0


class TestMaxMargin:
    @pytest.fixture(scope="class")
    @classmethod
    def other(cls, case):
        """A unit direction that selects the important tokens alone, with four fifths of the largest margin or less."""
        hat = att_svm(case.sequences, case.important).direction
        rng = np.random.default_rng(2)
        while True:
            u = hat + 0.3 * rng.normal(size=len(hat))
            u /= np.linalg.norm(u)
            if selection_of(case.sequences, u) == case.important:
                return u

    def test_rest_is_negligible(self, case, other):
        """(3)."""
        (n, T), chosen = case.important.chosen.shape, case.important.chosen
        hat = att_svm(case.sequences, case.important).direction
        M, g0, gap, _, c = constants(case, other)
        gamma = scores(case.sequences)
        for R in (20.0, 60.0, 120.0):
            p = R * other
            pairs = Pairs(case.sequences, p)
            q = pairs.q
            g = 1 / (1 + np.exp((q * gamma).sum(axis=1)))
            star = chosen.argmax(axis=1)
            rows = np.arange(n)
            w = g[:, None] * q[rows, star][:, None] * q * (gamma[rows, star][:, None] - gamma) / n
            for z in (hat, other):
                logits = case.sequences.keys @ z
                kept = float((w * (logits[rows, star][:, None] - logits)).sum())
                bound = 2 * M * float(np.ptp(logits, axis=1).max()) * T**2 / (g0 * gap) * np.exp(-c * R)
                assert abs(pairs.slope(z) - kept) <= (bound + 1e-9) * w.sum()

    def test_the_max_margin_direction_is_gained_faster_than_the_norm(self, case, other):
        """(4): the quotient tends to at least the quotient of the two margins, which is above 1."""
        solution = att_svm(case.sequences, case.important)
        kappa, c = 1 / float(np.linalg.norm(solution.p)), constants(case, other)[-1]
        assert kappa > 1.1 * c
        for R in (60.0, 120.0, 240.0):
            pairs = Pairs(case.sequences, R * other)
            assert pairs.slope(solution.direction) >= kappa / (c + 2 * (kappa - c) / 3) * pairs.slope(other) > 0
        same = Pairs(case.sequences, 120.0 * solution.direction)
        assert same.slope(solution.direction) > 0
