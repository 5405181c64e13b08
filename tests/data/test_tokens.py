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
    ("counts", "labels", "vocabulary", "words"),
    [
        (COUNTS - 1, LABELS, None, "must be whole numbers from 0 on, rows 0, 1"),
        (COUNTS + 0.5, LABELS, None, "CountVectorizer"),
        (np.where(COUNTS == 3, np.nan, COUNTS), LABELS, None, "row 1"),
        (COUNTS, [1, 1, 1], None, "one class only: 1 \\(3 times\\)"),
        (COUNTS, [1, 2, 3], None, "3 classes"),
        (COUNTS, [1, -1], None, "one label each"),
        (COUNTS, [1.0, np.nan, -1.0], None, "1 of 3 labels are missing .*row 1"),
        (COUNTS, LABELS, ["a", "b"], "2 names but the counts have 3 columns"),
        (COUNTS[0], LABELS, None, "shape \\(n, V\\)"),
        (np.zeros((0, 3)), [], None, "."),
        (np.array([[1, 0], [0, 0], [0, 1]]), LABELS, None, "1 of 3 documents hold no token, row 1"),
        (np.array([["a"]]), [1], None, "must be numbers"),
        (sp.csr_array(COUNTS * 1j), LABELS, None, "must be numbers, got complex"),
        ([[1, 2], [3]], [1, -1], None, "rows of different lengths.*from_token_ids"),
        (COUNTS, LABELS, {"a", "b", "c"}, "a set, which does not say which column is which.*get_feature_names_out"),
        (COUNTS, LABELS, {"a": 2, "b": 0, "c": 1}.keys(), "dict_keys, which does not say"),
        (COUNTS, LABELS, "abc", "one string, 'abc': give a list"),
        (COUNTS, LABELS, ["a", "b", "a"], "names 'a' more than once"),
        (COUNTS, LABELS, {"a": 0, "b": 2, "c": 3}, "map each token to its column, 0 to 2"),
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
    with pytest.raises(InvalidInputError, match="document 1"):
        TokenDataset.from_token_ids([[1], [[0], [1, 2]]], [0, 1])


def test_a_dict_is_read_by_its_columns():
    """CountVectorizer.vocabulary_ is in the order in which words were met, which is not that of the columns."""
    dataset = TokenDataset(COUNTS, LABELS, {"last": 2, "first": 0, "middle": np.int64(1)})
    assert dataset.vocabulary == ("first", "middle", "last")
    assert TokenDataset.from_token_ids([[2], [0]], [0, 1], {"b": 1, "c": 2, "a": 0}).vocabulary == ("a", "b", "c")


def test_count_vectorizer_goes_straight_in():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    counter = text.CountVectorizer()
    counts = counter.fit_transform(["zebra apple", "apple mango apple"])
    dataset = TokenDataset(counts, ["no", "yes"], counter.vocabulary_)
    assert dataset.vocabulary == tuple(counter.get_feature_names_out()) == ("apple", "mango", "zebra")
    assert list(counter.vocabulary_) != list(dataset.vocabulary)


def test_cut_like_an_array():
    dataset = TokenDataset(COUNTS, LABELS, ["x", "y", "z"])
    assert len(dataset) == 3
    for rows in (slice(1, None), [1, 2], np.array([1, 2]), np.array([False, True, True]), [-2, -1], range(1, 3)):
        part = dataset[rows]
        assert (part.counts.toarray() == COUNTS[1:]).all(), rows
        assert part.labels.tolist() == [-1, 1]
        assert part.vocabulary == ("x", "y", "z")
    assert (dataset[::-1].counts.toarray() == COUNTS[::-1]).all()
    assert (dataset[[2, 2, 0]].counts.toarray() == COUNTS[[2, 2, 0]]).all()
    assert [one.counts.toarray().tolist() for one in dataset] == [[row] for row in COUNTS.tolist()]


def test_what_is_cut_keeps_its_classes_when_one_is_left():
    """Corpora come sorted by label: the first hundred documents are then of one class, and still mean the same."""
    dataset = TokenDataset(COUNTS, ["bad", "good", "bad"], ["x", "y", "z"])
    part = dataset[dataset.labels < 0]
    assert (part.classes, part.labels.tolist()) == (("bad", "good"), [-1, -1])
    assert dataset[1].labels.tolist() == [1]
    assert part.given_labels.tolist() == ["bad", "bad"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([10], "rows hold 10, but there are 3 documents, 0 to 2"),
        ([-4], "rows hold -4"),
        ([True, False], "3 booleans"),
        ([0.5], "whole numbers"),
        ([], "no documents are picked"),
        ([[0, 1]], "shape \\(1, 2\\)"),
        ([[0], [0, 1]], "whole numbers"),
        (["good"], "whole numbers"),
        (slice(3, 9), "no documents are picked"),
    ],
)
def test_rows_that_are_not_there_are_refused_in_words(rows, words):
    dataset = TokenDataset(COUNTS, LABELS)
    with pytest.raises(InvalidInputError, match=words):
        dataset[rows]
    if not isinstance(rows, slice):
        with pytest.raises(InvalidInputError, match=words):
            dataset.subset(rows)


def test_columns_that_are_not_there_are_refused_in_words():
    dataset = TokenDataset(COUNTS, LABELS)
    with pytest.raises(InvalidInputError, match="columns hold 3, but there are 3 tokens"):
        dataset.restrict_vocabulary([0, 3])
    with pytest.raises(InvalidInputError, match="more than once"):
        dataset.restrict_vocabulary([0, 0, 1, 2])


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
    numbers = TokenDataset(COUNTS, [4, 1, 1])
    numbers.save(tmp_path / "numbers.npz")
    assert TokenDataset.load(tmp_path / "numbers.npz").classes == (1, 4)
    numbers[1:].save(tmp_path / "part.npz")
    assert TokenDataset.load(tmp_path / "part.npz").labels.tolist() == [-1, -1]
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
