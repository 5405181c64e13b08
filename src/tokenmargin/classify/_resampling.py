"""Fits again to texts drawn with repeats: how far pulls spread, and how steady the ranks of tokens are."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tokenmargin._progress import Progress, silent
from tokenmargin._types import Map
from tokenmargin.classify.baseline import fit_tfidf_logistic
from tokenmargin.classify.gathering import mean_pull
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.classify.token_model import TokenModel
from tokenmargin.classify.token_table import deciding_tokens
from tokenmargin.training.checkpoint import Stages

#: Tokens of a method that stay or do not, and the methods beside ours: the usual ones for naming telling tokens.
TOP, OURS, OTHERS = 20, "this model", ("chi-squared", "logistic regression")

#: The share of resamples that the interval of a rank holds.
HELD_BY_INTERVAL = 0.95


class Resampled(NamedTuple):
    """Spread and ranks of each token over fits to resampled texts, in the order of the vocabulary."""

    spread: np.ndarray  #: (V, K'), standard deviation of the pull
    rank_low: np.ndarray  #: (V,), lower end of the interval of the rank, from 1
    rank_high: np.ndarray  #: (V,), its upper end
    first: np.ndarray  #: (V,), share of the fits in which the token stands first
    steady: dict[str, float]  #: by method, the share of its first tokens that stay among the first, mean over the draws

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The columns of the table of tokens."""
        return self.spread, self.rank_low, self.rank_high, self.first


def resampled(
    counts: sp.csr_array,
    targets: np.ndarray,
    fitted: Fitted,
    drawn: tuple[int, int],
    stages: Stages,
    within: sp.csr_array | None = None,
    map: Map = builtins.map,
    progress: Progress = silent,
) -> Resampled | None:
    """Fit again to texts drawn with repeats, with the prior and the ridges of the fit.

    Args:
        counts: counts of the texts learnt from.
        targets: their classes.
        fitted: the fit to them.
        drawn: the seed, and how many times they are drawn again; None comes of 0 times.
        stages: the store of finished fits.
        within: how often each token stands in each word or phrase, where some are runs of characters.
        map: spreads the fits.
        progress: called as progress(fits done, fits, what).
    """
    seed, times = drawn
    if not times:
        return None
    used = fitted.penalties
    C = fit_tfidf_logistic(counts, targets, seed=seed).C
    again = partial(_again, counts, targets, fitted.model.n_classes, used, C, within)
    width = fitted.model.value.shape[1]
    names = [f"resampled-{number}" for number in range(times)]
    found = []
    for each in stages.kept_many(names, (seed, *used.values()), again, _drawn(len(targets), seed, times), map):
        found.append(each)
        progress(len(found), times, "fitting again to resampled texts")
    pulls, ranks = (np.stack([own[:, part] for own in found]) for part in (slice(width), width))
    whole = np.column_stack(
        [_own_ranks(fitted.model, counts, targets, within), _other_ranks(counts, targets, C, within)]
    )
    steady = {
        name: float(np.mean([_stay(whole[:, place], own[:, width + place]) for own in found]))
        for place, name in enumerate((OURS, *OTHERS))
    }
    outside = (1 - HELD_BY_INTERVAL) / 2
    low, high = np.quantile(ranks, [outside, 1 - outside], axis=0, method="inverted_cdf")
    spread = pulls.std(axis=0, ddof=1 if times > 1 else 0)
    return Resampled(spread, low.astype(int), high.astype(int), (ranks == 1).mean(axis=0), steady)


def _stay(before: np.ndarray, now: np.ndarray) -> float:
    """Share of the first tokens of a ranking, 1 being the first, that are among the first of another."""
    top = max(1, min(TOP, len(before) // 2))
    first, again = (set(np.argsort(ranks, kind="stable")[:top].tolist()) for ranks in (before, now))
    return len(first & again) / max(len(first), 1)


def _drawn(n: int, seed: int, times: int) -> Iterator[np.ndarray]:
    """Number of times that each text is drawn, fit by fit: always drawn here in order, wherever the fits run."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(times):
        yield rng.multinomial(n, np.full(n, 1 / n))


def _again(
    counts: sp.csr_array,
    targets: np.ndarray,
    n_classes: int,
    used: dict[str, Any],
    C: float,
    within: sp.csr_array | None,
    drawn: np.ndarray,
) -> np.ndarray:
    """Pulls, and ranks by us, chi-squared and logistic regression, in a fit to resampled texts, shape (V, K' + 3)."""
    fitted = fit_tokens(counts, targets, n_classes, sample_weight=drawn.astype(np.float64), **used)
    rows = np.repeat(np.arange(len(targets)), drawn)
    own = sp.csr_array(counts[rows])
    ranks = _own_ranks(fitted.model, own, targets[rows], within)
    others = _other_ranks(own, targets[rows], C, within)
    return np.concatenate([mean_pull(fitted.model, counts, within), ranks[:, None], others], axis=1)


def _own_ranks(model: TokenModel, counts: sp.csr_array, targets: np.ndarray, within: sp.csr_array | None) -> np.ndarray:
    """The place of each token in the table, 1 being the first, shape (V,); behind all for a token without a row."""
    names, vocabulary = [str(k) for k in range(model.n_classes)], [str(j) for j in range(counts.shape[1])]
    table = deciding_tokens(model, counts, targets, names, vocabulary, within=within)
    ranks = np.full(counts.shape[1], len(table) + 1)
    ranks[table.column] = np.arange(1, len(table) + 1)
    return ranks


def _other_ranks(counts: sp.csr_array, targets: np.ndarray, C: float, within: sp.csr_array | None) -> np.ndarray:
    """Ranks of words and phrases, 1 being the first, by the usual methods for telling tokens, shape (V, 2)."""
    from sklearn.feature_selection import chi2

    is_held = np.asarray(counts.sum(axis=0)) > 0
    squared = np.nan_to_num(chi2(sp.csr_matrix(counts), targets)[0])
    linear = np.abs(fit_tfidf_logistic(counts, targets, C=C).coefficient).max(axis=1)
    is_word = is_held if within is None else is_held & (np.diff(within.indptr) > 0)
    sizes = (np.where(is_word, size, -1.0) for size in (squared, linear))
    return np.stack([np.argsort(np.argsort(-size, kind="stable"), kind="stable") + 1 for size in sizes], axis=1)
