"""Measures of how concentrated attention is, of one attention map or of many, along the last axis.

For weights s >= 0 with sum 1 over T tokens, [M, Sec. 4] measures sparsity softly, |s|_1/|s|_2^2. That is the
exponential of Renyi's entropy of order two, which places it between two others:

    1/max s  <=  |s|_1/|s|_2^2  <=  exp(-sum s log s)  <=  T,

with equality everywhere for a uniform map over some of the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError

#: Largest distance of the sum of weights from 1: weights that were computed in bfloat16 miss it by 2^-8.
SUM_TOLERANCE = 1e-2

#: The quantiles by which a distribution is shown.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def soft_sparsity(weights: ArrayLike) -> np.ndarray:
    """Soft number of tokens that a map attends to: |s|_1/|s|_2^2, between 1 and T [M, Sec. 4].

    Weights are brought to sum 1 first: the measure is not one of direction alone, 2s would be half as sparse as s.

    Args:
        weights: attention, shape (..., T), not negative, each map with sum 1 up to rounding.
    """
    s = _maps(weights)
    return np.asarray(1.0 / (s * s).sum(axis=-1))


def entropy(weights: ArrayLike) -> np.ndarray:
    """-sum s log s in nats, between 0 and log T, shape (...) for weights of shape (..., T)."""
    s = _maps(weights)
    # A weight of 0 adds nothing; the sum over one token is -0.0 otherwise.
    return np.asarray(np.abs((s * np.log(np.where(s > 0, s, 1.0))).sum(axis=-1)))


@checked
def top_mass(weights: ArrayLike, tokens: int = 1) -> np.ndarray:
    """The weight of the `tokens` largest together, shape (...) for weights of shape (..., T)."""
    s = _maps(weights)
    if not 1 <= tokens <= s.shape[-1]:
        raise InvalidInputError(f"tokens must lie between 1 and {s.shape[-1]}, the tokens of a map; got {tokens!r}.")
    return np.asarray(np.partition(s, s.shape[-1] - tokens, axis=-1)[..., s.shape[-1] - tokens :].sum(axis=-1))


def logit_margin(logits: ArrayLike) -> np.ndarray:
    """Largest logit less the second largest, shape (...) for logits of shape (..., T); 0 where they tie.

    -inf marks a token that is masked away.
    """
    z = real_array(logits, "logits", "(...,)", finite=False)
    if z.ndim == 0 or z.shape[-1] < 2 or np.isnan(z).any() or ((z > -np.inf).sum(axis=-1) < 2).any():
        raise InvalidInputError("a margin is between two tokens: give logits of shape (..., T), two or more finite.")
    best = np.partition(z, z.shape[-1] - 2, axis=-1)
    return np.asarray(best[..., -1] - best[..., -2])


def key_query_norm(query_weights: ArrayLike, key_weights: ArrayLike) -> np.ndarray:
    """|W_Q'W_K|_F, shape (...), from the weights of a head, each of shape (..., h, d) for keys W_K x of width h.

    By the h x h products: |W_Q'W_K|_F^2 = sum of the entries of (W_Q W_Q') * (W_K W_K').
    """
    q, k = (real_array(x, "weights", "(...,)") for x in (query_weights, key_weights))
    if q.ndim < 2 or q.shape != k.shape:
        raise InvalidInputError(
            f"weights of queries and keys must be of one shape (..., h, d), got {q.shape} and {k.shape}."
        )
    square = ((q @ np.swapaxes(q, -1, -2)) * (k @ np.swapaxes(k, -1, -2))).sum(axis=(-1, -2))
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


@dataclass(frozen=True)
class Distribution:
    """Numbers of many maps in short: their count, mean and `QUANTILES`."""

    count: int
    mean: float
    quantiles: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median."""
        return self.quantiles[QUANTILES.index(0.5)]

    def __str__(self) -> str:
        """Sentence of one line."""
        low, high = self.quantiles[0], self.quantiles[-1]
        return (
            f"median {self.median:.4g}, mean {self.mean:.4g}, nine of ten in [{low:.4g}, {high:.4g}] (n = {self.count})"
        )


def distribution(values: ArrayLike) -> Distribution:
    """Count, mean and quantiles of numbers of any shape; raise if there are none."""
    x = real_array(values, "values", "(...,)", finite=False).ravel()
    if x.size == 0 or not np.isfinite(x).all():
        raise InvalidInputError("a distribution is of finite numbers, at least one: leave NaN and infinity out.")
    return Distribution(x.size, float(x.mean()), tuple(float(q) for q in np.quantile(x, QUANTILES)))


def _maps(weights: ArrayLike) -> np.ndarray:
    s = real_array(weights, "attention", "(...,)", finite=False)
    if s.ndim == 0 or s.shape[-1] == 0:
        raise InvalidInputError(f"attention has shape (..., T) with T >= 1, got {s.shape}.")
    total = s.sum(axis=-1, keepdims=True)
    if not (s >= 0).all() or not (np.abs(total - 1.0) <= SUM_TOLERANCE).all():
        raise InvalidInputError(
            "attention must be weights that are not negative and have sum 1 along the last axis: give the output of "
            "the softmax, not the logits, and leave no masked place with weight."
        )
    return np.asarray(s / total)
