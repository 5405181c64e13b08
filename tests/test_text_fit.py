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
    with pytest.raises(InvalidInputError, match="one text was given where several are expected"):
        found.predict("superb")
    assert "superb" in repr(found)
    columns = found.tokens if isinstance(found.tokens, dict) else {name: found.tokens[name] for name in found.tokens}
    assert len(columns["token"]) == len(found.fitted.tokens)


def test_lists_and_series_are_taken_as_columns_are(found):
    corpus = texts(n=300)
    same = tm.fit(np.array(corpus.texts, dtype=object), label=list(corpus.labels))
    assert json.dumps(same.metrics) == json.dumps(found.metrics)


def test_arrow_tables_and_labels_beside_a_table_are_taken_too(found):
    arrow = pytest.importorskip("pyarrow")
    corpus = texts(n=300)
    table = arrow.table({"review": corpus.texts, "stars": corpus.labels})
    for label in ("stars", table["stars"], corpus.labels):
        assert json.dumps(tm.fit(table, "review", label).metrics) == json.dumps(found.metrics)


@pytest.mark.parametrize("package", ["pandas", "polars", "datasets"])
def test_frames_and_data_sets_are_read(package, found):
    frames = pytest.importorskip(package, reason=f"{package} is not installed")
    corpus = texts(n=300)
    columns = {"review": list(corpus.texts), "stars": list(corpus.labels)}
    if package == "datasets":
        kinds = {"review": frames.Value("string"), "stars": frames.ClassLabel(names=["bad", "good"])}
        data = frames.Dataset.from_dict(columns, features=frames.Features(kinds))
    else:
        data = frames.DataFrame(columns)
    same = tm.fit(data, text="review", label="stars")
    assert json.dumps(same.metrics) == json.dumps(found.metrics)
    assert same.model.classes == ("bad", "good")
    if package == "datasets":
        with pytest.raises(InvalidInputError, match="These are splits: give one of them, data\\['train'\\]"):
            tm.fit(frames.DatasetDict({"train": data}), text="review", label="stars")
        return
    assert type(same.tokens).__module__.split(".")[0] == package
    assert len(same.tokens) == len(same.fitted.tokens)
    for given, own in ((data, data["stars"]), (data.lazy() if package == "polars" else data, "stars")):
        assert json.dumps(tm.fit(given, "review", own).metrics) == json.dumps(found.metrics)
    some = frames.Series(["a superb film", "dull"])
    assert same.predict(some).tolist() == same.model.predict(some).tolist() == ["good", "bad"]
    assert same.model.predict_proba(some).shape == (2, 2)
    assert [told.predicted for told in same.model.explain_all(some)] == ["good", "bad"]
    again = tm.fit(frames.Series(columns["review"]), label=frames.Series(columns["stars"]), features="words")
    assert again.predict(["dull"]).tolist() == ["bad"]


def test_what_people_give_first_is_taken_and_labels_come_back_as_they_were_given(found):
    corpus = texts(n=300)
    own, labels = list(corpus.texts), list(corpus.labels)
    rows = [{"text": text, "label": label} for text, label in zip(own, labels, strict=True)]
    assert json.dumps(tm.fit(own, labels).metrics) == json.dumps(tm.fit(rows).metrics) == json.dumps(found.metrics)
    stars = tm.fit(own, [5 if label == "good" else 1 for label in labels])
    assert stars.predict(["a superb film", "dull"]).tolist() == [5, 1]
    assert stars.explain("a superb film", against=1).predicted == "5"
    assert stars.plot(1) is not None
    with pytest.raises(InvalidInputError, match="give its column"):
        found.predict({"review": own})
    with pytest.raises(InvalidInputError, match="of several labels a text each needs a fit"):
        tm.fit(own, [[label] for label in labels])


def test_seventy_seven_classes_and_chinese_are_fitted_like_any_other():
    kinds = [f"class {k}" for k in range(77)]
    many = tm.fit(
        [f"word{k} and more" for k in range(77) for _ in range(6)], label=[own for own in kinds for _ in range(6)]
    )
    assert len(many.explain("word5").probabilities) == 77
    assert many.explain("word5").predicted == "class 5"
    assert not many.explain("nothing known").is_known
    chinese = tm.fit(["电影很好看", "非常精彩", "难看极了", "太无聊了"] * 12, label=["好", "好", "坏", "坏"] * 12)
    assert chinese.predict(["精彩", "无聊"]).tolist() == ["好", "坏"]


@pytest.mark.parametrize(
    ("data", "label"), [(["one row"], ["x"]), ([], []), (["", ""], ["x", "y"]), (["a", "b"], ["x"])]
)
def test_too_little_is_refused_in_words(data, label):
    with pytest.raises(InvalidInputError, match=r"\w"):
        tm.fit(data, label=label)


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
        ({"text": ["a"], "kind": ["x"]}, "label", "no column 'label'.*Name the columns"),
        ("reviews.csv", "label", "one text, or a path: give a frame"),
        (["a", "b"], "label", "need their labels"),
        (["a", None], ["x", "y"], "text 1 is missing"),
        (["a", 7], ["x", "y"], "text 1 is a int"),
        (["a", "b"], ["x", None], "label 1 is missing"),
        (["a", "b"], ["x", ["y"]], "label 1 is a list: of several labels a text each needs a fit"),
        (["a", "b"], ["x", b"y"], "label 1 is a bytes"),
        (["a", "b"], [1, "1"], "the label '1' is a string in some rows and not in others"),
        (["a", "b"], ["x", "\ud800"], "holds half a character"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(data, label, why):
    with pytest.raises(InvalidInputError, match=why):
        tm.fit(data, label=label)


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(text_fit).failed == 0
