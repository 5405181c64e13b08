"""A query beside the max-margin direction of its selection: against slow twins, and the bound of cosine by margin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.data.token_selection import CorpusSelection, corpus_selection
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin.solution import Status
from tokenmargin.theory.corpus_agreement import corpus_agreement, documents_selecting, selected_weight

#: Sums of a dozen terms of order one in float64.
ROUNDING = 1e-12

#: Margins and norms of active-set solutions, right to 1e-12 in units of |p|, on supports of condition 1e3.
SOLVED = 1e-9


def corpus(seed, n=14, V=16, d=5):
    rng = np.random.default_rng(seed)
    counts = (rng.random((n, V)) < 0.35) * rng.integers(1, 4, size=(n, V))
    counts[:, 0] += counts.sum(axis=1) == 0
    return TokenDataset(counts, np.arange(n) % 2), rng.normal(size=(V, d)), rng.normal(size=d)


def slow_weight_and_margin(dataset, E, p):
    """Position by position, document by document; nothing tied."""
    weights, gaps = [], []
    for row in dataset.counts.toarray():
        positions = np.repeat(np.arange(len(row)), row)
        logits = E[positions] @ p
        softmax = np.exp(logits) / np.exp(logits).sum()
        best = positions[logits.argmax()]
        weights.append(softmax[positions == best].sum())
        gaps += [(E[best] - E[t]) @ p / np.linalg.norm(p) for t in set(positions.tolist()) - {int(best)}]
    return np.mean(weights), min(gaps)


@given(st.integers(0, 10**6))
def test_weight_and_margin_are_those_of_the_positions(seed):
    dataset, E, p = corpus(seed)
    found = corpus_agreement(dataset, E, p)
    weight, margin = slow_weight_and_margin(dataset, E, p)
    np.testing.assert_allclose(found.selected_weight, weight, rtol=ROUNDING)
    np.testing.assert_allclose(found.margin, margin, rtol=0, atol=ROUNDING)


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 20]))
def test_the_cosine_is_at_least_the_share_of_the_margin(seed, d):
    dataset, E, p = corpus(seed, d=d)
    found = corpus_agreement(dataset, E, p)
    assert found.is_solved
    assert 0 < found.margin_share <= 1 + SOLVED
    assert found.cosine >= found.margin_share - SOLVED
    np.testing.assert_allclose(found.cosine, found.solution.direction @ p / np.linalg.norm(p), rtol=0, atol=ROUNDING)


def test_the_max_margin_direction_agrees_with_itself_and_length_does_not_count():
    dataset, E, p = corpus(3)
    found = corpus_agreement(dataset, E, p)
    assert found.direction_error > 1e-3  # a random query is somewhere in its cone
    for factor in (1.0, 7.0):
        own = corpus_agreement(dataset, E, factor * found.solution.p)
        assert own.selection == found.selection
        assert own.direction_error < SOLVED
        np.testing.assert_allclose(own.margin_share, 1.0, rtol=SOLVED)


def test_tied_tokens_share_the_weight():
    dataset = TokenDataset([[1, 2, 1], [0, 1, 1]], [0, 1])
    E = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # two copies
    found = corpus_agreement(dataset, E, [np.log(2.0), 0.0])
    assert found.selection.n_ties == 1
    np.testing.assert_allclose(found.selected_weight, (6 / 7 + 2 / 3) / 2, rtol=ROUNDING)
    assert documents_selecting(dataset, found.selection).tolist() == [1, 2, 0]
    np.testing.assert_allclose(found.margin, 1.0, rtol=ROUNDING)


def test_large_logits_do_not_overflow():
    dataset, E, p = corpus(0)
    assert corpus_agreement(dataset, E, 1e4 * p).selected_weight == pytest.approx(1.0)


def test_nothing_to_separate_has_no_direction():
    found = corpus_agreement(TokenDataset([[2, 0], [0, 1]], [0, 1]), np.eye(2), [1.0, 0.0])
    assert found.solution.status is Status.TRIVIAL
    assert found.is_solved
    assert found.selected_weight == 1.0
    assert np.isnan([found.direction_error, found.cosine, found.margin, found.margin_share]).all()


def test_a_selection_of_other_documents_is_refused():
    dataset, E, p = corpus(0)
    other = CorpusSelection.of_tokens(TokenDataset([[1, 1], [1, 1]], [0, 1]), [0, 0])
    with pytest.raises(InvalidInputError, match="another data set"):
        selected_weight(dataset, E @ p, other)
    with pytest.raises(InvalidInputError, match="another data set"):
        documents_selecting(dataset, other)
    assert documents_selecting(dataset, corpus_selection(dataset, E, p)).sum() == dataset.n_documents
