"""Rows of which 0 is asked and that no p gives more, because they oppose each other: they are ties.

If weights w >= 0 on rows z, of each of which at least 0 is asked, cancel, sum of w_k z_k = 0 (together with some
combination of ties), then each p that does what is asked has p'z_k = 0 wherever w_k > 0. Proofs that no p gives all
rows more than 0 are such weights, so asking again without the rows that they name finds all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.margin.solution import Status

#: A weight below this share of the largest is rounding.
DEBRIS = 1e-9


@dataclass(frozen=True, eq=False)
class ForcedRows:
    """The rows that are ties, weights by which they are, and a point that gives all others more than 0."""

    is_forced: np.ndarray  #: booleans, shape (m,)
    cancelling: tuple[np.ndarray, ...]  #: weights of rows and ties, shape (m + q,); of rows named by earlier ones too
    interior: np.ndarray  #: gives each other row its length or more; NaN if none is known

    @classmethod
    def none(cls, m: int, interior: np.ndarray) -> ForcedRows:
        """No row is forced."""
        return cls(np.zeros(m, dtype=bool), (), interior)

    @classmethod
    def among(
        cls,
        given: GivenRows,
        rhs: np.ndarray,
        sizes: np.ndarray,
        solve: Callable[[GivenRows, np.ndarray], LeastNormSolution],
    ) -> ForcedRows:
        """The forced rows of a problem that has a solution: some of those of which 0 is asked.

        `sizes` are lengths of the rows in units of two to the power `given.exponent`; `solve` is `least_norm_of`.
        """
        m, there = len(sizes), sizes > 0
        forced, cancelling, interior = np.zeros(m, dtype=bool), [], np.full(given.width, np.nan)
        n_ties = 0 if given.tie_first is None else len(given.tie_first)
        while (there & ~forced).any():
            free, level = np.flatnonzero(there & ~forced), np.flatnonzero(forced)
            answer = solve(given.levelled(free, level), sizes[free])
            if answer.status is Status.OPTIMAL:
                interior = np.ldexp(answer.p, given.exponent)
            if answer.weights is None or answer.tie_weights is None:
                break
            shares = answer.weights * sizes[free]
            carrying = (shares > DEBRIS * shares.max()) & (rhs[free] == 0)
            if not carrying.any():
                break
            weights = np.zeros(m + n_ties)
            weights[free], weights[m:] = np.where(carrying, answer.weights, 0.0), answer.tie_weights[:n_ties]
            weights[level] = answer.tie_weights[n_ties:]
            cancelling.append(weights)
            forced[free[carrying]] = True
        return cls(forced, tuple(cancelling), interior)

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of the forced rows."""
        return np.flatnonzero(self.is_forced)

    def signed(self, multipliers: np.ndarray) -> np.ndarray:
        """Multipliers of rows and ties with the same sum, none of a row below 0: the last weights that cancel first."""
        m = len(self.is_forced)
        for weights in reversed(self.cancelling):
            own = np.flatnonzero(weights[:m] > 0)
            short = multipliers[own] < 0
            if short.any():
                more = float((-multipliers[own] / weights[own])[short].max())
                multipliers = multipliers + more * weights
        return multipliers
