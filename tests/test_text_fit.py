"""`tokenmargin.fit` on lists, columns and things that look like frames."""

from __future__ import annotations

import doctest
import json

import numpy as np
import pytest

import tokenmargin as tm
from tests.classify.corpora import texts
from tokenmargin import text_fit
from tokenmargin.errors import InvalidInputError

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def found():
    corpus = texts(n=300)
    return tm.fit({"review": list(corpus.texts), "stars": list(corpus.labels)}, text="review", label="stars")


def test_a_fit_predicts_explains_and_is_judged(found):
    assert found.score == found.metrics["accuracy"] > 0.8
    assert found.predict(["a superb film", "dull"]).tolist() == ["good", "bad"]
    assert found.explain("a superb film").units[0].name == "superb"
    assert "superb" in repr(found)
    columns = found.tokens if isinstance(found.tokens, dict) else {name: found.tokens[name] for name in found.tokens}
    assert len(columns["token"]) == len(found.fitted.tokens)


def test_lists_and_series_are_taken_as_columns_are(found):
    corpus = texts(n=300)
    same = tm.fit(np.array(corpus.texts, dtype=object), label=list(corpus.labels))
    assert json.dumps(same.metrics) == json.dumps(found.metrics)


def test_a_fit_is_drawn_shown_and_written(found, tmp_path):
    pytest.importorskip("matplotlib")
    for name in (None, "bad", "good"):
        (ax,) = found.plot(name).axes
        wanted = found.fitted.tokens.towards(name or "good", text_fit.SHOWN)
        assert [label.get_text() for label in ax.get_yticklabels()] == [
            found.fitted.tokens.as_written(row)[0] for row in wanted
        ]
        assert all(bar.get_width() > 0 for bar in ax.patches), "what decides for a class pulls towards it"
    assert "<script" not in found._repr_html_()
    assert "superb" in found._repr_html_()
    page = found.report(tmp_path / "out")
    assert "superb" in page.read_text(encoding="utf-8")
    assert tm.load(tmp_path / "out").predict(["dull"]).tolist() == ["bad"]


def test_features_are_forced_by_name():
    corpus = texts(n=120)
    forced = tm.fit(list(corpus.texts), label=list(corpus.labels), features="pairs")
    assert forced.model.counter.recipe.ngrams == 2
    with pytest.raises(InvalidInputError, match="features='letters'"):
        tm.fit(list(corpus.texts), label=list(corpus.labels), features="letters")


@pytest.mark.parametrize(
    ("data", "label", "why"),
    [
        ({"text": ["a"], "kind": ["x"]}, "label", "no column 'label'"),
        (["a", "b"], "label", "need their labels"),
        (["a", None], ["x", "y"], "text 1 is a NoneType"),
        (["a", "b"], ["x", None], "label 1 is missing"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(data, label, why):
    with pytest.raises(InvalidInputError, match=why):
        tm.fit(data, label=label)


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(text_fit).failed == 0
