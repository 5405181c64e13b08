"""TokenDataset: what goes in, what is refused, and that nothing is lost on the way."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError

COUNTS = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 1]])
LABELS = [1, -1, 1]


def test_dense_sparse_and_ids_are_one_data_set():
    ids = [[0, 2, 0], [1, 1, 1], [2, 1, 0]]
    made = [
        TokenDataset(COUNTS, LABELS),
        TokenDataset(sp.csr_matrix(COUNTS), LABELS),
        TokenDataset(sp.coo_array(COUNTS.astype(float)), LABELS),
        TokenDataset.from_token_ids(ids, LABELS),
    ]
    for dataset in made:
        assert (dataset.counts.toarray() == COUNTS).all()
        assert dataset.counts.dtype == np.int32
        assert dataset.lengths.tolist() == [3, 3, 3]
    assert (made[0].n_documents, made[0].vocabulary_size) == (3, 3)


def test_the_given_matrix_is_not_changed():
    given_counts = sp.csr_array(COUNTS)
    given_counts.data[0] = 0
    before = given_counts.data.copy()
    dataset = TokenDataset(given_counts, LABELS)
    assert (given_counts.data == before).all()
    assert dataset.counts.nnz == COUNTS.astype(bool).sum() - 1


@pytest.mark.parametrize(
    ("labels", "signs", "names"),
    [
        ([0, 1, 0], [-1, 1, -1], ("0", "1")),
        (["neg", "pos", "pos"], [-1, 1, 1], ("neg", "pos")),
        ([True, False, True], [1, -1, 1], ("False", "True")),
        ([4, 1, 1], [1, -1, -1], ("1", "4")),
    ],
)
def test_two_valued_labels_of_any_kind(labels, signs, names):
    dataset = TokenDataset(COUNTS, labels)
    assert dataset.labels.tolist() == signs
    assert dataset.class_names == names


@pytest.mark.parametrize(
    ("counts", "labels", "vocabulary", "words"),
    [
        (COUNTS - 1, LABELS, None, "must be whole numbers from 0 on, rows 0, 1"),
        (COUNTS + 0.5, LABELS, None, "CountVectorizer"),
        (np.where(COUNTS == 3, np.nan, COUNTS), LABELS, None, "row 1"),
        (COUNTS, [1, 1, 1], None, "one class only: 1 \\(3 times\\)"),
        (COUNTS, [1, 2, 3], None, "3 classes"),
        (COUNTS, [1, -1], None, "one label each"),
        (COUNTS, [1.0, np.nan, -1.0], None, "labels hold NaN"),
        (COUNTS, LABELS, ["a", "b"], "2 names but the counts have 3 columns"),
        (COUNTS[0], LABELS, None, "shape \\(n, V\\)"),
        (np.zeros((0, 3)), [], None, "."),
        (np.array([[1, 0], [0, 0], [0, 1]]), LABELS, None, "1 of 3 documents hold no token, row 1"),
        (np.array([["a"]]), [1], None, "must be numbers"),
    ],
)
def test_bad_input_names_the_rows_and_the_remedy(counts, labels, vocabulary, words):
    with pytest.raises(InvalidInputError, match=words):
        TokenDataset(counts, labels, vocabulary)


def test_empty_documents_are_dropped_on_request_and_listed():
    counts = np.array([[1, 0], [0, 0], [0, 1], [0, 0]])
    dataset = TokenDataset(counts, [1, 1, -1, -1], drop_empty=True)
    assert dataset.dropped.tolist() == [1, 3]
    assert dataset.labels.tolist() == [1, -1]
    with pytest.raises(InvalidInputError, match="one class only"):
        TokenDataset(counts, [1, -1, 1, -1], drop_empty=True)


def test_ids_outside_the_vocabulary_are_refused():
    with pytest.raises(InvalidInputError, match="document 1 holds token id 5"):
        TokenDataset.from_token_ids([[0], [5]], [0, 1], ["a", "b"])
    with pytest.raises(InvalidInputError, match="document 0"):
        TokenDataset.from_token_ids([[-1], [1]], [0, 1])
    with pytest.raises(InvalidInputError, match="document 1"):
        TokenDataset.from_token_ids([[1], [0.5]], [0, 1])


def test_subset_and_restrict_keep_names():
    dataset = TokenDataset(COUNTS, ["bad", "good", "bad"], ["x", "y", "z"])
    part = dataset.subset([1, 2])
    assert part.class_names == ("bad", "good")
    assert part.labels.tolist() == [1, -1]
    fewer = dataset.restrict_vocabulary(np.array([False, True, True]))
    assert fewer.vocabulary == ("y", "z")
    assert (fewer.counts.toarray() == COUNTS[:, 1:]).all()


def test_saved_and_loaded(tmp_path):
    dataset = TokenDataset(COUNTS, ["bad", "good", "bad"], ["x", "y", "é"])
    dataset.save(tmp_path / "set.npz")
    again = TokenDataset.load(tmp_path / "set.npz")
    assert (again.counts != dataset.counts).nnz == 0
    assert (again.labels == dataset.labels).all()
    assert (again.vocabulary, again.class_names) == (dataset.vocabulary, dataset.class_names)
    np.savez(tmp_path / "other.npz", labels=LABELS)
    with pytest.raises(InvalidInputError, match="not a saved TokenDataset"):
        TokenDataset.load(tmp_path / "other.npz")


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=9), min_size=2, max_size=6))
def test_counts_are_the_bags_of_ids(documents):
    labels = np.arange(len(documents)) % 2
    dataset = TokenDataset.from_token_ids(documents, labels)
    for row, ids in enumerate(documents):
        assert (
            dataset.counts[[row]].toarray()[0].tolist() == np.bincount(ids, minlength=dataset.vocabulary_size).tolist()
        )


def test_repr_says_sizes():
    assert repr(TokenDataset(COUNTS, LABELS)) == "TokenDataset(n=3, V=3, 9 tokens, 2 1 / 1 -1)"
