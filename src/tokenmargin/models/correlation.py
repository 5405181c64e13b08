"""Pearson's correlation, of arrays of NumPy or of JAX."""

from __future__ import annotations

import numpy as np

from tokenmargin._types import AnyArray, ScalarJ


def pearson(x: AnyArray, y: AnyArray, where: AnyArray | None = None) -> ScalarJ:
    """Return Pearson's correlation of x and y, shape (m,), where it counts; NaN where one of them is constant.

    With x and y centred, sum x y / sqrt(sum x^2 sum y^2), on the host or traced.
    """
    xp = x.__array_namespace__()
    there = xp.ones_like(x, dtype=bool) if where is None else where
    weight = there.astype(x.dtype)
    n = xp.sum(weight)

    def centred(z: AnyArray) -> AnyArray:
        return weight * (z - xp.sum(weight * z) / n)

    def varies(z: AnyArray) -> AnyArray:
        # Asked of the numbers themselves: the rounding of a mean can leave a constant with a spread of 1e-17.
        return xp.asarray(xp.max(xp.where(there, z, -xp.inf)) > xp.min(xp.where(there, z, xp.inf)))

    a, b = centred(x), centred(y)
    with np.errstate(invalid="ignore"):  # 0/0 where one is constant, which is not taken
        r = xp.sum(a * b) / xp.sqrt(xp.sum(a**2) * xp.sum(b**2))
    return xp.where(xp.logical_and(varies(x), varies(y)), r, xp.nan)
