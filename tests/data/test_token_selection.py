"""Selections on counted documents: against the dense selection, tie widths, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.data import EmbeddedSequences, selection_of
from tokenmargin.data.token_selection import CorpusSelection, corpus_selection
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError

COUNTS = np.array([[2, 0, 1, 1], [0, 3, 0, 1], [1, 1, 1, 0]])
LABELS = [1, -1, 1]
EMBEDDINGS = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [3.0, -1.0]])


def flags_of(dataset, selection):
    """The selection as booleans of shape (n, V)."""
    flags = np.zeros(dataset.counts.shape, dtype=bool)
    for i in range(dataset.n_documents):
        begin, end = dataset.counts.indptr[i : i + 2]
        flags[i, dataset.counts.indices[begin:end]] = selection.chosen[begin:end]
    return flags


@given(st.integers(0, 10**6), st.booleans())
def test_it_is_the_dense_selection(seed, whole):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3, size=(6, 8))
    counts[:, 0] += counts.sum(axis=1) == 0
    E = rng.normal(size=(8, 3))
    p = rng.normal(size=3)
    if whole:  # small whole numbers: many exact ties
        E, p = np.round(E), np.round(2 * p)
    dataset = TokenDataset(counts, [0, 1] * 3)
    sequences = EmbeddedSequences(np.tile(E, (6, 1, 1)), dataset.labels, np.ones(3), mask=counts > 0)
    selection = corpus_selection(dataset, E, p)
    dense = selection_of(sequences, p)
    assert (flags_of(dataset, selection) == dense.chosen).all()
    assert selection.n_ties == len(dense.tied_inputs)
    assert (selection.tied_documents == dense.tied_inputs).all()
    assert (selection.representatives(dataset) == dense.representatives).all()
    assert (selection.tokens(dataset) == np.flatnonzero(dense.chosen.any(axis=0))).all()


def test_logits_within_the_tolerance_are_ties():
    dataset = TokenDataset([[1, 1, 0], [1, 1, 1]], [0, 1])
    E = np.array([[1.0], [1.0 - 1e-5], [0.0]])
    apart, level = corpus_selection(dataset, E, [2.0]), corpus_selection(dataset, E, [2.0], tolerance=1.1e-5)
    assert (apart.n_ties, level.n_ties) == (0, 2)
    np.testing.assert_allclose(apart.narrowest, 1e-5, rtol=1e-9)  # over |p| = 2
    np.testing.assert_allclose(level.narrowest, 1 - 1e-5, rtol=1e-9)
    assert np.isnan(corpus_selection(dataset, E, [0.0]).narrowest)  # nothing is left unselected
    assert apart != level
    assert apart == CorpusSelection.of_tokens(dataset, [0, 0])
    assert hash(apart) == hash(CorpusSelection.of_tokens(dataset, [0, 0]))


def test_a_token_that_never_occurs_does_not_widen_ties():
    dataset = TokenDataset([[1, 1, 0], [1, 1, 0]], [0, 1])
    E = np.array([[1.0], [1.0 - 1e-5], [1e9]])
    assert corpus_selection(dataset, E, [1.0]).n_ties == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((EMBEDDINGS[:3], [1.0, 0.0]), r"shape \(4, d\)"),
        ((EMBEDDINGS, [1.0, 0.0, 0.0]), r"shape \(2,\)"),
        ((EMBEDDINGS, [1.0, np.nan]), "NaN"),
        ((np.where(EMBEDDINGS == 3.0, np.inf, EMBEDDINGS), [1.0, 0.0]), "token 3"),
        ((EMBEDDINGS, [1.0, 0.0], -1.0), "tolerance"),
    ],
)
def test_what_is_refused(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        corpus_selection(TokenDataset(COUNTS, LABELS), *arguments)


def test_what_a_selection_refuses():
    dataset = TokenDataset(COUNTS, LABELS)
    with pytest.raises(InvalidInputError, match="one boolean for each of the 8"):
        CorpusSelection(dataset, np.ones(7, dtype=bool))
    with pytest.raises(InvalidInputError, match="document 0 selects no token"):
        CorpusSelection(dataset, np.arange(8) > 2)
    with pytest.raises(InvalidInputError, match="document 1 does not hold token 0"):
        CorpusSelection.of_tokens(dataset, [0, 0, 0])
    with pytest.raises(InvalidInputError, match="whole numbers"):
        CorpusSelection.of_tokens(dataset, [0.0, 1.0, 0.0])
    with pytest.raises(InvalidInputError, match="another data set"):
        corpus_selection(dataset, EMBEDDINGS, [1.0, 0.0]).check_fits(dataset.subset([0, 1]))
