"""Assumption D for heads with Lipschitz gradient: mixing other tokens hurts, proved by branch and bound [M, App. D].

By [M, Lemma 14] it follows from (85), which with one optimal token a in each input, of score nu, reads

    nu - Y psi(X's) >= epsilon nu q(s)   and   nu - Y psi(X's) <= (C + nu) q(s),       q(s) = 1 - s_a,

for the attention s of every p; it is proved for every s of the simplex. At s = e_a the quotient is 0/0. With c such
that Y psi(x + h) <= U(h) = Y psi(x) + Y psi'(x)'h + c |h|^2, the difference nu - U - epsilon nu q is a concave function
of s, so over a part of the simplex it is enough to look at the corners of the part: epsilon nu is the least (nu - U)/q
of them. A part that holds e_a takes x there, where nu - U and q are both 0 and the other corners' quotients are what
the tangent says; any other takes x in its middle. Parts that prove nothing are halved. The second inequality follows
from the tangent at e_a and the same c for -psi.

*No* is said at a p only, never at an attention that none may have: where the risk is below its limit L_star, whereas
some p' leave as little outside the optimal tokens as one likes, and their risk comes down to L_star.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

import equinox as eqx
import jax
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._precision import keep_precision
from tokenmargin._types import Vector
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import Head, LinearHead, QuadraticHead
from tokenmargin.data import Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, att_svm_any
from tokenmargin.papers.maxmargin.claims._exact_selection import OwnOrder
from tokenmargin.theory.claim import Applies, largest, least

#: Parts of the simplex of an input that are looked at before it is left undecided.
MOST_PARTS = 20_000

#: A quotient (nu - psi)/q below this times nu is rounding, not a proof; neither is a risk that is below L_star by less.
ROUNDING = 1e-9

#: A score is rounded by no more than this share of its largest term, z'A z and b'z apart.
_EPS = 2.0**-46

#: Shares of attention, beside the optimal token's, of the points that are tried as counterexamples.
_TRIED_SHARES = (1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)

#: Logits of all other tokens at these points, in units where the optimal ones have 0.
_TRIED_RESTS = (-3.0, -12.0)


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionD(Told):
    """Verdict on Assumption D for the optimal tokens, with the proof."""

    applies: Applies
    because: str  #: one sentence
    epsilon: float  #: constant of (85) when it holds, else NaN
    C: float  #: constant of (85) when it holds, else NaN
    violation: Vector | None = None  #: a p whose risk is below the limit, shape (d,)


def curvature_bound(head: Head, sign: float) -> float | None:
    """The least known c >= 0 with sign psi(x + h) <= sign (psi(x) + psi'(x)'h) + c |h|^2; None if none is known."""
    if isinstance(head, LinearHead):
        return 0.0
    if isinstance(head, QuadraticHead):
        return largest(0.0, float(np.linalg.eigvalsh(sign * np.asarray(head.matrix)).max()))
    return None


@keep_precision
@checked
def assumption_d(risk: HeadRisk, allowed: Selection, lipschitz: float | None = None) -> AssumptionD:
    """Decide Assumption D for one optimal token an input, or say that it was not decided [M, Lemma 14].

    Args:
        risk: risk of p behind a head.
        allowed: the sets O_i, of one token each.
        lipschitz: a Lipschitz constant of the gradient of psi on the hull of the tokens; not needed for a head that is
            linear or quadratic.
    """
    if lipschitz is not None and not (np.isfinite(lipschitz) and lipschitz >= 0):
        raise InvalidInputError(f"lipschitz = {lipschitz!r}: give a finite number from 0 on.")
    nothing = float("nan")
    if not (risk.sequences.mask & ~allowed.chosen).any():
        told = "There is nothing to mix: q is 0 at every p, and none is strictly better than another."
        return AssumptionD(Applies.NO, told, nothing, nothing, violation=np.zeros(risk.sequences.width))
    if not allowed.is_single:
        return AssumptionD(Applies.NOT_DECIDED, "Some input has several optimal tokens.", nothing, nothing)
    order = OwnOrder(risk.sequences, allowed)  # the optimal tokens first
    risk, allowed = replace(risk, sequences=order.as_given), order.selection
    nu = risk.scores[:, 0]
    if not nu.min() > 0:
        told = "(85) asks that the optimal tokens score above 0, and some does not."
        return _refuted(risk, allowed) or AssumptionD(Applies.NOT_DECIDED, told, nothing, nothing)
    found = [_input_quotients(risk, i, lipschitz) for i in range(len(nu))]
    if any(one is None for one in found):
        told = "No Lipschitz constant of the head's gradient is known, too many parts of the simplex would be needed, "
        told += "or the scores are rounding beside the terms that they are sums of."
        return _refuted(risk, allowed) or AssumptionD(Applies.NOT_DECIDED, told, nothing, nothing)
    lowest, most = (np.array([one[k] for one in found if one is not None]) for k in (0, 1))
    epsilon, C = least(1.0, *(lowest / nu)), largest(0.0, *(most - nu))
    if not (epsilon > ROUNDING and np.isfinite(C)):
        told = "Some attention would not lower the score, and no p is known to have it."
        return _refuted(risk, allowed) or AssumptionD(Applies.NOT_DECIDED, told, nothing, nothing)
    told = f"(85) holds for every attention with epsilon = {epsilon:.4g}."
    return AssumptionD(Applies.YES, told, epsilon, C)


def _input_quotients(risk: HeadRisk, i: int, lipschitz: float | None) -> tuple[float, float] | None:
    """Bounds from below and above of (nu - Y psi)/q over the simplex of input i, whose optimal token is the first.

    None if they are not known.

    A bound from below that is not positive is that of a corner, where the quotient itself is as small.
    """
    sign = float(risk.sequences.labels[i])
    bounds = [curvature_bound(risk.head, side * sign) for side in (1.0, -1.0)]
    above, below = (b if b is not None else None if lipschitz is None else lipschitz / 2 for b in bounds)
    if above is None or below is None:
        return None
    tokens = np.asarray(risk.sequences.tokens, dtype=float)[i, risk.sequences.mask[i]]
    if len(tokens) == 1:
        return float("inf"), 0.0
    values, slopes = (sign * x for x in _at(risk.head, tokens))
    moves, nu = tokens[1:] - tokens[0], float(values[0])
    longest = float((moves**2).sum(axis=1).max())
    noise = _EPS * (_largest_term(risk.head, tokens) + largest(above, below) * longest)
    if not nu > noise:
        return None
    most = float((-(moves @ slopes[0])).max(initial=0.0) + below * longest)
    lowest = _least_quotient(_Simplex(risk.head, sign, tokens, nu, slopes[0], above, noise))
    return None if lowest is None else (lowest * nu / (nu + noise), most + 2 * noise)


def _largest_term(head: Head, tokens: np.ndarray) -> float:
    """The sum of the sizes of what adds up to a score at most, beside which the score is rounded."""
    sizes = np.abs(tokens)
    if isinstance(head, QuadraticHead):
        matrix, weights, offset = (np.abs(np.asarray(x)) for x in (head.matrix, head.weights, head.offset))
        return float((np.einsum("tk,kl,tl->t", sizes, matrix, sizes) + sizes @ weights).max() + offset)
    values, slopes = _at(head, tokens)
    return float((np.abs(slopes) * sizes).sum(axis=1).max() + np.abs(values).max())


@dataclass(frozen=True, eq=False)
class _Simplex:
    """One input: its tokens, the optimal one first, with its score and slope, and the curvature."""

    head: Head
    sign: float
    tokens: np.ndarray
    nu: float
    slope: np.ndarray
    curvature: float
    noise: float  #: rounding of a score


def _least_quotient(one: _Simplex) -> float | None:
    """The least quotient over the parts, halved until each is positive or a corner's own is not; None if never."""
    T = len(one.tokens)
    parts, seen, lowest = np.eye(T)[None], 0, float("inf")
    while len(parts):
        seen += len(parts)
        corners = parts.reshape(-1, T)
        q = 1.0 - corners[:, 0]
        outside = q > 0
        values = one.sign * _at(one.head, corners @ one.tokens)[0]
        true = (one.nu - values[outside]) / q[outside]
        if true.min() <= ROUNDING * one.nu:
            return float(true.min())
        if seen > MOST_PARTS:
            return None
        bounds = _quotients(one, parts)
        # A bound that is NaN proves nothing: its part stays open.
        done = bounds > 0.5 * ROUNDING * one.nu + np.minimum(true.min(), one.nu) * 0.01
        lowest = least(lowest, *bounds[done])
        parts = _halved(parts[~done], one.tokens)
    return lowest


def _quotients(one: _Simplex, parts: np.ndarray) -> np.ndarray:
    """The least (nu - U)/q over the corners of each part, shape (m,)."""
    middle = parts.mean(axis=1) @ one.tokens
    values, slopes = (one.sign * x for x in _at(one.head, middle))
    holds_own = (parts[:, :, 0] == 1.0).any(axis=1)
    middle = np.where(holds_own[:, None], one.tokens[0], middle)
    values = np.where(holds_own, one.nu, values)
    slopes = np.where(holds_own[:, None], one.slope, slopes)
    h = parts @ one.tokens - middle[:, None]
    upper = values[:, None] + np.einsum("mck,mk->mc", h, slopes) + one.curvature * (h**2).sum(axis=2)
    q = 1.0 - parts[:, :, 0]
    return np.asarray(np.where(q > 0, (one.nu - upper - one.noise) / np.where(q > 0, q, 1.0), np.inf).min(axis=1))


def _halved(parts: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Each part cut in the middle of its longest edge, as long as tokens are apart along it."""
    if not len(parts):
        return parts
    pairs = np.array(list(combinations(range(parts.shape[1]), 2)))
    places = parts @ tokens
    longest = ((places[:, pairs[:, 0]] - places[:, pairs[:, 1]]) ** 2).sum(axis=2).argmax(axis=1)
    row = np.arange(len(parts))
    first, second = pairs[longest].T
    middle = (parts[row, first] + parts[row, second]) / 2
    left, right = parts.copy(), parts.copy()
    left[row, first], right[row, second] = middle, middle
    return np.concatenate([left, right])


def _at(head: Head, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """psi and its gradient at many points, padded to a power of two so that few sizes are compiled."""
    size = 1 << max(4, (len(points) - 1).bit_length())
    padded = np.concatenate([points, np.repeat(points[:1], size - len(points), axis=0)])
    values, slopes = _both(head, padded)
    return np.asarray(values)[: len(points)], np.asarray(slopes)[: len(points)]


_both = eqx.filter_jit(lambda head, points: jax.vmap(jax.value_and_grad(lambda z: head(z)))(points))


def _refuted(risk: HeadRisk, allowed: Selection) -> AssumptionD | None:
    """A p whose risk is below L_star, where another attends to the optimal tokens alone in the limit."""
    if att_svm_any(risk.sequences, allowed).status is not Status.OPTIMAL:
        return None
    points = _points(risk, allowed)
    sign, size, log_q = risk.log_excess(points, allowed)
    tokens = np.asarray(risk.sequences.tokens, dtype=float)[risk.sequences.mask]
    term = _largest_term(risk.head, tokens)
    steepest = float(np.asarray(risk.loss.log_slope(risk.scores[risk.sequences.mask])).max())
    below = (sign < 0) & (size - log_q > np.log(ROUNDING * term) + steepest)
    if not below.any():
        return None
    p = points[int(np.flatnonzero(below)[0])]
    told = f"At p = {np.round(p, 4)} the risk is below its limit on the optimal tokens."
    return AssumptionD(Applies.NO, told, float("nan"), float("nan"), violation=p)


def _points(risk: HeadRisk, allowed: Selection) -> np.ndarray:
    """The p nearest, in logits, to sharing attention between the optimal tokens and one other of one input."""
    keys, chosen = risk.sequences.relative_keys.astype(float), allowed.indices
    n = len(keys)
    gaps = (keys - keys[np.arange(n), chosen][:, None])[risk.sequences.mask & ~allowed.chosen]
    found = [np.zeros(keys.shape[2])]
    for row, share, rest in product(range(len(gaps)), _TRIED_SHARES, _TRIED_RESTS):
        logits = np.full(len(gaps), rest)
        logits[row] = np.log(share / (1 - share))
        found.append(np.linalg.lstsq(gaps, logits, rcond=None)[0])
    return np.array(found)
