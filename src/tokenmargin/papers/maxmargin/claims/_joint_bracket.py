"""Brackets of the global minimisers of L(v, p) over |v| <= r, |p| <= R, for the logistic loss [M, Thms 5, 6].

Let alpha be the selection of largest label margin Gamma among those that attention can make, v_* the minimiser of
L(v, alpha) over |v| <= r, L_* its value, u_i = |l'(m_i)|/n its dual weights, a_it = Y_i v_*'(x_alpha - x_t)/r, g_it =
p'(k_alpha - k_t), q_i the attention outside alpha_i, and z(p) = sum_i u_i Y_i x_i(p), which is Z v_*/r at alpha.

*Outside of A* (some q_i > kappa_i) `search_mixtures` shows a label margin of at most Gamma - nu, so L is at least
(1/n) log(1 + exp(-r (Gamma - nu))), which is too much once r nu is large.

*Within A*, by the entropy dual of the logistic loss, min_v L(v, p) >= mean H(n u_i) - r |z(p)| = L_* + r (Z - |z(p)|).
With Delta = z(alpha) - z(p) and X_i the longest x_alpha - x_t, Z - |z(p)| >= v_*'Delta/r - |Delta|^2/2(Z - |Delta|) and
v_*'Delta/r = sum u_i a_it s_it, so that, with xi = max(X_i/a_i) |Delta|/2(Z - |Delta|) and s_it >= (1 - q_i) e^-g_it,

    (1 - xi)(1 - max kappa) e^f(p)  <=  min_v L(v, p) - L_*  <=  e^D e^f(p),      f(p) = log sum_it r u_i a_it e^-g_it,

the right side from v_*, with D how much its outputs fall. f is convex: with -grad f = eta p_0 at its minimiser p_0 over
the ball, f(p) >= f(p_0) + (eta/2)|p - p_0|^2 there, so that every minimiser p has |p - p_0|^2 <= 2 delta/eta, delta the
logarithm of what lies between the two sides. That bounds the q_i again, and delta with them. For v, in the same way,
|v/r - v_*/r|^2 <= 2 E (1 + max(X_i/a_i)/(1 - xi)) / (r Z), E = e^(f(p_0) + D).

r enters by its logarithm, so that r = exp(Xi R) is no more work than r = c R.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tokenmargin._types import HeadVector, InputNumbers, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import selected_label_svm
from tokenmargin.papers.maxmargin.claims._mixture_search import MixtureBound

#: r Gamma from which on log(1 + e^-m) is e^-m to the last bit, for the minimiser v_*.
LARGE_ENOUGH = 50.0

#: Attention outside alpha allowed within A on support vectors, at most; less where tokens are long beside their gaps.
MOST_OUTSIDE = 0.25

#: Times that the bounds on q_i and delta are drawn from one another: twice is enough once p_0 selects alpha.
_PASSES = 4

#: Error of a logarithm that sums logits, in units of their size: some units in the last place.
_UNITS_OF_ROUNDING = 16 * float(np.finfo(float).eps)

#: Newton steps at each temperature, the least share of one that is tried, and the step at which v_* is found.
_STEPS, _SHORTEST_STEP, _SMALL_STEP = 60, 1e-6, 1e-12

#: Share of the force that is taken to point outward, at least, in a step on a sphere: all of it does at a minimiser.
_LEAST_OUTWARD = 1e-2

#: The last step, in units of outputs, up to which v_* counts as found: u_i are then known to that share.
_FOUND = 1e-9


@dataclass(frozen=True, eq=False)
class JointBracket:
    """Every global minimiser (v, p) over |v| <= r, |p| <= R has |p - p_0| <= radius and |v/r - head| <= head_radius."""

    selection: Selection  #: alpha
    R: float
    log_r: float
    point: Vector  #: p_0
    radius: float
    head: HeadVector  #: v_*/r
    head_radius: float
    outside: InputNumbers  #: bounds on the attention that p pays outside alpha_i, shape (n,)
    log_excess: tuple[float, float]  #: of min L - L_*, in units of exp(-r Gamma): from below and above

    def direction_error(self, target: Vector) -> float:
        """The largest 1 - cos that a minimiser p may have to `target`."""
        return _off(_angle(self.point, target) + _opening(self.radius / self.R))

    def least_direction_error(self, target: Vector) -> float:
        """The smallest 1 - cos that a minimiser p may have to `target`."""
        return _off(_angle(self.point, target) - _opening(self.radius / self.R))

    def head_error(self, target: HeadVector) -> float:
        """The largest 1 - cos that a minimiser v may have to `target`."""
        return _off(_angle(self.head, target) + _opening(self.head_radius))


def _angle(x: np.ndarray, y: np.ndarray) -> float:
    """The angle between two vectors, right for small ones too."""
    a, b = x / np.linalg.norm(x), y / np.linalg.norm(y)
    return float(2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))


def _off(angle: float) -> float:
    """1 - cos of an angle, right for small ones too."""
    return float(2 * np.sin(np.clip(angle, 0.0, np.pi) / 2) ** 2)


def _opening(share: float) -> float:
    """Half the angle under which a ball of this radius, in units of its distance, is seen."""
    return float(np.arcsin(share)) if share < 1 else float(np.pi)


def bracket_saturated(
    sequences: EmbeddedSequences, selection: Selection, mixtures: MixtureBound, R: float, log_r: float
) -> JointBracket | None:
    """The global minimisers over |v| <= exp(log_r), |p| <= R; None where these are too small to tell.

    Args:
        sequences: the data; its head is not used.
        selection: alpha, the best of those that attention can make, with `attention_spared` for the set A.
        mixtures: the proof that no p outside of A is separated by label as widely.
        R: bound of |p|.
        log_r: logarithm of the bound of |v|.
    """
    return _Saturated(sequences, selection, mixtures.clearance, R, log_r).bracket() if mixtures.is_proved else None


def attention_spared(sequences: EmbeddedSequences, selection: Selection) -> InputNumbers | None:
    """kappa_i, shape (n,): how much attention outside alpha_i the set A allows; None if v_mm prefers another token.

    On support vectors so little that xi is below 1/2. On the others more than their spare label margin, which costs no
    margin and so cannot be told from M(p): half way from there to 1.
    """
    label = selected_label_svm(sequences, selection)
    longest, least = _gaps(sequences, selection, label.direction)
    spare = label.label_margin * np.where(label.support, 0.0, label.margins - 1.0)
    alone = np.isinf(least)
    if not ((least > 0) & (least > spare))[~alone].all():
        return None
    steepest = float((longest / least)[~alone].max(initial=1.0))
    strict = np.minimum(MOST_OUTSIDE, 0.5 * label.label_margin / (float(longest.max()) or 1.0) / (1 + steepest))
    share = np.where(alone, 0.0, spare / np.where(alone, 1.0, least))
    return np.where(label.support, strict, (1 + share) / 2)


def _gaps(sequences: EmbeddedSequences, selection: Selection, head: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(X_i, a_i), shape (n,): the longest x_alpha - x_t and the least Y_i head'(x_alpha - x_t); 0 and inf for none."""
    differences, others = _token_differences(sequences, selection)
    lengths = np.where(others, np.linalg.norm(differences, axis=2), 0.0)
    return lengths.max(axis=1), np.where(others, differences @ head, np.inf).min(axis=1)


def _token_differences(sequences: EmbeddedSequences, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    """(Y_i (x_alpha - x_t), shape (n, T, k); which t are other tokens)."""
    signed = sequences.labels[:, None, None] * sequences.tokens.astype(float)
    own = signed[np.arange(sequences.n_inputs), selection.indices]
    return own[:, None] - signed, sequences.mask & ~selection.chosen


class _Saturated:
    """The sandwich within A at one pair of radii."""

    def __init__(self, data: EmbeddedSequences, alpha: Selection, clearance: float, R: float, log_r: float) -> None:
        self.data, self.alpha, self.clearance, self.R, self.log_r = data, alpha, clearance, R, log_r
        with np.errstate(over="ignore"):
            self.r = float(np.exp(log_r))
        label = selected_label_svm(data, alpha)
        self.gamma = label.label_margin
        self.spare = self.gamma * np.where(label.support, 0.0, label.margins - 1.0)
        own = data.labels[:, None] * data.tokens[np.arange(data.n_inputs), alpha.indices].astype(float)
        slack = np.where(label.support, 0.0, self.r * np.where(label.support, 1.0, self.spare))
        self.head, self.log_own, self.is_solved = _classifier(own, label.direction, slack, self.r)
        self.log_u = self.log_own - slack
        self.log_Z = float(_log_length(own, self.log_u))
        self.longest, self.least = _gaps(data, alpha, self.head)
        differences, others = _token_differences(data, alpha)
        keys = data.relative_keys.astype(float)
        rows = keys[np.arange(data.n_inputs), alpha.indices][:, None] - keys
        self.inputs, places = np.nonzero(others)
        self.rows = rows[self.inputs, places]
        self.gap = (differences @ self.head)[self.inputs, places]

    def bracket(self) -> JointBracket | None:
        if not (self.is_solved and self.r * self.gamma >= LARGE_ENOUGH and len(self.gap) and (self.gap > 0).all()):
            return None
        beta = self.log_r + self.log_u[self.inputs] + np.log(self.gap)
        present, scale = np.isfinite(beta), float(np.linalg.norm(self.rows, axis=1).max())
        if not present.any():  # |v| beyond floats, and only inputs of one token carry the label margin
            return None
        point, force = least_log_sum(self.rows[present], beta[present], self.R)
        eta = float(force @ point) / self.R**2
        if not eta > 0:
            return None
        f = float(logsumexp(beta - self.rows @ point))
        above, rounding = self._log_excess_above(point), _UNITS_OF_ROUNDING * (self.R * scale + abs(f))
        residual = float(np.linalg.norm(force - eta * point)) + rounding * scale
        if not self._beats_the_rest(above):
            return None
        kappa = attention_spared(self.data, self.alpha)
        if kappa is None:
            return None
        lengths = np.linalg.norm(self.rows, axis=1)
        for _ in range(_PASSES):
            xi = self._second_order(kappa)
            if not xi < 1:
                return None
            below = f + np.log1p(-xi) + np.log1p(-float(kappa.max()))
            delta = np.maximum(above - below, 0.0) + rounding
            radius = float(residual + np.sqrt(residual**2 + 2 * eta * delta)) / eta
            with np.errstate(over="ignore"):
                paid = np.exp(-(self.rows @ point) + lengths * radius)
            kappa = np.minimum(kappa, np.bincount(self.inputs, paid, len(kappa)))
        steepest = float((self.longest / self.least)[np.isfinite(self.least)].max())
        log_head = np.log(2.0) + above + np.log1p(steepest / (1 - xi)) - self.log_r - self.log_Z
        return JointBracket(
            self.alpha, self.R, self.log_r, point, radius, self.head, float(np.exp(log_head / 2)), kappa,
            (below, above),
        )  # fmt: skip

    def _log_excess_above(self, point: np.ndarray) -> float:
        """log of L(v_*, p) - L_* at most: sum_i u_i D_i e^D_i with D_i = r sum_t a_it s_it."""
        n, paid = len(self.log_u), np.log(self.gap) - self.rows @ point
        with np.errstate(divide="ignore", over="ignore"):
            log_fall = np.array(
                [logsumexp(paid[self.inputs == i]) if (self.inputs == i).any() else -np.inf for i in range(n)]
            )
            # Together with the slack, of which a fall on an input with label margin to spare takes only a part.
            kept = np.where(self.spare > 0, np.exp(log_fall) - self.spare, 1.0)
            change = np.where(self.spare > 0, self.r * kept, np.exp(self.log_r + log_fall))
        return float(logsumexp(self.log_own + self.log_r + log_fall + change))

    def _beats_the_rest(self, above: float) -> bool:
        """True if L(v_*, p_0) is below all of L outside of A: in units of exp(-r Gamma), L_* is at most 1.

        Outside, log(1 + e^-x) >= e^-x log 2 for x >= 0.
        """
        below = self.r * self.clearance + np.log(np.log(2.0) / len(self.log_u))
        return bool(below > np.logaddexp(0.0, above))

    def _second_order(self, kappa: np.ndarray) -> float:
        """xi: how much of the first-order gain the second order may take, within A."""
        inside = np.isfinite(self.least)
        moved = float(np.exp(logsumexp(self.log_u - self.log_Z, b=kappa * self.longest)))
        steepest = float((self.longest / self.least)[inside].max())
        return steepest * moved / (2 * (1 - moved)) if moved < 1 else float("inf")


def _log_length(rows: np.ndarray, log_u: np.ndarray) -> float:
    """log of |sum_i u_i rows_i|."""
    top = log_u.max()
    return float(top + np.log(np.linalg.norm(np.exp(log_u - top) @ rows)))


def _classifier(own: np.ndarray, base: np.ndarray, slack: np.ndarray, r: float) -> tuple[np.ndarray, np.ndarray, bool]:
    """(v_*/r, log u_i + r Gamma + slack_i, found): the minimiser of sum_i exp(-v'own_i) over |v| <= r, near r base.

    v = sqrt(r^2 - |w|^2) base + w with w at right angles to base stays bounded as r grows; slack_i = r (m_i - Gamma),
    with m_i the margins of base.
    """
    aside = own - np.outer(own @ base, base)
    w = np.zeros(len(base))
    for _ in range(_STEPS):
        height = np.sqrt(r * r - w @ w) if np.isfinite(r) else np.inf
        sag = (w @ w) / (r + height) if np.isfinite(r) else 0.0
        exponent = -slack - aside @ w + sag * (own @ base)
        weights = np.exp(exponent - logsumexp(exponent))
        curve = float(weights @ (own @ base)) / height
        slope = -weights @ aside + curve * w
        spread = aside + np.outer(own @ base, -w / height) if np.isfinite(r) else aside
        centred = spread - weights @ spread
        hessian = (centred.T * weights) @ centred + curve * np.eye(len(base)) + np.outer(base, base)
        step = -np.linalg.lstsq(hessian, slope, rcond=1e-14)[0]
        step -= (step @ base) * base
        length = float(np.abs(aside @ step).max())
        w = w + step * (1.0 / length if length > 1 else 1.0)
        if length < _SMALL_STEP:
            break
    sag = (w @ w) / (r + np.sqrt(r * r - w @ w)) if np.isfinite(r) else 0.0
    direction = base * (1.0 - sag / r if np.isfinite(r) else 1.0) + (w / r if np.isfinite(r) else 0.0)
    return direction, -aside @ w + sag * (own @ base) - np.log(len(own)), length < _FOUND


def least_log_sum(rows: np.ndarray, beta: np.ndarray, R: float) -> tuple[np.ndarray, np.ndarray]:
    """(p, -grad f): the minimiser on |p| = R of the convex f(p) = log sum_j exp(beta_j - rows_j'p).

    Newton's method on the sphere, from a high temperature down to 1, each from the end of the one before. Where the
    force at the end is a positive multiple of p, that is the KKT condition of the ball: p is its one minimiser.
    """
    scale = float(np.linalg.norm(rows, axis=1).max())
    p = rows.sum(axis=0)
    p = R * (p / np.linalg.norm(p) if np.linalg.norm(p) > 1e-9 * scale else np.eye(len(p))[0])
    temperature = float(np.fmax(1.0, R * scale + np.ptp(beta)))  # of a search: it ends, and is judged after
    while True:
        p = _cooled(rows, beta, R, p, temperature)
        if temperature == 1.0:
            break
        temperature = float(np.fmax(1.0, temperature / 4))
    logits = beta - rows @ p
    return p, np.exp(logits - logsumexp(logits)) @ rows


def _cooled(rows: np.ndarray, beta: np.ndarray, R: float, p: np.ndarray, temperature: float) -> np.ndarray:
    """Newton's method on the sphere at one temperature: downhill while values tell, then while the residual falls."""
    rounding = _UNITS_OF_ROUNDING * (R * float(np.linalg.norm(rows, axis=1).max()) + float(np.abs(beta).max()))
    value, residual, step = _newton(rows, beta, R, p, temperature)
    for _ in range(_STEPS):
        share = 1.0
        while share > _SHORTEST_STEP:
            there = p + share * step
            there *= R / np.linalg.norm(there)
            reached = _newton(rows, beta, R, there, temperature)
            if reached[0] < value - rounding or (reached[0] < value + rounding and reached[1] < residual):
                break
            share /= 4
        else:
            break
        p, (value, residual, step) = there, reached
    return p


def _newton(
    rows: np.ndarray, beta: np.ndarray, R: float, p: np.ndarray, temperature: float
) -> tuple[float, float, np.ndarray]:
    """(value, size of the tangential gradient, Newton's step) on the sphere."""
    logits = (beta - rows @ p) / temperature
    total = float(logsumexp(logits))
    weights, unit = np.exp(logits - total), p / R
    force = weights @ rows
    out = float(force @ unit)
    tangent, centred = force - out * unit, rows - force
    centred = centred - np.outer(centred @ unit, unit)
    # Far from the minimiser, where the force points inward, the sphere's curvature is of the wrong sign.
    curvature = max(out, _LEAST_OUTWARD * float(np.linalg.norm(force))) / R
    hessian = (centred.T * weights) @ centred / temperature + curvature * np.eye(len(p))
    hessian += float(np.trace(hessian)) * np.outer(unit, unit)
    step = np.linalg.lstsq(hessian, tangent, rcond=1e-15)[0]
    return temperature * total, float(np.linalg.norm(tangent)), step
