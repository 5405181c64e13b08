"""None and NaN are no label and no token anywhere: as strings they would be a class "nan" or a token "None"."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from tokenmargin import classify, text
from tokenmargin.data import TokenDataset, TokenGraph
from tokenmargin.errors import InvalidInputError, TokenMarginError
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.sources._label_map import label_reader
from tokenmargin.text import TokenCounter, plain_recipe, tokenize

NAN = float("nan")
MISSING = [None, NAN, np.float32("nan"), np.float64("inf"), np.datetime64("NaT")]
TEXTS = ["good film", "bad film", "good", "bad"]
COUNTS = np.eye(4, dtype=int)
#: The checks of shapes, which tests run under, look at one name of a list at random, and may come first.
REFUSED = (TokenMarginError, TypeCheckError)
PLAIN = plain_recipe(minimum_count=1)


def _labels(bad):
    return [["a", "b", "a", bad], ["a", bad, bad, "a"], np.array(["a", "b", "a", bad], dtype=object), [1, 0, bad, 1]]


@pytest.mark.parametrize("bad", MISSING, ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda labels: tokenize(TEXTS, labels, PLAIN),
        lambda labels: text.count_tokens(TEXTS, PLAIN, labels=labels),
        lambda labels: TokenDataset(COUNTS, labels),
        lambda labels: TokenDataset.from_token_ids([[0], [1], [2], [3]], labels),
        lambda labels: TokenGraph([["a", "b"], ["a", "b"], ["a", "b"], ["a", "b"]], labels),
        lambda labels: TokenGraph([labels, ["a"]], ["a", "a"]),
        lambda labels: classify.LabelledCorpus(tuple(TEXTS), tuple(labels)),
        lambda labels: classify.AttentionClassifier().fit(COUNTS, labels),
    ],
    ids=[
        "tokenize",
        "count_tokens",
        "TokenDataset",
        "from_token_ids",
        "TokenGraph",
        "a sequence",
        "LabelledCorpus",
        "AttentionClassifier",
    ],
)
def test_no_label_is_missing(make, bad):
    for labels in _labels(bad):
        with pytest.raises(REFUSED):
            make(labels)


@pytest.mark.parametrize("bad", MISSING, ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda names: TokenDataset(COUNTS, [1, -1, 1, -1], names),
        lambda names: TokenDataset(COUNTS, [1, -1, 1, -1], {name: k for k, name in enumerate(names)}),
        lambda names: TokenDataset.from_token_ids([[0], [1]], [1, 0], names),
        lambda names: TokenGraph([[0, 1]], [0], names),
        lambda names: TokenCounter(PLAIN, names),
        lambda names: tokenize(TEXTS, [1, 0, 1, 0], PLAIN, vocabulary=names, drop_empty=True),
        lambda names: ImageDataset(np.zeros((2, 8, 8, 3), np.uint8), [0, 1], names),
    ],
    ids=["TokenDataset", "of a dict", "from_token_ids", "TokenGraph", "TokenCounter", "tokenize", "ImageDataset"],
)
def test_no_token_and_no_name_is_missing(make, bad):
    with pytest.raises(REFUSED):
        make(["a", "b", bad, "d"])


@pytest.mark.parametrize("bad", MISSING, ids=str)
@pytest.mark.parametrize("where", ["class", "label", "group"])
def test_no_class_of_a_map_is_missing(bad, where):
    given = {"class": {"1": "a", "2": bad}, "label": {bad: "a", "2": "b"}, "group": {"a": [1, bad], "b": [2]}}[where]
    with pytest.raises(InvalidInputError):
        label_reader(given)


def test_the_words_none_and_nan_are_words():
    made = TokenDataset(COUNTS, ["nan", "None", "nan", "None"], ["None", "nan", "inf", "NaT"])
    assert made.class_names == ("None", "nan")
    assert made.vocabulary == ("None", "nan", "inf", "NaT")
