"""From texts to a page: honest numbers, nothing leaks, the same seed gives the same."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.explain.corpora import TELLING, fitted, texts
from tokenmargin.errors import InvalidInputError
from tokenmargin.explain._plain_words import how_far_to_trust_it
from tokenmargin.explain.fitting import FitSettings, LabelledCorpus, Origin, fit_texts
from tokenmargin.text import plain_recipe

PLAIN = plain_recipe(minimum_count=1)


@pytest.mark.parametrize("classes", [("bad", "good"), ("bad", "good", "odd")])
def test_the_planted_words_are_found_and_said(classes):
    found = fitted(classes, n=800)
    for name in classes:
        towards = {str(found.tokens.token[row]) for row in found.tokens.towards(name, 3)}
        assert towards == set(TELLING[name])
        assert any(name in sentence and TELLING[name][0] in sentence for sentence in found.report.sentences)
    assert found.metrics["accuracy"] > 0.8
    assert found.metrics["baseline_accuracy"] > 0.8
    json.dumps(found.metrics)
    json.dumps(found.report.manifest)


def test_shuffled_labels_are_not_learnt_and_the_page_says_so():
    corpus = texts(n=2000)
    labels = tuple(np.random.default_rng(0).permutation(corpus.labels).tolist())
    found = fit_texts(LabelledCorpus(corpus.texts, labels), FitSettings(PLAIN))
    low, _ = found.metrics["accuracy_interval"]
    assert low < 0.6
    assert any("not clearly better" in sentence for sentence in found.report.trust)
    told = {row["key"]: row["holds"] for row in found.report.claims}
    assert told["embeddings-thm5"] == ""


def test_nothing_of_the_texts_to_judge_by_is_learnt():
    corpus = texts()
    marked = tuple(f"{text} unseen{row}" for row, text in enumerate(corpus.texts))
    found = fit_texts(LabelledCorpus(marked, corpus.labels), FitSettings(PLAIN))
    known = set(found.model.counter.vocabulary)
    judged = {view.row for view in found.report.documents}
    assert judged
    assert all(f"unseen{row}" not in known for row in judged)


def test_repeated_texts_are_counted_across_the_cut():
    corpus = texts(n=100)
    twice = LabelledCorpus(corpus.texts * 2, corpus.labels * 2)
    found = fit_texts(twice, FitSettings(PLAIN))
    assert found.metrics["repeated_test_documents"] > 0
    assert any("word for word" in sentence for sentence in found.report.trust)


def test_texts_of_another_table_to_judge_by():
    found = fit_texts(texts(), FitSettings(PLAIN), texts(seed=3, n=60))
    assert found.metrics["test_documents"] == 60
    assert found.metrics["train_documents"] == 240
    with pytest.raises(InvalidInputError, match="'odd'"):
        fit_texts(texts(), FitSettings(PLAIN), texts(("bad", "odd"), n=20))


def test_mistakes_come_first_and_pieces_are_the_text():
    corpus = texts(n=400)
    found = fit_texts(corpus, FitSettings(PLAIN))
    wrong = [view.is_mistake for view in found.report.documents]
    assert wrong == sorted(wrong, reverse=True)
    assert any(wrong)
    for view in found.report.documents:
        assert "".join(piece.text for piece in view.pieces) == corpus.texts[view.row]
        assert view.truth == corpus.labels[view.row]
        for piece in view.pieces:
            if piece.token >= 0:
                assert str(found.tokens.token[piece.token]) == piece.text.lower()


def test_passages_hold_their_token():
    found = fitted()
    assert found.report.examples
    for row, passages in found.report.examples.items():
        for name, passage in passages:
            assert name in found.report.classes
            assert str(found.tokens.token[row]) in passage.lower()


def test_no_text_leaves_where_none_may():
    found = fitted(show_texts=False)
    assert found.report.documents == ()
    assert found.report.examples == {}


def test_the_same_seed_gives_the_same_and_another_cuts_otherwise():
    one, same, other = fitted(seed=1), fitted(seed=1), fitted(seed=2)
    assert one.metrics == same.metrics
    np.testing.assert_array_equal(one.tokens.pull, same.tokens.pull)
    assert [view.row for view in one.report.documents] != [view.row for view in other.report.documents]


def test_spread_over_resampled_texts():
    found = fitted(bootstrap=4)
    assert found.tokens.spread is not None
    assert found.tokens.spread.shape == found.tokens.pull.shape
    telling = [row for name in ("bad", "good") for row in found.tokens.towards(name, 3)]
    assert (found.tokens.spread[telling] > 0).all()
    assert fitted().tokens.spread is None


def test_the_origin_is_on_the_page():
    origin = Origin(
        "reviews.csv", "tokenmargin fit reviews.csv", ("said",), (("no text", 2, "3, 9"),), {"reviews.csv": "ab"}
    )
    found = fit_texts(texts(), FitSettings(PLAIN), origin=origin)
    assert found.report.title == "reviews.csv"
    assert found.report.rows_left_out == (("no text", 2, "3, 9"),)
    assert found.report.manifest["files"] == {"reviews.csv": "ab"}


def test_what_cannot_be_learnt_is_refused():
    with pytest.raises(InvalidInputError, match="at least two classes"):
        fit_texts(LabelledCorpus(("a", "b"), ("x", "x")), FitSettings(PLAIN))
    with pytest.raises(InvalidInputError, match="no texts"):
        LabelledCorpus((), ())
    with pytest.raises(InvalidInputError, match="one label a text"):
        LabelledCorpus(("a",), ("x", "y"))
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        fit_texts(texts(), replace(FitSettings(PLAIN), test_share=1.5))


def test_words_are_named_as_they_are_written_apostrophe_and_all():
    corpus = texts(n=80)
    written = tuple(text.replace("awful", "Doesn't").replace("dull", "films") for text in corpus.texts)
    found = fit_texts(LabelledCorpus((*written, "One film's end."), (*corpus.labels, "good")), FitSettings(PLAIN))
    names = dict(zip(map(str, found.tokens.token), found.tokens.words, strict=True))
    assert names["doesnt"] == "doesn't"
    assert names["films"] == "", "most often written without"
    _, rows = found.tokens.shown()
    assert "doesn't" in [row[1] for row in rows]
    assert any("“doesn't”" in sentence for sentence in found.report.sentences)


@pytest.mark.parametrize(("off", "words"), [(0.002, "less than a point"), (0.011, "1 point:"), (0.03, "3 points")])
def test_points_are_counted_as_people_count(off, words):
    evaluation = replace(fitted().evaluation, calibration=((0.5, 0.5 + off, 100),))
    (said,) = [s for s in how_far_to_trust_it(evaluation, (0.0, -0.1, 0.1), 0.5, 0.5, 0) if "give or take" in s]
    assert f"give or take {words}" in said
