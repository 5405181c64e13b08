"""Is a product of factors stationary for the largest margin, and is that the largest?

A limit direction of (K, Q) is stationary for min (|K|^2 + |Q|^2)/2 under margins of K Q':  K = G Q and Q = G'K, with
G = sum w A over the pairs that it holds back. The same G proves that K Q' has the largest margin in the nuclear norm
where its largest singular value is 1. A start of lower rank stays there, and may end at a saddle where it is more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.attention._outer_keys import block_diagonal, field_keys, pulled
from tokenmargin.attention.blocks import by_block
from tokenmargin.attention.factored_risk import FactoredRisk
from tokenmargin.attention.limit import MARGIN_TOLERANCE, Limit, weights_at
from tokenmargin.errors import InvalidInputError

#: |K - G Q|/|K| below which factors are stationary: a flow to |W| = 1e6 is so to 1e-3, 3,000 steps of .1 to 1e-2.
STATIONARY_FACTORS = 2e-2


@dataclass(frozen=True)
class Stationarity:
    """Errors of K = G Q and Q = G'K, and the largest singular value of G in those units."""

    residual: float  #: the larger of |K - G Q|/|K| and |Q - G'K|/|Q|
    largest: float  #: largest singular value of G; 1 at a largest margin, more at a saddle

    @property
    def is_stationary(self) -> bool:
        """True if both equations hold to `STATIONARY_FACTORS`."""
        return self.residual <= STATIONARY_FACTORS

    @property
    def is_saddle(self) -> bool:
        """True if the factors are stationary, but G does not prove their margin to be the largest, by far."""
        return self.is_stationary and self.largest > 1.0 + max(MARGIN_TOLERANCE, 2.0 * self.residual)


@checked
def stationarity(limit: Limit) -> Stationarity:
    """Stationarity of the limit of a run of K and Q, by the weights of pairs at its last point, or late in its steps.

    Args:
        limit: limit of a run on a `FactoredRisk`.
    """
    risk = limit.risk
    if not isinstance(risk, FactoredRisk):
        raise InvalidInputError(f"factors K and Q are those of a FactoredRisk, got a limit of {type(risk).__name__}.")
    weights = weights_at(risk, limit.point) if limit.weights is None else limit.weights
    assert weights is not None
    K, Q = (
        np.asarray(block_diagonal(one.reshape(-1, *one.shape[-2:])))
        for one in by_block(risk.blocks, limit.point).values()
    )
    G = pulled(field_keys(risk.sequences), weights[-1]).reshape(risk.sequences.shape)
    pulls = np.concatenate([G @ Q, G.T @ K]), np.concatenate([K, Q])
    unit = float((pulls[0] * pulls[1]).sum() / (pulls[0] ** 2).sum()) if pulls[0].any() else 0.0
    off = [np.linalg.norm(one - unit * pull) / np.linalg.norm(one) for one, pull in ((K, G @ Q), (Q, G.T @ K))]
    return Stationarity(float(max(off)), unit * float(np.linalg.norm(G, 2)))
