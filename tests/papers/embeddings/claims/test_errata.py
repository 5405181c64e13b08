"""Steps of [E]'s proofs that do not follow as printed: a number for each, and what is left of the result."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin import AttentionRisk, Flow, follow
from tokenmargin.data import Selection, TokenDataset, scores, single_relevant
from tokenmargin.first_step.bounds import theorem_log10_d
from tokenmargin.margin import Status, att_svm
from tokenmargin.papers.embeddings.case import EmbeddingCase, least_step

#: Gaps of max-margin solutions are 1 up to 1e-12; this tells one that is larger.
TIGHT = 1e-6


def in_regime(data: TokenDataset) -> EmbeddingCase:
    eta0 = least_step(data)
    return EmbeddingCase(data, eta0, theorem_log10_d(data.vocabulary_size, 0.1, eta0), 0)


@pytest.fixture(scope="module")
def case():
    return in_regime(single_relevant(np.random.default_rng(2), 4, 3))


def gaps(case, solution):
    """p'(E_s* - E_t) of every token, shape (n, T); what is masked or selected is NaN."""
    keys, chosen = case.sequences.keys, solution.selection.chosen
    first = chosen.argmax(axis=1)
    logits = keys @ solution.p
    apart = np.take_along_axis(logits, first[:, None], axis=1) - logits
    return np.where(case.sequences.mask & ~chosen, apart, np.nan)


def test_where_a_rival_is_tight_the_margin_of_lemma_19_is_more_than_one():
    """The proof of [E, Lemma 19] sets it to 1 on all of X_0, where only >= 1 is known; here it is 7/6."""
    # Tokens 0 to 3 are important; 4 holds back all of them, so that the two with other company exceed it by more.
    case = in_regime(TokenDataset.from_token_ids([[0, 4, 4, 4], [1, 4, 4, 4], [2, 4, 5, 6], [3, 4, 5, 6]], [1, -1] * 2))
    own = gaps(case, att_svm(case.sequences, case.important))
    chosen = case.important.chosen.copy()
    chosen[2, 1] = True
    rival = att_svm(case.sequences, Selection(chosen))
    assert rival.status is Status.OPTIMAL
    tight = np.abs(gaps(case, rival) - 1) < TIGHT
    assert own[tight].min() == pytest.approx(1, abs=TIGHT)
    assert own[tight].max() == pytest.approx(7 / 6, abs=TIGHT)


def test_scores_of_irrelevant_tokens_differ_by_their_initial_scores_too():
    """|gamma_i - gamma_j| <= 22 eta0 d^(-1/4) leaves y v'E^0 out: (14) and (6) give (2 + 22 eta0) d^(-1/4)."""
    beyond = []
    for seed in range(10):
        case = EmbeddingCase(single_relevant(np.random.default_rng(seed), 4, 4), 1e-3, 4.0, seed, explicit=True)
        gamma = np.where(case.important.chosen, np.nan, scores(case.sequences))
        apart = np.nanmax(gamma, axis=1) - np.nanmin(gamma, axis=1)
        width = case.log10_d
        beyond += (apart > 22 * case.eta0 * 10 ** (-width / 4)).tolist()
        assert (apart <= (2 + 22 * case.eta0) * 10 ** (-width / 4)).all()
    assert np.mean(beyond) > 0.5


def test_the_first_term_of_lemma_2_follows_with_two_and_holds_with_less():
    """T terms of at most 4 d^(-1/4)/T, halved, are 2 d^(-1/4); what is true of a softmax is a quarter of d^(-1/4)."""
    assert max(0.5 * T * (4 / T) for T in range(1, 100)) == 2.0
    for small in (0.25, 0.01):
        for T in (2, 5, 64):
            k = np.arange(1, T)  # places of s, with the largest logit; the others have the smallest
            share = k * np.exp(small) / (k * np.exp(small) + (T - k) * np.exp(-small))
            assert 0.5 * np.abs(share - k / T).max() <= small / 4


def test_a_second_margin_of_p_t_is_below_its_limit(case):
    """[E, Lemma 18] takes it to be at least R/|p_hat| at every t: it is (1 - o(1)) R/|p_hat|."""
    run = follow(AttentionRisk(case.sequences), case.step.query, Flow())
    solution = att_svm(case.sequences, run.limit.selection)
    tight = np.abs(gaps(case, solution) - 1) < TIGHT
    first = solution.selection.chosen.argmax(axis=1)
    shares = []
    for p in run.points[np.linalg.norm(run.points, axis=1) * np.linalg.norm(solution.p) > 10]:
        logits = case.sequences.keys @ p
        apart = np.take_along_axis(logits, first[:, None], axis=1) - logits
        shares.append((apart[tight] * np.linalg.norm(solution.p) / np.linalg.norm(p)).min())
    assert min(shares) < 1 - TIGHT
    assert shares[-1] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("tied", [1, 2, 6])
def test_a_tied_token_more_needs_a_wider_embedding_in_lemma_19(tied):
    """(D2) sums over all tied tokens but one: with the printed width it is bounded by their number times mu/2 (D1)."""
    n, T, eta0, mu = 3, 8, 4.0 * 9 * 64, 0.1
    width = 2816 * T * n**2 * (1 + 2 * eta0) / mu  # the printed fourth root of d
    one = 16 * n * (1 + 2 * eta0) * 22 * eta0 / width  # a term of (D2), in units of the tied weight
    other = eta0 / (4 * n * T)  # the term of (D1)
    assert tied * one / other == pytest.approx(tied * mu / 2)
    assert (tied * one / other <= mu / 2 * (1 + TIGHT)) == (tied == 1)
