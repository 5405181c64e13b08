"""How an answer to a least-norm problem is judged: by its own KKT residuals, whatever solver it came from."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

#: Largest KKT residual of the scaled problem (unit rows, relative to the solution's length) of an optimal point.
#: Active-set solutions reach 1e-12 and better; 1e-9 leaves room for ill-conditioned supports.
KKT_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Residuals:
    """KKT residuals of the scaled problem (unit rows), relative to the solution's length; all 0 at the optimum."""

    primal: float  #: largest violation of A p >= b or E p = 0
    dual: float  #: most negative multiplier
    stationarity: float  #: |p - A'lambda - E'nu|
    complementarity: float  #: largest lambda_k (A p - b)_k
    gap: float  #: |primal value - dual value|

    @property
    def worst(self) -> float:
        """The largest of the five."""
        return max(self.primal, self.dual, self.stationarity, self.complementarity, self.gap)


def residuals_of(unit: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray) -> Residuals:
    """KKT residuals at (p, duals), equalities apart."""
    slack = unit @ p - bound
    pull = duals @ unit - p
    square = float(p @ p)
    length = max(1.0, sqrt(square))
    return Residuals(
        primal=max(0.0, -float(slack.min())) / length,
        dual=max(0.0, -float(duals.min())) / length,
        stationarity=sqrt(float(pull @ pull)) / length,
        complementarity=float(np.abs(duals * slack).max()) / length**2,
        gap=abs(square - float(duals @ bound)) / length**2,
    )


def residuals_batch(
    slack: np.ndarray, pull: np.ndarray, bound: np.ndarray, p: np.ndarray, duals: np.ndarray
) -> np.ndarray:
    """`residuals_of` for a batch, from slack = A p - b and pull = A'duals - p: the five numbers in order, (B, 5)."""
    square = np.einsum("bd,bd->b", p, p)
    length = np.maximum(1.0, np.sqrt(square))
    numbers = np.empty((len(p), 5))
    numbers[:, 0] = np.maximum(0.0, -slack.min(axis=1)) / length
    numbers[:, 1] = np.maximum(0.0, -duals.min(axis=1)) / length
    numbers[:, 2] = np.sqrt(np.einsum("bd,bd->b", pull, pull)) / length
    numbers[:, 3] = np.abs(duals * slack).max(axis=1) / length**2
    numbers[:, 4] = np.abs(square - np.einsum("bm,bm->b", duals, bound)) / length**2
    return numbers
