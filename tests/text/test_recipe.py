"""Recipes: what they refuse, the languages they know, and their way to a file and back."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.text import Alphabet, Markup, Recipe, TokenCounter, count_tokens, plain_recipe
from tokenmargin.text._language import CODES, ELIDED, STEMMED, UNLISTED, has_stemmer, has_stop_words
from tokenmargin.text._word_lists import _listed
from tokenmargin.text._wordpiece import BERT_SHA256

#: Of the words of 57 languages, each with its code, sorted.
STOP_WORDS_SHA256 = "cb707c830f1e4b35819818587f459c96e344105670a42ff5e4dd48b040733a08"

#: With a joiner of no width inside.
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
WORDS = Recipe(word_piece=False, minimum_count=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"stem": "yes"},
        {"stop_words": 1},
        {"word_piece": None},
        {"minimum_count": 2.5},
        {"minimum_count": True},
        {"minimum_count": 0},
        {"apostrophes": None},
        {"markup": "TAGS"},
        {"alphabet": Markup.TAGS},
        {"also_drop": "word"},
        {"also_drop": (1,)},
        {"also_drop": 5},
        {"vocabulary": 3},
        {"ngrams": 0},
        {"ngrams": 2.0},
        {"ngrams": 6},
        {"language": 3},
        {"language": "klingon"},
    ],
)
def test_a_wrong_value_is_refused_by_name(wrong):
    # Tests check annotations before a dataclass is made, so that ours would never be reached: what it does, by hand.
    recipe = object.__new__(Recipe)
    for name, value in (vars(WORDS) | wrong).items():
        object.__setattr__(recipe, name, value)
    with pytest.raises(InvalidInputError, match=f"^{next(iter(wrong))}="):
        recipe.__post_init__()


def test_a_wrong_value_is_refused_in_use():
    code = "from tokenmargin.text import Recipe; Recipe(stem='yes')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "InvalidInputError: stem='yes': give True or False." in done.stderr


def test_switches_that_contradict_each_other():
    with pytest.raises(InvalidInputError, match="word_piece=False"):
        Recipe(ngrams=2)
    with pytest.raises(InvalidInputError, match="stop_words=False, stem=False"):
        Recipe(language=None)


class TestLanguages:
    def test_are_those_of_the_packages(self):
        stemmer = pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
        assert {CODES[name] for name in CODES if has_stop_words(name)} == {"en", *_listed()}
        assert {name for name in CODES if has_stemmer(name)} == set(stemmer.algorithms()) - {"porter", "dutch_porter"}
        assert UNLISTED <= STEMMED <= set(CODES)
        assert set(CODES) >= ELIDED
        assert len(set(CODES.values())) == len(CODES)

    def test_the_lists_are_those_of_stopwords_iso(self):
        words = sorted(f"{code}\t{word}" for code, listed in _listed().items() for word in listed)
        assert len(_listed()) == 57
        assert len(words) == 20_409
        assert hashlib.sha256("\n".join(words).encode()).hexdigest() == STOP_WORDS_SHA256
        package = pytest.importorskip("stopwordsiso", reason="the package they are from is not installed")
        assert _listed() == {code: package.stopwords(code) for code in package.langs() - {"en"}}

    @pytest.mark.parametrize("given_name", ["german", "German", "de", "DE", " de-AT", "de_CH"])
    def test_by_name_and_code(self, given_name):
        assert plain_recipe(given_name) == plain_recipe("german")

    def test_unknown_lists_the_known(self):
        with pytest.raises(InvalidInputError, match=r"'klingon' is not known.*german \(de\).*zulu \(zu\)"):
            plain_recipe("klingon")

    def test_stop_words_and_stems_of_a_language(self):
        pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
        counted = count_tokens(["Die schönen Häuser für das schöne Haus"], plain_recipe("de", minimum_count=1))
        assert counted.vocabulary == ("haus", "schon")
        assert counted.word_map.words_of("haus") == {"haus": 1, "häuser": 1}
        assert counted.report.stop_words == 3
        folded = Recipe(language="german", word_piece=False, fold_accents=True, minimum_count=1)
        assert count_tokens(["für das Häuschen"], folded).vocabulary == ("hausch",)  # für is listed with its dots

    def test_an_apostrophe_parts_french_words(self):
        pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
        assert count_tokens(["l'homme et l\u2019art"], plain_recipe("fr", minimum_count=1)).vocabulary == (
            "art",
            "homm",
        )
        assert count_tokens(["don't don\u2019t"], plain_recipe(minimum_count=1)).vocabulary == ("dont",)

    def test_what_a_language_lacks_is_noted(self):
        assert plain_recipe("english").notes == ()
        assert Recipe().notes == ()
        assert plain_recipe("tamil").notes == ("no list of tamil stop words is known: none are dropped",)
        assert plain_recipe("chinese").notes == ("there is no chinese stemmer: words are counted as they are",)
        counted = count_tokens(["電影很好"], plain_recipe("zh", minimum_count=1))
        assert counted.report.notes == plain_recipe("zh").notes
        assert "no chinese stemmer" in str(counted.report)
        assert "alphabet=Alphabet.UNICODE" in Recipe(language="german").notes[0]

    def test_a_stemmer_that_is_too_old(self, monkeypatch):
        stemmer = pytest.importorskip("Stemmer", reason="PyStemmer is not installed")

        def none_of_them(name, size):
            raise KeyError(name)

        monkeypatch.setattr(stemmer, "Stemmer", none_of_them)
        with pytest.raises(InvalidInputError, match="no polish stemmer: pip install --upgrade"):
            count_tokens(["dobry film"], plain_recipe("pl"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("這部電影很好看 iPhone好", ["iphone", "好", "影", "很", "看", "這", "部", "電"]),
        ("ひらがなとスマホ", ["が", "と", "な", "ひ", "ら", "スマホ"]),
        ("หนังดี 12", ["12", "ง", "ดี", "นั", "ห"]),
        ("हिन्दी फ़िल्म", ["फ़िल्म", "हिन्दी"]),
        ("한국 영화", ["영화", "한국"]),
        ("Фильм хорош", ["фильм", "хорош"]),
        (f"{PERSIAN} שלום", ["שלום", PERSIAN]),
        ("cafe\u0301 café", ["café"]),
        ("naïve-ness_x 😀 1️⃣", ["1\u20e3", "naïve", "ness", "x", "😀"]),
    ],
)
def test_words_of_any_script(text, expected):
    assert list(count_tokens([text], plain_recipe(minimum_count=1)).vocabulary) == sorted(expected)


def test_pairs_of_characters_where_there_are_no_spaces():
    assert "電 影" in count_tokens(["電影"], plain_recipe(minimum_count=1, ngrams=2)).vocabulary


OPTIONS = st.fixed_dictionaries(
    {
        "markup": st.sampled_from(Markup),
        "alphabet": st.sampled_from(Alphabet),
        "apostrophes": st.text(max_size=3),
        "also_drop": st.lists(st.text(), max_size=3).map(tuple),
        "stem": st.booleans(),
        "stop_words": st.booleans(),
        "word_piece": st.just(False),
        "language": st.sampled_from(sorted(CODES)),
        "ngrams": st.integers(1, 5),
        "minimum_count": st.integers(1, 100),
    }
)


@given(options=OPTIONS)
def test_there_and_back(options):
    recipe = Recipe(**options)
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


class TestToAFile:
    def test_bert_is_a_fingerprint_and_no_path(self):
        value = Recipe(vocabulary=Path("/somewhere/vocab.txt")).to_json()
        assert value["vocabulary"] == BERT_SHA256
        assert "somewhere" not in json.dumps(value)
        assert Recipe.from_json(value) == Recipe()
        assert value["version"] == 2

    def test_pieces_of_ones_own(self, tmp_path):
        path = tmp_path / "vocab.txt"
        path.write_text("[UNK]\na\n")
        recipe = Recipe(vocabulary=path, any_vocabulary=True)
        value = recipe.to_json()
        assert Recipe.from_json(value, path) == recipe
        with pytest.raises(DataAbsentError, match="vocabulary=path"):
            Recipe.from_json(value)
        path.write_text("[UNK]\nb\n")
        with pytest.raises(InvalidInputError, match="SHA-256"):
            Recipe.from_json(value, path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 1}, "version 2"),
            ({"colour": "red"}, "colour"),
            ({"markup": "NONE"}, "markup='NONE'"),
            ({"markup": ["KEEP"]}, "markup="),
        ],
    )
    def test_what_was_not_written_by_us(self, change, message):
        with pytest.raises(InvalidInputError, match=message):
            Recipe.from_json(WORDS.to_json() | change)
        short = WORDS.to_json()
        del short["stem"]
        with pytest.raises(InvalidInputError, match="stem"):
            Recipe.from_json(short)


def test_emoji_and_symbols_are_tokens_whole_with_what_belongs_to_them():
    text = "I ❤️ it 👍🏽👍🏽 🇫🇷🇩🇪 👨‍👩‍👧 for $5 x=y +1 — ok… (no)"
    found = count_tokens([text, "❤ ascii only = $5"], plain_recipe(minimum_count=1))
    names = set(found.vocabulary)
    assert {"❤", "👍🏽", "🇫🇷", "🇩🇪", "👨‍👩‍👧", "$", "=", "+"} <= names
    assert not names & {"—", "…", "(", ")", "\ufe0f", "🏽"}
    assert found.counts.toarray()[:, found.vocabulary.index("❤")].tolist() == [1, 1]
    assert found.counts.toarray()[:, found.vocabulary.index("=")].tolist() == [1, 1]
    counter = TokenCounter(found.recipe, found.vocabulary)
    assert [text[word.start : word.end] for word in counter.located(text)][:4] == ["I", "❤️", "it", "👍🏽"]
    with pytest.raises(InvalidInputError, match="UNICODE"):
        Recipe(symbols=True)


def test_runs_of_characters_are_those_of_the_slow_obvious_way():
    texts = ["Unbelievable unbelief", "a to 👍 belief", "été"]
    recipe = replace(plain_recipe(minimum_count=1, ngrams=2), characters=4)
    found = count_tokens(texts, recipe)
    counted = found.counts.toarray()
    expected = []
    for text in texts:
        runs = Counter()
        words = text.lower().split()
        runs.update(words)
        runs.update(f"{a} {b}" for a, b in pairwise(words))
        for word in (word for word in words if word.isalnum()):
            edged = f"|{word}|"
            for size in (2, 3, 4):
                for begin in range(len(edged) - size + 1):
                    run = edged[begin : begin + size]
                    if run != edged:
                        left, right = ("" if edge == "|" else "…" for edge in (run[0], run[-1]))
                        runs[left + run.strip("|") + right] += 1
        expected.append(dict(runs))
    got = [{found.vocabulary[j]: int(row[j]) for j in row.nonzero()[0]} for row in counted]
    assert got == expected
    counter = TokenCounter(recipe, found.vocabulary)
    assert (counter.counts(texts * 3).toarray() == list(counted) * 3).all()
    assert (counter.counts(texts[:1]).toarray() == counted[:1]).all()
    assert found.word_map.words_of("…ief") == {"belief": 1, "unbelief": 1}
    assert found.word_map.most_frequent(found.vocabulary.index("…ief"), 5) == ["belief", "unbelief"]
    for wrong in ({"characters": 1}, {"characters": 99}, {"characters": 3, "word_piece": True, "ngrams": 1}):
        with pytest.raises(InvalidInputError):
            replace(recipe, **wrong)
