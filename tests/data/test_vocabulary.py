"""Vocabularies: compared by name and by column, and what differs is said."""

import pytest

from tokenmargin.data.vocabulary import check_same_vocabulary, vocabulary_names
from tokenmargin.errors import InvalidInputError


def test_the_same_is_the_same():
    check_same_vocabulary(("a", "b"), ("a", "b"), "the data set")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("a", "b"), "the test set has 2 tokens, where training had 3[.] Columns"),
        (("a", "x"), "has 2 tokens, where training had 3: column 1 is 'x', and was 'b'"),
        (("b", "a", "c"), "the 3 tokens of training in another order: column 0 is 'b', and was 'a'"),
        (("a", "b", "x"), "as many tokens as training, 3, but 1 of them are others: column 2 is 'x', and was 'c'"),
    ],
)
def test_what_differs_is_said_with_the_remedy(given, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        check_same_vocabulary(("a", "b", "c"), given, "the test set")
    assert "tokenize(texts, vocabulary=corpus)" in str(caught.value)


@pytest.mark.parametrize("given", [{0: "a", 1: "b"}, {"a": 0, "b": True}, {"a": 0, "b": 0}, {"a": 1, "b": 2}])
def test_a_dict_that_is_not_from_token_to_column_is_refused(given):
    with pytest.raises(InvalidInputError, match="map each token to its column, 0 to 1, each once"):
        vocabulary_names(given)


def test_what_is_no_list_is_refused():
    with pytest.raises(InvalidInputError, match="must be a list of names, got 3"):
        vocabulary_names(3)
