"""Fits again and again to the same texts: for the ridge that does best, and for the spread of what was learnt."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import partial

import numpy as np
import scipy.sparse as sp

from tokenmargin._progress import Progress, silent
from tokenmargin._types import Map
from tokenmargin.classify._splitting import held_out
from tokenmargin.classify.deciding_tokens import mean_pull
from tokenmargin.classify.evaluation import SMALLEST
from tokenmargin.classify.fit_tokens import Fitted, fit_tokens
from tokenmargin.training.checkpoint import Stages

#: Ridges that are tried on a part of the texts learnt from; a class smaller than this has too few texts for that.
RIDGES = (0.02, 0.05, 0.12, 0.25, 0.5, 1.0, 2.0, 5.0)
CHOOSING_SHARE, FEWEST_TO_CHOOSE = 0.1, 50

#: A ridge is judged long before its minimum is exact.
CHOOSING_TOL = 1e-3


def chosen_fit(
    counts: sp.csr_array,
    targets: np.ndarray,
    n_classes: int,
    seed: int,
    stages: Stages,
    progress: Progress = silent,
) -> Fitted:
    """A fit to all texts learnt from, with the ridge that does best on a tenth of them when fitted to the others."""
    fit = partial(fit_tokens, counts, targets, n_classes, progress=progress)
    if np.bincount(targets).min() < FEWEST_TO_CHOOSE:
        return fit(checkpoint=stages.checkpoint("fit"))
    out = held_out(targets, CHOOSING_SHARE, seed)

    def loss(ridge: float) -> np.ndarray:
        tried = fit_tokens(counts[~out], targets[~out], n_classes, ridge_value=ridge, tol=CHOOSING_TOL)
        p = tried.model.probabilities(counts[out])[np.arange(out.sum()), targets[out]]
        return np.array(-np.log(np.maximum(p, SMALLEST)).mean())

    losses = []
    for done, ridge in enumerate(RIDGES):
        losses.append(stages.kept(f"ridge-{done}", (ridge, seed), partial(loss, ridge)))
        progress(done + 1, len(RIDGES), "choosing the ridge")
    return fit(ridge_value=RIDGES[int(np.argmin(losses))], checkpoint=stages.checkpoint("fit"))


def pull_spread(
    counts: sp.csr_array,
    targets: np.ndarray,
    fitted: Fitted,
    drawn: tuple[int, int],
    stages: Stages,
    map: Map = builtins.map,
    progress: Progress = silent,
) -> np.ndarray | None:
    """The standard deviation of each token's pull over fits to texts drawn with repeats, shape (V, K').

    Args:
        counts: of the texts learnt from.
        targets: their classes.
        fitted: to them.
        drawn: the seed, and how many times they are drawn again; None comes of 0 times.
        stages: where finished fits are kept.
        map: spreads the fits.
        progress: called as progress(fits done, fits, what).
    """
    seed, times = drawn
    if not times:
        return None
    again = partial(_pull_again, counts, targets, fitted.model.n_classes, fitted.ridge_value)
    names = [f"resampled-{number}" for number in range(times)]
    pulls = []
    for pull in stages.kept_many(names, (seed, fitted.ridge_value), again, _resampled(len(targets), seed, times), map):
        pulls.append(pull)
        progress(len(pulls), times, "fitting again to resampled texts")
    return np.std(pulls, axis=0, ddof=1 if len(pulls) > 1 else 0)


def _resampled(n: int, seed: int, times: int) -> Iterator[np.ndarray]:
    """How often each text is drawn, for each fit: drawn here, one after the other, wherever they are fitted."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(times):
        yield rng.multinomial(n, np.full(n, 1 / n))


def _pull_again(
    counts: sp.csr_array, targets: np.ndarray, n_classes: int, ridge_value: float, drawn: np.ndarray
) -> np.ndarray:
    """The pulls of a fit to resampled texts."""
    weights = drawn.astype(np.float64)
    fitted = fit_tokens(counts, targets, n_classes, sample_weight=weights, ridge_value=ridge_value)
    return mean_pull(fitted.model, counts)
