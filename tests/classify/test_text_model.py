"""Predictions as sums of words: exactly, in any recipe, and the words are those of the text."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tokenmargin
from tests.classify.corpora import fitted, texts
from tokenmargin.classify import FitSettings, LabelledCorpus, fit_texts, save
from tokenmargin.classify.text_model import NO_TOKEN
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import CUT, Alphabet, Recipe, plain_recipe

RECIPES = {
    "words": plain_recipe(minimum_count=1),
    "pairs": plain_recipe(minimum_count=1, ngrams=2),
    "stems": plain_recipe(minimum_count=1, language="english"),
    "pieces": Recipe(minimum_count=1, alphabet=Alphabet.ASCII),
    "characters": replace(plain_recipe(minimum_count=1, ngrams=2), characters=4),
}
TEXTS = [
    "A superb film, but the worst — worst! — ending.",
    "",
    "Nothing known here? 7",
    "SUPERB<br />lovely &amp; dull",
]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("classes", [("bad", "good"), ("bad", "good", "odd")])
def test_a_prediction_is_the_sum_of_its_words(name, classes):
    model = fitted(classes, RECIPES[name]).model
    for text, told in zip(TEXTS, model.explain_all(TEXTS), strict=True):
        assert "".join(part.text for part in told.parts) == text
        for pieces in (told.parts, told.units):
            total = told.constant + sum(piece.contribution for piece in pieces)
            assert total == pytest.approx(told.log_odds, abs=1e-12)
        p = told.probabilities
        assert told.log_odds == pytest.approx(np.log(p[told.predicted] / p[told.against]), abs=1e-9)
        assert told.against == max((other for other in p if other != told.predicted), key=p.get)
        assert told.odds_against_rest == pytest.approx(np.log(told.probability / (1 - told.probability)))
        assert told.predicted == max(told.probabilities, key=told.probabilities.get)
        assert sum(told.probabilities.values()) == pytest.approx(1.0)
        attention = sum(part.attention for part in told.parts)
        assert attention == pytest.approx(1.0 if any(part.token != NO_TOKEN for part in told.parts) else 0.0)


def test_the_deciding_words_are_the_telling_ones():
    model = fitted().model
    told = model.explain("the story was superb and the music lovely")
    assert told.predicted == "good"
    assert {unit.name for unit in told.units[:2]} == {"superb", "lovely"}
    assert all(unit.contribution > 0 for unit in told.units[:2])
    against = model.explain("the story was superb, the plot awful, the end dull, the music the worst")
    assert against.predicted == "bad"
    towards = {unit.name: unit.contribution > 0 for unit in against.units}
    assert towards["awful"]
    assert towards["dull"]
    assert towards["worst"]
    assert not towards["superb"]


def test_stems_and_pieces_come_back_as_words():
    model = fitted(recipe=RECIPES["stems"]).model
    told = model.explain("stories")
    assert [told.text[start:end] for unit in told.units for start, end in unit.places] == ["stories"]


def test_a_phrase_is_a_unit_with_all_its_places():
    model = fitted(recipe=RECIPES["pairs"]).model
    pair = next(name for name in model.counter.vocabulary if name.startswith("superb "))
    other = pair.split(" ")[1]
    text = f"Superb {other}, and superb {other} again"
    told = model.explain(text)
    units = {unit.name: unit for unit in told.units}
    assert [text[start:end].lower() for start, end in units[pair].places] == [pair, pair]
    assert len(units["superb"].places) == 2
    counts = model.counter.counts([text])
    sign = 1 if told.predicted == "good" else -1
    alone = sign * model.tokens.contributions(counts).matrix().toarray()[0]
    for name, unit in units.items():
        assert unit.contribution == pytest.approx(alone[model.counter.vocabulary.index(name)], abs=1e-12)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("classes", [("bad", "good"), ("bad", "good", "odd")])
def test_leaving_a_word_out_is_what_the_model_says_of_the_rest(name, classes):
    model = fitted(classes, RECIPES[name]).model
    text = "the superb film and the worst film was dull"
    told = model.explain(text)
    left = {own.name: own for own in told.without()}
    assert set(left) == {unit.name for unit in told.units}
    for unit in told.units:
        rest = list(text)
        for start, end in unit.places:
            rest[start:end] = "☒" * (end - start)  # a word that nobody knows, so that no phrase closes over it
        chance = model.predict_proba(["".join(rest)])[0, model.classes.index(told.predicted)]
        assert left[unit.name].probability == pytest.approx(chance, abs=1e-12)


def test_a_text_without_a_known_word_is_predicted_by_the_base_rate_and_flagged():
    corpus = texts(n=300)
    kept = [j for j, label in enumerate(corpus.labels) if label == "good" or j % 5 == 0]
    skewed = LabelledCorpus(tuple(corpus.texts[j] for j in kept), tuple(corpus.labels[j] for j in kept))
    model = fit_texts(skewed, FitSettings(RECIPES["words"]), corpus).model
    share = np.mean([label == "good" for label in skewed.labels])
    for text in ("", "qqq zzz"):
        told = model.explain(text)
        assert not told.is_known
        assert told.predicted == "good"
        assert told.probability == pytest.approx(share)
        assert told.log_odds == told.constant == pytest.approx(np.log(share / (1 - share)))
    probabilities, known = model.predict_all(["qqq", "a superb film"])
    assert known.tolist() == [0, 3]
    np.testing.assert_allclose(probabilities[0], [1 - share, share])


def test_why_one_class_and_not_another():
    model = fitted(("bad", "good", "odd")).model
    told = model.explain("superb and weird", against="bad")
    assert told.against == "bad" != told.predicted
    p = told.probabilities
    assert told.log_odds == pytest.approx(np.log(p[told.predicted] / p["bad"]), abs=1e-9)
    with pytest.raises(InvalidInputError, match="no class is called"):
        model.explain("superb", against="nobody")


def test_prediction_needs_numpy_alone(tmp_path):
    save(fitted(recipe=RECIPES["pairs"]).model, tmp_path / "model")
    code = (
        "import sys, types, pathlib\n"
        "package = types.ModuleType('tokenmargin')\n"  # without what the package itself imports
        f"package.__path__ = [{str(Path(tokenmargin.__file__).parent)!r}]\n"
        "sys.modules['tokenmargin'] = package\n"
        "from tokenmargin.classify import load\n"
        f"model = load({str(tmp_path)!r})\n"
        "model.predict(['a superb film'] * 50), model.predict(['dull']), list(model.explain('a superb film').units)\n"
        "print([name for name in ('jax', 'scipy', 'jaxtyping', 'pyarrow', 'sklearn') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_predictions_agree_with_explanations():
    model = fitted().model
    corpus = texts(seed=7)
    names = model.predict(corpus.texts)
    assert names.tolist() == [told.predicted for told in model.explain_all(corpus.texts)]
    assert (names == list(corpus.labels)).mean() > 0.8
    assert model.predict_proba([]).shape == (0, 2)


@pytest.mark.parametrize("bad", ["one text", b"bytes", [3], [None]])
def test_what_is_no_text_is_refused(bad):
    model = fitted().model
    with pytest.raises(InvalidInputError):
        model.predict(bad)
    with pytest.raises(InvalidInputError):
        model.explain(bad if not isinstance(bad, str) else 3)


def by_occurrence(told):
    """Units one occurrence of a token at a time: the obvious version."""
    own, names = told._of, told._of.model.counter.vocabulary
    units = {}
    for word, tokens in enumerate(own.places.own):
        tokens = np.frombuffer(tokens, np.int32).tolist()
        for token in tokens:
            name = names[token]
            if CUT in name:
                name = names[tokens[0]] if CUT not in names[tokens[0]] else own.places.words[word]
            units.setdefault(name, []).append((word, 1, token))
    for token, first, size in own.places.runs:
        units.setdefault(names[token], []).append((first, size, token))
    at = {token: j for j, token in enumerate(own.columns.tolist())}
    starts, ends = own.places.starts, own.places.ends
    return {
        name: (
            tuple(dict.fromkeys((starts[first], ends[first + size - 1]) for first, size, _ in places)),
            sum(own.pulls[at[token]] / own.counts[at[token]] for _, _, token in places),
            sum(own.attention[at[token]] / own.counts[at[token]] for _, _, token in places),
        )
        for name, places in units.items()
    }


@pytest.mark.parametrize("characters", [0, 4])
def test_units_are_those_of_every_occurrence_one_by_one(characters):
    corpus = texts(n=60)
    recipe = replace(plain_recipe(minimum_count=1, ngrams=2), characters=characters)
    model = fitted(recipe=recipe, n=60).model
    for told in model.explain_all([*corpus.texts, "", "qqq", "superbly dullest, superb superb film 😀"]):
        slow = by_occurrence(told)
        assert {unit.name: unit.places for unit in told.units} == {name: own[0] for name, own in slow.items()}
        for unit in told.units:
            assert unit.contribution == pytest.approx(slow[unit.name][1], abs=1e-12)
            assert unit.attention == pytest.approx(slow[unit.name][2], abs=1e-12)


def test_runs_of_characters_are_no_known_words():
    model = fitted(recipe=replace(plain_recipe(minimum_count=1), characters=4), n=60).model
    assert model.predict_all(["superb dull", "superbly", "", "qqq"])[1].tolist() == [2, 0, 0, 0]
