"""One scale for all values and a shift of each intercept, from documents that were not fitted.

A strong ridge finds the direction of the values well and leaves them too short: rare tokens are kept small, and with
them all. What is too short is told by documents that were held out, and by a number or two. With it,

    margin = intercept + mean + shift + scale (margin of the fit - intercept - mean),

with the mean sum of contributions over the documents of that fit, so that candidates are judged by their direction, and
the sum of contributions stays exact: values are multiplied. What part of a class's share stands in its intercept and
what in the values of common tokens depends on how far a fit was taken: it must not matter to the shift.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify._objective import Documents, Parameters, losses_and_slopes
from tokenmargin.classify.token_model import TokenModel

#: A scale that is kept away from infinity where held-out documents are told apart without an error, and from 0 where
#: nothing is told; shifts by the weight of one document.
WEIGHT_OF_SCALE, LEAST_SCALE = 1e-3, 1e-2

#: Chance alone has documents that were fitted ask for values this much shorter than the calibration makes them.
LEAST_ASKED = 0.8

#: Documents say nothing about fits whose summed losses differ by less than this, in nats; where every document is told
#: without a doubt, differences and their errors shrink together, and any of them would be decided.
LEAST_NATS = 0.5

#: Steps of Newton's method, halvings of one, and the gain in the summed loss below which it ends.
STEPS, HALVINGS, GAIN = 30, 20, 1e-6


class Calibration(NamedTuple):
    """A scale of the values, and what is added to the sum of each intercept and the mean, shape (c,); see `about`."""

    scale: float
    shift: np.ndarray

    def about(self, mean: np.ndarray) -> Calibration:
        """The same for intercepts alone, of a fit with this mean sum of contributions."""
        return Calibration(self.scale, self.shift + (1.0 - self.scale) * mean)

    def applied(self, parameters: Parameters) -> Parameters:
        """Parameters of the calibrated model."""
        score, value, intercept = parameters
        return Parameters(score, self.scale * value, intercept + self.shift)

    def undone(self, parameters: Parameters) -> Parameters:
        """And back."""
        score, value, intercept = parameters
        return Parameters(score, value / self.scale, intercept - self.shift)


class Uncalibrated(NamedTuple):
    """Held-out documents under a fit, in arrays of shape (c, n) and (n,).

    Sums of contributions are less their mean over the documents that were fitted, and intercepts more by it.
    """

    sums: np.ndarray
    intercepts: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    @classmethod
    def pooled(cls, parts: list[Uncalibrated]) -> Uncalibrated:
        """Documents of several fits one after the other."""
        return parts[0] if len(parts) == 1 else cls(*(np.concatenate(own, axis=-1) for own in zip(*parts, strict=True)))


def mean_sums(model: TokenModel, documents: Documents) -> np.ndarray:
    """Mean sum of contributions of the documents, shape (c,): through their tokens, without the margin of each."""
    counts, _, weights = documents
    W = sp.csr_array((counts.data**model.power, counts.indices, counts.indptr), shape=counts.shape)
    u = np.exp(model.score - model.score.max(initial=-np.inf))
    divisors = W @ u
    shares = weights / np.where(divisors > 0, divisors, 1.0)
    if model.root_length:
        shares = shares * np.sqrt(np.diff(counts.indptr))
    return np.asarray((u * (W.T @ shares)) @ model.value / weights.sum())


def uncalibrated(parameters: Parameters, power: float, fitted: Documents, judged: Documents) -> Uncalibrated:
    """Documents under parameters that were fitted to `fitted`."""
    plain = TokenModel(parameters.score, parameters.value, np.zeros_like(parameters.intercept), power)
    mean = mean_sums(plain, fitted)[:, None]
    sums = np.ascontiguousarray(plain.margins(judged.counts).T) - mean
    intercepts = np.broadcast_to(parameters.intercept[:, None] + mean, sums.shape)
    return Uncalibrated(sums, intercepts, judged.targets, judged.weights)


def calibrated(documents: Uncalibrated) -> tuple[Calibration, np.ndarray]:
    """The calibration with the least loss on the documents, by Newton's method, and the loss of each under it."""
    where = np.zeros(1 + len(documents.sums))
    where[0] = 1.0
    value, losses, gradient, curvature = _around(documents, where)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature, -gradient)
        for _ in range(HALVINGS):
            trial = where + step
            trial[0] = max(trial[0], LEAST_SCALE)
            found = _around(documents, trial)
            if found[0] <= value:
                break
            step = step / 2
        else:
            break
        gain, where = value - found[0], trial
        value, losses, gradient, curvature = found
        if gain <= GAIN:
            break
    return Calibration(float(where[0]), where[1:]), losses


def is_elsewhere(parameters: Parameters, power: float, calibration: Calibration | None, documents: Documents) -> bool:
    """True if a fit ended in another minimum than those that its calibration comes from.

    Documents that were fitted are told apart better than others, and ask for values at least as long as those held out.
    Where they ask for shorter ones, attention has gathered on a few tokens, which a strong ridge on values allows.
    """
    if calibration is None:
        return False
    own = uncalibrated(parameters, power, documents, documents)
    asked, least = calibrated(own)
    margins = calibration.scale * own.sums + own.intercepts + calibration.shift[:, None]
    lost = float((losses_and_slopes(margins, own.targets, own.weights)[0] - least) @ own.weights)
    return asked.scale < LEAST_ASKED * calibration.scale and lost > LEAST_NATS


def _around(documents: Uncalibrated, where: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """The summed loss with its penalty, the loss of each document, and the sum's first two derivatives."""
    sums, intercepts, targets, weights = documents
    margins = where[0] * sums + intercepts + where[1:, None]
    losses, slopes = losses_and_slopes(margins, targets, weights)
    pull = np.array([WEIGHT_OF_SCALE, *np.ones(len(sums))])
    away = where - np.array([1.0, *np.zeros(len(sums))])
    value = float(weights @ losses + (pull * away**2).sum() / 2)
    gradient = np.concatenate([[(slopes * sums).sum()], slopes.sum(axis=1)]) + pull * away
    if len(sums) == 1:
        share = np.abs(slopes[0]) * (1 - np.abs(slopes[0]) / weights)  # w p (1 - p)
        both = np.stack([sums[0], np.ones_like(share)])
        return value, losses, gradient, (both * share) @ both.T + np.diag(pull)
    shares = slopes.copy()
    shares[targets, np.arange(len(targets))] += weights  # w p
    apart = sums - (shares * sums).sum(axis=0) / weights
    mixed = (shares * apart).sum(axis=1)
    curvature = np.diag(np.concatenate([[(shares * sums * apart).sum()], shares.sum(axis=1)]))
    curvature[1:, 1:] -= (shares / weights) @ shares.T
    curvature[0, 1:] = curvature[1:, 0] = mixed
    return value, losses, gradient, curvature + np.diag(pull)
