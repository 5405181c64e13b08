"""Methods that give each token of a corpus a signed number, from counts or from a trained classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tokenmargin._notebook import Told
from tokenmargin.classify.baseline import TfidfLogistic, fit_tfidf_logistic
from tokenmargin.classify.doubt import doubted_labels
from tokenmargin.classify.gathering import mean_pull
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.classify.token_model import TokenModel
from tokenmargin.classify.token_table import class_signs, occurrence_difference, signed_frequency

#: Number of words that the prior adds to each class, spread over tokens as in the whole corpus.
PRIOR_WORDS = 1000.0


@dataclass(frozen=True, eq=False, repr=False)
class Learnt(Told):
    """Texts that were learnt from, and the two classifiers that learnt from them.

    Args:
        counts: shape (n, V).
        targets: the number of each text's class, shape (n,).
        n_classes: K.
        fitted: our classifier, and the penalties that were chosen for it.
        tfidf: TF-IDF with logistic regression.
    """

    counts: sp.csr_array
    targets: np.ndarray
    n_classes: int
    fitted: Fitted
    tfidf: TfidfLogistic

    def again(self, rows: np.ndarray) -> Learnt:
        """The same, learnt from other rows of the texts, with the penalties that were chosen before."""
        counts, targets = sp.csr_array(self.counts[rows]), self.targets[rows]
        ours = fit_tokens(counts, targets, self.n_classes, **self.fitted.penalties)
        tfidf = fit_tfidf_logistic(counts, targets, C=self.tfidf.C)
        return Learnt(counts, targets, self.n_classes, ours, tfidf)

    @property
    def attention(self) -> TokenModel:
        """Our classifier."""
        return self.fitted.model


def pull(learnt: Learnt) -> np.ndarray:
    """Attention times value, which a token adds to the log-odds of a text that holds it, mean over those texts."""
    return mean_pull(learnt.attention, learnt.counts)


def attention(learnt: Learnt) -> np.ndarray:
    """A token's share of all the attention that the texts give; it has no sign."""
    given = learnt.attention.attention(learnt.counts)
    share = np.bincount(given.indices, weights=given.data, minlength=given.shape[1]) / max(given.shape[0], 1)
    return share[:, None]


def value(learnt: Learnt) -> np.ndarray:
    """Value of each token: the evidence that it gives once it is attended to."""
    return learnt.attention.value


def alpha(learnt: Learnt) -> np.ndarray:
    """The signed frequency of each token [E, (3)]."""
    return signed_frequency(learnt.counts, class_signs(learnt.targets, learnt.n_classes))


def posterior_difference(learnt: Learnt) -> np.ndarray:
    """P(class | token) - P(another class | token) over occurrences [E, (37)]."""
    return occurrence_difference(counts_by_class(learnt))


def tfidf_coefficient(learnt: Learnt) -> np.ndarray:
    """The coefficient of a token in a logistic regression of TF-IDF weights."""
    return learnt.tfidf.coefficient


def chi_squared(learnt: Learnt) -> np.ndarray:
    """Chi-squared distance of a token's counts from independence of the class; positive where there are too many.

    sum over classes of (observed - expected)^2 / expected, expected by the share of texts (as scikit-learn's `chi2`).
    """
    return _chi_squared(learnt.counts, _members(learnt))


def doubted_chi_squared(learnt: Learnt) -> np.ndarray:
    """Chi-squared distance of a token's counts from independence of the class that each text is believed to be of.

    The label of a text is doubted as far as a fit to other texts gives reason to.
    """
    return _chi_squared(learnt.counts, doubted_labels(learnt.counts, learnt.targets, learnt.n_classes, learnt.fitted))


def _chi_squared(counts: sp.csr_array, members: np.ndarray) -> np.ndarray:
    """The same, by the share of each text that is of a class, shape (n, K)."""
    observed = np.asarray(counts.T @ members)
    directions = _of_class(observed)
    total = observed.sum(axis=1, keepdims=True)
    share = _of_class(members.mean(axis=0)[None])
    expected = total * share
    excess = directions - expected
    with np.errstate(invalid="ignore", divide="ignore"):
        size = excess**2 / expected + excess**2 / (total - expected)
    return np.nan_to_num(np.sign(excess) * size)


def dirichlet_log_odds(learnt: Learnt) -> np.ndarray:
    """Log-odds ratio of a token between a class and the others, with an informative Dirichlet prior, in its errors.

    delta_s = log (y_s + a_s)/(n + a - y_s - a_s) - the same of the others, a_s spread as the whole corpus;
    z_s = delta_s / sqrt(1/(y_s + a_s) + 1/(y'_s + a_s)) (Monroe, Colaresi and Quinn, 2008).
    """
    observed = counts_by_class(learnt)
    total = observed.sum(axis=1, keepdims=True)
    prior = PRIOR_WORDS * total / max(float(total.sum()), 1.0)
    there = _of_class(observed) + prior
    elsewhere = total - _of_class(observed) + prior
    with np.errstate(invalid="ignore", divide="ignore"):
        odds = np.log(there / (there.sum(axis=0) - there)) - np.log(elsewhere / (elsewhere.sum(axis=0) - elsewhere))
        return np.nan_to_num(odds / np.sqrt(1 / there + 1 / elsewhere))


#: Function of each method, by its key.
CORPUS_METHODS: dict[str, Callable[[Learnt], np.ndarray]] = {
    "attention_value": pull,
    "attention": attention,
    "value": value,
    "alpha": alpha,
    "posterior_difference": posterior_difference,
    "tfidf_coefficient": tfidf_coefficient,
    "chi_squared": chi_squared,
    "doubted_chi_squared": doubted_chi_squared,
    "dirichlet_log_odds": dirichlet_log_odds,
}


def sizes(numbers: np.ndarray) -> np.ndarray:
    """Importance of each token, whatever the direction, shape (V,); 0 if its number is not known."""
    return np.abs(np.nan_to_num(numbers)).max(axis=1)


def counts_by_class(learnt: Learnt) -> np.ndarray:
    """Number of times that each token occurs in texts of each class, shape (V, K)."""
    return np.asarray(learnt.counts.T @ _members(learnt))


def _members(learnt: Learnt) -> np.ndarray:
    return (learnt.targets[:, None] == np.arange(learnt.n_classes)).astype(np.float64)


def _of_class(by_class: np.ndarray) -> np.ndarray:
    """The columns that have a direction: the last of two classes, all of more."""
    return by_class[:, 1:] if by_class.shape[1] == 2 else by_class
