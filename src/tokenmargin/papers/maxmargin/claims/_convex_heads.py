"""(85) of [M, Lemma 14] by convexity: a mixture of tokens scores at most the mixture of their scores."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import Curvature, LinearHead, QuadraticHead
from tokenmargin.data import Selection, tie_widths
from tokenmargin.errors import NotDecidedError
from tokenmargin.theory.claim import largest, least

#: Least positive score, and least lead over what is not allowed, in units of what is a tie (1e-12 of the terms of a
#: score): logarithms of both are then known to 1e-10, a tenth of what Lemma 14 is judged to.
RESOLVED_GAP = 1e6

_token_slopes = eqx.filter_jit(lambda head, tokens: jax.vmap(jax.vmap(jax.grad(head)))(tokens))
_pair_values = eqx.filter_jit(lambda head, tokens: jax.vmap(jax.vmap(jax.vmap(head)))(tokens))


class Mixing(NamedTuple):
    """Constants of (85), and the least that Y psi can be."""

    epsilon: float
    C: float
    lowest: float


def check_constants(lower: float, upper: float) -> tuple[float, float]:
    """(C_-, C_+) as they are, or NotDecidedError where the slope of the loss over the scores leaves float64."""
    if not np.finfo(float).tiny <= lower <= upper < np.inf:
        raise NotDecidedError(
            f"the loss is so flat over these scores that the bounds of its slope leave float64 (from {lower:.3g} to "
            f"{upper:.3g}): divide the scores."
        )
    return lower, upper


def mixing_by_convexity(risk: HeadRisk, allowed: Selection) -> Mixing | None:
    """(85) if Y psi is convex (or affine), one positive score nu_i on all of hull(O_i), and scores are lower elsewhere.

    Then Z_i <= q_i max gamma and, from a supporting plane at o in hull(O_i), Z_i >= -(D_i - nu_i) q_i with
    D_i = max Y psi'(o)'(x_o - x_t).
    """
    data, gamma, chosen = risk.sequences, risk.scores, allowed.chosen
    nu = np.where(chosen, gamma, -np.inf).max(axis=1)
    rest = np.where(chosen, -np.inf, gamma).max(axis=1)
    if not _convex(risk) or not _constant_on_hulls(risk, allowed, nu) or not ((nu > 0) & (rest < nu)).all():
        return None
    slopes = data.labels[:, None, None] * np.asarray(_token_slopes(risk.head, risk.every_token.tokens))
    tokens = risk.every_token.tokens
    # falls[i, o, t] = Y psi'(x_o)'(x_o - x_t)
    falls = np.einsum("nok,nok->no", slopes, tokens)[:, :, None] - np.einsum("nok,ntk->not", slopes, tokens)
    relevant = chosen[:, :, None] & (~chosen & data.mask)[:, None, :]
    steepest = np.where(relevant, falls, 0.0).max(axis=(1, 2))
    epsilon = least(1.0, float((1 - rest / nu).min()))
    return Mixing(epsilon, largest(0.0, float((steepest - nu).max())), float((nu - steepest).min()))


def is_resolved(risk: HeadRisk, allowed: Selection) -> bool:
    """True if the score of every O_i, and its lead over the others, stand out from rounding, whatever their signs."""
    nu = np.where(allowed.chosen, risk.scores, -np.inf).max(axis=1)
    rest = np.where(allowed.chosen, -np.inf, risk.scores).max(axis=1)
    return bool((np.minimum(np.abs(nu), np.abs(nu - rest)) > RESOLVED_GAP * score_widths(risk)).all())


def score_widths(risk: HeadRisk) -> np.ndarray:
    """Width within which two scores of an input, or a score and 0, are equal, shape (n,): relative to the terms."""
    size, head = np.abs(risk.every_token.tokens), risk.head
    if isinstance(head, LinearHead):
        return tie_widths(size @ np.abs(np.asarray(head.weights)))
    if isinstance(head, QuadraticHead):
        terms = np.einsum("ntj,jk,ntk->nt", size, np.abs(np.asarray(head.matrix)), size)
        return tie_widths(terms + size @ np.abs(np.asarray(head.weights)))
    return tie_widths(risk.scores)


def _convex(risk: HeadRisk) -> bool:
    """True if Y_i psi is known to be convex for every label present."""
    curvature, labels = risk.head.curvature, set(risk.sequences.labels.tolist())
    if curvature is Curvature.AFFINE:
        return True
    return (curvature is Curvature.CONVEX and labels == {1.0}) or (curvature is Curvature.CONCAVE and labels == {-1.0})


def _constant_on_hulls(risk: HeadRisk, allowed: Selection, nu: np.ndarray) -> bool:
    """True if psi is one number on the hull of each O_i: equal scores, and at midpoints too if psi is quadratic."""
    chosen = allowed.chosen
    width = score_widths(risk)
    if (np.where(chosen, np.abs(risk.scores - nu[:, None]), 0.0) > width[:, None]).any():
        return False
    if allowed.is_single or risk.head.curvature is Curvature.AFFINE:
        return True
    if not isinstance(risk.head, QuadraticHead):
        return False
    tokens = risk.every_token.tokens
    middle = (tokens[:, :, None] + tokens[:, None]) / 2
    values = risk.sequences.labels[:, None, None] * np.asarray(_pair_values(risk.head, middle))
    pairs = chosen[:, :, None] & chosen[:, None, :]
    return bool((np.abs(values - nu[:, None, None]) <= width[:, None, None])[pairs].all())
