"""Bounds of the paper on the first step, left side beside right side: (6), (14), Lemmas 11 and 12 of [E].

Widths are logarithms, since the bounds ask for d of 10^44 and more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, positive
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step.step import FirstStep, log_mean_loss, outputs

#: Least width in every bound of [E, App. C].
LEAST_WIDTH = 256


@dataclass(frozen=True)
class Inequality:
    """left <= right, as numbers."""

    left: float
    right: float

    @property
    def holds(self) -> bool:
        """True if left <= right."""
        return self.left <= self.right

    @property
    def slack(self) -> float:
        """right - left: negative when violated."""
        return self.right - self.left


def error_bound(step: FirstStep) -> Inequality:
    """max(|err_s|, |err_p|) <= 11 eta0 d^(-1/4) [E, (6)]."""
    return Inequality(step.largest_error, step.bound)


@checked
def initial_events(step: FirstStep, delta: float) -> tuple[Inequality, Inequality]:
    """The two lines of [E, (14)]: products at most sqrt(2 log(V^2/delta) / d), norms at most 2.

    The paper gives them probability 1 - delta by "standard concentration". The first line needs V >= 2 (with one token
    and delta = 1/2 its three products stay below the bound with probability .44 only), the second a d that is not tiny.
    """
    products = 10.0 ** (-step.log10_d / 2) * np.sqrt(2 * _log_term(step.dataset.vocabulary_size, delta))
    return (
        Inequality(step.initial.largest_product, float(products)),
        Inequality(step.initial.largest_norm, 2.0),
    )


@checked
def embedding_bounds(step: FirstStep) -> tuple[Inequality, Inequality]:
    """max_s |E1_s| <= 2 (1 + 2 eta0) and |p1| <= 2 + 11 eta0 d^(-1/4) [E, Lemma 11]."""
    return (
        Inequality(float(np.linalg.norm(step.tokens, axis=1).max()), 2 * (1 + 2 * step.eta0)),
        Inequality(float(np.linalg.norm(step.query)), 2 + step.bound),
    )


@checked
def loss_bound(step: FirstStep) -> Inequality:
    """L(E1, p1) <= mean log(1 + exp(-(1/T) sum_i eta0/2 y alpha_{x_i} + 1/(22 eta0))) [E, Lemma 12]."""
    return Inequality(step.loss, float(np.logaddexp(0.0, -_bounding_outputs(step)).mean()))


@checked
def log_loss_bound(step: FirstStep) -> Inequality:
    """The logarithms of both sides of `loss_bound`, which long steps put below the smallest float."""
    own = step.dataset.labels * outputs(step.dataset, step.token_head, step.tokens @ step.query)
    return Inequality(log_mean_loss(own), log_mean_loss(_bounding_outputs(step)))


def _bounding_outputs(step: FirstStep) -> np.ndarray:
    """(1/T) sum_i eta0/2 y alpha_{x_i} - 1/(22 eta0) of every document [E, Lemma 12], shape (n,)."""
    data = step.dataset
    return np.asarray(0.5 * step.eta0 * data.labels * (data.counts @ step.alpha) / data.lengths - 1 / (22 * step.eta0))


@checked
def embedding_bounds_log10_d(V: int, delta: float) -> float:
    """log10 of the least d of [E, Lemma 11]: max{256, (2 log(V^2/delta))^2}."""
    return float(max(np.log10(LEAST_WIDTH), 2 * np.log10(max(2 * _log_term(V, delta), 1.0))))


@checked
def loss_bound_log10_d(V: int, delta: float, eta0: float) -> float:
    """log10 of the least d of [E, Lemma 12]: that of Lemma 11 and (88 eta0^2 + 111 eta0 + 2)^8."""
    positive(eta0, "eta0")
    return max(embedding_bounds_log10_d(V, delta), 8 * float(np.log10(88 * eta0**2 + 111 * eta0 + 2)))


@checked
def theorem_log10_d(V: int, delta: float, eta0: float) -> float:
    """log10 of the least d of [E, (10)]: that of [E, Lemma 12] and V + 3."""
    return max(loss_bound_log10_d(V, delta, eta0), float(np.log10(V + 3)))


def _log_term(V: int, delta: float) -> float:
    """log(V^2/delta)."""
    if not 0 < delta < 1:
        raise InvalidInputError(
            f"delta = {delta!r} is a probability of failure: give a number strictly between 0 and 1."
        )
    return float(2 * np.log(V) - np.log(delta))
