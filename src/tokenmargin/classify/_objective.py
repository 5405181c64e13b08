"""Objective of a fit and its gradient: a sparse product with c + 1 columns each way, and no exponential a count.

With W_is = count^t, u = exp(score), D = W u and N = W (u value), the margins are f = r N / D + b, r the root of the
number of distinct tokens. For slopes g = w dloss/df of the documents, H = r g / D and T = W'[H, sum_k H_k N_k / D],

    dL/dvalue_sk = u_s T_sk,      dL/dscore_s = u_s (sum_k value_sk T_sk - T_s,last).

Both get a ridge: values towards their centre (0, or naive-Bayes ratios), scores towards where they start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from tokenmargin._fingerprint import fingerprint
from tokenmargin._types import Intercepts, Margins, Scores, Values
from tokenmargin.classify.prior import Belief
from tokenmargin.errors import InvalidInputError


class Documents(NamedTuple):
    """Documents of a fit: counts (n, V), targets 0..K-1 (n,), and positive weights (n,)."""

    counts: sp.csr_array
    targets: np.ndarray
    weights: np.ndarray

    def rows(self, chosen: np.ndarray) -> Documents:
        """Some of the documents."""
        return Documents(sp.csr_array(self.counts[chosen]), self.targets[chosen], self.weights[chosen])


class Parameters(NamedTuple):
    """Scores (V,), values (V, c) and intercepts (c,)."""

    score: Scores
    value: Values
    intercept: Intercepts


def content_of(documents: Documents) -> str:
    """A line that identifies the documents: their number, the vocabulary's size, and a fingerprint."""
    counts = documents.counts
    content = fingerprint(counts.indptr, counts.indices, counts.data, documents.targets, documents.weights)
    return f"{counts.shape[0]} documents of {counts.shape[1]} tokens, {content}"


def weighty(documents: Documents) -> Documents:
    """Documents of positive weight: one of weight zero is as good as absent."""
    there = documents.weights > 0
    if not there.any():
        raise InvalidInputError("every weight is zero: give at least one document of each class a positive weight.")
    documents = documents if there.all() else documents.rows(there)
    if len(np.unique(documents.targets)) < 2:
        raise InvalidInputError("documents of positive weight are of one class only: there is nothing to tell apart.")
    return documents


def losses_of(margins: Margins, targets: np.ndarray) -> np.ndarray:
    """The logistic loss (one margin) or the cross-entropy (one margin a class) of each document, shape (n,)."""
    return losses_and_slopes(np.ascontiguousarray(margins.T), targets, np.ones(len(targets)))[0]


def mean_loss(margins: Margins, targets: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean of the losses."""
    return float((weights * losses_of(margins, targets)).sum() / weights.sum())


def _loss_and_slopes(margins: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Sum of the losses, and w dloss/df."""
    losses, slopes = losses_and_slopes(margins, targets, weights)
    return (weights * losses).sum(), slopes


def losses_and_slopes(margins: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses and w dloss/df, with one row a margin: NumPy is slow to sum over a short last axis."""
    if len(margins) == 1:
        of_other = np.where(targets == 1, -margins[0], margins[0])
        losses = np.logaddexp(0.0, of_other)
        slopes = (weights * np.where(targets == 1, -1.0, 1.0) * expit(of_other))[None]
    else:
        here = np.arange(len(targets))
        top = margins.max(axis=0)
        slopes = np.exp(margins - top)
        sums = slopes.sum(axis=0)
        losses = np.log(sums) + top - margins[targets, here]
        slopes *= weights / sums
        slopes[targets, here] -= weights
    return losses, slopes


#: Documents that come in parts: called anew for every pass over them.
Parts = Callable[[], Iterable[Documents]]


class _Block:
    """Documents as the products need them: W both ways."""

    def __init__(self, documents: Documents, power: float, is_kept: bool) -> None:
        """Products with several columns are fastest from the columns of what is multiplied, if that can be kept."""
        counts, self.targets, self.weights = documents
        self.W = sp.csr_array((_powers(counts.data, power), counts.indices, counts.indptr), shape=counts.shape)
        self.is_kept, self._by_token = is_kept, None
        self.W_transposed = self.W.T
        self.roots = np.sqrt(np.diff(counts.indptr))
        self._fixed: np.ndarray | None = None  # divisors of scores that are held

    def times(self, rows: np.ndarray) -> np.ndarray:
        """W with each row of (c, V), shape (c, n)."""
        if len(rows) == 1:
            return (self.W @ rows[0])[None]
        if self.is_kept and self._by_token is None:
            self._by_token = sp.csc_array(self.W)
        return _by_rows(self._by_token if self.is_kept else self.W, rows)

    def curvature(self, u: np.ndarray) -> np.ndarray:
        """sum_i w_i (r_i W_is / D_i)^2, shape (V,)."""
        shares = self.roots / _divisors(self.W @ u)
        squares = sp.csr_array((self.W.data**2, self.W.indices, self.W.indptr), shape=self.W.shape)
        return squares.T @ (self.weights * shares**2)

    def flow(self, u: np.ndarray, value: np.ndarray, intercept: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The sum of the losses, that of the slopes (c,), and T (c + 1, V)."""
        both = self.times(np.concatenate([u * value, u[None]]))
        divisors = _divisors(both[-1])
        averages = both[:-1] / divisors
        loss, slopes = _loss_and_slopes(self.roots * averages + intercept[:, None], self.targets, self.weights)
        pulled = (self.roots / divisors) * slopes
        flow = _by_rows(self.W_transposed, np.concatenate([pulled, (pulled * averages).sum(axis=0)[None]]))
        return loss, slopes.sum(axis=1), flow

    def held_flow(
        self, u: np.ndarray, value: np.ndarray, intercept: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The same for scores that never move, whose divisors are found once: T without its last row, (c, V)."""
        if self._fixed is None:
            self._fixed = self.roots / _divisors(self.W @ u)
        margins = self._fixed * self.times(u * value) + intercept[:, None]
        loss, slopes = _loss_and_slopes(margins, self.targets, self.weights)
        pulled = self._fixed * slopes
        flow = (self.W_transposed @ pulled[0])[None] if len(pulled) == 1 else _by_rows(self.W_transposed, pulled)
        return loss, slopes.sum(axis=1), flow


class PenalisedLoss:
    """Mean loss + (ridge_value |(value - centre) / unit|^2 + ridge_score |score - start|^2) / 2n.

    In coordinates of one curvature, in which centre and start are the origin.

    A ridge on scores that is infinite holds them where they start.
    """

    def __init__(self, documents: Documents | Parts, n_margins: int, power: float, believed: Belief) -> None:
        """Documents are kept as products need them; parts are read again for every product, one at a time."""
        if isinstance(documents, Documents):
            kept = (_Block(documents, power, True),)
            self._blocks: Callable[[], Iterable[_Block]] = lambda: kept
        else:
            parts = documents
            self._blocks = lambda: (_Block(part, power, False) for part in parts())
        self.start, self.unit, self.centre = believed
        self.n_margins, self.total = n_margins, 0.0
        self._u = np.exp(self.start - self.start.max())
        curvature = np.zeros(len(self.start))
        for block in self._blocks():
            self.total += block.weights.sum()
            curvature += block.curvature(self._u)
        # The largest that p(1 - p) can be for K equal classes; curvature is for the length of steps alone.
        self.steepness = (1 / max(2, n_margins)) * (1 - 1 / max(2, n_margins))
        self.curvature = self.steepness * self._u**2 * curvature

    def penalise(self, ridge_value: float, ridge_score: float) -> None:
        """Set the ridges, and the scale of each coordinate with them."""
        self.is_free = bool(np.isfinite(ridge_score))
        self.ridge_value, self.ridge_score = ridge_value / self.unit**2, ridge_score if self.is_free else 0.0
        self.value_scale = 1 / np.sqrt(self.curvature + self.ridge_value)
        # A score acts through differences of values, and their squares are of the order of 1 / ridge_value.
        self.score_scale = 1 / np.sqrt(self.curvature / ridge_value + ridge_score) if self.is_free else np.zeros(0)
        self.intercept_scale = 1 / np.sqrt(self.steepness * self.total)

    def coordinates(self, parameters: Parameters) -> np.ndarray:
        """Parameters as the vector that `value_and_gradient` takes: free scores, values by margin, intercepts."""
        moved = parameters.score - self.start
        return np.concatenate(
            [
                moved / self.score_scale if self.is_free else np.zeros(0),
                ((parameters.value.T - self.centre) / self.value_scale).ravel(),
                parameters.intercept / self.intercept_scale,
            ]
        )

    def origin(self) -> np.ndarray:
        """Coordinates of scores at their start, values at their centre, and intercepts 0."""
        V, c = len(self.start), self.n_margins
        return np.zeros((V if self.is_free else 0) + V * c + c)

    def parameters(self, x: np.ndarray) -> Parameters:
        """And back."""
        score, value, intercept = self._split(x)
        return Parameters(score, np.ascontiguousarray(value.T), intercept)

    def _split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores, values with one row a margin, intercepts."""
        V, c = len(self.start), self.n_margins
        value = self.centre + x[-c * V - c : -c].reshape(c, V) * self.value_scale
        score = self.start + x[:V] * self.score_scale if self.is_free else self.start
        return score, value, x[-c:] * self.intercept_scale

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The penalised loss and its gradient in the coordinates."""
        score, value, intercept = self._split(x)
        u = np.exp(score - score.max()) if self.is_free else self._u
        loss, slopes = 0.0, np.zeros(len(intercept))
        flow = np.zeros((len(intercept) + self.is_free, len(score)))
        for block in self._blocks():
            more, steeper, added = (block.flow if self.is_free else block.held_flow)(u, value, intercept)
            loss, slopes, flow = loss + more, slopes + steeper, flow + added
        by_value = u * flow[: len(intercept)]
        pull = self.ridge_value * (away := value - self.centre)
        penalty = (pull * away).sum() / 2
        gradient = [((by_value + pull) * self.value_scale).ravel(), slopes * self.intercept_scale]
        if self.is_free:
            moved = score - self.start
            by_score = (value * by_value).sum(axis=0) - u * flow[-1]
            penalty += self.ridge_score * (moved**2).sum() / 2
            gradient.insert(0, (by_score + self.ridge_score * moved) * self.score_scale)
        return float(loss / self.total) + penalty / self.total, np.concatenate(gradient) / self.total


def _by_rows(matrix: sp.csc_array | sp.csr_array, rows: np.ndarray) -> np.ndarray:
    """The product with each row. Rows are turned into columns and back: both the product and NumPy are fastest so."""
    return np.ascontiguousarray((matrix @ np.ascontiguousarray(rows.T)).T)


def _divisors(sums: np.ndarray) -> np.ndarray:
    """Sums to divide by: 1 for an empty document, whose numerator is 0."""
    return np.where(sums > 0, sums, 1.0)


def _powers(counts: np.ndarray, power: float) -> np.ndarray:
    """count^t; a root is many times faster than a general power."""
    return np.sqrt(counts) if power == 0.5 else counts**power
