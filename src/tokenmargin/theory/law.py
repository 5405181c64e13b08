"""A law of random instances of a claim: where its evidence comes from, in words and as a function of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._notebook import Told

#: Name of the observation made if nothing is learnt. A claim that this satisfies is vacuous: it ignores training.
NO_TRAINING = "no training"

#: (instance, what was observed) -> something else that might have been, or None where the instance does not allow it.
Mutation = Callable[[Any, Any], Any]


@checked
@dataclass(frozen=True, eq=False)
class Aside:
    """Something counted beside a claim: its conclusion where its hypotheses do not hold, or a hypothesis on its own.

    Args:
        says: sentence on what is counted, which the counts follow.
        draw: an instance from a random stream.
        holds: instance -> True if it is so; None where that was not decided. The claim's conclusion when absent.
    """

    says: str
    draw: Callable[[np.random.Generator], Any]
    holds: Callable[[Any], bool | None] | None = None


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Law(Told):
    """A law by which instances of a claim are drawn, with the false observations that must not pass on them.

    Args:
        key: key of the claim.
        says: the law, in one sentence.
        draw: an instance from a random stream; it need not meet the hypotheses, which are counted.
        mutations: false observations by name; the claim's own where none are named.
        times: how many times as many instances as of other claims are gathered.
        asides: things counted beside the claim, on as many instances each.
    """

    key: str
    says: str
    draw: Callable[[np.random.Generator], Any]
    mutations: Mapping[str, Mutation] = field(default_factory=dict)
    times: int = 1
    asides: tuple[Aside, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a law of which no instance is gathered."""
        whole_number(self.times, "times", 1)


def orthogonal(u: np.ndarray) -> np.ndarray:
    """A unit vector orthogonal to u; on a line there is none, and it is turned back."""
    if len(u) == 1:
        return -u
    axis = np.eye(len(u))[int(np.abs(u).argmin())]
    rest = axis - (axis @ u) * u / (u @ u)
    return np.asarray(rest / np.linalg.norm(rest))
