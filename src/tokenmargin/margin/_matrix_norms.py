"""Nuclear and spectral max-margin problems by a barrier method, in the few rows and columns that the problem spans.

Both norms are about matrices Y with singular values below 1, whose barrier is -log det(I - Y'Y): Y is W itself in the
spectral problem, and the weighted sum G of the dual in the nuclear one. Between the singular vectors of Y the second
derivative of the barrier is made of blocks of two numbers, D_ij and D_ji, so that it costs no more than a product to
apply or to invert, and a step costs one linear system in the multipliers, however wide W is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from tokenmargin.margin._factored_newton import factored_newton
from tokenmargin.margin._scaled_rows import Candidate, ScaledRows

#: The weight of the barrier falls from this start to this end; the value sought is of order one.
FIRST, LAST = 0.1, 1e-10

#: It falls by the first factor; where the relative gap then is more than `CAREFUL`, once more, by the second.
FACTORS, CAREFUL = (0.1, 0.3), 1e-10

#: The weight from which on a point is near enough to the optimum to finish it, and the relative gap that is enough.
FINISHED_FROM, ENOUGH = 1e-3, 1e-12

#: The weight from which on points of the path are exact enough to foretell others.
EXACT_FROM = 1e-2

#: Newton steps for each weight, and the decrements below which the next weight, and a whole step, is taken; below the
#: last one a decrement that no longer falls by half is rounding.
STEPS, CENTRED, NEAR, EXHAUSTED = 50, 1e-7, 0.25, 1e-4

#: Points of the central path by which the next one is guessed, and shares of the way there that are tried.
AHEAD, SHARES = 3, (1.0, 0.95, 0.8)

#: Points of the central path of which its end is extrapolated: the more, the nearer, until rounding is what is seen.
POINTS = (1, 2, 3, 4, 6)

#: Share of what a long step promises that it must gain.
GAINED = 0.1

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class _Barrier:
    """-log det(I - Y'Y) at Y (r, c), r >= c, of singular values below 1."""

    left: Array
    right: Array
    values: Array  #: singular values, with zeros for rows beyond the columns, shape (r,)

    @classmethod
    def at(cls, matrix: Array) -> _Barrier | None:
        """The barrier at a matrix; None where it is infinite."""
        left, values, right = np.linalg.svd(matrix, full_matrices=True)
        if not values[0] < 1:
            return None
        return cls(left, right.T, np.concatenate([values, np.zeros(len(left) - len(values))]))

    @property
    def value(self) -> float:
        return -float(np.log1p(-(self.values**2)).sum())

    @property
    def gradient(self) -> Array:
        """2 Y (I - Y'Y)^-1, shape (r, c)."""
        c = len(self.right)
        return np.asarray((self.left[:, :c] * (2 * self.values / (1 - self.values**2))[:c]) @ self.right.T)

    def turned(self, matrices: Array) -> Array:
        """Matrices (k, r, c) between the singular vectors."""
        return np.asarray(self.left.T @ matrices @ self.right)

    def curved(self, turned: Array, inverse: bool = False) -> Array:
        """The second derivative times turned matrices, or its inverse times them, shape (k, r, c).

        D -> 2 (D_ij + sigma_i sigma_j D_ji) / ((1 - sigma_i^2)(1 - sigma_j^2)), with no D_ji beyond the columns.
        """
        c = len(self.right)
        room = np.outer(1 - self.values**2, 1 - self.values[:c] ** 2)
        both = np.outer(self.values, self.values[:c])
        mirrored = np.zeros_like(turned)
        mirrored[:, :c] = np.swapaxes(turned[:, :c], 1, 2)
        if inverse:
            return (turned - both * mirrored) * (room / (2 * (1 - both**2)))
        return (turned + both * mirrored) * (2 / room)


def nuclear(problem: ScaledRows) -> Candidate:
    """min of the sum of singular values, by its dual: max b'lambda over |G| <= 1, W = 2 mu G (I - G'G)^-1."""
    rows, ties, flip = problem.tall
    both = np.concatenate([rows, ties])
    m, flat = len(rows), both.reshape(len(both), -1)
    asked = np.concatenate([problem.rhs, np.zeros(len(ties))])
    x = np.concatenate([problem.start.duals + problem.start.duals.max() / m, problem.start.tie_duals])

    def combined(x: Array) -> Array:
        return (x @ flat).reshape(both.shape[1:])

    size = float(np.linalg.norm(combined(x), ord=2))
    if not size > 0:  # the rows oppose each other up to rounding of the span: the Euclidean answer is all there is
        return problem.start
    x = 0.5 * x / size

    def parts(x: Array) -> _Barrier | None:
        return _Barrier.at(combined(x)) if (x[:m] > 0).all() else None

    def objective(x: Array, barrier: _Barrier, mu: float) -> float:
        return float(asked @ x) - mu * (barrier.value - float(np.log(x[:m]).sum()))

    def step(x: Array, barrier: _Barrier, mu: float) -> tuple[Array, Array]:
        turned = barrier.turned(both)
        hessian = turned.reshape(len(both), -1) @ barrier.curved(turned).reshape(len(both), -1).T
        hessian[np.arange(m), np.arange(m)] += 1 / x[:m] ** 2
        slope = asked / mu - flat @ barrier.gradient.ravel()
        slope[:m] += 1 / x[:m]
        return _solved(hessian, slope), slope * mu

    def finish(x: Array, barrier: _Barrier, mu: float) -> list[Candidate]:
        near = mu * barrier.gradient, x[:m], x[m:]
        found = factored_newton(rows, problem.rhs, ties, *near), near  # where many duals are optimal Newton finds none
        return [Candidate(problem.lifted(W.T if flip else W), duals, tie_duals) for W, duals, tie_duals in found]

    return _followed(problem, x, _Path(parts, objective, step, finish))


def spectral(problem: ScaledRows) -> Candidate:
    """min of the largest singular value, as max s over |Y| <= 1 and rows Y >= s b: W = Y/s."""
    rows, ties, flip = problem.tall
    m, q = len(rows), len(ties)
    if np.isnan(problem.interior).any():
        return problem.start
    flat = rows.reshape(m, -1)
    tie_flat = ties.reshape(q, flat.shape[1])
    first = problem.interior.reshape(problem.matrix_shape)
    left, right = problem.bases
    inner = left.T @ first @ right
    inner = inner.T if flip else inner
    inner = 0.5 * inner / np.linalg.norm(inner, ord=2)
    reach = flat @ inner.ravel()
    asking = problem.rhs > 0
    x = np.append(inner.ravel(), 0.5 * float((reach[asking] / problem.rhs[asking]).min()))

    def levelled(line: Array) -> Array:
        return np.asarray(line - tie_flat.T @ (tie_flat @ line))

    def slack(x: Array) -> Array:
        return np.asarray(flat @ x[:-1] - x[-1] * problem.rhs)

    def parts(x: Array) -> _Barrier | None:
        return _Barrier.at(x[:-1].reshape(rows.shape[1:])) if (slack(x) > 0).all() else None

    def objective(x: Array, barrier: _Barrier, mu: float) -> float:
        return float(x[-1]) - mu * (barrier.value - float(np.log(slack(x)).sum()))

    def step(x: Array, barrier: _Barrier, mu: float) -> tuple[Array, Array]:
        room = slack(x)
        slope = levelled(flat.T @ (1 / room) - barrier.gradient.ravel())
        slope_s = 1 / mu - float(problem.rhs @ (1 / room))
        turned = barrier.turned(np.concatenate([rows, ties, slope.reshape(1, *rows.shape[1:])]))
        inverse = barrier.curved(turned, inverse=True).reshape(len(turned), -1)
        gram = turned.reshape(len(turned), -1) @ inverse.T
        system = np.zeros((m + q + 1, m + q + 1))
        system[: m + q, : m + q] = gram[:-1, :-1]
        system[np.arange(m), np.arange(m)] += room**2
        system[:m, -1] = system[-1, :m] = problem.rhs
        weights = _solved(system, np.concatenate([gram[:-1, -1], [-slope_s]]))
        inner = (inverse[-1] - weights[:-1] @ inverse[:-1]).reshape(rows.shape[1:])
        move = levelled(x[:-1] + (barrier.left @ inner @ barrier.right.T).ravel()) - x[:-1]  # or rounding adds up
        return np.append(move, weights[-1]), mu * np.append(slope, slope_s)

    passed: list[tuple[float, Array]] = []

    def candidate(line: Array) -> Candidate:
        point, duals, tie_duals = np.split(line, [flat.shape[1], flat.shape[1] + m])
        inner = point.reshape(rows.shape[1:])
        return Candidate(problem.lifted(inner.T if flip else inner), duals, tie_duals)

    def finish(x: Array, barrier: _Barrier, mu: float) -> list[Candidate]:
        duals = mu / slack(x)
        left_over = mu * barrier.gradient.ravel() - duals @ flat
        tie_duals = tie_flat @ left_over
        if passed and passed[-1][0] < mu:
            passed.clear()  # the path begins anew
        passed.append((mu, np.concatenate([x[:-1] / x[-1], duals, tie_duals])))
        return [candidate(_along(passed[-points:])) for points in POINTS]

    return _followed(problem, x, _Path(parts, objective, step, finish))


def _along(passed: list[tuple[float, Array]], weight: float = 0.0) -> Array:
    """The path through points of known weight at another weight, or at its end, by the polynomial through them.

    The central path is smooth up to its end, where the slacks that make it are too small for their digits.
    """
    weights = [prod((other - weight) / (other - mu) for other, _ in passed if other != mu) for mu, _ in passed]
    return np.asarray(sum(weight * point for weight, (_, point) in zip(weights, passed, strict=True)))


def _solved(matrix: Array, right: Array) -> Array:
    """The solution of a symmetric system that may be singular up to rounding, in units of its diagonal."""
    sizes = np.abs(np.diagonal(matrix))
    scale = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    scaled = matrix * scale[:, None] * scale
    try:
        found = np.linalg.solve(scaled, right * scale)
    except np.linalg.LinAlgError:
        found = np.linalg.lstsq(scaled, right * scale, rcond=None)[0]
    return np.asarray(found * scale)


class _Path(NamedTuple):
    """A central path: the barrier at x, the objective, Newton's step with its slope, and candidates near a point."""

    parts: Callable[[Array], _Barrier | None]
    objective: Callable[[Array, _Barrier, float], float]
    step: Callable[[Array, _Barrier, float], tuple[Array, Array]]
    finish: Callable[[Array, _Barrier, float], list[Candidate]]


def _followed(problem: ScaledRows, x: Array, path: _Path) -> Candidate:
    """Follow the central path, and once more with shorter strides where its end was missed."""
    best = problem.meeting(problem.start)
    for factor in FACTORS:
        best = _followed_by(factor, problem, x, best, path)
        if problem.gap(best) <= CAREFUL:
            break
    return best


def _followed_by(factor: float, problem: ScaledRows, x: Array, best: Candidate, path: _Path) -> Candidate:
    """Follow the central path, finish its points, and return what brackets the value best."""
    barrier, mu = path.parts(x), FIRST
    least, most = problem.bracket(best)
    passed: list[tuple[float, Array]] = []
    if barrier is None:  # no interior that floats know
        return best
    at = _At(x, barrier, path.objective(x, barrier, mu))
    while mu >= LAST and not 1 - most / least <= ENOUGH:
        at = _centred(path, _guessed(path, at, passed, mu), mu)
        passed.append((mu, at.x))
        if mu <= FINISHED_FROM:
            best = problem.best(best, *path.finish(at.x, at.barrier, mu))
            least, most = problem.bracket(best)
        mu *= factor
    return best


class _At(NamedTuple):
    """A point inside, with its barrier and its objective."""

    x: Array
    barrier: _Barrier
    gain: float


def _at(path: _Path, x: Array, mu: float) -> _At | None:
    """The point x if it is inside."""
    barrier = path.parts(x)
    return None if barrier is None else _At(x, barrier, path.objective(x, barrier, mu))


def _guessed(path: _Path, at: _At, passed: list[tuple[float, Array]], mu: float) -> _At:
    """The point of the path for the next weight, as those before foretell it, if this gains."""
    here = at._replace(gain=path.objective(at.x, at.barrier, mu))
    if len(passed) < AHEAD:
        return here
    towards = _along(passed[-AHEAD:], mu) - at.x
    tried = (_at(path, at.x + share * towards, mu) for share in SHARES)
    return next((ahead for ahead in tried if ahead is not None and ahead.gain > here.gain), here)


def _centred(path: _Path, at: _At, mu: float) -> _At:
    """The point of the central path, by damped Newton steps.

    The barriers are self-concordant: with a decrement below `NEAR` a whole step is safe, and a share of
    1/(1 + decrement) of a step always is, where rounding hides what a longer one would gain.
    """
    last, enough = np.inf, CENTRED if mu <= EXACT_FROM else NEAR
    for _ in range(STEPS):
        move, slope = path.step(at.x, at.barrier, mu)
        promised = float(slope @ move)
        decrement = np.sqrt(max(promised, 0.0) / mu)
        if decrement <= enough or (decrement < EXHAUSTED and decrement > last / 2):  # rounding is what is left
            return at
        last, reach, safe = decrement, 1.0, 1.0 if decrement < NEAR else 1 / (1 + decrement)
        ahead = _at(path, at.x + move, mu)
        while reach > safe and (ahead is None or ahead.gain <= at.gain + GAINED * reach * promised):
            reach = max(reach / 2, safe)
            ahead = _at(path, at.x + reach * move, mu)
        if ahead is None:  # rounding of the last digits: nothing more is gained with this weight
            return at
        at = ahead
    return at
