"""AttentionClassifier among scikit-learn's own tools: its checks, with no list of exceptions, and what people build."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from tests.classify.test_token_model import corpus
from tokenmargin.errors import InvalidInputError

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.feature_extraction.text import CountVectorizer  # noqa: E402
from sklearn.feature_selection import SelectKBest, chi2  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.multiclass import OneVsRestClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils import get_tags  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import tokenmargin  # noqa: E402
from tokenmargin import AttentionClassifier  # noqa: E402
from tokenmargin.classify import fit_tokens  # noqa: E402

#: Probabilities of two fits whose sums differ in their last bits, both stopped after few steps.
SAME_FIT = 1e-6


@parametrize_with_checks([AttentionClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_only_tag_is_that_counts_may_be_sparse():
    from sklearn.linear_model import LogisticRegression

    ours, usual = get_tags(AttentionClassifier()), get_tags(LogisticRegression())
    assert ours.input_tags == usual.input_tags
    assert ours.classifier_tags == usual.classifier_tags


def named(classes=2, **options):
    counts, targets = corpus(classes=classes, **options)
    return counts, np.array(["bad", "good", "odd", "plain"])[targets]


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_the_token_model_under_the_names_of_the_classes(classes):
    counts, y = named(classes)
    model = AttentionClassifier().fit(counts, y)
    core = fit_tokens(counts, np.searchsorted(model.classes_, y), classes)
    assert (model.value_ == core.model.value).all()
    assert (model.score_ == core.model.score).all()
    assert model.n_iter_ == core.n_iter
    assert model.ridge_ == core.ridge_value
    probabilities = model.predict_proba(counts)
    assert (model.predict(counts) == model.classes_[probabilities.argmax(axis=1)]).all()
    assert model.score(counts, y) > 0.6
    dense = model.decision_function(counts.toarray())
    assert (dense == model.decision_function(sp.csc_matrix(counts))).all()
    assert dense.shape == ((120,) if classes == 2 else (120, 3))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_prediction_is_exactly_the_sum_of_what_words_contribute(classes):
    counts, y = named(classes)
    model = AttentionClassifier().fit(counts, y)
    said = model.explain(counts)
    sums = [
        sum(said.data[a:b], np.zeros(said.data.shape[1])) for a, b in zip(said.indptr, said.indptr[1:], strict=False)
    ]
    margins = (np.array(sums) + model.intercept_).reshape(model.decision_function(counts).shape)
    assert (margins == model.decision_function(counts)).all()


def test_clone_and_pickle_keep_it():
    counts, y = named()
    model = AttentionClassifier(power=0.7, ridge=0.1).fit(counts, y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.decision_function(counts) == model.decision_function(counts)).all()
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "token_model_")


TEXTS = ["a fine film", "a fine, warm film", "warm and fine", "a dull film", "dull and cold", "a cold, dull thing"] * 4
LABELS = ["good", "good", "good", "bad", "bad", "bad"] * 4


def test_pipeline_grid_search_and_calibration():
    pipeline = make_pipeline(CountVectorizer(), AttentionClassifier())
    search = GridSearchCV(pipeline, {"attentionclassifier__ridge": [0.01, 1.0]}, cv=3).fit(TEXTS, LABELS)
    assert search.best_score_ == 1.0
    assert list(search.predict(["a warm thing", "cold"])) == ["good", "bad"]
    calibrated = CalibratedClassifierCV(pipeline, cv=3).fit(TEXTS, LABELS)
    assert calibrated.predict_proba(["warm"])[0, 1] > 0.5


def test_set_output_and_feature_names():
    arrow = pytest.importorskip("pyarrow")
    columns = {f"word{j}": column for j, column in enumerate(np.asarray(corpus()[0].toarray()).T)}
    frame, y = arrow.table(columns), named()[1]
    model = AttentionClassifier().fit(frame, y)
    assert list(model.feature_names_in_) == list(columns)
    assert set(model.token_table_.token) == set(columns)
    chained = make_pipeline(SelectKBest(chi2, k=5), AttentionClassifier()).set_output(transform="default")
    assert chained.fit(frame, y).predict(frame).shape == y.shape
    pandas = pytest.importorskip("pandas")
    chained.set_output(transform="pandas").fit(pandas.DataFrame(columns), y)
    assert len(chained[-1].feature_names_in_) == 5


def test_the_table_is_that_of_the_tokens_that_decide():
    counts, y = named(3)
    model = AttentionClassifier().fit(counts, y)
    table = model.token_table_
    assert len(table) == 30
    np.testing.assert_array_equal(table.score, model.score_[table.column])
    own = model.value_[table.column]
    np.testing.assert_array_equal(table.value, own - own.mean(axis=1, keepdims=True))
    assert [table.token[row] for row in range(30)] == [f"x{column}" for column in table.column]
    assert (table.documents == (counts.toarray() > 0).sum(axis=0)[table.column]).all()
    assert table.classes == tuple(str(name) for name in model.classes_)
    assert (np.diff(table.decides) <= 0).all()


def test_a_pickle_holds_the_table_and_no_documents():
    counts, y = named(3)
    model = AttentionClassifier().fit(counts, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.token_table_.pull, model.token_table_.pull)
    assert again._of_table is None


def test_the_page_shows_tokens_and_runs_none_of_them():
    arrow = pytest.importorskip("pyarrow")
    nasty = "<script>alert(1)</script>"
    columns = {nasty: [3, 2, 0, 0] * 5, "b": [0, 0, 2, 3] * 5, "c": [1] * 20}
    model = AttentionClassifier()
    assert "Tokens that pull" not in model._repr_html_()
    model.fit(arrow.table(columns), ["<i>", "<i>", "z", "z"] * 5)
    for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        table = page[page.index("<table><caption>Tokens") :]
        assert "&lt;script&gt;alert(1)" in table
        assert "&lt;i&gt;" in table
        assert "<script>" not in table
        assert "<i>" not in table


def test_class_weight_is_a_weight():
    counts, y = named(n=200)
    by_class = AttentionClassifier(class_weight={"bad": 3.0}).fit(counts, y)
    by_document = AttentionClassifier().fit(counts, y, sample_weight=np.where(y == "bad", 3.0, 1.0))
    assert (by_class.value_ == by_document.value_).all()
    rare = np.flatnonzero((y == "good") | (np.arange(200) % 8 == 0))
    balanced = AttentionClassifier(class_weight="balanced").fit(counts[rare], y[rare])
    plain = AttentionClassifier().fit(counts[rare], y[rare])
    assert (balanced.predict(counts) == "bad").sum() > (plain.predict(counts) == "bad").sum()


def test_early_stopping_holds_a_part_out_and_follows_the_seed():
    counts, y = named(n=300, V=200, clean=1.5)
    weak = {"ridge": 1e-3, "ridge_score": 1e-2, "tol": 0.0}
    one, two, other = (
        AttentionClassifier(early_stopping=True, random_state=seed, **weak).fit(counts, y) for seed in (0, 0, 1)
    )
    full = AttentionClassifier(**weak, max_iter=60).fit(counts, y)
    assert (one.value_ == two.value_).all()
    assert (one.value_ != other.value_).any()
    assert one.n_iter_ < full.n_iter_


def test_a_width_trains_embeddings_of_two_classes():
    counts, y = named(n=300, clean=6.0)
    one, two = (AttentionClassifier(width=8, epochs=15, random_state=3).fit(counts, y) for _ in range(2))
    assert (one.value_ == two.value_).all()
    assert one.token_model_.power == 1.0
    assert one.score(counts, y) > 0.8
    with pytest.raises(InvalidInputError, match="no weights"):
        AttentionClassifier(width=8).fit(counts, y, sample_weight=np.ones(300))
    counts, y = named(3, n=300, clean=6.0)
    with pytest.raises(InvalidInputError, match="OneVsRestClassifier"):
        AttentionClassifier(width=8).fit(counts, y)
    several = OneVsRestClassifier(AttentionClassifier(width=8, epochs=15, random_state=3)).fit(counts, y)
    assert several.score(counts, y) > 0.7


def test_negative_features_are_two_tokens_and_counts_stay_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] > 0
    model = AttentionClassifier().fit(X, y)
    assert sorted(model.token_table_.token) == ["-x0", "-x1", "-x2", "x0", "x1", "x2"]
    assert model.value_[0] > 0 > model.value_[3]
    with pytest.raises(InvalidInputError, match="negative"):
        AttentionClassifier().fit(np.abs(X), y).predict(X)


def test_what_is_no_classification_is_refused_in_words():
    counts, y = named()
    with pytest.raises(InvalidInputError, match="one class only"):
        AttentionClassifier().fit(counts, np.full(120, "good"))
    for no_counts in (["a good film", "a bad film"], np.array(["a good film", "a bad film"], dtype=object)):
        with pytest.raises(InvalidInputError, match=r"X holds texts.*CountVectorizer.*fit_texts"):
            AttentionClassifier().fit(no_counts, [1, 0])
    with pytest.raises(InvalidInputError, match=r"X holds texts"):
        AttentionClassifier().fit(counts, y).predict(["a good film"])
    with pytest.raises(InvalidInputError, match="ridge_score"):
        AttentionClassifier(ridge_score=0.0).fit(counts, y)
    with pytest.raises(ValueError, match="NaN"):
        AttentionClassifier().fit(np.where(counts.toarray() > 2, np.nan, 1.0), y)


def test_scikit_learn_is_loaded_by_the_classifier_alone():
    code = (
        "import sys, tokenmargin; assert 'sklearn' not in sys.modules; "
        "tokenmargin.AttentionClassifier; assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "AttentionClassifier" in tokenmargin.__all__
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        tokenmargin.Nothing  # noqa: B018


def test_without_scikit_learn_the_extra_is_named():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import tokenmargin\n"
        "tokenmargin.classify.fit_tokens\n"
        "try: tokenmargin.AttentionClassifier\n"
        "except tokenmargin.errors.MissingExtraError as error: assert 'tokenmargin[sklearn]' in str(error)\n"
        "else: raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
