"""Arrays of intervals, each a middle and a radius, with every rounding counted in: what is true lies inside.

A radius is computed in floats as well, so each is enlarged by a few roundings more than it took (Rump's arithmetic).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._types import ArrayLike

#: Relative rounding of one operation, and what a radius is enlarged by after a few of them.
UNIT, ENLARGED = 2.0**-53, 1.0 + 2.0**-48

#: Absolute rounding where numbers underflow.
TINY = 2.0**-1070

#: Roundings by which exp may be wrong; vendors' libraries promise less than 1, NumPy's own less than 4.
EXP_ROUNDINGS = 8


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Numbers within `radius` of `middle`."""

    middle: np.ndarray
    radius: np.ndarray

    @classmethod
    def exactly(cls, value: ArrayLike) -> Enclosure:
        """Floats as they are."""
        array = np.asarray(value, dtype=np.float64)
        return cls(array, np.zeros_like(array))

    @property
    def most(self) -> np.ndarray:
        """A bound of the absolute value."""
        return (np.abs(self.middle) + self.radius) * ENLARGED

    def __getitem__(self, key: Any) -> Enclosure:
        """Some of the numbers."""
        return Enclosure(self.middle[key], self.radius[key])

    def __neg__(self) -> Enclosure:
        """The negative."""
        return Enclosure(-self.middle, self.radius)

    def __add__(self, other: Enclosure) -> Enclosure:
        """Sum."""
        middle = self.middle + other.middle
        return _rounded(middle, self.radius + other.radius, np.abs(middle))

    def __sub__(self, other: Enclosure) -> Enclosure:
        """Difference."""
        return self + (-other)

    def __mul__(self, other: Enclosure) -> Enclosure:
        """Product, number by number."""
        middle = self.middle * other.middle
        return _rounded(middle, np.abs(self.middle) * other.radius + self.radius * other.most, np.abs(middle))

    def __matmul__(self, other: Enclosure) -> Enclosure:
        """Product of matrices, the last two axes."""
        middle = self.middle @ other.middle
        size = np.abs(self.middle) @ np.abs(other.middle)
        radius = np.abs(self.middle) @ other.radius + self.radius @ other.most
        terms = self.middle.shape[-1] + 2
        return _rounded(middle, radius * (1.0 + terms * 4 * UNIT), size * terms)

    def sum(self, axis: int, keepdims: bool = False) -> Enclosure:
        """Sum along an axis."""
        terms = self.middle.shape[axis] + 2
        size = np.abs(self.middle).sum(axis=axis, keepdims=keepdims)
        radius = self.radius.sum(axis=axis, keepdims=keepdims) * (1.0 + terms * 4 * UNIT)
        return _rounded(self.middle.sum(axis=axis, keepdims=keepdims), radius, size * terms)

    def exp(self) -> Enclosure:
        """Exponential."""
        with np.errstate(over="ignore", under="ignore"):
            middle = np.exp(self.middle)
            return _rounded(middle, middle * np.expm1(self.radius * ENLARGED), EXP_ROUNDINGS * middle)

    def inverse(self) -> Enclosure:
        """One over it; infinite radius where 0 is inside."""
        size = np.abs(self.middle)
        apart = size > self.radius * ENLARGED
        safe = np.where(apart, self.middle, 1.0)
        least = np.where(apart, size - self.radius * ENLARGED, 1.0) * (1.0 - 4 * UNIT)
        radius = np.where(apart, self.radius / (np.abs(safe) * least), np.inf)
        return _rounded(1.0 / safe, radius, np.abs(1.0 / safe))

    def reshaped(self, *shape: int) -> Enclosure:
        """The numbers in another shape."""
        return Enclosure(self.middle.reshape(shape), self.radius.reshape(shape))

    @property
    def transposed(self) -> Enclosure:
        """The last two axes exchanged."""
        return Enclosure(np.swapaxes(self.middle, -1, -2), np.swapaxes(self.radius, -1, -2))


def _rounded(middle: np.ndarray, radius: np.ndarray, sizes: np.ndarray) -> Enclosure:
    """An enclosure whose middle was rounded by `UNIT` times sizes."""
    return Enclosure(middle, (radius + 4 * UNIT * sizes + TINY) * ENLARGED)
