"""The limit of a flow that kinks hold: finite where nothing is left to diverge, else mixed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin.attention._kinked_ends import KinkedSplit, told_kinks
from tokenmargin.attention.limit import NOT_YET, Limit, LimitKind
from tokenmargin.attention.risk import Risk
from tokenmargin.data import Selection

#: Why nothing is said where a part is held, and what is left has not settled.
UNSETTLED = (
    "what still moves p is below 1e-12 of what holds it, and where that goes is not certified: kinks that hold p "
    "there, or tokens that held inputs attend to on the way, are below the rounding of what is held"
)


def kinked_limit(
    parts: KinkedSplit, rest: Limit | None, *, risk: Risk, point: np.ndarray, finite: np.ndarray, selection: Selection
) -> Limit | str:
    """The limit, or why there is none.

    Args:
        parts: the part that is held, at a strict local minimum.
        rest: limit of what is left beside it; None where nothing is.
        risk: the risk that was followed.
        point: its end.
        finite: where the held part stays.
        selection: the tokens that share the attention in the limit.
    """
    told = told_kinks(parts)
    if rest is not None and rest.stalled:
        why = UNSETTLED if rest.reason == NOT_YET else rest.reason
        return f"{told or 'Pairs cancel'}, and hold part of p; of the rest: {why}"
    if rest is None or rest.finite:
        return Limit(
            LimitKind.FINITE,
            risk,
            point,
            np.zeros(len(point)),
            selection,
            f"{told or 'Pairs cancel'} and no direction descends: a strict local minimum.",
            (0.0,),
            np.inf,
            newton_step=parts.newton_step,
            largest_eigenvalue=parts.largest_eigenvalue,
            finite_part=finite if rest is not None else None,
            kinks=parts.kinks,
        )
    held = f"{told} and hold part of p" if told else "Pairs whose weights cancel hold part of p"
    return replace(
        rest,
        kind=LimitKind.MIXED,
        selection=selection,
        newton_step=max(parts.newton_step, rest.newton_step if rest.mixed else 0.0),
        largest_eigenvalue=max(parts.largest_eigenvalue, rest.largest_eigenvalue if rest.mixed else -np.inf),
        finite_part=finite + (0.0 if rest.finite_part is None else rest.finite_part),
        reason=f"{held} at a strict local minimum; along the rest the others separate at one common speed.",
        kinks=parts.kinks,
    )
