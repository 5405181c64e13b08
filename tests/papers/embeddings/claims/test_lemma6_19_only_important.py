"""[E, Lemmas 6 and 19]: what rules out irrelevant tokens, what does not, and the hypothesis that is never met."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tokenmargin.data import EmbeddedSequences, Selection, TokenDataset, single_relevant
from tokenmargin.errors import InvalidInputError, TooLargeError
from tokenmargin.first_step.bounds import theorem_log10_d
from tokenmargin.margin import Status, att_svm
from tokenmargin.papers.embeddings.case import EmbeddingCase, least_step
from tokenmargin.papers.embeddings.claims.lemma3_20_21_margin import lemma_21_log10_d
from tokenmargin.papers.embeddings.claims.lemma6_19_only_important import (
    LEMMA_6,
    LEMMA_19,
    Rivals,
    TiedDirection,
    lemma_19_as_printed,
    only_important_error,
    printed_widths_log10_d,
    rivals,
    tying_direction,
)
from tokenmargin.papers.embeddings.claims.thm5_lemma14_18_selection import SAME_VELOCITY
from tokenmargin.papers.embeddings.selection_study import Theorem5Study, study_case
from tokenmargin.theory.claim import Applies

#: |p_hat| differs from its value for orthogonal embeddings by products of size d^(-1/2) eta0, here below 1e-16.
ORTHOGONAL = 1e-9


def in_regime(data: TokenDataset, seed: int = 0) -> EmbeddingCase:
    eta0 = least_step(data)
    return EmbeddingCase(data, eta0, theorem_log10_d(data.vocabulary_size, 0.1, eta0), seed)


def four_documents() -> EmbeddingCase:
    """X_i = (R_i, I_1, I_2), i = 1..4, two positive and two negative: all alpha equal."""
    return in_regime(TokenDataset.from_token_ids([[0, 4, 5], [1, 4, 5], [2, 4, 5], [3, 4, 5]], [1, 1, -1, -1]))


class TestLemma6:
    def test_a_direction_that_ties_everything_is_never_gained(self):
        cases = [in_regime(single_relevant(np.random.default_rng(seed), 2, 2), seed) for seed in range(5)]
        for case in cases:
            outcome = LEMMA_6.check(TiedDirection(case, 7 * tying_direction(case.sequences)))
            assert outcome.applies is Applies.YES
            assert outcome.holds is True

    def test_zero_is_no_direction(self):
        case = in_regime(single_relevant(np.random.default_rng(0), 2, 2))
        assert LEMMA_6.check(TiedDirection(case, np.zeros(case.sequences.width))).applies is Applies.NO

    @pytest.mark.parametrize(
        ("tokens", "mask"),
        [
            ([[[1.0, 2.0]] * 3], [[True, True, True]]),
            ([[[2.0, 3.0], [3.0, 3.0], [0.0, 0.0]]], [[True, True, False]]),
            ([[[0.0, 0.0], [2.0, 3.0], [3.0, 3.0]]], [[False, True, True]]),
        ],
        ids=["equal tokens", "padding", "padding first"],
    )
    def test_equal_tokens_and_padding_leave_a_direction(self, tokens, mask):
        data = EmbeddedSequences(tokens, [1], [1.0, 0.0], mask=mask)
        u = tying_direction(data)
        assert np.linalg.norm(u) == pytest.approx(1.0)
        np.testing.assert_allclose(data.relative_keys @ u, 0.0, atol=1e-12)

    def test_no_such_direction_in_too_few_coordinates(self):
        with pytest.raises(InvalidInputError, match="wider embeddings"):
            tying_direction(EmbeddedSequences([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], [1], [1.0, 0.0]))

    def test_it_does_not_cover_a_single_irrelevant_token_but_the_flow_does(self):
        """(R_1, I), (R_2, I): a tie in one document only selects every important token, and is feasible."""
        case = in_regime(single_relevant(np.random.default_rng(0), 2, 2))
        assert case.dataset.vocabulary_size == 3
        mixed = att_svm(case.sequences, Selection([[True, True], [True, False]]))
        assert mixed.status is Status.OPTIMAL
        assert np.linalg.norm(mixed.p) < np.linalg.norm(att_svm(case.sequences, case.important).p)
        outcome = LEMMA_6.check(TiedDirection(case, mixed.p))
        assert outcome.applies is Applies.NO
        for seed in range(8):
            again = in_regime(single_relevant(np.random.default_rng(seed), 2, 2), seed)
            assert again.limit.selection == again.important


class TestLemma19:
    def test_hypothesis_and_conclusion_apart(self):
        """The printed hypothesis holds on none of these data sets, the conclusion on all."""
        study = Theorem5Study(sets=1)
        sizes = ((2, 2, 2), (2, 3, 4), (4, 2, 8))
        cases = [study_case(study, n, T, number, 7) for n, T, count in sizes for number in range(count)]
        tables = [rivals(case) for case in cases]
        assert [table.hypothesis_holds for table in tables] == [False] * 14
        assert max(table.least_rival_norm / table.norm for table in tables) < 0.7
        small = [case for case in cases if case.dataset.n_documents == 2 and case.sequences.n_places == 2]
        for case in small:
            outcome = LEMMA_19.check(case)
            assert outcome.applies is Applies.YES
            assert outcome.holds is True

    def test_half_the_length_suffices_to_separate_one_class(self):
        """(p_hat + w)/2 with w = 2v/(eta0 alpha): margin 1 on positive documents, a tie on negative ones."""
        case = four_documents()
        p = att_svm(case.sequences, case.important).p
        alpha = float(np.abs(case.step.alpha).max())
        half = (p + 2 * case.sequences.head / (case.eta0 * alpha)) / 2
        gaps = (case.sequences.keys[:, :1] - case.sequences.keys[:, 1:]) @ half
        np.testing.assert_allclose(gaps, [[1, 1], [1, 1], [0, 0], [0, 0]], atol=1e-12)
        assert np.linalg.norm(half) < 0.51 * np.linalg.norm(p)
        table = rivals(case)
        assert table.least_rival_norm <= np.linalg.norm(half) + 1e-12
        assert not table.hypothesis_holds

    def test_the_remark_on_norms_is_false(self):
        """|p_hat| ~ sqrt(number of selected tokens) would grow from 2 to sqrt(5) when I_1 is selected, too."""
        case = four_documents()
        alone = np.linalg.norm(att_svm(case.sequences, case.important).p)
        with_first = att_svm(case.sequences, Selection(np.array([[True, True, False]] * 4)))
        assert alone == pytest.approx(np.sqrt(4 / 3), abs=ORTHOGONAL)
        assert round(float(alone), 4) == 1.1547
        assert round(float(np.linalg.norm(with_first.p)), 4) == 0.9129

    def test_an_irrelevant_token_beside_the_important_one_is_noticed(self):
        case = in_regime(single_relevant(np.random.default_rng(0), 2, 2))
        assert only_important_error(case, case.limit) <= SAME_VELOCITY
        tied = replace(case.limit, selection=Selection([[True, True], [True, False]]))
        assert only_important_error(case, tied) == np.inf

    def test_as_printed_it_asks_for_a_mu_and_two_widths(self):
        """Were every rival twice as long, the hypotheses would hold at a d of both widths, and not below."""
        case = in_regime(single_relevant(np.random.default_rng(0), 2, 2))
        assert lemma_19_as_printed(case)[0] is Applies.NO  # as on every data set that was enumerated
        assert "not above" in lemma_19_as_printed(case)[1]
        table = Rivals(norm=1.0, least_rival_norm=2.0, n_feasible=1, n_selections=1, winner=None)
        assert table.largest_mu == 0.5
        assert lemma_19_as_printed(case, table)[0] is Applies.YES
        n, T, eta0 = 2, 2, case.eta0
        first = 4 * np.log10(2816 * T * n**2 * (1 + 2 * eta0) / 1e-9)
        assert printed_widths_log10_d(case, 1e-9) == pytest.approx(first)
        assert printed_widths_log10_d(case, 1.0) >= lemma_21_log10_d(case)
        narrow = replace(table, least_rival_norm=1 + 1e-12)  # a mu so small that the width of (10) does not do
        applies, because = lemma_19_as_printed(case, narrow)
        assert applies is Applies.NO
        assert "widths for mu" in because

    def test_too_many_selections_are_refused(self):
        with pytest.raises(TooLargeError, match="selections"):
            rivals(study_case(Theorem5Study(sets=1), 8, 4, 0, 0))
