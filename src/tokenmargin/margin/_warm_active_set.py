"""The shortest vector under A p >= b, continued from the answer to a problem with fewer rows.

Goldfarb and Idnani's dual active-set method: p stays the shortest vector for the rows that are held, violated rows are
brought in one after the other, and a held row whose multiplier would turn negative is let go on the way. A round of
constraint generation changes a few rows of hundreds, so continuing costs a few steps where a fresh solve takes
hundreds. Nothing here proves anything: the answer is offered, and whoever asks checks its residuals.

Why not daqp, started with the same rows (`dual_start`)? Its time over ours on the continued rounds of real searches, as
`OPENBLAS_NUM_THREADS=1 python -m benchmarks.corpus_svm 50000 2048` printed it on two shared cores: 1.3, 2.8, 1.4 and
3.6 (Zipf's documents, 495 to 553 rows held), 0.7 and 3.9 (Gaussian rows, 1790 held), 1.4 and 2.7 (IMDB reviews, 330
held), with answers equal to 1e-14. At d = 256 the ratios are 0.4 to 1.4, of a tenth of a second at most.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

#: A unit row whose part outside the held rows is shorter than the root of this adds no dimension to them.
DEPENDENT = 1e-12

#: Violations of unit rows, in units of |p|, that are left alone: rounding of the running p, which is solved afresh at
#: the end.
LEFT_ALONE = 1e-12

#: Steps per dimension after which the method is taken to cycle.
STEPS_PER_DIMENSION = 20


def continue_active_set(rows: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """p and multipliers for rows p >= 1, from the rows (numbers `held`) that carried the answer before.

    None when the rows turn out dependent, infeasible or too ill-conditioned for updates: solve afresh then.
    """
    norms = np.linalg.norm(rows, axis=1)
    if not norms.all():
        return None
    unit, bound = rows / norms[:, None], 1.0 / norms
    state = _Held.of(unit, bound, held)
    if state is None:
        return None
    for _ in range(STEPS_PER_DIMENSION * rows.shape[1]):
        slack = unit @ state.p - bound
        small = LEFT_ALONE * max(1.0, float(np.linalg.norm(state.p)))
        if np.abs(slack[state.numbers]).max() > small:
            if not state.refresh():
                return None
            slack = unit @ state.p - bound
        slack[state.numbers] = 0.0
        worst = int(slack.argmin())
        if slack[worst] >= -small:
            return state.solved_afresh(norms)
        if not state.take_in(worst):
            return None
    return None


class _Held:
    """The held rows, the inverse H of their Gram matrix, their multipliers, and p = sum of multipliers times rows."""

    def __init__(self, unit: np.ndarray, bound: np.ndarray, held: np.ndarray) -> None:
        self.unit, self.bound = unit, bound
        self.numbers = list(map(int, held))
        d = unit.shape[1]
        self._rows = np.empty((d, d))
        self._rows[: len(held)] = unit[held]

    @classmethod
    def of(cls, unit: np.ndarray, bound: np.ndarray, held: np.ndarray) -> _Held | None:
        """Start from rows that carried an answer; None if they are dependent or their multipliers are not all >= 0."""
        if not 0 < len(held) <= unit.shape[1]:
            return None
        state = cls(unit, bound, held)
        return state if state.refresh() and (state.duals >= 0).all() else None

    @property
    def rows(self) -> np.ndarray:
        """The held rows, shape (k, d)."""
        return self._rows[: len(self.numbers)]

    def refresh(self) -> bool:
        """H, multipliers and p from a factorisation, once the updates have gathered rounding; False if it fails."""
        solved = _least_norm_equal(self.rows, self.bound[self.numbers])
        if solved is None:
            return False
        factor, self.duals, self.p = solved
        self.inverse = cho_solve(factor, np.eye(len(self.numbers)))
        return True

    def take_in(self, number: int) -> bool:
        """Bring in one violated row; False when nothing can satisfy it together with the held ones."""
        row = self.unit[number]
        gained = 0.0
        while True:
            share = self.inverse @ (self.rows @ row)
            rest = row - share @ self.rows
            room = float(rest @ rest)
            lack = float(self.bound[number] - row @ self.p)
            full = lack / room if room > DEPENDENT else np.inf
            falling = np.flatnonzero(share > 0)
            ratios = self.duals[falling] / share[falling]
            partial = float(ratios.min()) if falling.size else np.inf
            step = min(full, partial)
            if not np.isfinite(step):
                return False
            self.p = self.p + step * rest
            self.duals = self.duals - step * share
            gained += step
            if full <= partial:
                if len(self.numbers) == self.unit.shape[1]:
                    return False
                self._append(number, share, room, gained)
                return True
            self._drop(int(falling[ratios.argmin()]))

    def _append(self, number: int, share: np.ndarray, room: float, dual: float) -> None:
        k = len(self.numbers)
        inverse = np.empty((k + 1, k + 1))
        np.multiply.outer(share / room, share, out=inverse[:k, :k])
        inverse[:k, :k] += self.inverse
        inverse[:k, k] = inverse[k, :k] = -share / room
        inverse[k, k] = 1.0 / room
        self.inverse = inverse
        self._rows[k] = self.unit[number]
        self.numbers.append(number)
        self.duals = np.append(np.maximum(self.duals, 0.0), dual)

    def _drop(self, j: int) -> None:
        """The last row takes the place of row j, then the last is cut off: H loses a rank."""
        last = len(self.numbers) - 1
        order = np.arange(last + 1)
        order[j], order[last] = last, j
        column = self.inverse[:, j][order]
        self._rows[[j, last]] = self._rows[[last, j]]
        self.numbers[j] = self.numbers[last]
        self.numbers.pop()
        self.duals = self.duals[order][:last]
        inverse = self.inverse
        inverse[[j, last]] = inverse[[last, j]]
        inverse[:, [j, last]] = inverse[:, [last, j]]
        self.inverse = inverse[:last, :last] - np.multiply.outer(column[:last] / column[last], column[:last])

    def solved_afresh(self, norms: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """p and multipliers from a fresh factorisation, so that rounding of the updates leaves no trace."""
        solved = _least_norm_equal(self.rows, self.bound[self.numbers])
        if solved is None:
            return None
        _, duals, p = solved
        answer = np.zeros(len(norms))
        answer[self.numbers] = duals / norms[self.numbers]
        return p, answer


def _least_norm_equal(
    rows: np.ndarray, wanted: np.ndarray
) -> tuple[tuple[np.ndarray, bool], np.ndarray, np.ndarray] | None:
    """Cholesky factor of the rows' Gram matrix, multipliers and shortest p with rows p = wanted; None if dependent."""
    try:
        factor = cho_factor(rows @ rows.T)
    except LinAlgError:
        return None
    duals = cho_solve(factor, wanted)
    for _ in range(2):  # the Gram matrix squares the condition number: refinement gives the digits back
        duals = duals + cho_solve(factor, wanted - rows @ (duals @ rows))
    return factor, duals, duals @ rows
