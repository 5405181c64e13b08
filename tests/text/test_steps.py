"""Each step of the pipeline alone."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.reference import vocabulary_file
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.sources import DATA_VARIABLE
from tokenmargin.text import Alphabet, Markup, Recipe
from tokenmargin.text import _words as words
from tokenmargin.text._clean import cleaned, lower_case, without_accents, without_apostrophes, without_markup
from tokenmargin.text._lexicon import Lexicon
from tokenmargin.text._word_lists import ENGLISH_STOP_WORDS
from tokenmargin.text._wordpiece import (
    BERT_SHA256,
    BERT_SIZE,
    PACKED,
    UNKNOWN,
    WordPieces,
    find_vocabulary,
    fingerprint,
    read_vocabulary,
)
from tokenmargin.text._words import number_words, split_words


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (Markup.KEEP, "a<br />b<BR>c <i>d</i> &amp; 1 < 2"),
        (Markup.BREAKS, "a b c <i>d</i> &amp; 1 < 2"),
        (Markup.TAGS, "a b c  d  & 1 < 2"),
    ],
)
def test_markup(markup, expected):
    assert without_markup("a<br />b<BR>c <i>d</i> &amp; 1 < 2", markup) == expected


def test_apostrophes_case_and_accents():
    assert without_apostrophes("don't \u2019tis", "'") == "dont \u2019tis"
    assert without_apostrophes("don't \u2019tis", "'\u2019") == "dont tis"
    assert lower_case("ÀB") == "àb"
    assert without_accents("café Ångström") == "cafe Angstrom"


def test_stop_words_are_scikit_learns():
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="scikit-learn is not installed")
    assert text.ENGLISH_STOP_WORDS == ENGLISH_STOP_WORDS
    assert len(ENGLISH_STOP_WORDS) == 318
    recipe = Recipe(word_piece=False, stem=False)
    lexicon = Lexicon(recipe)
    counts = lexicon.count(number_words(["the film and film"], recipe))
    assert (lexicon.names, counts.toarray().tolist()) == (["film"], [[2]])


def test_stems():
    pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
    from tokenmargin.text._lexicon import stem

    assert stem(["movies", "movie", "running", "happily", "a1"]) == ["movi", "movi", "run", "happili", "a1"]


def test_word_pieces_by_hand():
    pieces = WordPieces(["un", "##watch", "##able", "##a", "watch", UNKNOWN])
    spelled = [[pieces.pieces[j] for j in pieces.split(w)] for w in ("unwatchable", "watch", "watcha", "zebra", "unx")]
    assert spelled == [["un", "##watch", "##able"], ["watch"], ["watch", "##a"], [UNKNOWN], [UNKNOWN]]
    assert WordPieces(["a"]).pieces == ("a", UNKNOWN)


@cache
def both_tokenizers(tokenizers):
    return tokenizers.BertWordPieceTokenizer(str(vocabulary_file())), WordPieces(read_vocabulary(vocabulary_file()))


@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=120), min_size=1, max_size=20))
def test_word_pieces_are_those_of_tokenizers(spelled):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    peer, pieces = both_tokenizers(tokenizers)
    for word in spelled:
        assert [pieces.pieces[j] for j in pieces.split(word)] == peer.encode(word, add_special_tokens=False).tokens


RECIPES = [
    Recipe(),
    Recipe(markup=Markup.TAGS, apostrophes="'\u2019", fold_accents=True),
    Recipe(markup=Markup.KEEP, apostrophes="", lower_case=False, word_piece=False),
    Recipe(alphabet=Alphabet.UNICODE),
    Recipe(alphabet=Alphabet.UNICODE, punctuation=True),
    Recipe(punctuation=True),
]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("has_pyarrow", [True, False])
@given(texts=st.lists(st.text(st.characters(exclude_categories=[])) | st.text("aB1 '\0<br />é_.\ud800"), max_size=8))
def test_numbered_words_are_the_words(recipe, has_pyarrow, texts):
    if has_pyarrow:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.MonkeyPatch.context() as patch:
        if not has_pyarrow:
            patch.setattr(words, "_pyarrow", lambda: None)
        found = number_words(texts, recipe)
    spelled = [found.words[j].decode() for j in found.ids]
    documents = [spelled[a:b] for a, b in zip(found.starts[:-1], found.starts[1:], strict=True)]
    # A lone surrogate is half a character: as punctuation it is shown as a question mark.
    expected = [
        [word.encode("utf-8", "replace").decode() for word in split_words(text, recipe)]
        for text in cleaned(texts, recipe)
    ]
    assert documents == expected
    first = {word: j for j, word in reversed(list(enumerate(spelled)))}
    assert [w.decode() for w in found.words] == sorted(first, key=first.__getitem__)
    assert np.all(np.diff(found.starts) >= 0)


def test_recipes_that_contradict_themselves():
    with pytest.raises(InvalidInputError, match="no capitals"):
        Recipe(lower_case=False)
    with pytest.raises(InvalidInputError, match="at least once"):
        Recipe(minimum_count=0)


class TestVocabulary:
    def test_is_found_and_checked(self):
        pieces = read_vocabulary(vocabulary_file())
        assert len(pieces) == BERT_SIZE
        assert pieces[100] == UNKNOWN

    def test_line_ends_do_not_matter(self, tmp_path):
        path = tmp_path / "vocab.txt"
        path.write_bytes(vocabulary_file().read_bytes().replace(b"\n", b"\r\n"))
        assert read_vocabulary(path) == read_vocabulary(vocabulary_file())

    def test_wrong_length_and_wrong_pieces(self, tmp_path):
        lines = vocabulary_file().read_text(encoding="utf-8").split("\n")[:-1]
        path = tmp_path / "vocab.txt"
        path.write_text("\n".join(lines[:-2]), encoding="utf-8")
        with pytest.raises(InvalidInputError, match="30,520 lines"):
            read_vocabulary(path)
        path.write_text("\n".join([*lines[:-1], "no such piece"]), encoding="utf-8")
        with pytest.raises(InvalidInputError, match="right length but not"):
            read_vocabulary(path)
        assert read_vocabulary(path, any_vocabulary=True)[-1] == "no such piece"

    def test_bytes_and_repeats(self, tmp_path):
        path = tmp_path / "vocab.txt"
        path.write_bytes(b"a\n\xff\n")
        with pytest.raises(InvalidInputError, match="byte 2"):
            read_vocabulary(path)
        path.write_text("a\nb\na\n")
        with pytest.raises(InvalidInputError, match="line 3 repeats 'a' of line 1"):
            read_vocabulary(path, any_vocabulary=True)

    def test_three_places_in_order(self, tmp_path, monkeypatch):
        for name in ("own.txt", "bert-base-uncased-vocab.txt"):
            (tmp_path / name).write_text("a\n")
        monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
        assert find_vocabulary(tmp_path / "own.txt").name == "own.txt"
        assert find_vocabulary().parent == tmp_path
        monkeypatch.delenv(DATA_VARIABLE)
        assert find_vocabulary() == PACKED
        with pytest.raises(DataAbsentError, match="is not there"):
            find_vocabulary(tmp_path / "none.txt")

    def test_the_package_has_those_of_bert(self):
        assert fingerprint(read_vocabulary(PACKED)) == BERT_SHA256

    @pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} is not set")
    def test_the_package_ships_the_same(self, monkeypatch):
        own = read_vocabulary(find_vocabulary())
        monkeypatch.delenv(DATA_VARIABLE)
        assert read_vocabulary(find_vocabulary()) == own


@pytest.mark.parametrize("punctuation", [True, False])
@given(text=st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=[])))
def test_texts_without_rare_characters_are_split_as_all_are(punctuation, text):
    narrow, wide = (words._pattern(Alphabet.UNICODE, punctuation, False, is_wide) for is_wide in (False, True))
    assert narrow.findall(text) == wide.findall(text)
    recipe = Recipe(alphabet=Alphabet.UNICODE, punctuation=punctuation)
    assert words.word_pattern(text, recipe) is narrow
    assert words.word_pattern(text + "\U0001f600", recipe) is wide
