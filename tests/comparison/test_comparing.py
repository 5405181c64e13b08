"""A whole comparison on a small corpus whose deciding words are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.classify.corpora import TELLING, texts
from tokenmargin.classify import FitSettings, LabelledCorpus
from tokenmargin.comparison import (
    CompareSettings,
    compare_texts,
    not_run,
    where_it_is_a_tie,
    where_ours_loses,
    where_ours_wins,
)
from tokenmargin.comparison.methods import METHODS, OURS, RAN
from tokenmargin.comparison.text_methods import THIRD_PARTY
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import plain_recipe

OWN = tuple(key for key in METHODS if key not in THIRD_PARTY)
SETTINGS = CompareSettings(explained=15, top=6, resamples=2, methods=OWN)


def compared(classes=("bad", "good"), settings=SETTINGS, show=True):
    fit = FitSettings(plain_recipe(minimum_count=1), show_texts=show)
    # Fewer than a hundred learn, so that nothing is chosen: a prior that silences the filler would leave it no order.
    return compare_texts(texts(classes, n=120), fit, settings)


@pytest.fixture(scope="module")
def comparison():
    return compared()


def row_of(part, key):
    return next(row for row in part.rows if row.method == key)


def test_every_method_ran_and_knows_the_deciding_words(comparison):
    assert [part.key for part in comparison.classifiers] == ["attention", "tfidf"]
    telling = {word for name in ("bad", "good") for word in TELLING[name]}
    for part in comparison.classifiers:
        assert [row.method for row in part.rows] == list(OWN)
        assert {row.status for row in part.rows} == {RAN}
        assert part.accuracy > 0.7
    for row in comparison.corpus:
        if row.method in ("attention_value", "tfidf_coefficient", "chi_squared", "dirichlet_log_odds"):
            assert set(row.top["bad"][:3]) | set(row.top["good"][:3]) == telling, row.method


def test_what_explains_beats_chance_and_ours_is_measured_against_itself(comparison):
    for part in comparison.classifiers:
        chance, own = row_of(part, "random"), row_of(part, OURS)
        assert own.comprehensiveness[1] > chance.comprehensiveness[2]
        assert own.sufficiency[2] < chance.sufficiency[1]
        assert own.comprehensiveness_over_ours == (0.0, 0.0, 0.0)
        assert own.deletion[0] == pytest.approx(own.insertion[-1])
        assert own.deletion[-1] == pytest.approx(own.insertion[0])


def test_matrices_have_ones_on_their_diagonals_and_chance_agrees_with_nobody(comparison):
    for part in comparison.classifiers:
        matrix = np.array(part.agreement)
        np.testing.assert_allclose(np.diag(matrix), 1.0)
        np.testing.assert_allclose(matrix, matrix.T)
        chance = matrix[part.agreeing.index("random"), :-1]
        assert np.abs(chance).max() < 0.35
        assert matrix[part.agreeing.index(OURS), part.agreeing.index("occlusion")] > 0.8
    np.testing.assert_allclose(np.diag(np.array(comparison.correlation)), 1.0)


def test_the_same_seed_gives_the_same_numbers_but_for_the_clock(comparison):
    def timeless(told):
        plain = told.to_json()
        for part in plain["classifiers"]:
            part.pop("seconds_to_fit")
            for row in part["rows"]:
                row.pop("seconds")
        for row in plain["corpus"]:
            row.pop("seconds")
        return plain

    assert timeless(compared()) == timeless(comparison)


def test_ours_is_told_where_it_loses_and_where_it_wins(comparison):
    part = comparison.classifiers[0]
    better = replace(
        row_of(part, "occlusion"), comprehensiveness_over_ours=(0.2, 0.1, 0.3), sufficiency_over_ours=(-0.2, -0.3, -0.1)
    )
    others = tuple(better if row.method == "occlusion" else row for row in part.rows)
    beaten = replace(comparison, classifiers=(replace(part, rows=others), comparison.classifiers[1]))
    told = " ".join(where_ours_loses(beaten))
    assert "Comprehensiveness (more is better) for our classifier: occlusion" in told
    assert "difference +0.2000, 95% interval +0.1000 to +0.3000" in told
    assert "Sufficiency (less is better) for our classifier: occlusion" in told
    assert "right less often" not in told
    worse = replace(comparison, accuracy_difference=(-0.1, -0.15, -0.05))
    assert "right less often" in where_ours_loses(worse)[0]
    same = replace(comparison, corpus=(), classifiers=tuple(
        replace(each, rows=tuple(row for row in each.rows if row.method == OURS)) for each in comparison.classifiers
    ))  # fmt: skip
    assert "no method is better" in where_ours_loses(same)[0]
    assert where_ours_wins(same) == ()
    near = replace(better, comprehensiveness_over_ours=(0.01, -0.1, 0.1))
    others = tuple(near if row.method == "occlusion" else row for row in part.rows)
    even = replace(same, classifiers=(replace(part, rows=others),), accuracy_difference=(0.01, -0.02, 0.04))
    told = where_it_is_a_tie(even)
    assert told[0].endswith("logistic regression are a tie (+1.0 points, 95% interval -2.0 to +4.0).")
    assert any(sentence.startswith("Comprehensiveness") and "occlusion" in sentence for sentence in told)
    assert not any(sentence.startswith("Sufficiency") and "occlusion" in sentence for sentence in told)


def test_a_method_without_its_package_or_its_time_is_named(monkeypatch):
    monkeypatch.setattr("tokenmargin.comparison.methods.find_spec", lambda _: None)
    found = compared(settings=replace(SETTINGS, methods=("lime", "shap_linear", "occlusion"), budget=1e-9))
    told = " ".join(not_run(found))
    assert "LIME for our classifier: not run: needs the extra 'compare'" in told
    assert "SHAP (linear) for our classifier: does not apply" in told
    assert "occlusion for our classifier: did not finish" in told
    assert row_of(found.classifiers[0], OURS).status == RAN


def test_several_classes_and_no_texts_where_none_may_leave():
    found = compared(("bad", "good", "odd"), replace(SETTINGS, methods=("occlusion", "chi_squared")), show=False)
    assert found.shown == ()
    assert set(found.corpus[0].top) == {"bad", "good", "odd"}
    assert row_of(found.classifiers[0], "occlusion").comprehensiveness[0] > 0.1


@pytest.mark.parametrize("wrong", [{"methods": ("divination",)}, {"explained": 0}, {"budget": 0.0}, {"top": -1}])
def test_settings_that_ask_nothing_are_refused(wrong):
    with pytest.raises(InvalidInputError):
        replace(SETTINGS, **wrong)


def test_one_class_and_texts_of_a_word_are_refused():
    fit = FitSettings(plain_recipe(minimum_count=1))
    with pytest.raises(InvalidInputError, match="two classes"):
        compare_texts(LabelledCorpus(("a film",) * 4, ("good",) * 4), fit)
    with pytest.raises(InvalidInputError, match="longer"):
        compare_texts(LabelledCorpus(("superb", "awful") * 10, ("good", "bad") * 10), fit)
