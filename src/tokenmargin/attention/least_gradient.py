"""The element of least norm of the Clarke subdifferential of a risk at a point: that it is zero shows an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._precision import keep_precision
from tokenmargin._types import ArrayLike
from tokenmargin.attention._kinks import directions
from tokenmargin.attention._pieces import has_kinks
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import Kink
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True, repr=False)
class LeastGradient(Told):
    """The element of least norm of the Clarke subdifferential of a risk at a point, minus the velocity of the flow."""

    vector: np.ndarray  #: shape (d,); zero where no direction descends
    kinks: tuple[Kink, ...]  #: units that hold p at their kinks, with their shares
    are_dependent: bool  #: True if gradients of these are dependent: shares are then one choice of several


@checked
@keep_precision
def least_gradient(risk: HeadRisk, p: ArrayLike) -> LeastGradient:
    """The least-norm element at p, where the head of the risk offers its kinks; the gradient where none is at hand.

    A point is at a kink if it is within rounding of it. At kinks that repel the convention of the flow decides.
    """
    if not has_kinks(risk.field):
        raise InvalidInputError(
            f"{type(getattr(risk, 'head', risk)).__name__} does not say where its kinks are: use `gradient`, or a "
            "KinkedHead."
        )
    assert risk.in_span is not None  # that of one query over fixed keys
    field, coordinates = risk.in_span
    y = coordinates.inward(risk.point(p))
    kinks = directions(field, y)
    vector = -np.exp(kinks.log_scale) * coordinates.kappa * coordinates.velocity(kinks.velocity)
    return LeastGradient(vector, kinks.named, len(kinks.independent) < len(kinks.held))
