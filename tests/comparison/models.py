"""Small corpora and classifiers that explanations are tested on."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify.baseline import fit_tfidf_logistic
from tokenmargin.classify.token_fit import fit_tokens
from tokenmargin.comparison.corpus_methods import CORPUS_METHODS, Learnt
from tokenmargin.comparison.explained import explained_texts
from tokenmargin.comparison.text_methods import Knowledge


def counts(n=120, V=12, n_classes=2, seed=0):
    """Texts in which token k speaks for class k, and the others for nobody."""
    rng = np.random.default_rng(seed)
    targets = np.arange(n) % n_classes
    rates = np.full((n, V), 0.5)
    rates[np.arange(n), targets] = 1.5
    drawn = rng.poisson(rates)
    drawn[:, -1] += 1  # no text is empty
    return sp.csr_array(drawn), targets


def learnt(n_classes=2, **sizes) -> Learnt:
    matrix, targets = counts(n_classes=n_classes, **sizes)
    ours = fit_tokens(matrix, targets, n_classes, ridge_value=0.2)
    return Learnt(matrix, targets, n_classes, ours, fit_tfidf_logistic(matrix, targets, C=3.0))


def knowledge(own: Learnt, **settings) -> Knowledge:
    return Knowledge(own, {key: method(own) for key, method in CORPUS_METHODS.items()}, **settings)


def judged(own: Learnt, which="attention", n=6):
    """Its first texts, explained for one of its classifiers."""
    return explained_texts(which, which, getattr(own, which), own.counts[:n])
