"""Predictions as sums of words: exactly, in any recipe, and the words are those of the text."""

from __future__ import annotations

import pytest

from tests.classify.corpora import fitted, texts
from tokenmargin.classify.text_model import NO_TOKEN
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import Alphabet, Recipe, plain_recipe

RECIPES = {
    "words": plain_recipe(minimum_count=1),
    "pairs": plain_recipe(minimum_count=1, ngrams=2),
    "stems": plain_recipe(minimum_count=1, language="english"),
    "pieces": Recipe(minimum_count=1, alphabet=Alphabet.ASCII),
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
        total = told.constant + sum(part.contribution for part in told.parts)
        assert total == pytest.approx(told.log_odds, abs=1e-12)
        assert told.predicted == max(told.probabilities, key=told.probabilities.get)
        assert sum(told.probabilities.values()) == pytest.approx(1.0)
        attention = sum(part.attention for part in told.parts)
        assert attention == pytest.approx(1.0 if any(part.token != NO_TOKEN for part in told.parts) else 0.0)


def test_the_deciding_words_are_the_telling_ones():
    model = fitted().model
    told = model.explain("the story was superb and the music lovely")
    assert told.predicted == "good"
    assert {part.text for part in told.words()[:2]} == {"superb", "lovely"}
    assert all(part.contribution > 0 for part in told.words()[:2])
    against = model.explain("the story was superb, the plot awful, the end dull")
    assert against.predicted == "bad"
    assert next(part for part in against.words() if part.text == "superb").contribution < 0


def test_stems_and_pieces_come_back_as_words():
    model = fitted(recipe=RECIPES["stems"]).model
    assert {part.text for part in model.explain("stories").words()} == {"stories"}


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
