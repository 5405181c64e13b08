"""[E, Lemmas 3, 20 and 21] and the claims of the early appendix: what (9) does and what was printed about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin import EmbeddedSequences
from tokenmargin.data import Selection, scores, selection_of
from tokenmargin.margin import Status, att_svm, least_norm
from tokenmargin.papers.embeddings.claims.lemma3_20_21_margin import (
    LEMMA_3,
    LEMMA_20,
    LEMMA_21,
    Separation,
    constraint_matrix,
    lemma_21_log10_d,
    printed_solution,
    two_rows,
)
from tokenmargin.papers.embeddings.selection_study import Theorem5Study, study_case
from tokenmargin.theory.claim import Applies

seeds = st.integers(0, 10**6)

#: Distance, relative to |p_hat|, from which two solutions are different ones: residuals are below 1e-9.
DIFFERENT = 1e-6


def random_selection(seed: int, d: int = 20) -> Separation:
    """A feasible selection: what a random vector selects among random tokens."""
    rng = np.random.default_rng(seed)
    data = EmbeddedSequences(rng.normal(size=(4, 4, d)), np.ones(4), np.ones(d))
    return Separation(data, tuple(rng.normal(size=d).tolist()))


class TestLemma3:
    @given(seeds)
    def test_one_solution_nearest_to_zero(self, seed):
        outcome = LEMMA_3.check(random_selection(seed))
        assert outcome.applies is Applies.YES
        assert outcome.holds is True

    def test_the_printed_solution_is_not_the_optimum(self):
        solution = att_svm(two_rows(), Selection.from_indices([0], 3))
        assert constraint_matrix(solution).tolist() == [[1.0, 0.0], [2.0, 1.0]]
        np.testing.assert_allclose(solution.p, [1.0, 0.0], atol=1e-12)
        np.testing.assert_allclose(printed_solution(solution), [1.0, -1.0], atol=1e-12)

    @pytest.mark.parametrize("k", [-20, 0, 20])
    def test_a_longer_feasible_point_misses_by_a_share_of_its_length(self, k):
        """p = (1, 1/2) keeps both margins: p'(q - p) = -1/4 at q = (1, 0), a fifth of |p|^2 in any unit of the keys."""
        keys = 2.0**k * two_rows().keys
        case = Separation(EmbeddedSequences(keys, [1], [1.0, 0.0]), (1.0, 0.0))
        longer = replace(case.solution, p=np.array([1.0, 0.5]) / 2.0**k)
        assert LEMMA_3.error(case, case.solution) == pytest.approx(0.0, abs=1e-12)
        assert LEMMA_3.error(case, longer) == pytest.approx(0.2)

    def test_18_drops_the_ties_of_9(self):
        """Tokens (1, 0), (2, 1), (0, 0), the first two tied: (9) gives (1, -1), and (18), without p in P, (1, 0)."""
        tokens = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 0.0]])
        data = EmbeddedSequences([tokens], [1], [1.0, 0.0])
        tied = att_svm(data, Selection([[True, True, False]]))
        np.testing.assert_allclose(tied.p, [1.0, -1.0], atol=1e-12)
        loose = least_norm(tokens[:2] - tokens[2], np.ones(2))
        np.testing.assert_allclose(loose.p, [1.0, 0.0], atol=1e-12)
        assert selection_of(data, tied.p) == tied.selection
        assert selection_of(data, loose.p).chosen.tolist() == [[False, True, False]]

    def test_share_of_random_selections_for_which_it_is_wrong(self):
        """Here M has full row rank, so that M p = 1 can be solved, and is still not what is optimal."""
        wrong = 0
        for seed in range(200):
            solution = random_selection(seed).solution
            wrong += bool(
                np.linalg.norm(printed_solution(solution) - solution.p) > DIFFERENT * np.linalg.norm(solution.p)
            )
        assert wrong >= 190

    def test_the_second_feasible_point_of_the_proof_fails_for_a_token_selected_in_one_sequence_only(self):
        """X_1 = (A, B) selects A, X_2 = (B, C) selects B: with 1 on A and B, A is not preferred to B."""
        A, B, C = np.eye(3)
        data = EmbeddedSequences([[A, B], [B, C]], [1, 1], [1.0, 0.0, 0.0])
        selection = selection_of(data, [2.0, 1.0, 0.0])
        assert selection == Selection.from_indices([0, 0], 2)
        proposed = np.array([1.0, 1.0, 0.0])  # 1 on every token selected anywhere
        assert min(proposed @ (A - B), proposed @ (B - C)) < 1
        assert att_svm(data, selection).status is Status.OPTIMAL


class TestLemma20:
    @given(seeds, st.integers(3, 20))
    def test_one_constraint_is_tight(self, seed, d):
        outcome = LEMMA_20.check(random_selection(seed, d))
        assert outcome.applies is Applies.YES
        assert outcome.holds is True

    def test_not_all_are_as_the_early_appendix_has_it(self):
        """A data set of Assumption 4 at the (eta0, d) of (10), found by search, where important tokens are selected."""
        cases = [study_case(Theorem5Study(sets=1), 8, 4, number, 3) for number in range(60)]
        solutions = [att_svm(case.sequences, case.important) for case in cases]
        loose = [solution for solution in solutions if not solution.tight.all()]
        assert loose
        assert max(float(solution.slacks.max()) for solution in loose) > 0.02
        for solution in loose:  # so that M^+ 1 is something else
            assert np.linalg.norm(printed_solution(solution)) > (1 + DIFFERENT) * np.linalg.norm(solution.p)

    def test_the_score_gap_behind_the_early_bound_on_d_is_out_of_reach(self):
        """It takes gamma_* - gamma_j >= eta0/4; gamma_* is eta0 alpha/2 and alpha at most 1/(2T)."""
        for number in range(20):
            case = study_case(Theorem5Study(sets=1), 4, 4, number, 3)
            gamma = scores(case.sequences)
            assert gamma.max() - gamma.min() < case.eta0 / 4


class TestLemma21:
    @given(seeds)
    def test_norm_of_the_important_selection(self, seed):
        case = study_case(Theorem5Study(sets=1), 4, 4, 0, seed)
        outcome = LEMMA_21.check(case)
        assert outcome.applies is Applies.YES or "events (14)" in outcome.because
        assert outcome.holds is not False
        assert np.linalg.norm(att_svm(case.sequences, case.important).p) < np.sqrt(case.dataset.n_documents)  # not 4n

    def test_its_condition_on_d_is_weaker_than_that_of_theorem_5(self):
        for n, T in ((2, 2), (4, 4), (8, 4)):
            case = study_case(Theorem5Study(sets=1), n, T, 0, 0)
            assert lemma_21_log10_d(case) < case.log10_d

    def test_the_constant_of_lemma_19_is_the_larger_one(self):
        """44 n of Lemma 19 against 44 sqrt(2n) in the proof of Lemma 21: equal at n = 2, larger beyond."""
        n = np.arange(3, 100)
        assert (44 * n > 44 * np.sqrt(2 * n)).all()
        assert 44 * np.sqrt(2 * 2) == 44 * 2
        assert 44 * np.sqrt(2) > 44 * 1
