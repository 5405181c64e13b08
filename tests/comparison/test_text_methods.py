"""Numbers for the words of a text: what adds up does, what is exact is, what is sampled comes near it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad

from tests.comparison.models import judged, knowledge, learnt
from tokenmargin.comparison.explained import directed, masked
from tokenmargin.comparison.methods import METHODS, run
from tokenmargin.comparison.text_methods import TEXT_METHODS, THIRD_PARTY, why_not
from tokenmargin.errors import InvalidInputError


@pytest.fixture(scope="module", params=[2, 3])
def own(request):
    return learnt(request.param)


def numbers(key, texts, own, **settings):
    return np.concatenate(list(TEXT_METHODS[key](texts, knowledge(own, **settings))))


def odds_of(texts, text, masks):
    return texts.log_odds(masked(texts, text, masks), text)


def text_slice(texts, text):
    return slice(texts.counts.indptr[text], texts.counts.indptr[text + 1])


def gains(texts, text):
    """What the log-odds of the whole text have over those of the empty one."""
    m = np.diff(texts.counts.indptr)[text]
    odds = odds_of(texts, text, np.stack([np.ones(m, bool), np.zeros(m, bool)]))
    return odds[0] - odds[1]


def shapley(texts, text):
    """Over all subsets."""
    m = int(np.diff(texts.counts.indptr)[text])
    values = np.zeros(m)
    for j in range(m):
        rest = [i for i in range(m) if i != j]
        for size in range(m):
            weight = factorial(size) * factorial(m - size - 1) / factorial(m)
            for chosen in combinations(rest, size):
                mask = np.zeros((2, m), bool)
                mask[:, list(chosen)] = True
                mask[1, j] = True
                without, with_it = odds_of(texts, text, mask)
                values[j] += weight * (with_it - without)
    return values


@pytest.mark.parametrize(
    ("key", "which"),
    [("attention_value", "attention"), ("tfidf_coefficient", "tfidf"), ("integrated_gradients", "attention"),
     ("integrated_gradients", "tfidf")],
)  # fmt: skip
def test_what_adds_up_to_the_prediction_does(own, key, which):
    texts = judged(own, which)
    told = numbers(key, texts, own)
    for text in range(texts.counts.shape[0]):
        assert told[text_slice(texts, text)].sum() == pytest.approx(gains(texts, text), abs=1e-10)


def test_integrated_gradients_are_the_integral(own):
    texts = judged(own)
    told = numbers("integrated_gradients", texts, own)
    model, text = own.attention, 1
    part = text_slice(texts, text)
    loudness = np.exp(model.score[texts.counts.indices[part]]) * texts.counts.data[part] ** model.power
    value = directed(model.value[texts.counts.indices[part]], np.full(part.stop - part.start, texts.predicted[text]))

    def f(w):
        return np.sqrt(w.sum()) * (w * loudness * value).sum() / (w * loudness).sum()

    def slope(s, t, h=1e-6):
        w = np.full(len(value), t)
        up, down = w.copy(), w.copy()
        up[s], down[s] = t * (1 + h), t * (1 - h)
        return (f(up) - f(down)) / (2 * h * t)

    for s in range(3):
        by_hand, _ = quad(lambda u, s=s: slope(s, u**2) * 2 * u, 0, 1)  # t = u^2 takes the root out of the way
        assert told[part][s] == pytest.approx(by_hand, rel=1e-5, abs=1e-7)


def test_occlusion_leaves_one_token_out(own):
    texts = judged(own, "tfidf")
    told = numbers("occlusion", texts, own)
    text = 2
    m = np.diff(texts.counts.indptr)[text]
    whole = odds_of(texts, text, np.ones((1, m), bool))[0]
    for s in range(m):
        left = np.ones((1, m), bool)
        left[0, s] = False
        assert told[text_slice(texts, text)][s] == pytest.approx(whole - odds_of(texts, text, left)[0], abs=1e-12)


def test_every_method_names_the_telling_token_of_a_clear_text(own):
    told = sp.csr_array(np.array([[3, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1]]))
    texts = replace(judged(own), counts=told, predicted=np.array([0]))
    for key in METHODS:
        if key not in ("attention", "random") and not why_not(key, texts) and key not in THIRD_PARTY:
            assert numbers(key, texts, own).argmax() == 0, key


def test_methods_that_do_not_apply_say_why(own):
    assert "not linear" in why_not("shap_linear", judged(own))
    assert why_not("shap_linear", judged(own, "tfidf")) == ""
    rootless = replace(judged(own), classifier=replace(own.attention, root_length=False))
    assert "never changes" in why_not("integrated_gradients", rootless)
    with pytest.raises(InvalidInputError, match="no method is called"):
        why_not("divination", judged(own))


def test_a_method_that_takes_too_long_is_a_row_that_says_so(own):
    now = iter(np.arange(0.0, 100.0, 0.5).tolist())
    texts = judged(own, n=10)
    outcome = run("occlusion", texts, knowledge(own), 2.0, clock=lambda: next(now))
    assert not outcome.ran
    assert outcome.status == "did not finish: 5 of 10 texts in 2 s"
    assert run("occlusion", texts, knowledge(own), 60.0).ran


def test_without_the_extra_a_row_says_what_to_install(own, monkeypatch):
    monkeypatch.setattr("tokenmargin.comparison.methods.find_spec", lambda _: None)
    outcome = run("lime", judged(own), knowledge(own), 60.0)
    assert not outcome.ran
    assert "pip install 'tokenmargin[compare]'" in outcome.status


def test_a_package_that_fails_is_a_row_and_an_error_of_ours_is_an_error(own, monkeypatch):
    def broken(judged, known):
        raise ValueError("singular matrix\nand more")
        yield

    monkeypatch.setitem(TEXT_METHODS, "lime", broken)
    monkeypatch.setitem(TEXT_METHODS, "occlusion", broken)
    monkeypatch.setattr("tokenmargin.comparison.methods.find_spec", lambda _: True)
    outcome = run("lime", judged(own), knowledge(own), 60.0)
    assert outcome.status == "failed in lime: ValueError: singular matrix"
    assert not outcome.ran
    with pytest.raises(ValueError, match="singular"):
        run("occlusion", judged(own), knowledge(own), 60.0)


# --- other people's code ----------------------------------------------------------------------------------------------


def test_shap_kernel_with_all_subsets_and_permutations_come_to_shapley_values(own):
    pytest.importorskip("shap", reason="the extra compare is not installed")
    texts = judged(own)
    text = int(np.argmin(np.diff(texts.counts.indptr)))
    exact, part = shapley(texts, text), text_slice(texts, text)
    kernel = numbers("shap_kernel", texts, own, samples=2000)[part]
    np.testing.assert_allclose(kernel, exact, atol=1e-6)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    drawn = numbers("shap_permutation", texts, own, permutations=60)[part]
    assert np.abs(drawn - exact).max() < 0.1 * np.abs(exact).max()
    assert drawn.sum() == pytest.approx(gains(texts, text), abs=1e-8)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_shap_linear_is_coefficient_times_excess(own):
    pytest.importorskip("shap", reason="the extra compare is not installed")
    texts = judged(own, "tfidf")
    features, mean = own.tfidf.features(texts.counts), own.tfidf.features(own.counts).mean(axis=0)
    towards = directed(own.tfidf.coefficient[features.indices], texts.predicted[texts.row_of])
    expected = towards * (features.data - np.asarray(mean).ravel()[features.indices])
    np.testing.assert_allclose(numbers("shap_linear", texts, own), expected, atol=1e-9)


def test_lime_is_told_apart_by_its_seed_and_finds_the_telling_token(own):
    pytest.importorskip("lime", reason="the extra compare is not installed")
    told = sp.csr_array(np.array([[3, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1]]))
    texts = replace(judged(own), counts=told, predicted=np.array([0]))
    one, again, other = (numbers("lime", texts, own, samples=200, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert one.argmax() == 0
