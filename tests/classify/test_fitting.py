"""From texts to a page: honest numbers, nothing leaks, the same seed gives the same."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.classify.corpora import TELLING, fitted, made_words, texts, topics
from tests.classify.test_token_model import corpus as counted
from tokenmargin.classify import FitSettings, LabelledCorpus, Origin, _resampling, fit_embeddings, fit_texts, fit_tokens
from tokenmargin.classify._plain_words import how_far_to_trust_it, what_decides
from tokenmargin.classify._scale import scale_metrics
from tokenmargin.classify.evaluation import calibration_curve
from tokenmargin.classify.fitting import alike_labels
from tokenmargin.errors import InvalidInputError
from tokenmargin.report import fit_page
from tokenmargin.text import plain_recipe
from tokenmargin.text.counter import Occurrences
from tokenmargin.training import Checkpoint

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
    repeated, judged = found.metrics["repeated_test_documents"], found.metrics["test_documents"]
    assert 0 < repeated < judged
    assert not any("had not seen" in sentence for sentence in found.report.sentences)
    low, high = found.metrics["unrepeated_accuracy_interval"]
    assert low <= found.metrics["unrepeated_accuracy"] <= high
    (said,) = [sentence for sentence in found.report.trust if "word for word" in sentence]
    assert f"of the other {judged - repeated}, {100 * found.metrics['unrepeated_accuracy']:.1f}% are right" in said
    # As many as there are texts, less the different ones, of those learnt from.
    copied = found.metrics["copied_train_documents"]
    assert any(sentence.startswith(f"{copied} of the") and "too narrow" in sentence for sentence in found.report.trust)
    page = fit_page(found.report)
    assert "not seen in training" not in page
    assert "had not seen" not in page


def test_texts_that_stand_once_are_said_to_be_unseen():
    corpus = texts(n=100)
    marked = LabelledCorpus(tuple(f"{text} {row}" for row, text in enumerate(corpus.texts)), corpus.labels)
    found = fit_texts(marked, FitSettings(PLAIN))
    assert found.metrics["repeated_test_documents"] == found.metrics["copied_train_documents"] == 0
    assert "unrepeated_accuracy" not in found.metrics
    assert any("that it had not seen" in sentence for sentence in found.report.sentences)
    assert not any("word for word" in sentence or "too narrow" in sentence for sentence in found.report.trust)
    assert "not seen in training" in fit_page(found.report)


def test_texts_without_a_token_that_is_known_are_counted_and_said():
    corpus = texts(n=100)
    signs = LabelledCorpus((*corpus.texts, *("!?", "...") * 50), (*corpus.labels, *("good", "bad") * 50))
    found = fit_texts(signs, FitSettings(PLAIN))
    unread = found.metrics["unread_test_documents"]
    assert unread == sum(not view.marks for view in found.report.documents) > 0
    (said,) = [sentence for sentence in found.report.trust if "no token that it knows" in sentence]
    assert said.startswith(f"{unread} of the 40 texts")
    assert fitted().metrics["unread_test_documents"] == 0
    assert not any("no token that it knows" in sentence for sentence in fitted().report.trust)


def test_texts_shown_have_the_number_of_their_row_in_the_file():
    corpus = texts(n=60)
    rows = tuple(range(5, 65))  # the first five rows were left out
    found = fit_texts(LabelledCorpus(corpus.texts, corpus.labels, rows), FitSettings(PLAIN))
    for view in found.report.documents:
        assert view.text == corpus.texts[view.row - 5]
    judged = LabelledCorpus(corpus.texts[:10], corpus.labels[:10], tuple(range(100, 110)))
    found = fit_texts(corpus, FitSettings(PLAIN), judged)
    assert sorted(view.row for view in found.report.documents) == list(range(100, 110))
    with pytest.raises(InvalidInputError, match="one row a text"):
        LabelledCorpus(("a",), ("x",), (1, 2))


def test_texts_of_another_table_to_judge_by():
    found = fit_texts(texts(), FitSettings(PLAIN), texts(seed=3, n=60))
    assert found.metrics["test_documents"] == 60
    assert found.metrics["train_documents"] == 240
    with pytest.raises(InvalidInputError, match="'odd'"):
        fit_texts(texts(), FitSettings(PLAIN), texts(("bad", "odd"), n=20))


def test_mistakes_come_first_and_marks_stand_at_their_words():
    corpus = texts(n=400)
    found = fit_texts(corpus, FitSettings(PLAIN))
    wrong = [view.is_mistake for view in found.report.documents]
    assert wrong == sorted(wrong, reverse=True)
    assert any(wrong)
    for view in found.report.documents:
        assert view.text == corpus.texts[view.row]
        assert view.truth == corpus.labels[view.row]
        assert view.against == (view.truth if view.is_mistake else ({"bad", "good"} - {view.truth}).pop())
        for mark in view.marks:
            for start, end in mark.places:
                assert str(found.tokens.token[mark.token]) == view.text[start:end].lower() == mark.name
            left = "".join(view.text[: mark.places[0][0]] + view.text[mark.places[0][1] :])
            if len(mark.places) == 1:
                again = found.model.predict_proba([left])[0, found.model.classes.index(view.predicted)]
                assert mark.without == pytest.approx(again, abs=1e-12)


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
    low, high, first = found.tokens.rank_low, found.tokens.rank_high, found.tokens.first
    assert (low >= 1).all()
    assert (low <= high).all()
    assert low[0] == 1
    assert first.sum() == pytest.approx(1.0), "one token stands first in each fit"
    assert (low[telling] <= len(telling)).all()
    assert fitted().tokens.spread is None


def test_the_origin_is_on_the_page():
    origin = Origin(
        "reviews.csv", "tokenmargin fit reviews.csv", ("said",), (("no text", 2, "3, 9"),), {"reviews.csv": "ab"}
    )
    found = fit_texts(texts(), FitSettings(PLAIN), origin=origin)
    assert found.report.title == "reviews.csv"
    assert found.report.rows_left_out == (("no text", 2, "3, 9"),)
    assert found.report.manifest["files"] == {"reviews.csv": "ab"}


def test_a_class_of_one_text_is_left_out_where_two_remain_and_is_said():
    own = texts(n=60)
    odd = LabelledCorpus(("only one", *own.texts), ("rare", *own.labels))
    found = fit_texts(odd, FitSettings(PLAIN))
    assert found.model.classes == ("bad", "good")
    assert found.chosen[0] == (
        "1 class with one text only is left out, as it cannot be both learnt from and judged by: 'rare'"
    )
    for document in found.report.documents:  # rows are still those of the file
        assert odd.texts[document.row].startswith(document.text[:20])


def test_what_cannot_be_learnt_is_refused():
    with pytest.raises(InvalidInputError, match="at least two classes"):
        fit_texts(LabelledCorpus(("a", "b"), ("x", "x")), FitSettings(PLAIN))
    with pytest.raises(InvalidInputError, match="the class 'rare' has one text only"):
        fit_texts(LabelledCorpus(("a", "b", "c"), ("x", "x", "rare")), FitSettings(PLAIN))
    with pytest.raises(InvalidInputError, match="no texts"):
        LabelledCorpus((), ())
    with pytest.raises(InvalidInputError, match="one label a text"):
        LabelledCorpus(("a",), ("x", "y"))
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        fit_texts(texts(), replace(FitSettings(PLAIN), test_share=1.5))


class Stop(Exception):
    pass


def stop_at(what, number):
    """Progress that breaks off."""

    def progress(done, total, told):
        if (told, done) == (what, number):
            raise Stop

    return progress


def test_an_interrupted_fit_goes_on_with_the_next_stage(tmp_path, monkeypatch):
    corpus, settings, calls = texts(), FitSettings(PLAIN, bootstrap=3), []
    whole = fit_texts(corpus, settings)
    stop = stop_at("fitting again to resampled texts", 2)
    with pytest.raises(Stop):
        fit_texts(corpus, settings, progress=stop, checkpoint=Checkpoint(tmp_path))
    fit = _resampling.fit_tokens
    monkeypatch.setattr(_resampling, "fit_tokens", lambda *a, **k: calls.append(k) or fit(*a, **k))
    again = fit_texts(corpus, settings, checkpoint=Checkpoint(tmp_path))
    assert len(calls) == 1, "of three fits to resampled texts two were finished"
    assert json.dumps(again.metrics) == json.dumps(whole.metrics)
    for name, column in whole.tokens.columns().items():
        assert (column == again.tokens.columns()[name]).all(), name
    with pytest.raises(InvalidInputError, match="documents: saved"):
        fit_texts(texts(seed=1), settings, checkpoint=Checkpoint(tmp_path))


@pytest.mark.parametrize("early", [False, True], ids=["", "stopped early"])
def test_a_fit_interrupted_in_its_steps_ends_in_the_same_bytes(tmp_path, early):
    counts, targets = counted(n=700)
    held = np.arange(700) % 5 == 0 if early else None
    options = {"validation": held, "tol": 1e-9, "max_iter": 30, "ridge_value": 0.01}
    whole = fit_tokens(counts, targets, 2, **options)
    assert len(whole.tried) > 1
    place = Checkpoint(tmp_path, every=2)
    with pytest.raises(Stop):
        fit_tokens(counts, targets, 2, **options, progress=stop_at("fitting", 8), checkpoint=place)
    assert [int(path.stem[5:]) for path in place.files()] == [6, 4]
    again = fit_tokens(counts, targets, 2, **options, checkpoint=place)
    for name in ("score", "value", "intercept"):
        assert getattr(again.model, name).tobytes() == getattr(whole.model, name).tobytes()
    for name in ("prior", "ridge_value", "ridge_score", "tried", "losses", "held_out_losses", "n_iter", "converged"):
        assert getattr(again, name) == getattr(whole, name), name
    with pytest.raises(InvalidInputError, match=r"power: saved 0.5, now 1.0"):
        fit_tokens(counts, targets, 2, **options, power=1.0, checkpoint=place)


def test_embeddings_interrupted_in_their_training_keep_the_same_epoch(tmp_path):
    import jax

    counts, targets = counted(n=120)
    options = {"width": 4, "key": jax.random.key(0), "epochs": 6, "validation": np.arange(120) % 4 == 0}
    whole = fit_embeddings(counts, targets, **options)
    place = Checkpoint(tmp_path, every=2)
    with pytest.raises(Stop):
        fit_embeddings(counts, targets, **options, progress=stop_at("training", 4), checkpoint=place)
    again = fit_embeddings(counts, targets, **options, checkpoint=place)
    assert again.n_iter == whole.n_iter
    assert (again.losses, again.held_out_losses) == (whole.losses, whole.held_out_losses)
    assert again.model.value.tobytes() == whole.model.value.tobytes()


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
    (said,) = [s for s in how_far_to_trust_it(evaluation, fitted().metrics) if "give or take" in s]
    assert f"give or take {words}" in said


def test_how_far_probabilities_seem_off_stands_beside_what_chance_makes_of_as_many_texts():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1.0, (400, 120))  # 400 times 120 texts, and probabilities without fault
    curves = [calibration_curve(own, rng.random(120) < own) for own in p]
    seem = np.mean([[100 * size * abs(said - true) / 120 for said, true, size in curve] for curve in curves], axis=0)
    evaluation = replace(fitted().evaluation, calibration=curves[0])
    (said,) = [s for s in how_far_to_trust_it(evaluation, fitted().metrics) if "give or take" in s]
    assert said.endswith(f"probabilities without fault would seem off by {seem.sum():.0f} points with so many texts.")


@pytest.mark.parametrize("classes", [("bad", "good"), ("bad", "good", "odd")])
def test_where_no_token_is_sure_the_nearest_are_named_and_told_apart(classes):
    found = fitted(classes)
    assert any(each.is_sure for each in found.report.deciding)
    none = np.zeros_like(found.tokens.decides_for)
    unsure = what_decides(replace(found.tokens, decides=none[:, 0], decides_for=none))
    for each in unsure:
        assert not each.is_sure
        assert set(TELLING[each.name]) & set(each.rows), "the words of the class, and not of another"
        assert not any(set(TELLING[other]) & set(each.rows) for other in classes if other != each.name)
        assert each.sentence.startswith(f"No token by itself decides for {each.name} beyond what chance")
    assert found.tokens.only(range(5)).leading(3)[1]
    assert not replace(found.tokens, decides=none[:, 0], decides_for=none).leading(3)[1]


def test_a_page_and_tables_of_many_tokens_hold_those_that_decide_most(monkeypatch, tmp_path):
    from tokenmargin.classify import fit_folder, judging

    whole = fitted(recipe=plain_recipe(minimum_count=1, ngrams=2))
    monkeypatch.setattr(judging, "PAGE_NUMBERS", 20)
    monkeypatch.setattr(fit_folder, "TABLE_BYTES", 3000)
    found = fitted(recipe=plain_recipe(minimum_count=1, ngrams=2))
    of_page = found.report.tokens
    assert len(of_page) < len(found.tokens) == len(whole.tokens)
    assert of_page.token[:10].tolist() == whole.tokens.token[:10].tolist()
    for view, before in zip(found.report.documents, whole.report.documents, strict=True):
        for mark, same in zip(view.marks, before.marks, strict=True):
            assert mark.name == same.name == whole.tokens.token[same.token]
            if mark.token >= 0:
                assert of_page.token[mark.token] == mark.name
    fit_folder.write_fit(found, tmp_path / "out", {"report.html": fit_page(found.report)})
    csv = (tmp_path / "out" / "tokens.csv").read_text()
    assert len(csv.encode()) <= 3000
    assert pq.read_table(tmp_path / "out" / "tokens.parquet").num_rows == csv.count("\n") - 1 > 3
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["tokens"] == len(found.tokens)


def test_words_of_the_table_do_what_they_do_in_the_texts():
    """Mean pull of a word with its runs of characters: the slow way is to explain every text that was learnt from."""
    corpus = texts(("bad", "good", "odd"), n=90)
    rare = tuple(
        f"{text} {word}" for text, word in zip(corpus.texts, made_words(90, np.random.default_rng(0)), strict=True)
    )
    corpus = replace(corpus, texts=rare)
    chosen = replace(plain_recipe(minimum_count=2, ngrams=2), characters=3)
    found = fit_texts(corpus, FitSettings(chosen), corpus)
    table, model = found.tokens, found.model
    pulls = {str(name): [] for name in table.token}
    for told in model.explain_all(corpus.texts):
        raw = model.tokens.contributions(model.counter.counts([told.text]))
        told_of = {c: raw.data[j] - raw.data[j].mean() for j, c in enumerate(raw.indices.tolist())}
        held = dict(zip(told._of.columns.tolist(), told._of.counts.tolist(), strict=True))
        places = told._of.places
        own: dict[str, np.ndarray] = {}
        there = Occurrences.of([places])
        for column, first, size in zip(there.columns, there.firsts, there.sizes, strict=True):
            name = model.counter.vocabulary[column]
            if size == 1 and places.words[first] in pulls:
                name = places.words[first]
            own[name] = own.get(name, 0.0) + told_of[column] / held[column]
        for name, pull in own.items():
            if name in pulls:
                pulls[name].append(pull)
    assert any(" " in name for name in pulls)
    assert any("…" in name for name in pulls)
    for row, name in enumerate(table.token):
        np.testing.assert_allclose(table.pull[row], np.mean(pulls[str(name)], axis=0), atol=1e-10)
        assert len(pulls[str(name)]) == table.documents[row]


def test_stars_are_a_scale_and_codes_are_not():
    stars = topics(4, 200)
    names = sorted(set(stars.labels))
    labels = tuple(str(10 * (names.index(label) + 7)) for label in stars.labels)
    found = fit_texts(LabelledCorpus(stars.texts, labels), FitSettings(PLAIN))
    assert found.model.classes == ("70", "80", "90", "100")
    confusion = np.array([[8, 2, 0, 0], [1, 7, 2, 0], [0, 2, 7, 1], [0, 0, 3, 7]])
    near = scale_metrics(("70", "80", "90", "100"), confusion)
    assert near == {"mean_steps_off": 11 / 40, "within_one_step": 1.0}
    assert scale_metrics(("70", "80", "90", "100"), confusion[::-1]) == {}, "mistakes are far: these are codes"
    assert scale_metrics(("a", "80", "90", "100"), confusion) == {}


def test_pairs_that_are_confused_come_with_the_words_that_mislead():
    found = fit_texts(topics(6, 900), FitSettings(PLAIN))
    pairs = found.report.confused
    confusion = found.evaluation.confusion
    assert [pair.texts for pair in pairs] == sorted(confusion[~np.eye(6, dtype=bool)], reverse=True)[: len(pairs)]
    assert pairs[0].words
    number = found.model.classes.index
    for name, pull in pairs[0].words:
        row = found.tokens.token.tolist().index(name)
        apart = found.tokens.pull[row, number(pairs[0].predicted)] - found.tokens.pull[row, number(pairs[0].truth)]
        assert pull > 0
        assert apart > 0


def test_labels_that_look_alike_are_pointed_out():
    corpus = texts(n=120)
    labels = tuple("Good " if label == "good" and row % 4 == 1 else label for row, label in enumerate(corpus.labels))
    found = fit_texts(LabelledCorpus(corpus.texts, labels), FitSettings(PLAIN))
    (said,) = [sentence for sentence in found.report.reading if "capitals or blanks" in sentence]
    assert "'Good ' and 'good'" in said
    (said,) = alike_labels(("bad", "good", "NaN"))
    assert said.startswith("the label 'NaN' reads like a missing value")
    assert not any("capitals or blanks" in sentence for sentence in fitted().report.reading)


def test_a_rare_class_has_its_own_numbers_in_the_first_sentences():
    corpus = texts(n=600)
    kept = [row for row, label in enumerate(corpus.labels) if label == "good" or row % 12 == 0]
    skewed = LabelledCorpus(tuple(corpus.texts[row] for row in kept), tuple(corpus.labels[row] for row in kept))
    found = fit_texts(skewed, FitSettings(PLAIN))
    (said,) = [sentence for sentence in found.report.sentences if "is rare" in sentence]
    own = found.metrics["per_class"]["bad"]
    assert said.startswith("bad is rare")
    assert f"{100 * own['recall']:.1f}% are found (recall)" in said
    assert not any("is rare" in sentence for sentence in fitted().report.sentences)
