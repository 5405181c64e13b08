"""[E, Thm 5] over random data sets at the d of (10), on explicit embeddings, and against a plain following of p."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin import AttentionRisk, Flow, compare, follow
from tokenmargin.data import TokenDataset, signed_frequency, single_relevant
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step.bounds import theorem_log10_d
from tokenmargin.papers.embeddings.case import EmbeddingCase, least_step, limits
from tokenmargin.papers.embeddings.claims.thm5_lemma14_18_selection import LEMMA_14, LEMMA_18, SAME_VELOCITY, THEOREM_5
from tokenmargin.papers.embeddings.selection_study import (
    COLUMNS,
    PhaseGrid,
    Theorem5Study,
    phase_map,
    random_parts,
    study_case,
    theorem5_study,
)
from tokenmargin.theory.claim import Applies

ONE_SIZE = ((6, 2),)


@pytest.fixture(scope="module")
def regime():
    table = theorem5_study(Theorem5Study(sets=40, sizes=ONE_SIZE), seed=1)
    return {name: table[:, j] for j, name in enumerate(COLUMNS)}


class TestStudy:
    def test_every_data_set_goes_to_its_important_tokens_alone(self, regime):
        assert len(regime["n"]) == 40
        assert (regime["log10_d"] > 44).all()
        for name in ("diverges", "selects_important", "only_important"):
            assert (regime[name] == 1).all(), name
        assert (regime["undecided"] == 0).all()
        assert regime["velocity_error"].max() <= SAME_VELOCITY
        assert (regime["direction_error"] <= 1e-3).all()  # p/|p| gets there like 1/|p|

    def test_with_equal_and_with_unequal_alpha(self, regime):
        assert set(regime["distinct_alpha"]) >= {1.0, 2.0}
        assert (regime["events"] == 1).mean() >= 0.9

    def test_on_explicit_embeddings_at_moderate_width(self):
        table = theorem5_study(Theorem5Study(sets=40, sizes=ONE_SIZE, explicit_log10_d=3.0), seed=2)
        diverging = table[table[:, COLUMNS.index("diverges")] == 1]
        assert diverging[:, COLUMNS.index("velocity_error")].max() <= SAME_VELOCITY
        assert table[:, COLUMNS.index("only_important")].mean() >= 0.9

    def test_a_study_of_nothing_is_refused(self):
        with pytest.raises(InvalidInputError, match="at least one"):
            Theorem5Study(sets=0)

    def test_parts_add_up(self, rng):
        assert all(sum(random_parts(rng, 7)) == 7 for _ in range(20))


def test_padded_batch_agrees_with_following_one_case_alone():
    """The obvious way: no padding, one problem at a time, (9) solved for what it selects."""
    study = Theorem5Study(sets=40)
    cases = [study_case(study, 6, 2, number, 1) for number in range(40)]
    narrow = min(case.sequences.width for case in cases)
    assert narrow < 6  # fewer coordinates than the n (T - 1) in which all are followed
    pairs = [pair for pair in zip(cases, limits(cases), strict=True) if pair[0].sequences.width == narrow][:2]
    for case, together in pairs:
        alone = follow(AttentionRisk(case.sequences), case.step.query, Flow()).limit
        assert together.selection == alone.selection == case.important
        np.testing.assert_allclose(together.velocity, alone.velocity, atol=1e-12)
        assert together.point.shape == (narrow,)
        agreement = compare(alone)
        assert agreement is not None
        assert agreement.velocity_error <= SAME_VELOCITY


class TestHypotheses:
    def case(self, data: TokenDataset, eta0_factor: float = 1.0, shift: float = 0.0) -> EmbeddingCase:
        eta0 = eta0_factor * least_step(data)
        return EmbeddingCase(data, eta0, theorem_log10_d(data.vocabulary_size, 0.1, eta0) + shift, seed=1)

    @pytest.mark.parametrize("claim", [THEOREM_5, LEMMA_14, LEMMA_18], ids=lambda c: c.key)
    def test_each_is_needed_to_apply(self, claim):
        data = single_relevant(np.random.default_rng(0), 2, 2)
        two_relevant = TokenDataset.from_token_ids([[0, 1, 2], [3, 3, 2]], [1, -1])
        lopsided = TokenDataset.from_token_ids([[0, 1], [2, 1], [3, 1]], [1, -1, -1])
        for case, says in (
            (self.case(data, 0.99), "eta0"),
            (self.case(data, shift=-0.01), "d = 10^"),
            (self.case(two_relevant), "Assumption 4 fails: document 0 holds 2"),
            (self.case(lopsided), "Assumption 4 fails"),
        ):
            outcome = claim.check(case)
            assert outcome.applies is Applies.NO
            assert says in outcome.because
        assert claim.check(self.case(data, 3.0, 5.0)).holds is True

    def test_important_tokens_are_those_of_one_class(self):
        case = study_case(Theorem5Study(sets=1), 4, 4, 1, 0)
        alpha = signed_frequency(case.dataset)
        ids = np.repeat(case.dataset.counts.indices, case.dataset.counts.data).reshape(4, 4)
        assert (case.important.chosen == (alpha[ids] != 0)).all()


def test_the_map_finds_both_sides_of_the_border_of_noise():
    """eta0 alpha/2 must beat E0'v ~ d^(-1/2), alpha = 1/12: lost at (0.01, 10^2), won at (100, 10^6)."""
    grid = PhaseGrid((0.01, 100.0), (2.0, 6.0), draws=16, n=6, T=2)
    shares = phase_map(grid, 0, norms=(1e6,))
    assert shares.only_important[1, 1] == 1.0
    assert shares.only_important[0, 0] <= 0.2
    total = shares.only_important + shares.otherwise + shares.undecided
    assert (total <= 1 + 1e-12).all()
    assert np.isinf(grid.asked_log10_d()).all()
    assert np.isfinite(PhaseGrid((1e4,), (2.0,), 1, n=6, T=2).asked_log10_d()).all()
