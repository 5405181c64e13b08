"""An interval for the largest margin of a selection, from a run alone: no max-margin problem is solved.

For the pairs k = (selected token, other token) of a selection with key differences A_k, any norm N and its dual N_*,

    min_k <A_k, W> / N(W)  <=  largest margin  <=  N_*(sum_k w_k A_k) / sum_k w_k      for every W and all w >= 0.

Where inputs ask for margins a_i of their own (`Limit.asked`), a margin is <A_k, W>/a_i, and sum_k w_k a_i stands below.

The last point of a run is such a W, and the weights that pairs had in its gradients are such w. In steepest descent a
gradient weighs pairs as a player of a game would who had lost by their margins so far, and a step answers it as well as
can be: so the mean of the weights over all steps closes the interval, though the weights of no single step do.
"""

from __future__ import annotations

import numpy as np

from tokenmargin._types import TokenNumbers
from tokenmargin.attention._outer_keys import FieldKeys, OuterKeys, field_keys, pulled
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.norms import Norm

#: Beginnings of a run that are left out in turn, as shares of it: weights of before its selection settled only widen
#: the interval, and any weights are right.
LEFT_OUT = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)


def windows(weights: np.ndarray | None) -> np.ndarray | None:
    """Weights of tokens in a run without its beginning, for each of `LEFT_OUT`, shape (c, n, T)."""
    if weights is None or len(weights) < 2:
        return None
    begins = sorted({int(share * (len(weights) - 1)) for share in LEFT_OUT})
    return weights[-1] - weights[begins]


def margin_interval(
    data: EmbeddedSequences,
    selection: Selection,
    point: np.ndarray,
    weights: np.ndarray,
    norm: Norm,
    margins: np.ndarray,
) -> tuple[float, float]:
    """(low, high) of the largest margin of a selection in a norm; NaN where no token is asked to be behind.

    Args:
        data: n inputs of T tokens.
        selection: shape (n, T).
        point: W or p, whose products with keys are logits.
        weights: coefficients of keys in sums of negative gradients, several of them, shape (c, n, T).
        norm: N.
        margins: what each input asks, shape (n,).
    """
    asked = data.mask & ~selection.chosen
    bounds = [_above(field_keys(data), selection, one, asked, norm, margins) for one in weights]
    above = min((bound for bound in bounds if np.isfinite(bound)), default=float("nan"))
    return margin_of(data, selection, point, norm, margins), above


def margin_of(
    data: EmbeddedSequences, selection: Selection, point: np.ndarray, norm: Norm, margins: np.ndarray
) -> float:
    """min_k <A_k, W> / N(W): the least logit gap over the norm; 0 at 0, NaN where no token is asked to be behind."""
    asked = data.mask & ~selection.chosen
    logits = field_keys(data) @ point.reshape(-1)
    gaps = np.take_along_axis(logits, selection.representatives[:, None], axis=1) - logits
    gaps = (gaps / margins[:, None])[asked]
    size = float(norm.value(point))
    return float("nan") if not gaps.size else float(gaps.min()) / size if size > 0 else 0.0


def _above(
    keys: FieldKeys, selection: Selection, net: TokenNumbers, asked: np.ndarray, norm: Norm, margins: np.ndarray
) -> float:
    """N_*(sum w A) / sum w of the weights that are not negative; tokens that are selected together have any weight."""
    behind = np.where(asked, np.maximum(-net, 0.0), np.where(selection.chosen, -net, 0.0))
    first = np.arange(net.shape[1])[None] == selection.representatives[:, None]
    behind = np.where(first, 0.0, behind)
    total = float((behind * margins[:, None])[asked].sum())
    if not total > 0:
        return float("nan")
    coefficients = np.where(first, behind.sum(axis=1, keepdims=True), -behind)
    combined = pulled(keys, coefficients / total)
    return float(norm.dual.value(combined.reshape(keys.matrix) if isinstance(keys, OuterKeys) else combined))
