"""Starts so far out that rounding blurs their logits, followed at a power of two of their length.

Far out a softmax is saturated, and what pulls on p is the pairs of largest log-weight, -(gap at p) up to a number of
order one. Where gaps are of the order of |p| itself, dividing p by a power of two divides them all by it and leaves the
same pairs in front: the flow from p/c is the flow from p divided by c, up to 1/|p/c| of its length, and goes to the
same limit. So a start is followed from two lengths that float64 resolves; if both runs have one limit, it is that of
the start. A start with logits that nearly tie, beside its length, is not in such a position: how they tie is lost on
the way, and nothing is said of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp

import numpy as np

from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._exact_logits import SATURATED, is_clear
from tokenmargin.attention._points import lengths
from tokenmargin.attention.limit import Limit, PointRisk
from tokenmargin.attention.trajectory import Outcome, Trajectory

#: Binary exponents of |p|, in units of 1/longest key difference: beyond the first a start is followed from nearer where
#: it can be; beyond the second (eps |p| = 2e-3) not at all where it cannot.
FAR, OUT_OF_REACH = 30, 43

#: Binary exponents of the two lengths from which it is followed: 1e8 and 1e6.
NEARER = (27, 20)

#: 1 - cos between the velocities of the two runs above which they have not one limit.
ONE_VELOCITY = 1e-10

#: Distance between two finite limits, relative to 1 + |p|, above which they are not one.
ONE_POINT = 1e-6


def exponent(start: np.ndarray, coordinates: Coordinates) -> int:
    """Binary exponent of the length of a start, in units of 1/longest key difference."""
    inside = start if coordinates.basis is None else start @ coordinates.basis
    return frexp(float(lengths(inside)))[1] + frexp(coordinates.kappa)[1] - 1


@dataclass(frozen=True, eq=False)
class FarStart:
    """A start with its risk, and the powers of two by which it is divided, one for each of the two runs."""

    number: int
    risk: PointRisk
    start: np.ndarray
    powers: tuple[int, int]

    @classmethod
    def of(cls, number: int, risk: PointRisk, start: np.ndarray, size: int) -> FarStart:
        """From the binary exponent of its length."""
        return cls(number, risk, start, (size - NEARER[0], size - NEARER[1]))

    @property
    def nearer(self) -> tuple[np.ndarray, np.ndarray]:
        """The two starts from which it is followed."""
        first, second = (np.ldexp(self.start, -power) for power in self.powers)
        return first, second

    @property
    def is_clear(self) -> bool:
        """Whether no two log-weights nearly tie, so that the nearer starts feel what this one feels."""
        data = self.risk.sequences
        return is_clear(data.keys, data.mask, self.nearer[1], SATURATED)

    def joined(self, run: Trajectory, limits: tuple[Limit, Limit]) -> Trajectory | None:
        """The run from the first of the nearer starts as one from this, or None where the two have not one limit."""
        if not _are_one(*limits):
            return None
        limit = limits[0]
        with np.errstate(over="ignore"):
            points = np.ldexp(run.points, self.powers[0]) if limit.diverges else np.stack([self.start, limit.p])
            if limit.mixed:
                points[-1] = np.ldexp(limit.p - limit.finite_part, self.powers[0]) + limit.finite_part
            times = np.ldexp(run.times if limit.diverges else run.times[[0, -1]], self.powers[0])
        if not np.isfinite(points).all():
            return None
        points[0] = self.start
        return replace(run, points=points, times=times, judged_at=run.final)

    @property
    def left_alone(self) -> Trajectory:
        """The run that goes nowhere, as float64 cannot say where."""
        return Trajectory(self.risk, np.stack([self.start] * 2), np.zeros(2), Outcome.OUT_OF_REACH, 0)


def _are_one(a: Limit, b: Limit) -> bool:
    if a.kind is not b.kind or a.stalled:
        return False
    if a.finite:
        return bool(lengths(a.p - b.p) <= ONE_POINT * (1.0 + lengths(a.p)))
    return a.selection == b.selection and bool(0.5 * np.sum((a.velocity - b.velocity) ** 2) <= ONE_VELOCITY)
