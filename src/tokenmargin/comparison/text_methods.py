"""Methods that give each token of a text a signed number, towards the class that a classifier predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from tokenmargin._notebook import Told
from tokenmargin.classify.baseline import TfidfLogistic
from tokenmargin.classify.token_model import TokenModel
from tokenmargin.comparison.corpus_methods import Learnt
from tokenmargin.comparison.explained import ExplainedTexts, directed, masked
from tokenmargin.comparison.lime_explainer import lime_weights
from tokenmargin.comparison.shap_explainers import Masked, kernel_values, linear_values, permutation_values
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Knowledge(Told):
    """Knowledge that a method may use besides the texts that it explains.

    Args:
        learnt: the texts learnt from, and the two classifiers.
        numbers: numbers that the methods of a corpus give each token, by their keys, each of shape (V, K').
        permutations: number of permutations of shap.PermutationExplainer.
        samples: number of samples of shap.KernelExplainer and of LIME.
        seed: seed of everything random.
    """

    learnt: Learnt
    numbers: dict[str, np.ndarray]
    permutations: int = 10
    samples: int = 1000
    seed: int = 0


#: Yields the numbers of some texts after the other: those of all stored counts of the texts so far, in their order.
Explain = Callable[[ExplainedTexts, Knowledge], Iterator[np.ndarray]]


def attention_value(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """sqrt(m) attention_s value_s, which with a constant adds up to our classifier's log-odds."""
    parts = known.learnt.attention.contributions(judged.counts)
    yield directed(parts.data, judged.predicted[judged.row_of])


def attention_alone(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """The attention that a text gives to each of its tokens; it has no sign."""
    yield known.learnt.attention.attention(judged.counts).data


def of_corpus(key: str) -> Explain:
    """A number that a token has in the whole corpus, times how often the token occurs in the text."""

    def explain(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
        numbers = np.nan_to_num(known.numbers[key])[judged.counts.indices]
        yield directed(numbers, judged.predicted[judged.row_of]) * judged.counts.data

    return explain


def coefficient_weight(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """Coefficient times TF-IDF weight, which with a constant adds up to the log-odds of the logistic regression."""
    yield _linear_parts(known.learnt.tfidf, judged)


def occlusion(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """Loss of log-odds when the token is left out."""
    for text, n_tokens in enumerate(np.diff(judged.counts.indptr).tolist()):
        masks = np.vstack([np.ones((1, n_tokens), bool), ~np.eye(n_tokens, dtype=bool)])
        odds = judged.log_odds(masked(judged, text, masks), text)
        yield odds[0] - odds[1:]


def integrated_gradients(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """Integrated gradients from the empty text, exactly.

    Of our classifier along presences w_s = t, 0 < t <= 1: with attention ~ w_s and m = sum_s w_s the gradient is
    V/(2 sqrt(tm)) + sqrt(m/t) attention_s (value_s - V), V = sum_s attention_s value_s, whose integral is
    V/sqrt(m) + 2 sqrt(m) attention_s (value_s - V). Of a linear classifier: coefficient times feature.
    """
    model = judged.classifier
    if isinstance(model, TfidfLogistic):
        yield _linear_parts(model, judged)
        return
    assert isinstance(model, TokenModel), "see why_not"
    given, rows = model.attention(judged.counts), judged.row_of
    lengths = np.diff(judged.counts.indptr).astype(np.float64)
    value = directed(model.value[judged.counts.indices], judged.predicted[rows])
    mean = np.bincount(rows, weights=given.data * value, minlength=len(lengths))[rows]
    root = np.sqrt(lengths)[rows]
    yield mean / root + 2.0 * root * given.data * (value - mean)


def shap_linear(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """shap.LinearExplainer, whose background is the texts learnt from."""
    model = judged.classifier
    assert isinstance(model, TfidfLogistic), "see why_not"
    background, features = model.features(known.learnt.counts), model.features(judged.counts)
    columns = model.coefficient
    if columns.shape[1] == 1:
        towards = np.concatenate([-columns, columns], axis=1)
    else:
        towards = columns - columns.mean(axis=1, keepdims=True)
    values = np.empty(features.nnz)
    for k in np.unique(judged.predicted).tolist():
        is_own = judged.predicted == k
        values[is_own[judged.row_of]] = linear_values(towards[:, k], background, features[is_own])
    yield values


def shap_permutation(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """shap.PermutationExplainer on the log-odds."""
    for text, f, n_tokens in _black_boxes(judged, judged.log_odds):
        yield permutation_values(f, n_tokens, permutations=known.permutations, seed=known.seed + text)


def shap_kernel(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """shap.KernelExplainer on the log-odds."""
    for text, f, n_tokens in _black_boxes(judged, judged.log_odds):
        yield kernel_values(f, n_tokens, samples=known.samples, seed=known.seed + text)


def lime(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """lime.LimeTextExplainer on the probability."""

    def probability(counts: sp.csr_array, text: int) -> np.ndarray:
        return judged.probability(counts, np.full(counts.shape[0], text))

    for text, f, n_tokens in _black_boxes(judged, probability):
        yield lime_weights(f, n_tokens, samples=known.samples, seed=known.seed + text)


def at_random(judged: ExplainedTexts, known: Knowledge) -> Iterator[np.ndarray]:
    """Random numbers, which every method must beat."""
    yield np.random.default_rng([known.seed, 2]).random(judged.counts.nnz)


#: Methods by their keys, in the order in which tables show them.
TEXT_METHODS: dict[str, Explain] = {
    "attention_value": attention_value,
    "attention": attention_alone,
    "value": of_corpus("value"),
    "alpha": of_corpus("alpha"),
    "posterior_difference": of_corpus("posterior_difference"),
    "tfidf_coefficient": coefficient_weight,
    "chi_squared": of_corpus("chi_squared"),
    "doubted_chi_squared": of_corpus("doubted_chi_squared"),
    "dirichlet_log_odds": of_corpus("dirichlet_log_odds"),
    "occlusion": occlusion,
    "integrated_gradients": integrated_gradients,
    "shap_linear": shap_linear,
    "shap_permutation": shap_permutation,
    "shap_kernel": shap_kernel,
    "lime": lime,
    "random": at_random,
}

#: Draw samples, so that another seed gives another explanation.
SAMPLED = frozenset({"shap_permutation", "shap_kernel", "lime"})

#: Need packages that the extra `compare` brings.
THIRD_PARTY = {"shap_linear": "shap", "shap_permutation": "shap", "shap_kernel": "shap", "lime": "lime"}


def why_not(key: str, judged: ExplainedTexts) -> str:
    """Reason why a method does not apply to a classifier; "" if it applies."""
    model = judged.classifier
    if key not in TEXT_METHODS:
        raise InvalidInputError(f"no method is called {key!r}: there are {', '.join(TEXT_METHODS)}.")
    if key == "shap_linear" and not isinstance(model, TfidfLogistic):
        return "does not apply: the classifier is not linear"
    if key == "integrated_gradients" and not isinstance(model, TfidfLogistic):
        if not isinstance(model, TokenModel):
            return "does not apply: the gradient of this classifier is not known"
        if not model.root_length:
            return "does not apply: on the way from the empty text this classifier never changes"
    return ""


def _linear_parts(model: TfidfLogistic, judged: ExplainedTexts) -> np.ndarray:
    features = model.features(judged.counts)
    return features.data * directed(model.coefficient[features.indices], judged.predicted[judged.row_of])


def _black_boxes(judged: ExplainedTexts, number: Callable) -> Iterator[tuple[int, Masked, int]]:
    """Each text as a function of the tokens that are left in it; a text without tokens is left out."""
    for text, n_tokens in enumerate(np.diff(judged.counts.indptr).tolist()):
        if n_tokens:
            yield text, partial(_left, judged, number, text), n_tokens


def _left(judged: ExplainedTexts, number: Callable, text: int, masks: np.ndarray) -> np.ndarray:
    """Number of a text for each mask, which leaves some of its tokens."""
    return np.asarray(number(masked(judged, text, masks), text))
