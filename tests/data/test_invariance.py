"""Selections do not feel the unit of the keys, their offset, a rotation, or the scale of another input's scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin._isometry import length, lengths, power_of_two
from tokenmargin.data import (
    EmbeddedSequences,
    corpus_selection,
    optimal_selection,
    scores,
    secondary_selection,
    selection_of,
)
from tokenmargin.data.problem_batch import ProblemBatch
from tokenmargin.data.scores import SCORE_TIE_TOLERANCE, tie_widths
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError

#: Keys are multiples of this, so that adding 2^20 or 2^32 rounds nothing: 2^-16 and 2^32 are 49 bits apart.
GRID = 2.0**-16

OFFSETS = st.sampled_from([0.0, 2.0**20, -(2.0**20), 2.0**32, -(2.0**32)])
EXPONENTS = st.integers(-40, 40)
SEEDS = st.integers(0, 10**6)


def on_grid(values):
    return np.round(values / GRID) * GRID


def problem(seed, ties):
    """Keys on the grid, scores and a mask; with `ties`, whole numbers, so that logits of whole queries tie exactly."""
    rng = np.random.default_rng(seed)
    n, T, d = rng.integers(1, 4), rng.integers(1, 6), rng.integers(1, 5)
    keys = rng.normal(size=(n, T, d))
    keys = np.round(2 * keys) if ties else on_grid(keys)
    gamma = np.round(2 * rng.normal(size=(n, T))) / 2 if ties else rng.normal(size=(n, T))
    mask = rng.random((n, T)) < 0.8
    mask[:, 0] |= ~mask.any(axis=1)
    p = np.round(2 * rng.normal(size=d)) if ties else rng.normal(size=d)
    return keys, gamma, mask, p


def answers(keys, gamma, mask, p):
    sequences = EmbeddedSequences.from_scores(keys, gamma, mask)
    return (
        selection_of(sequences, p).chosen.tolist(),
        secondary_selection(sequences, p).tolist(),
        optimal_selection(sequences).chosen.tolist(),
    )


@given(SEEDS, st.booleans(), EXPONENTS, OFFSETS, EXPONENTS)
def test_units_and_offsets_of_keys_change_no_selection(seed, ties, k, offset, k_p):
    keys, gamma, mask, p = problem(seed, ties)
    shift = offset * np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], size=(len(keys), 1, keys.shape[2]))
    moved = keys + shift  # every input by an offset of its own
    assert (moved - shift == keys).all()
    assert answers(2.0**k * moved, gamma, mask, 2.0**k_p * p) == answers(keys, gamma, mask, p)


@given(SEEDS, st.booleans())
def test_a_rotation_changes_no_selection(seed, ties):
    keys, gamma, mask, p = problem(seed, ties)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(p), len(p))))[0]
    assert answers(keys @ turn, gamma, mask, p @ turn) == answers(keys, gamma, mask, p)


@given(SEEDS, st.booleans(), st.sampled_from([1e-12, 1e12, 1e13]))
def test_the_scores_and_keys_of_one_input_make_no_ties_in_another(seed, ties, factor):
    keys, gamma, mask, p = problem(seed, ties)
    alone = answers(keys, gamma, mask, p)
    keys, gamma = keys.copy(), gamma.copy()
    gamma[0] *= factor
    keys[0] *= 2.0 ** round(np.log2(factor))
    assert answers(keys, gamma, mask, p) == alone


@given(SEEDS, st.sampled_from([1e-12, 1e12, 1e13]))
def test_batches_have_a_tie_width_for_each_input(seed, factor):
    rng = np.random.default_rng(seed)
    gamma = rng.normal(size=(3, 2, 4))
    alpha = gamma.argmax(axis=2)
    alpha[0, 1] = (alpha[0, 1] + 1) % 4  # one that is not best
    gamma[1, 0] *= factor
    batch = ProblemBatch(rng.normal(size=(3, 2, 4, 2)), gamma)
    assert batch.is_optimal(alpha).tolist() == [False, True, True]
    assert batch.tie_widths().shape == (3, 2)
    dense = [(optimal_selection(batch[j]).chosen == (np.arange(4) == alpha[j][:, None])).all() for j in range(3)]
    assert batch.is_optimal(alpha).tolist() == dense


def test_the_only_token_of_an_input_is_its_best_whatever_its_score():
    """Scores of 0 have a tie width of 0, and a token ties with itself."""
    scores = np.array([[[0.0], [-2.0]]])
    assert ProblemBatch(np.ones((1, 2, 1, 3)), scores).is_optimal(np.zeros((1, 2), int)).tolist() == [True]


def test_scores_of_masked_tokens_make_no_ties():
    """However small the others are: -inf counts as no score, not as one of some size."""
    widths = tie_widths(np.array([[3e-20, -7e-20, -np.inf], [-np.inf, -np.inf, -np.inf], [2.0, 1.0, 0.0]]))
    np.testing.assert_allclose(widths, SCORE_TIE_TOLERANCE * np.array([7e-20, 0.0, 2.0]), rtol=1e-15)


@given(SEEDS, st.booleans(), EXPONENTS, OFFSETS, EXPONENTS)
def test_units_and_offsets_of_embeddings_change_no_corpus_selection(seed, ties, k, offset, k_p):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3, size=(5, 7))
    counts[:, 0] += counts.sum(axis=1) == 0
    E, p = rng.normal(size=(7, 3)), rng.normal(size=3)
    E, p = (np.round(2 * E), np.round(2 * p)) if ties else (on_grid(E), p)
    dataset = TokenDataset(counts, [0, 1, 0, 1, 1])
    here = corpus_selection(dataset, E, p)
    moved = corpus_selection(dataset, 2.0**k * (E + offset), 2.0**k_p * p)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert moved == here
    assert corpus_selection(dataset, E @ turn, p @ turn) == here
    np.testing.assert_allclose(moved.narrowest, 2.0**k * here.narrowest, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-155, 1e-150, 1e150, 1e155])
def test_keys_whose_squares_overflow_or_vanish_are_selected_among_as_any(size):
    keys, gamma, mask, p = problem(3, False)
    for s_p in (size, 1.0, 1 / size):
        assert answers(size * keys, gamma, mask, s_p * p) == answers(keys, gamma, mask, p)
    dataset = TokenDataset([[1, 1, 1], [0, 1, 1]], [0, 1])
    E = np.array([[1.0, 0.5], [0.3, 2.0], [-1.0, 0.1]])
    assert corpus_selection(dataset, size * E, [1.0, 0.3]) == corpus_selection(dataset, E, [1.0, 0.3])


def test_scores_that_cancel_to_rounding_are_ties():
    """v'x = 0 for both tokens, of which one sums to 5.6e-17: the width is that of the terms."""
    tokens = np.array([[[0.1, 0.2, -0.3], [0.0, 0.0, 0.0]]])
    sequences = EmbeddedSequences(tokens, [1], [1.0, 1.0, 1.0])
    assert abs(scores(sequences)).max() < 1e-15
    assert optimal_selection(sequences).chosen.all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_head_that_is_not_finite_is_refused(bad):
    with pytest.raises(InvalidInputError, match="head holds NaN or infinity"):
        EmbeddedSequences(np.ones((1, 2, 2)), [1], [1.0, bad])


def test_lengths_at_any_size():
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [3e200, 4e200], [3e-200, 4e-200]])
    np.testing.assert_allclose(lengths(vectors), [5.0, 0.0, 5e200, 5e-200], rtol=1e-15)
    assert length(vectors[2]) == lengths(vectors)[2]
    assert power_of_two(np.array([0.0, 1.0, -3.0, 0.3])).tolist() == [1.0, 1.0, 2.0, 0.25]
