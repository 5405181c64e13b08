"""SHAP values of a text's tokens by the package shap (extra `compare`): exact for linear models, sampled for others.

A token that is left out of a text is one that does not occur in it: the background of the sampling explainers is the
empty text, so that tokens a text does not hold have the value 0 and need no evaluations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin.errors import MissingExtraError

#: Function from masks (k, tokens of a text) to k numbers.
Masked = Callable[[np.ndarray], np.ndarray]


def permutation_values(f: Masked, n_tokens: int, *, permutations: int, seed: int) -> np.ndarray:
    """shap.PermutationExplainer, shape (tokens,): 2 m + 1 evaluations a permutation, forwards and backwards."""
    shap = _package()
    with _seeded(seed):
        # seed=None would draw a new state from the operating system.
        explainer = shap.PermutationExplainer(f, np.zeros((1, n_tokens)), seed=seed)
        told = explainer(np.ones((1, n_tokens)), max_evals=permutations * (2 * n_tokens + 1), silent=True)
    return np.asarray(told.values[0], dtype=np.float64)


def kernel_values(f: Masked, n_tokens: int, *, samples: int, seed: int) -> np.ndarray:
    """shap.KernelExplainer with that many samples and without its selection of features, shape (tokens,)."""
    shap = _package()
    with _seeded(seed):
        explainer = shap.KernelExplainer(f, np.zeros((1, n_tokens)))
        told = explainer.shap_values(np.ones((1, n_tokens)), nsamples=samples, l1_reg=0, silent=True)
    return np.asarray(told[0], dtype=np.float64)


def linear_values(coefficient: np.ndarray, background: sp.csr_array, features: sp.csr_array) -> np.ndarray:
    """shap.LinearExplainer: coefficient_s (x_s - mean of the background), for the stored entries, shape (nnz,)."""
    shap = _package()
    mean = np.asarray(background.mean(axis=0)).ravel()
    explainer = shap.LinearExplainer((coefficient, 0.0), (mean, np.zeros((0, 0))))
    parts = [np.zeros(0)]
    for row in range(features.shape[0]):  # a text at a time: all texts x all tokens, dense, might not fit
        own = slice(features.indptr[row], features.indptr[row + 1])
        values = explainer.shap_values(features[[row]].toarray())
        parts.append(np.asarray(values, dtype=np.float64)[0, features.indices[own]])
    return np.concatenate(parts)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """shap draws from NumPy's global state: it is seeded for the time being, and the user's state comes back."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            # What shap's own dependencies deprecate, or a regression without noise, is no news to our user.
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import shap
    except ImportError:
        raise MissingExtraError("SHAP", "compare") from None
    return shap
