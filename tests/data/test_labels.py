"""Labels: two values of any kind, kept as given; what is missing or cannot be ordered is refused in words."""

import datetime
from enum import Enum, auto

import numpy as np
import pytest

from tokenmargin.data.labels import two_classes
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError

COUNTS = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 1]])


class Verdict(Enum):
    """Defined in an order that is not that of the names."""

    WORSE = auto()
    BETTER = auto()


class Categories:
    """What pandas.Categorical shows of itself."""

    def __init__(self, values, categories, ordered):
        self.values, self.categories, self.ordered = values, categories, ordered

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=object)


class Column:
    """What a pandas.Series of categories shows of itself."""

    def __init__(self, categories):
        self.cat = categories

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.cat)


class NAType:
    """Named like the missing value of pandas, and as unwilling to be compared."""

    def __eq__(self, other):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


DAYS = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]


@pytest.mark.parametrize(
    ("labels", "signs", "classes"),
    [
        ([0, 1, 0], [-1, 1, -1], (0, 1)),
        (["neg", "pos", "pos"], [-1, 1, 1], ("neg", "pos")),
        (np.array(["neg", "pos", "pos"]), [-1, 1, 1], ("neg", "pos")),
        ([np.str_("b"), np.str_("a"), np.str_("a")], [1, -1, -1], ("a", "b")),
        ([True, False, True], [1, -1, 1], (False, True)),
        (np.array([True, False, True]), [1, -1, 1], (False, True)),
        ([4, 1, 1], [1, -1, -1], (1, 4)),
        ((x for x in (2.5, 1.5, 1.5)), [1, -1, -1], (1.5, 2.5)),
        ([Verdict.BETTER, Verdict.WORSE, Verdict.BETTER], [1, -1, 1], (Verdict.WORSE, Verdict.BETTER)),
        (DAYS, [1, -1, 1], (DAYS[1], DAYS[0])),
        (Categories(["low", "high", "low"], ["low", "high"], True), [-1, 1, -1], ("low", "high")),
        (Categories(["low", "high", "low"], ["low", "high"], False), [1, -1, 1], ("high", "low")),
        (Column(Categories(["low", "high", "low"], ["low", "high"], True)), [-1, 1, -1], ("low", "high")),
    ],
)
def test_labels_of_any_kind_are_kept_as_given(labels, signs, classes):
    given = labels if hasattr(labels, "__array__") else list(labels)
    dataset = TokenDataset(COUNTS, given)
    assert dataset.labels.tolist() == signs
    assert dataset.classes == classes
    assert [type(x) for x in dataset.classes] == [type(x) for x in classes] or isinstance(given[0], np.str_)
    assert dataset.given_labels.tolist() == list(np.asarray(given, dtype=object))


def test_classes_have_names():
    assert TokenDataset(COUNTS, [True, False, True]).class_names == ("False", "True")
    assert TokenDataset(COUNTS, [Verdict.BETTER, Verdict.WORSE, Verdict.WORSE]).class_names == ("WORSE", "BETTER")


def test_an_enum_is_saved_by_its_names(tmp_path):
    TokenDataset(COUNTS, [Verdict.BETTER, Verdict.WORSE, Verdict.WORSE]).save(tmp_path / "set.npz")
    assert TokenDataset.load(tmp_path / "set.npz").classes == ("WORSE", "BETTER")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a", None, "b"], "1 of 3 labels are missing .*row 1"),
        ([1.0, float("nan"), -1.0], "missing .*row 1"),
        (np.array([1.0, np.inf, -1.0]), "missing .*row 1"),
        (["a", "", "b"], "missing .*row 1"),
        (np.array(["a", " ", "b"]), "missing .*row 1"),
        (["a", NAType(), NAType()], "2 of 3 labels are missing .*rows 1, 2"),
        (np.ma.masked_array([1, 2, 1], [False, False, True]), "missing .*row 2"),
        (np.array(["2020-01-01", "NaT", "2020-01-02"], "datetime64[D]"), "missing .*row 1"),
        ({"a", "b"}, "labels are a set, which does not say which document"),
        ("aba", "labels are a str"),
        ({0: "a", 1: "b", 2: "a"}, "labels are a dict"),
        (3, "must be a list with one label for each document, got 3"),
        ([1, "1", 1], "1 and '1' cannot be put in order"),
        ([[1], [2], [1]], "single values"),
        (np.array([[1], [2], [1]]), "shape \\(3, 1\\) but there are 3 documents"),
        (["a", "b"], "shape \\(2,\\) but there are 3"),
    ],
)
def test_what_is_no_label_is_refused_in_words(labels, words):
    with pytest.raises(InvalidInputError, match=words):
        two_classes(labels, 3)
