"""Labels as far as other documents bear them out: some of those that were given are wrong, and texts tell which."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import betaincinv

from tokenmargin.classify._choosing import PARTS, places
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.classify.token_model import checked_counts

#: The share of documents, those told most surely by the others, whose mistakes are taken for wrong labels, the fewest
#: of them, and the chance that so many fall among them if labels are wrong less often than is believed.
MOST_SURE, FEWEST_SURE, CHANCE = 0.1, 10, 0.01

#: No probability of a class is believed to be smaller.
LEAST = 1e-3

#: No more of the labels than this are believed to be wrong, of two classes; less of more.
MOST_WRONG = 0.45


def doubted_labels(counts: Any, targets: np.ndarray, n_classes: int, fitted: Fitted) -> np.ndarray:
    """Find the probability that a document is of a class, given its label and what other documents say, shape (n, K).

    A fifth of the documents after the other is predicted by a fit to the others, with the penalties of `fitted`. A
    label is wrong with the same chance everywhere: at least so often, beyond chance, as the tenth of the documents that
    are told most surely has another. By Bayes' rule a label and a prediction together give the class of a document.
    Where predictions explain little, the label stands: doubt is taken in the share min(1, 2 r), r^2 the share of the
    labels' entropy that the predictions explain.

    Args:
        counts: shape (n, V).
        targets: the label of each document, 0 .. n_classes - 1.
        n_classes: K.
        fitted: a fit to these documents.
    """
    matrix = checked_counts(counts)
    given = np.eye(n_classes)[targets]
    predicted = _by_others(matrix, targets, n_classes, fitted)
    if predicted is None:
        return given
    n, wrong = len(targets), predicted.argmax(axis=1) != targets
    sure = np.argsort(-predicted.max(axis=1), kind="stable")[: max(FEWEST_SURE, round(MOST_SURE * n))]
    mistakes = int(wrong[sure].sum())
    share = float(betaincinv(mistakes, len(sure) - mistakes + 1, CHANCE)) if 0 < mistakes < len(sure) else 0.0
    share = min(share, MOST_WRONG * 2 * (n_classes - 1) / n_classes)
    elsewhere = share / (n_classes - 1)  # what is wrong falls on each other class alike
    is_class = np.clip((predicted - elsewhere) / (1 - share - elsewhere), LEAST, 1 - LEAST)
    odds = np.where(given > 0, 1 - max(share, LEAST), max(share, LEAST) / (n_classes - 1)) * is_class
    told = odds / odds.sum(axis=1, keepdims=True)
    priors = given.mean(axis=0)
    entropy = -float(priors[priors > 0] @ np.log(priors[priors > 0]))
    loss = -float(np.log(np.maximum(predicted[np.arange(n), targets], 1e-300)).mean())
    trust = min(1.0, 2 * np.sqrt(max(0.0, 1 - loss / entropy))) if entropy > 0 else 0.0
    return (1 - trust) * given + trust * told


def _by_others(counts: sp.csr_array, targets: np.ndarray, n_classes: int, fitted: Fitted) -> np.ndarray | None:
    """Probabilities of each document by a fit to the other four fifths; None where those lack a class.

    Documents are dealt by what they hold, so that copies fall together.
    """
    part = (places(counts) * PARTS).astype(int)
    predicted = np.zeros((len(targets), n_classes))
    for own in range(PARTS):
        out = part == own
        if len(np.unique(targets[~out])) < n_classes:
            return None
        grown = (~out).mean()
        penalties = fitted.penalties
        penalties |= {name: penalties[name] * grown for name in ("ridge_value", "ridge_score")}
        model = fit_tokens(sp.csr_array(counts[~out]), targets[~out], n_classes, **penalties).model
        if out.any():
            predicted[out] = model.probabilities(sp.csr_array(counts[out]))
    return predicted
