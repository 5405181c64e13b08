"""The shortest vector that puts points in a given order, when the demands are too many to write down as rows.

    minimise |p|^2 / 2   subject to   p'(x_a - x_b) >= 1 for the pairs (a, b),   p'(x_a - x_b) = 0 for the ties

Millions of pairs, a few hundred of which matter (at most d are independent). So: solve on a few pairs, score all of
them with one product X p, take in pairs that are violated, repeat. Where a vector is known that satisfies every pair,
it is moved towards the current answer as far as the pairs allow, and of the violated pairs those that it satisfies most
narrowly are taken in: several times fewer rounds than with the most violated ones, and an upper bound on the length
beside the lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._progress import Progress, silent
from tokenmargin.margin._daqp import active_set
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin.least_norm import least_norm_of
from tokenmargin.margin.solution import KKT_TOLERANCE, Status

#: Rounds after which the search is given up; problems of 10^6 pairs took 2 to 10.
ROUND_LIMIT = 200

#: Pairs on the working set are at most this many per dimension (plus what a round adds); the answer rests on d.
KEPT_PER_DIMENSION = 2

#: Pairs that a round takes in, per dimension.
ADDED_PER_DIMENSION = 2

#: ... and at least this many in all, so that narrow problems end in few rounds.
FEWEST_ADDED = 512

#: An answer is continued when a round took in fewer pairs than this share of d; a fresh solve is faster otherwise.
CONTINUED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Round:
    """State of the search after one round."""

    number: int
    working: int  #: pairs on the working set
    violated: int  #: pairs that the current answer violates by more than the tolerance
    worst: float  #: largest violation of p'(x_a - x_b) >= 1 over all pairs
    lower: float  #: the shortest vector is at least this long
    upper: float  #: ... and at most this; inf while no vector is known that satisfies all pairs


@dataclass(frozen=True, eq=False)
class OrderSolution:
    """The shortest vector and its multipliers, or weights that prove there is none."""

    status: Status
    p: np.ndarray  #: shape (d,); NaN when infeasible
    pairs: np.ndarray  #: numbers of the pairs that carry a multiplier (or a weight, when infeasible)
    duals: np.ndarray  #: their multipliers, positive
    tie_duals: np.ndarray  #: multipliers (weights) of all ties, either sign
    rounds: tuple[Round, ...]


def least_norm_order(
    points: np.ndarray,
    pairs: np.ndarray,
    ties: np.ndarray,
    tolerance: float,
    *,
    start: np.ndarray | None = None,
    progress: Progress = silent,
) -> OrderSolution:
    """Solve the problem above by constraint generation.

    Args:
        points: x, shape (V, d).
        pairs: shape (m, 2), m >= 1: the first point is asked above the second by 1.
        ties: shape (q, 2): points asked level.
        tolerance: largest violation of a pair in the answer, in units of the margin 1.
        start: a vector, shape (d,); if it has all pairs in the right order it saves rounds.
        progress: called as progress(rounds done, None, "rounds of constraint generation") after each round.
    """
    frame = TieFrame(points, ties)
    trapped = frame.trapped(pairs)
    if trapped is not None:  # its two points are level wherever the ties hold
        weights = np.ones(1)
        tie_duals = -frame.tie_multipliers(points[pairs[trapped, 0]] - points[pairs[trapped, 1]])
        return _infeasible(frame, np.array([trapped]), weights, tie_duals, ())
    search = _Search(frame.points, pairs, tolerance, None if start is None else frame.inside(start))
    rounds: list[Round] = []
    while True:
        status = search.solve()
        if status is Status.OPTIMAL:
            rounds.append(search.judge(len(rounds) + 1))
            progress(len(rounds), None, "rounds of constraint generation")
        if status is not Status.OPTIMAL or rounds[-1].violated == 0 or len(rounds) == ROUND_LIMIT:
            break
        if not search.extend():
            break
    if status is Status.OPTIMAL and rounds[-1].violated:
        status = Status.UNDECIDED
    carrying = search.duals > 0
    numbers, duals = search.working[carrying], search.duals[carrying]
    pull = duals @ (points[pairs[numbers, 0]] - points[pairs[numbers, 1]])
    if status is Status.INFEASIBLE:
        return _infeasible(frame, numbers, duals, -frame.tie_multipliers(pull), tuple(rounds))
    p = frame.outside(search.p)
    return OrderSolution(status, p, numbers, duals, frame.tie_multipliers(p - pull), tuple(rounds))


def _infeasible(
    frame: TieFrame, numbers: np.ndarray, weights: np.ndarray, tie_weights: np.ndarray, rounds: tuple[Round, ...]
) -> OrderSolution:
    return OrderSolution(Status.INFEASIBLE, np.full(frame.width, np.nan), numbers, weights, tie_weights, rounds)


class _Search:
    """The working set, the current answer on it and, once known, a vector that satisfies every pair."""

    def __init__(self, points: np.ndarray, pairs: np.ndarray, tolerance: float, start: np.ndarray | None) -> None:
        self.points, self.pairs, self.tolerance = points, pairs, tolerance
        d = points.shape[1]
        self.added = max(FEWEST_ADDED, ADDED_PER_DIMENSION * d)
        self.kept = max(FEWEST_ADDED, KEPT_PER_DIMENSION * d)
        guess = self._mean_difference() if start is None else start
        gaps = self._gaps(guess)
        self.feasible: np.ndarray | None = None
        if gaps.min() > 0:
            self.feasible = guess / gaps.min()
        self.working = np.sort(_smallest(gaps, self.added))
        self.carrying = np.zeros(0, dtype=np.int64)  # the pairs that carried the answer of the round before
        self.arrived = 0  # the pairs that were taken in since
        self.duals = np.zeros(len(self.working))
        self.p = np.zeros(d)

    def solve(self) -> Status:
        """The shortest vector for the working set, continued from the round before where that works out."""
        rows = self.points[self.pairs[self.working, 0]] - self.points[self.pairs[self.working, 1]]
        if self._continued(rows):
            return Status.OPTIMAL
        answer = least_norm_of(GivenRows(rows, is_rounded=True), np.ones(len(rows)), self.tolerance)
        self.p, self.duals = answer.p, answer.duals
        if answer.status is Status.INFEASIBLE:
            assert answer.weights is not None
            self.duals = answer.weights
        return answer.status

    def _continued(self, rows: np.ndarray) -> bool:
        """True if continuing from the rows that carried the last answer led to one that passes its residuals."""
        if not 0 < self.arrived <= rows.shape[1] * CONTINUED_SHARE:
            return False
        answer = continued(rows, np.flatnonzero(np.isin(self.working, self.carrying)))
        if answer is None:
            return False
        p, duals = answer
        square = float(p @ p)
        off = np.linalg.norm(duals @ rows - p) / square**0.5, abs(square - duals.sum()) / square, -duals.min() / square
        if max(off) > KKT_TOLERANCE or 1 - (rows @ p).min() > self.tolerance:
            return False
        self.p, self.duals = p, np.maximum(duals, 0.0)
        return True

    def judge(self, number: int) -> Round:
        """Score all pairs; move the feasible vector as far towards the answer as the pairs allow."""
        self.gaps = self._gaps(self.p)
        violated = self.gaps < 1 - self.tolerance
        self.candidates = np.flatnonzero(violated)
        self.priority = self.gaps[self.candidates]
        if self.feasible is not None:
            self._move_feasible()
            self.priority = self._gaps(self.feasible)[self.candidates]
        upper = np.inf if self.feasible is None else float(np.linalg.norm(self.feasible))
        worst = max(0.0, 1 - float(self.gaps.min()))
        lower = float(np.linalg.norm(self.p))
        return Round(number, len(self.working), int(violated.sum()), worst, lower, upper)

    def _move_feasible(self) -> None:
        """Go from the feasible vector towards the answer until a pair is tight, then shorten to margin 1."""
        assert self.feasible is not None
        reach = 1.0
        if self.candidates.size:
            here, there = self._gaps(self.feasible)[self.candidates], self.gaps[self.candidates]
            reach = min(1.0, max(0.0, float(((here - 1) / (here - there)).min())))
        moved = self.feasible + reach * (self.p - self.feasible)
        narrowest = float(self._gaps(moved).min())
        if narrowest > 0 and np.linalg.norm(moved) / narrowest < np.linalg.norm(self.feasible):
            self.feasible = moved / narrowest

    def extend(self) -> bool:
        """Take in violated pairs; let go of the slackest, never of one that carries a multiplier.

        The pairs that carry the answer stay, so that the length grows strictly and no working set comes twice. False
        when all violated pairs are at work already: then rounding, not a missing pair, is what violates them.
        """
        self.carrying = self.working[self.duals > 0]
        new = self.candidates[_smallest(self.priority, self.added)]
        if np.isin(new, self.working).all():
            return False
        slack = np.where(self.duals > 0, -np.inf, self.gaps[self.working])
        old = self.working[_smallest(slack, max(self.kept, len(self.carrying)))]
        self.working, self.arrived = np.union1d(old, new), len(new)
        return True

    def _gaps(self, p: np.ndarray) -> np.ndarray:
        scores = self.points @ p
        return scores[self.pairs[:, 0]] - scores[self.pairs[:, 1]]

    def _mean_difference(self) -> np.ndarray:
        """Mean of all differences: the direction to look in first without a start."""
        V, m = len(self.points), len(self.pairs)
        ups, downs = (np.bincount(self.pairs[:, side], minlength=V) for side in (0, 1))
        return ((ups - downs) / m) @ self.points


def continued(rows: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """p and multipliers for rows p >= 1, from the rows (numbers `held`) that carried the answer before; None if none.

    A round changes a few rows of hundreds, so that this takes a few steps where a fresh solve takes hundreds. Nothing
    here proves anything: whoever asks checks the residuals.
    """
    backend, norms = active_set(), np.linalg.norm(rows, axis=1)
    if backend is None or not norms.all():
        return None
    unit_length = 1.0 / float(norms.min())
    p, duals = np.zeros(rows.shape[1]), np.zeros(len(rows))
    if not backend(rows / norms[:, None], 1.0 / (norms * unit_length), p, duals, held):
        return None
    return p * unit_length, duals * (unit_length / norms)


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    """Places of the k smallest values, in no order."""
    return np.arange(len(values)) if len(values) <= k else np.argpartition(values, k)[:k]


# --- Coordinates in which ties hold -----------------------------------------------------------------------------------

#: Ties whose singular values fall below this, relative to the largest, repeat others; points closer than this, relative
#: to the longest, are one point: a thousand times the rounding of either.
RANK_TOLERANCE = 1e-12

#: Pairs whose differences are formed when coinciding points are sought; one is enough for an answer.
LOOKED_AT = 1 << 14


class TieFrame:
    """Coordinates in which the ties hold by themselves and no more dimensions are left than points.

    Only differences of points act on p. Their mean is taken out, so that a large common part costs no digits; the span
    of the ties is projected out; and for d > V a QR of the points leaves V coordinates, in which p = x'c lies.
    """

    def __init__(self, points: np.ndarray, ties: np.ndarray) -> None:
        """Reduce points of shape (V, d) under ties of shape (q, 2)."""
        self.width = points.shape[1]
        self.differences = points[ties[:, 0]] - points[ties[:, 1]]
        self.lengths = np.linalg.norm(self.differences, axis=1)
        self.points = points - points.mean(axis=0)
        self.size = float(np.linalg.norm(self.points, axis=1).max())
        if len(ties):
            unit = self.differences / np.where(self.lengths > 0, self.lengths, 1.0)[:, None]
            _, values, right = np.linalg.svd(unit, full_matrices=False)
            self.level = right[values > RANK_TOLERANCE * max(1.0, float(values.max(initial=0.0)))]
            for _ in range(2):  # twice is enough for orthogonality to rounding
                self.points = self.points - (self.points @ self.level.T) @ self.level
        self.basis: np.ndarray | None = None
        if self.width > len(points):
            self.basis, triangle = np.linalg.qr(self.points.T)
            self.points = np.ascontiguousarray(triangle.T)

    def trapped(self, pairs: np.ndarray) -> int | None:
        """A pair whose points coincide once the ties hold, if any does.

        |probe'(x - y)| <= |probe| |x - y|: pairs that are far apart in one projection need no closer look.
        """
        width = RANK_TOLERANCE * self.size
        probe = np.random.default_rng(0).normal(size=self.points.shape[1])
        shadow = self.points @ probe
        near = np.abs(shadow[pairs[:, 0]] - shadow[pairs[:, 1]]) <= 2 * width * np.linalg.norm(probe)
        places = np.flatnonzero(near)[:LOOKED_AT]
        lengths = np.linalg.norm(self.points[pairs[places, 0]] - self.points[pairs[places, 1]], axis=1)
        return int(places[lengths.argmin()]) if places.size and lengths.min() <= width else None

    def inside(self, p: np.ndarray) -> np.ndarray:
        """The part of p that keeps the ties, in these coordinates."""
        p = self._keeping_ties(p)
        return p if self.basis is None else self.basis.T @ p

    def outside(self, p: np.ndarray) -> np.ndarray:
        """Coordinates back to a vector of shape (d,)."""
        return self._keeping_ties(p if self.basis is None else self.basis @ p)

    def _keeping_ties(self, p: np.ndarray) -> np.ndarray:
        return p - self.level.T @ (self.level @ p) if len(self.differences) else p

    def tie_multipliers(self, pull: np.ndarray) -> np.ndarray:
        """Weights on the ties whose differences add up to `pull`, the smallest of them."""
        if not len(self.differences):
            return np.zeros(0)
        safe = np.where(self.lengths > 0, self.lengths, 1.0)
        weights, *_ = np.linalg.lstsq((self.differences / safe[:, None]).T, pull, rcond=RANK_TOLERANCE)
        return weights / safe
