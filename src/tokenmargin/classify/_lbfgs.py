"""The smallest L-BFGS that does the work: two loops and a search for a step that satisfies both of Wolfe's conditions.

SciPy's L-BFGS-B carries the machinery of bounds, which nothing here has, and calls threaded BLAS for every scalar
product: on a busy machine that costs more than the function itself. All sums here are NumPy's own, in a fixed order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: Pairs of steps that the inverse Hessian is made of.
MEMORY = 6

#: Wolfe's conditions: the share of the predicted decrease that is asked for, and of the slope that may be left.
ENOUGH_DECREASE, SLOPE_LEFT = 1e-4, 0.9

#: Trials of one search. Bisection down to 2^-40 of a step: below it rounding decides.
TRIALS = 40

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Point(NamedTuple):
    """The current point of the search, with the objective's value and gradient there."""

    x: np.ndarray
    value: float
    gradient: np.ndarray


class Minimum(NamedTuple):
    """The last point of the search, the value at every step (first at the start), and True if the tolerance was met."""

    x: np.ndarray
    values: tuple[float, ...]
    converged: bool

    @property
    def n_iter(self) -> int:
        """Steps taken."""
        return len(self.values) - 1


@dataclass(eq=False)
class Search:
    """A search under way: what its next step depends on."""

    here: Point
    values: list[float]
    pairs: deque[tuple[np.ndarray, np.ndarray, float]]  # (step, change of the gradient, their product)

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of the search's state, for a file."""
        steps, changes, curvatures = ([pair[k] for pair in self.pairs] for k in range(3))
        place = {"x": self.here.x, "gradient": self.here.gradient, "values": np.array(self.values)}
        return place | {"s": np.array(steps), "y": np.array(changes), "curvature": np.array(curvatures)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Search:
        """The search again."""
        values = arrays["values"].tolist()
        pairs = zip(arrays["s"], arrays["y"], arrays["curvature"].tolist(), strict=True)
        return cls(Point(arrays["x"], values[-1], arrays["gradient"]), values, deque(pairs, maxlen=MEMORY))


def minimise(
    objective: Objective,
    start: np.ndarray | Search,
    *,
    max_iter: int,
    tol: float,
    stop: Callable[[int, np.ndarray], bool] = lambda step, x: False,
    after: Callable[[Search], None] = lambda search: None,
) -> Minimum:
    """Go down from `start` until a step gains less than `tol` times the value, or `stop(step, x)` says so.

    `after(search)` is called after every step but the last; from such a search the same end is reached.
    """
    if isinstance(start, Search):
        search = start
    else:
        value, gradient = objective(start)
        search = Search(Point(start, value, gradient), [value], deque(maxlen=MEMORY))
    values, pairs = search.values, search.pairs
    while len(values) <= max_iter:
        here = search.here
        direction = -_inverse_hessian_times(here.gradient, pairs)
        there = _searched(objective, here, direction, first=not pairs)
        if there is None and pairs:
            # The curvature no longer describes the place: forget it and go straight down once.
            pairs.clear()
            continue
        if there is None:
            return Minimum(here.x, tuple(values), True)
        s, y = there.x - here.x, there.gradient - here.gradient
        curvature = dot(s, y)
        if curvature > 0:
            pairs.append((s, y, curvature))
        gain, search.here = here.value - there.value, there
        values.append(there.value)
        told = stop(len(values) - 1, there.x)
        if told or gain <= tol * abs(there.value):
            return Minimum(there.x, tuple(values), not told)
        after(search)
    return Minimum(search.here.x, tuple(values), False)


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """The scalar product in one thread and a fixed order."""
    return float(np.einsum("i,i->", a, b))


def _inverse_hessian_times(gradient: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """The two loops (Nocedal, 1980)."""
    q = gradient.copy()
    shares = []
    for s, y, curvature in reversed(pairs):
        share = dot(s, q) / curvature
        q -= share * y
        shares.append(share)
    if pairs:
        _, y, curvature = pairs[-1]
        q *= curvature / dot(y, y)
    for (s, y, curvature), share in zip(pairs, reversed(shares), strict=True):
        q += (share - dot(y, q) / curvature) * s
    return q


def _searched(objective: Objective, here: Point, direction: np.ndarray, first: bool) -> Point | None:
    """The first trial that satisfies Wolfe's weak conditions; None where no step gains."""
    slope = dot(here.gradient, direction)
    if not slope < 0:
        return None
    # Without curvature a gradient has no length of its own: try a step of length one.
    step = min(1.0, 1.0 / np.sqrt(-slope)) if first else 1.0
    low, high = 0.0, np.inf
    best = None
    for _ in range(TRIALS):
        x = here.x + step * direction
        there = Point(x, *objective(x))
        if not there.value <= here.value + ENOUGH_DECREASE * step * slope:
            high = step
            # The least point of the parabola through both values and the slope, kept inside the bracket.
            excess = there.value - here.value - step * slope
            step = np.clip(-0.5 * slope * step**2 / excess, low + 0.1 * (high - low), low + 0.5 * (high - low))
            continue
        left = dot(there.gradient, direction)
        if left >= SLOPE_LEFT * slope:
            return there
        low, best = step, there
        # Where a slope that goes on changing as it did is zero, but no further than ten times as far.
        target = step * slope / (slope - left) if left > slope else np.inf
        step = np.clip(target, 2 * low, 10 * low) if np.isinf(high) else (low + high) / 2
    return best
