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
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.classify.token_table import deciding_tokens, mean_pull
from tokenmargin.training.checkpoint import Stages

#: The share of resamples that the interval of a rank holds.
HELD_BY_INTERVAL = 0.95


class Resampled(NamedTuple):
    """Spread and ranks of each token over fits to resampled texts, in the order of the vocabulary."""

    spread: np.ndarray  #: (V, K'), standard deviation of the pull
    rank_low: np.ndarray  #: (V,), lower end of the interval of the rank, from 1
    rank_high: np.ndarray  #: (V,), its upper end
    first: np.ndarray  #: (V,), share of the fits in which the token stands first


def resampled(
    counts: sp.csr_array,
    targets: np.ndarray,
    fitted: Fitted,
    drawn: tuple[int, int],
    stages: Stages,
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
        map: spreads the fits.
        progress: called as progress(fits done, fits, what).
    """
    seed, times = drawn
    if not times:
        return None
    used = fitted.penalties
    again = partial(_again, counts, targets, fitted.model.n_classes, used)
    names = [f"resampled-{number}" for number in range(times)]
    found = []
    for each in stages.kept_many(names, (seed, *used.values()), again, _drawn(len(targets), seed, times), map):
        found.append(each)
        progress(len(found), times, "fitting again to resampled texts")
    pulls, ranks = np.stack([own[:, :-1] for own in found]), np.stack([own[:, -1] for own in found])
    outside = (1 - HELD_BY_INTERVAL) / 2
    low, high = np.quantile(ranks, [outside, 1 - outside], axis=0, method="inverted_cdf")
    spread = pulls.std(axis=0, ddof=1 if times > 1 else 0)
    return Resampled(spread, low.astype(int), high.astype(int), (ranks == 1).mean(axis=0))


def _drawn(n: int, seed: int, times: int) -> Iterator[np.ndarray]:
    """Number of times that each text is drawn, fit by fit: always drawn here in order, wherever the fits run."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(times):
        yield rng.multinomial(n, np.full(n, 1 / n))


def _again(
    counts: sp.csr_array, targets: np.ndarray, n_classes: int, used: dict[str, Any], drawn: np.ndarray
) -> np.ndarray:
    """The pulls and the rank of each token in a fit to resampled texts, shape (V, K' + 1)."""
    fitted = fit_tokens(counts, targets, n_classes, sample_weight=drawn.astype(np.float64), **used)
    rows = np.repeat(np.arange(len(targets)), drawn)
    names, V = [str(k) for k in range(n_classes)], counts.shape[1]
    table = deciding_tokens(fitted.model, sp.csr_array(counts[rows]), targets[rows], names, [str(j) for j in range(V)])
    ranks = np.empty(V)
    ranks[table.column] = np.arange(1, V + 1)
    return np.concatenate([mean_pull(fitted.model, counts), ranks[:, None]], axis=1)
