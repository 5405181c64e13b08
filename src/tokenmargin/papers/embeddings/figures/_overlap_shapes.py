"""The shapes that [E, Fig. 1-4] show, as tests: the V of <E_s, p> and the S of <E_s, v> over the posterior difference.

A scatter plot persuades; a test can fail. Tokens are binned by their posterior difference into bins of equal size, and
the mean overlap of the bins must rise with it (S) or with its modulus (V). A step down counts by how many standard
errors of the difference of the two means it is: noise in a mean is not a break of the shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin.errors import InvalidInputError
from tokenmargin.models.correlation import pearson

#: A step down of fewer standard errors than this is noise: one of nineteen independent steps of a flat curve exceeds 3
#: with a chance below 3 percent.
NOISE = 3.0

#: Bins of the posterior difference. Twenty show a shape and leave hundreds of tokens a bin at 7,000 tokens.
BINS = 20

#: Tokens that count as equally frequent: few, so that counts within a group hardly differ.
OF_ONE_COUNT = 20


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean of y over bins of x: centres, means and standard errors, each of shape (bins,)."""

    centres: np.ndarray
    means: np.ndarray
    errors: np.ndarray

    @property
    def worst_step_down(self) -> float:
        """The largest step down between neighbouring bins, in standard errors; 0 when the means only rise."""
        step = np.diff(self.means)
        noise = np.hypot(self.errors[1:], self.errors[:-1])
        down = np.where(step < 0, -step / np.where(noise > 0, noise, np.finfo(float).tiny), 0.0)
        return float(down.max(initial=0.0))

    @property
    def rises(self) -> bool:
        """True if no step down is more than noise, and the end is above the beginning by more than noise."""
        rise = self.means[-1] - self.means[0]
        return self.worst_step_down <= NOISE and bool(rise > NOISE * np.hypot(self.errors[0], self.errors[-1]))


def binned(x: np.ndarray, y: np.ndarray, bins: int = BINS) -> Curve:
    """Mean of y in bins of x that hold equally many points; equal x are never torn apart."""
    if len(x) < 2 * bins:
        raise InvalidInputError(f"{len(x)} tokens are too few for {bins} bins: use fewer bins or more tokens.")
    edges = np.unique(np.quantile(x, np.linspace(0, 1, bins + 1)))
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    size = np.bincount(place, minlength=len(edges) - 1)
    full = size > 1
    mean_x = np.bincount(place, x, len(size))[full] / size[full]
    mean_y = np.bincount(place, y, len(size))[full] / size[full]
    square = np.bincount(place, y**2, len(size))[full] / size[full]
    spread = np.sqrt(np.maximum(square - mean_y**2, 0) / (size[full] - 1))
    return Curve(mean_x, mean_y, spread)


def s_curve(posterior_difference: np.ndarray, with_head: np.ndarray, bins: int = BINS) -> Curve:
    """<E_s, v> over the posterior difference: rises when the picture is an S."""
    return binned(posterior_difference, with_head, bins)


def v_curve(
    posterior_difference: np.ndarray, with_query: np.ndarray, bins: int = BINS, centre: float = 0.0
) -> tuple[Curve, Curve]:
    """<E_s, p> over the distance to `centre`, left and right of it: both rise when the picture is a V.

    Where one class is more frequent, a token that says nothing has the posterior difference of the whole corpus, not 0.
    """
    away = posterior_difference - centre
    half = max(2, bins // 2)
    return (
        binned(-away[away < 0], with_query[away < 0], half),
        binned(away[away > 0], with_query[away > 0], half),
    )


def rises_at_equal_count(away: np.ndarray, y: np.ndarray, count: np.ndarray) -> bool:
    """True if y rises with |away| among tokens that occur about as often, left and right of 0, by more than noise.

    A rare token is far from the base rate by chance, and training moves its overlap by chance as well, whatever the
    labels: with shuffled ones <E_s, p> draws a V, too. Among tokens of one count it does not.
    """
    group = _count_groups(count)
    for side in (away < 0, away > 0):
        far, overlap = (_less_group_means(values[side], group[side]) for values in (np.abs(away), y))
        if not pearson(far, overlap) * np.sqrt(side.sum()) > NOISE:  # 1/sqrt(N) is the standard error of no correlation
            return False
    return True


def _count_groups(count: np.ndarray) -> np.ndarray:
    """Groups of `OF_ONE_COUNT` tokens by count; tokens of one count stay together."""
    return np.asarray(np.searchsorted(np.sort(count), count) // OF_ONE_COUNT)


def _less_group_means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    sizes = np.maximum(np.bincount(group), 1)
    return np.asarray(values - (np.bincount(group, weights=values) / sizes)[group])


def base_rate(posterior_difference: np.ndarray, count: np.ndarray) -> float:
    """The posterior difference of an occurrence of any token: 0 when both classes hold as many tokens."""
    return float(np.average(posterior_difference, weights=count))


def quantile_curves(
    x: np.ndarray, y: np.ndarray, shares: tuple[float, ...] = (0.1, 0.5, 0.9), bins: int = BINS
) -> tuple[np.ndarray, np.ndarray]:
    """(centres, quantiles of shape (shares, bins)) of y over bins of x of equal size."""
    order = np.argsort(x, kind="stable")
    groups = np.array_split(order, bins)
    centres = np.array([x[group].mean() for group in groups])
    return centres, np.array([[np.quantile(y[group], share) for group in groups] for share in shares])
