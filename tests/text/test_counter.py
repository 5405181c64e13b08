"""Counts and places of words in new texts: the same tokens by every way, and each word where it stands."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.text import reference
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import Alphabet, Markup, Recipe, TokenCounter, count_tokens, plain_recipe, tokenize
from tokenmargin.text import counter as module
from tokenmargin.text._clean import cleaned, cleaned_and_aligned

pytest.importorskip("Stemmer", reason="PyStemmer is not installed")

RECIPES = [
    Recipe(word_piece=False, minimum_count=1),
    Recipe(word_piece=False, minimum_count=1, ngrams=3, markup=Markup.TAGS, apostrophes="'\u2019", fold_accents=True),
    Recipe(
        word_piece=False,
        markup=Markup.KEEP,
        apostrophes="",
        lower_case=False,
        punctuation=True,
        ngrams=2,
        minimum_count=1,
    ),
    plain_recipe(minimum_count=1, ngrams=2),
    plain_recipe("english", minimum_count=1, ngrams=3),
    Recipe(word_piece=False, alphabet=Alphabet.UNICODE, punctuation=True, fold_accents=True, minimum_count=1),
]
#: Small letters of another length, marks that change places, halves of characters, tags inside tags, entities without
#: an end, letters written from right to left, and words that are many words.
NASTY = [
    "Stra\u00dfe \u0130stanbul \u0130\u0307 \u03a3\u0399\u03a3\u03a5\u03a6\u039f\u03a3",
    "e\u0301 a\u0327\u0301 a\u0301\u0327 \u212bngstr\u00f6m \U0001d15e\U0001d165",
    "\ud800 a\ud800b \U0001f600good\U0001f44d\u200d\U0001f44d bad",
    "<br<br />/>good<BR/>bad <i>not</i> good<br",
    "&notgood-movie &eacute;t&eacute; &#100;on&#39;t &amp;lt; &fjlig;ord &#xD800; &bogus; &",
    f"good &#{'1' * 5000}; bad &#{'0' * 5000}97; &#{'0' * 5000};",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u96fb\u5f71\u5f88\u597d \u0e44\u0e17\u0e22\u0e14\u0e35",
    "don't do''nt '\u2019' can't've  not   good not good not good",
    "",
]
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=[]), max_size=30),
    st.text("aB1 '<br/>&;#x\u00e9\u0130\u0301\u0327_.\ud800\u96fb\u0e35\u200d", max_size=60),
    st.lists(st.sampled_from(["not", "good", "Goods", "bad", "the", "don't", "<br />", "."]), max_size=12).map(
        " ".join
    ),
)


def counters(counts, vocabulary):
    matrix = counts.toarray()
    return [Counter({vocabulary[j]: int(c) for j, c in enumerate(row) if c}) for row in matrix]


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=20)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
@example(texts=NASTY)
def test_counts_are_those_of_the_slow_reference(recipe, texts):
    expected = reference.counted(texts, recipe)
    if not any(expected):
        with pytest.raises(InvalidInputError, match="no token occurs"):
            count_tokens(texts, recipe)
        return
    counted = count_tokens(texts, recipe, chunk_size=2)
    assert counters(counted.counts, counted.vocabulary) == expected
    assert list(counted.vocabulary) == sorted(set().union(*expected))
    again = TokenCounter(recipe, counted.vocabulary).counts(texts)
    assert again.toarray().tolist() == counted.counts.toarray().tolist()
    sums = counted.counts.sum(axis=0)
    assert (counted.word_map.incidence.T @ counted.word_map.counts).tolist() == sums.tolist()
    assert counted.report.tokens == counted.report.tokens_kept + counted.report.tokens_purged
    assert counted.report.tokens == sum(len(reference.runs_of(text, recipe)) for text in texts)


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=20)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6), minimum=st.integers(2, 4))
@example(texts=NASTY, minimum=2)
def test_rare_tokens_are_purged_as_by_the_slow_reference(recipe, texts, minimum):
    texts = texts + texts[:2]
    expected = reference.counted(texts, Recipe(**{**vars(recipe), "minimum_count": minimum}))
    if any(expected):
        counted = count_tokens(texts, recipe, minimum_count=minimum)
        assert counters(counted.counts, counted.vocabulary) == expected


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=20)
@given(text=TEXTS, other=TEXTS)
@example(text=NASTY[3], other="good")
@example(text=NASTY[4], other=NASTY[4])
def test_located_words_give_the_counts(recipe, text, other):
    texts = [text, other, "not good"]
    counted = count_tokens(texts, recipe)
    counter = TokenCounter(recipe, counted.vocabulary[::2])
    counts = counter.counts([text]).toarray()[0]
    located = counter.located(text)
    told = Counter(token for word in located for token in word.tokens)
    lengths = [name.count(" ") + 1 for name in counter.vocabulary]
    assert told == Counter({j: int(c) * lengths[j] for j, c in enumerate(counts) if c})
    assert [word.word for word in located] == reference.words_of(text, recipe)
    ends = [0, *(word.end for word in located)]
    for word, end in zip(located, ends, strict=False):
        assert end <= word.start < word.end <= len(text)


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=20)
@given(text=TEXTS)
@example(text=NASTY[0])
@example(text=NASTY[1])
@example(text=NASTY[3])
@example(text=NASTY[4])
def test_a_text_is_cleaned_alike_with_its_places(recipe, text):
    aligned = cleaned_and_aligned(text, recipe)
    assert [aligned.text] == cleaned([text], recipe)
    assert len(aligned.text) == len(aligned.starts) == len(aligned.ends)
    assert list(aligned.starts) == sorted(aligned.starts)
    assert all(start < end for start, end in zip(aligned.starts, aligned.ends, strict=True))
    for character, start in zip(aligned.text, aligned.starts, strict=True):
        if text[start].isascii() and text[start].isalnum():  # nothing is done to these but lower case
            assert character in (text[start], text[start].lower())


def test_places_by_hand():
    counter = TokenCounter(plain_recipe(ngrams=2), ["dont", "dont go", "\u00e9t\u00e9", "good", "i\u0307stanbul"])
    text = "<b>Don\u2019t</b> go, &Eacute;T&eacute;!<br/>&notgood \u0130stanbul E\u0301TE\u0301 GOOD"
    found = {text[word.start : word.end]: (word.word, word.tokens) for word in counter.located(text)}
    assert found == {
        "Don\u2019t": ("dont", (0, 1)),
        "go": ("go", (1,)),
        "&not": ("\u00ac", ()),
        "&Eacute;T&eacute;": ("\u00e9t\u00e9", (2,)),
        "good": ("good", (3,)),
        "\u0130stanbul": ("i\u0307stanbul", (4,)),
        "E\u0301TE\u0301": (unicodedata.normalize("NFD", "\u00e9t\u00e9"), (2,)),
        "GOOD": ("good", (3,)),
    }


def test_stop_words_part_their_neighbours():
    recipe = Recipe(word_piece=False, ngrams=2, minimum_count=1)
    counted = count_tokens(["bag of words, old words; old. bags"], recipe)
    assert counted.vocabulary == ("bag", "old", "old bag", "old word", "word", "word old")
    assert counted.word_map.words_of("old bag") == {"old bags": 1}
    assert counted.word_map.words_of("bag") == {"bag": 1, "bags": 1}
    assert counted.word_map.tokens_of("old words") == (3,)


def test_words_of_an_ngram_most_frequent_first():
    recipe = Recipe(word_piece=False, ngrams=2, minimum_count=3)
    counted = count_tokens(["old movie", "old movies", "olds movies", "old movies good"], recipe)
    assert counted.word_map.words_of("old movi") == {"old movies": 2, "old movie": 1, "olds movies": 1}
    assert counted.report.ngrams == 1


def test_an_ngram_whose_words_are_no_columns_is_still_found():
    counter = TokenCounter(plain_recipe(ngrams=3), ["not very good", "very", "good not"])
    assert counter.counts(["not very good not", "very good", ""]).toarray().tolist() == [
        [1, 1, 1],
        [0, 1, 0],
        [0, 0, 0],
    ]
    assert [word.tokens for word in counter.located("not very good not")] == [(0,), (1, 0), (2, 0), (2,)]


def test_pieces_of_words(tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\nmo\n##vi\nbad\ngood\nrun\n##ner\n")
    recipe = Recipe(vocabulary=tmp_path / "vocab.txt", any_vocabulary=True, minimum_count=1)
    texts = ["The movies were good", "a bad runner", "runner zebra"]
    corpus = tokenize(texts, [0, 1, 1], recipe)
    counter = TokenCounter(recipe, corpus.dataset.vocabulary)
    assert counter.counts(texts).toarray().tolist() == corpus.dataset.counts.toarray().tolist()
    assert [(word.word, word.tokens) for word in counter.located(texts[0])] == [
        ("the", ()),
        ("movies", (1, 2)),
        ("were", ()),
        ("good", (4,)),
    ]
    with pytest.raises(InvalidInputError, match="no WordPiece"):
        TokenCounter(recipe, ["good", "zebra"])


def test_a_counter_that_runs_for_ever_forgets(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 3)
    counter = TokenCounter(plain_recipe(), ["a", "b"])
    for text in ("a b c", "d e f a", "b b"):
        assert counter.counts([text]).toarray().tolist() == [[text.count("a"), text.count("b")]]
        assert len(counter._known) <= 4


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "a"], "twice"),
        ([], "empty"),
        ("ab", "got str"),
        (["a", ""], "not empty"),
        (["a", 3], "not empty"),
        (["a b"], "at most 1"),
        (["Good"], r"never makes \(of that text it makes \['good'\]\)"),
        (["it's"], "never makes"),
    ],
)
def test_vocabularies_that_no_text_could_hold(names, message):
    with pytest.raises(InvalidInputError, match=message):
        TokenCounter(plain_recipe(), names)


def test_what_is_no_text():
    counter = TokenCounter(plain_recipe(), ["a"])
    for wrong, message in (("a", "not one string"), (["a", None], "text 1 is a NoneType")):
        with pytest.raises(InvalidInputError, match=message):
            counter.counts(wrong)
    assert counter.counts([]).shape == (0, 1)
