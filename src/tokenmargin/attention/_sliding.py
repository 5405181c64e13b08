"""The flow behind a head with kinks: smooth pieces, the points at which it meets a kink, and surfaces it slides along.

A step is that of any flow, on the piece on which it begins (`Piece`), smooth beyond its end too. Where it would pass
a surface, or a share theta its bounds, it is cut at that point, and `directions` says how the flow goes on: across,
along, or off. Each step ends on the surfaces that hold it, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.attention._kinks import directions, landed, least_norm, near_surfaces, nearness, sided
from tokenmargin.attention._pieces import Piece, Units, units_at
from tokenmargin.attention._rails import Rails
from tokenmargin.attention._surfaces import Kinks, along_rails, jumps, turned
from tokenmargin.attention.flow import Flow, FlowEnd, _attempt, _fresh, _Lane
from tokenmargin.attention.head_risk import HeadField

#: A share theta may leave its bounds by this before the unit is let go.
SHARE = 1e-8

#: Points at which a step of which both ends are on one side of a surface is looked at for a dip beyond it.
_INSIDE = np.linspace(0.0, 1.0, 9)[1:-1]

#: Speed at an end of a step over its mean speed from which it is not the speed between.
STIFF = 4.0

#: Trials to find the length of a step that ends at a kink. Illinois takes ten.
TRIALS = 100

#: Larger distances are all one: the logarithm is to be a number.
LARGEST = 1e300

#: Newton steps for shares of units of several layers.
NEWTON_STEPS = 6

#: So many kinks in a row within this distance are no progress.
IN_A_ROW, NO_WAY = 100, 1e-8


def integrate_pieces(
    systems: HeadField, starts: np.ndarray, until: np.ndarray, method: Flow
) -> Iterator[tuple[int, FlowEnd]]:
    """Follow every system of a stack from its start; yields (index, end) as they finish, like `integrate`."""
    for j, start in enumerate(starts):
        yield j, followed_pieces(jax.tree.map(lambda x, j=j: x[j], systems), start, float(until[j]), method)


def followed_pieces(
    system: HeadField, start: np.ndarray, until: float, method: Flow, rails: Rails | None = None
) -> FlowEnd:
    """The end of the flow of one system from its start, along rails until an input that they are of meets a kink."""
    return _Sliding(system if rails is None else rails.field, start, until, method, rails).followed()


class _Sliding:
    """One flow under way."""

    def __init__(
        self, field: HeadField, start: np.ndarray, until: float, method: Flow, rails: Rails | None = None
    ) -> None:
        self.field, self.method = field, method
        none: frozenset[int] = frozenset()
        self.rails, self.pinned = (rails.units, rails.pinned) if rails is not None else ((), none)
        self.still = rails.others if rails is not None else none
        self.state = replace(_fresh(start, method), until=np.asarray(until, start.dtype))
        self.is_layered = _is_layered(field)
        self.path, self.times, self.events = [start], [0.0], [start]
        self._go_on(rails.kinks(start) if rails is not None else directions(field, start))

    def followed(self) -> FlowEnd:
        """The end of the flow, with the points passed."""
        while not self.state.finished and self.state.taken < self.method.max_steps:
            n_held = len(self.kinks.independent) + len(self.rails)
            if n_held == self.path[0].size or self.kinks.nothing_pulls or not self._progresses():
                self.state = replace(self.state, finished=np.asarray(True))
                break
            self._step()
            if self.state.finished:
                self._go_on_weakly()
        end, state = self.path[-1], self.state
        reached = bool(np.linalg.norm(end) >= float(state.until))
        path, times = np.stack(self.path), np.array(self.times)
        return FlowEnd(int(state.taken), reached, bool(state.finished), path, times)

    def _progresses(self) -> bool:
        """False where kinks follow one another without end, or units of several layers meet with no way to go on."""
        if not self.kinks.is_consistent:
            return False
        last = self.events[-IN_A_ROW:]
        return len(last) < IN_A_ROW or float(np.abs(last[-1] - last[0]).max()) > NO_WAY

    def _go_on(self, kinks: Kinks) -> None:
        """Go on from the last point, as the kinks there say."""
        self.kinks, self.piece = kinks, kinks.piece(self.field)
        self.units = jax.device_get(units_at(self.piece, self.path[-1]))

    def _go_on_weakly(self) -> None:
        """Go on where p rests but for what is weak beside the kinks that hold it, on the scale of that."""
        kinks = directions(self.field, self.path[-1], self.kinks.on, self.kinks.members, self.rails)
        if kinks.is_weak and not self.kinks.is_weak:
            self.state = replace(self.state, finished=np.asarray(False), step=_fresh(self.path[-1], self.method).step)
            self._go_on(kinks)

    def _step(self) -> None:
        """One attempted step, cut where it meets a kink."""
        state, move, length, end, units = jax.device_get(_stepped(self.piece, self.state))
        if not move:
            self.state = state
            return
        state = replace(state, y=end)
        if self._least(units, state.y) < 0.0:
            self._meet(float(length), state)
        elif self._dips(units, state.y, float(length)) and length > NO_WAY:
            self.state = replace(self.state, step=np.asarray(length / 2), taken=state.taken)
        else:
            self._pass(state, units)

    def _pass(self, state: _Lane, units: Units) -> None:
        self.state, self.units = state, units
        self.path.append(np.asarray(state.y))
        self.times.append(float(state.time))

    def _meet(self, length: float, state: _Lane) -> None:
        """Step to the kink and decide there."""

        def least(step: float) -> tuple[float, Any]:
            *_, y, units = jax.device_get(_stepped(self.piece, replace(self.state, step=np.asarray(step))))
            return self._least(units, y), (y, units)

        step, (y, units) = _first_below(least, length)
        at = sorted({*near_surfaces(units, y), *self.kinks.members})
        met = [k for k in at if k not in self.pinned]
        kinks = directions(self.field, y, self.kinks.on, met, self.rails)
        y = landed(self.field, kinks, y)
        time = np.asarray(float(self.state.time) + step)
        self.events.append(y)
        after = replace(self.state, y=y, time=time, step=np.asarray(length), taken=state.taken)
        self._pass(after, units)
        self._go_on(kinks)
        if not self.still.isdisjoint(met):
            self.state = replace(self.state, finished=np.asarray(True))

    def _least(self, units: Units, y: np.ndarray) -> float:
        """Positive while no unit is beyond its surface and no share beyond its bounds: least of all, in their units."""
        inside = sided(units, self.kinks.on)
        inside[[*self.kinks.members, *self.pinned]] = np.inf
        least = float(inside.min(initial=np.inf)) / nearness(y) + 0.5
        if not self.kinks.held:
            return least
        return min(least, self._room(units, y) / SHARE + 0.5)

    def _room(self, units: Units, y: np.ndarray) -> float:
        """Least distance of a share from its bounds, negative beyond."""
        along = along_rails(units, self.rails)
        force, rows = along @ units.force, jumps(units, self.kinks.held) @ along
        on = np.asarray(self.piece.on).reshape(-1)
        theta = on_side = np.array([on[one.units[0]] for one in self.kinks.held])
        if len(self.kinks.independent) == len(rows):
            size = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
            theta = theta + np.linalg.lstsq((rows / size[:, None]).T, force, rcond=None)[0] / size
            if self.is_layered:
                theta = self._settled(theta, y)
            felt = np.maximum(size / max(float(np.linalg.norm(force + on_side @ rows)), 1e-300), 1.0)
            return float((np.minimum(theta, 1.0 - theta) * felt).min())
        _, velocity = least_norm(force + theta @ rows, rows)
        across = np.abs(rows @ velocity) / (rows**2).sum(axis=1)
        return float(SHARE - across.max())

    def _settled(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Shares at y by Newton's method, where the jump of one unit depends on the share of another."""
        for _ in range(NEWTON_STEPS):
            on = turned(self.kinks.on, self.kinks.held, np.clip(theta, -1.0, 2.0).tolist())
            units = jax.device_get(units_at(Piece.of(self.field, on, np.full(4, -1)), y))
            along = along_rails(units, self.rails)
            rows = jumps(units, self.kinks.held) @ along
            size = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
            more = np.linalg.lstsq((rows / size[:, None]).T, along @ units.force, rcond=None)[0] / size
            theta = np.clip(theta, -1.0, 2.0) + more
            if np.abs(more).max() <= SHARE:
                break
        return theta

    def _dips(self, units: Units, y: np.ndarray, length: float) -> bool:
        """True if a cubic through both ends says that a unit is beyond its surface somewhere between."""
        sides = 2.0 * self.kinks.on.reshape(-1) - 1.0
        speeds = [self._along(one) for one in (self.units, units)]
        moved = float(np.linalg.norm(y - self.path[-1]))
        if length * max(np.linalg.norm(speed) for speed in speeds) > STIFF * moved:
            return False  # a long step that settles at once: its ends do not tell how it went
        ends, slopes = [], []
        for one, speed in zip((self.units, units), speeds, strict=True):
            normal = one.normal.reshape(-1, y.size)
            size = np.maximum(np.linalg.norm(normal, axis=1), 1e-300)
            ends.append(sided(one, self.kinks.on))
            slopes.append(length * sides * (normal @ speed) / size)
        seen = (slopes[0] < 0) & (slopes[1] > 0) & np.isfinite(ends[0]) & np.isfinite(ends[1])
        seen[[*self.kinks.members, *self.pinned]] = False
        if not seen.any():
            return False
        x = _INSIDE[:, None]
        (a, b), (s, t) = [e[seen] for e in ends], [e[seen] for e in slopes]
        between = (1 - x) ** 2 * ((1 + 2 * x) * a + x * s) + x**2 * ((3 - 2 * x) * b + (x - 1) * t)
        return bool((between < -nearness(y)).any())

    def _along(self, units: Units) -> np.ndarray:
        """The force along the held surfaces."""
        first = [*(self.kinks.held[k].units[0] for k in self.kinks.independent), *self.rails]
        rows = units.normal.reshape(-1, units.force.size)[first]
        if not len(rows):
            return np.asarray(units.force)
        basis = np.linalg.qr((rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)).T)[0]
        return np.asarray(units.force - basis @ (basis.T @ units.force))


def _first_below(least: Callable[[float], tuple[float, Any]], length: float) -> tuple[float, Any]:
    """(step, what belongs to it) at which a number that is positive at 0 and negative at `length` is zero, to 1/4.

    The method of Illinois: false position, which halves the end that stays. Distances range over hundreds of powers of
    ten once a softmax saturates, so it is told their logarithms.
    """

    def logged(step: float) -> tuple[float, Any]:
        value, found = least(step)
        return float(np.copysign(np.log1p(min(abs(value), LARGEST)), value)), found

    low, high, (at_high, found) = 0.0, length, logged(length)
    at_low, side, step = max(logged(0.0)[0], 0.25), 0, length
    for _ in range(TRIALS):
        step = high - (high - low) * at_high / (at_high - at_low)
        if not low < step < high:
            step = (low + high) / 2
        value, found = logged(step)
        if abs(value) <= 0.25 or high - low <= 4 * np.finfo(float).eps * high:
            break
        if value > 0:
            low, at_low, at_high, side = step, value, at_high / (2 if side == 1 else 1), 1
        else:
            high, at_high, at_low, side = step, value, at_low / (2 if side == -1 else 1), -1
    return step, found


def _is_layered(field: HeadField) -> bool:
    """True if what goes into one unit depends on whether another is on."""
    head: Any = getattr(field.head, "inner", field.head)
    z, h = jnp.cos(jnp.arange(head.width, dtype=float)), head.n_units
    first, second = (np.asarray(head.piece(z, jnp.full(h, side), jnp.zeros(h))[1]) for side in (0.0, 1.0))
    return bool((first != second).any())


@eqx.filter_jit
def _stepped(piece: Piece, state: _Lane) -> tuple[_Lane, AnyArray, AnyArray, AnyArray, Units]:
    """(state after one attempt, whether it is accepted, its time, its end on the held surfaces, units there)."""
    after, (passed, _, move) = _attempt(piece, state)
    end = piece.landed(piece.landed(passed[-1]))
    return after, move, after.time - state.time, end, piece.units(end)
