"""Kinks of a risk at a point: which way the flow goes there, by the least-norm element of the Clarke subdifferential.

Behind a head with kinks L = (smooth) + sum_k c_k relu(u_k) near p, over the units k at their kinks. Where all c_k > 0
the subdifferential is {g + sum_k theta_k c_k grad u_k, theta in [0, 1]^k}, whatever the normals grad u_k: L is regular
there, and its flow, Filippov's solution, leaves p with minus the element of least norm. That is a least-squares problem
with bounds on k numbers; no piece is ever listed. A unit whose theta is strictly between 0 and 1 holds p on its
surface; at 0 or 1 the flow goes to that side. A unit with c_k < 0 repels: no flow stays there, but one may start there,
and then several go on. By convention units that repel are decided one after the other, the one that is left fastest
first, each to the side to which p moves while those undecided count one half, and on where p moves to none.

Units of one surface, as those of repeated inputs, are one kink, with the sum of their c_k.

Filippov, "Differential equations with discontinuous righthand sides", 1988. Clarke, "Optimization and nonsmooth
analysis", 1983.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from tokenmargin.attention._pieces import Piece, Units, has_kinks, log_scale_at, units_at, units_in
from tokenmargin.attention._surfaces import DEPENDENT, VANISHING, Kinks, Surface, along_rails, jumps, turned
from tokenmargin.attention.head_risk import HeadField

#: 1 - |cos| of two normals below which units share a surface: that of repeated inputs, or of relu(u) and relu(-u).
ONE_SURFACE = 1e-12

#: A share makes up for this part of the force at least, and leaves as much of its own, or it does not hold p.
AT_BOUND = 1e-9

#: Logarithm of the share of all weights below which what still moves p is weighed by itself.
WEAKER = 5.0

#: A jump of the gradient below this share of the largest is none.
NEUTRAL = 1e-14

#: Newton steps onto a surface that is nearer than 1e-9: they settle at once.
LANDINGS = 2

#: Changes of mind, for each unit, before the directions at a point are given up.
ROUNDS = 6

#: Steps of shares towards what smoothed ones tend to, and the distance from which they are Newton's.
RELAXATIONS, NEWTON_NEAR = 400, 0.05

#: A unit whose surface is nearer than this to p, in units of 1/longest key difference, is at its kink. Distances are
#: known to rounding of logits, `SURFACE_ROUNDING` |p| eps.
NEAR_SURFACE, SURFACE_ROUNDING = 4e-10, 64.0


def least_norm(force: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(theta, v): v = force - rows' theta of least norm over theta in [0, 1]^k.

    Args:
        force: minus the gradient with every theta 0, shape (r,).
        rows: gradient c grad u of each unit, shape (k, r); they may be dependent, and then theta is one of several.
    """
    size, length = np.linalg.norm(rows, axis=1), float(np.linalg.norm(force))
    theta, moves = np.zeros(len(rows)), np.flatnonzero(size > 0)
    if len(moves) and length > 0:
        unit, most = rows[moves] / size[moves, None], size[moves] / length
        # A force and columns of length one: else the method takes short ones for dependent, and a weak force for none.
        found = lsq_linear(unit.T, force / length, bounds=(0.0, most), method="bvls", tol=1e-15, max_iter=200)
        theta[moves] = np.clip(found.x / most, 0.0, 1.0)
    return theta, force - theta @ rows


def distances(units: Units) -> np.ndarray:
    """Signed distance of p from the surface of each unit to first order, flat; +-infinite where nothing moves it."""
    u = np.asarray(units.u).reshape(-1)
    length = np.linalg.norm(np.asarray(units.normal).reshape(u.size, -1), axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(length > 0, u / length, np.copysign(np.inf, u))


def sided(units: Units, on: np.ndarray) -> np.ndarray:
    """Distance of p from the surface of each unit, flat, negative beyond it; a unit that nothing moves off 0 is not."""
    u = np.asarray(units.u).reshape(-1)
    return np.where(u == 0.0, 0.0, distances(units) * (2.0 * on.reshape(-1) - 1.0))


def near_surfaces(units: Units, y: np.ndarray) -> list[int]:
    """Units that are at their kinks at y."""
    return [int(k) for k in np.flatnonzero(np.abs(distances(units)) <= nearness(y))]


def nearness(y: np.ndarray) -> float:
    """Distance from a surface up to which y is on it."""
    norm = float(np.linalg.norm(y))
    return max(NEAR_SURFACE * (1.0 + min(norm, 1.0)), SURFACE_ROUNDING * float(np.finfo(float).eps) * norm)


def pattern_at(field: HeadField, y: np.ndarray) -> np.ndarray:
    """Units that are on at y, shape (n, h): layer after layer, as what a unit sees depends on those before it."""
    head: Any = field.head  # a KinkedHead, where this is asked
    n, h = len(field.labels), head.n_units
    on = np.ones((n, h))
    for _ in range(h + 1):
        found = (np.asarray(units_at(Piece.of(field, on, np.full(4, -1)), y).u) > 0).astype(float)
        if (found == on).all():
            break
        on = found
    return on


def at_pattern(field: Any, y: np.ndarray) -> Any:
    """The smooth piece of a field on which y is, where its head has kinks; else the field itself."""
    return Piece.of(field, pattern_at(field, y), np.full(4, -1)) if has_kinks(field) else field


def directions(
    field: HeadField, y: np.ndarray, on: np.ndarray | None = None, at: Iterable[int] = (), rails: Sequence[int] = ()
) -> Kinks:
    """Directions of the flow at y.

    Args:
        field: the risk, in units of its longest key difference.
        y: the point, shape (r,).
        on: the pattern of units that are not at their kinks; that at y when absent.
        at: units at their kinks; those whose surface is near when absent.
        rails: units on whose surfaces p stays whatever pulls on it, with normals that are independent.
    """
    if on is None:
        on = pattern_at(field, y)
        at = near_surfaces(units_at(Piece.of(field, on, np.full(4, -1)), y), y)
    units = [k for k in at if k not in rails]
    begin = _Undecided.of(field, y, on, units, rails)
    if begin.log_scale == -np.inf:
        return _at_rest(on, begin)
    kinks = begin.decided()
    # What shares that vanish make up for is weak beside what holds p: then that is the scale to decide them on.
    vanishes = np.minimum(kinks.theta, 1.0 - kinks.theta) < VANISHING
    if not units or not vanishes.all():
        return kinks
    weak = turned(kinks.on, kinks.held, np.round(kinks.theta).tolist())
    scale = float(log_scale_at(Piece.of(field, weak, np.full(4, -1)), y))
    if scale == -np.inf:
        return _at_rest(weak, begin)
    if scale >= kinks.log_scale - WEAKER:
        return kinks
    undecided = replace(_Undecided.of(field, y, on, units, rails), on=weak, log_scale=scale)
    found = undecided.decided()
    return replace(found, is_weak=True) if found.is_consistent else kinks


def _at_rest(on: np.ndarray, begin: _Undecided) -> Kinks:
    """Nowhere to go: no unit that is on pulls."""
    r = len(begin.y)
    none = np.zeros((0, r))
    return Kinks(np.round(on), (), np.zeros(0), none, np.zeros(r), -np.inf, 0.0, False, True, begin.rails)


def landed(field: HeadField, kinks: Kinks, y: np.ndarray) -> np.ndarray:
    """The point next to y on the surfaces that hold it, by Newton's method."""
    first = [*(surface.units[0] for surface in kinks.held), *kinks.rails]
    if not first:
        return y
    piece = kinks.piece(field)
    for _ in range(LANDINGS):
        units = units_at(piece, y)
        rows = np.asarray(units.normal).reshape(-1, len(y))[first]
        length = np.linalg.norm(rows, axis=1)
        off = np.asarray(units.u).reshape(-1)[first] / length
        y = y - np.linalg.lstsq(rows / length[:, None], off, rcond=DEPENDENT)[0]
    return y


@dataclass(eq=False)
class _Undecided:
    """The search for a pattern that its own velocity carries on."""

    field: HeadField
    y: np.ndarray
    on: np.ndarray
    surfaces: list[Surface]
    log_scale: float
    sides: dict[int, float]  #: surfaces that repel, with the side to which p leaves
    rails: tuple[int, ...] = ()  #: units on whose surfaces p stays
    size: float = 1.0  #: length of the force with every share 0

    @classmethod
    def of(
        cls, field: HeadField, y: np.ndarray, on: np.ndarray, at: list[int], rails: Sequence[int] = ()
    ) -> _Undecided:
        start = np.array(on, dtype=float)
        start.reshape(-1)[at] = 0.5
        units = units_at(Piece.of(field, start, np.full(4, -1)), y)
        surfaces = _surfaces(np.asarray(units.normal), at)
        sides = [turned(start, surfaces, [side] * len(surfaces)) for side in (0.0, 1.0)]
        # With their shares they may pull on nothing at all.
        scale = max(float(log_scale_at(Piece.of(field, on, np.full(4, -1)), y)) for on in sides)
        return cls(field, y, start, surfaces, scale, {}, tuple(rails))

    def decided(self) -> Kinks:
        """Settle repelling surfaces one by one, and shares of the others by least squares, until nothing changes."""
        for _ in range(ROUNDS * (len(self.surfaces) + 1)):
            found = self._held()
            if found is not None:
                return found
        return self._relaxed()

    def _relaxed(self) -> Kinks:
        """Shares as those of a smoothed head tend to, from one half each, where units of several layers meet."""
        self.sides = {}
        theta = np.full(len(self.surfaces), 0.5)
        is_settled = False
        for _ in range(RELAXATIONS):
            for k, share in enumerate(theta):
                self._set(k, share)
            rows, unit, force = self._felt()
            if not (np.isfinite(rows).all() and np.isfinite(force).all()):
                break
            slope = np.maximum(np.abs(unit @ rows.T).sum(axis=1), 1e-300)
            after = np.clip(theta + 0.5 * (unit @ force) / slope, 0.0, 1.0)
            inside = (after > 0.0) & (after < 1.0) & (np.abs(after - theta) < NEWTON_NEAR)
            if inside.any():
                more = np.linalg.lstsq(rows[inside].T, force, rcond=DEPENDENT)[0]
                near = np.abs(more) < NEWTON_NEAR
                after[inside] = np.clip(theta[inside] + np.where(near, more, after[inside] - theta[inside]), 0.0, 1.0)
            is_settled = bool(np.abs(after - theta).max(initial=0.0) <= AT_BOUND)
            theta = after
            if is_settled:
                break
        jump = (rows * unit).sum(axis=1)
        if not np.isfinite(force).all():
            rows, force = np.zeros_like(rows), np.zeros_like(force)
        found = self._kinks(rows, unit @ force, (theta <= 0) | (theta >= 1) | (jump <= 0), theta, force)
        return replace(found, is_consistent=is_settled)

    def _held(self) -> Kinks | None:
        """One round: the answer if it changes nothing."""
        rows, along, repels, theta, _ = solved = self._solved()
        undecided = [k for k in np.flatnonzero(repels).tolist() if k not in self.sides]
        if undecided:
            first = max(undecided, key=lambda k: abs(along[k]))
            self._turn(first, 1.0 if along[first] >= 0 else 0.0)
            return None
        wrong = [k for k, side in self.sides.items() if not repels[k] or along[k] * (2.0 * side - 1.0) < 0]
        scale = np.linalg.norm(rows, axis=1)
        wrong = [k for k in wrong if not repels[k] or abs(along[k]) > AT_BOUND * scale[k]]
        if wrong:
            del self.sides[wrong[0]]
            self._set(wrong[0], 0.5)
            return None
        free = [k for k in range(len(theta)) if k not in self.sides]
        change = max((abs(theta[k] - self._share(k)) for k in free), default=0.0)
        for k in free:
            self._set(k, theta[k])
        return self._kinks(*solved) if change <= AT_BOUND else None

    def _felt(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(jumps, unit normals of the surfaces, force) with the pattern as it stands."""
        units = units_in(Piece.of(self.field, self.on, np.full(4, -1)), self.y, np.asarray(self.log_scale))
        force = np.asarray(units.force)
        along = along_rails(units, self.rails)
        normal = np.asarray(units.normal).reshape(-1, len(force))
        first = normal[[surface.units[0] for surface in self.surfaces]] @ along
        length = np.linalg.norm(first, axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # a force beyond floats is set aside by whoever asks
            return jumps(units, self.surfaces) @ along, first / np.maximum(length, 1e-300), along @ force

    def _solved(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(jumps, speeds across the surfaces, which repel, shares, velocity) with the pattern as it stands."""
        rows, unit, force = self._felt()
        jump = (rows * unit).sum(axis=1)
        repels = jump <= NEUTRAL * np.abs(jump).max(initial=0.0)  # what does not bend holds nothing either
        theta = np.array([self._share(k) for k in range(len(rows))])
        free = np.flatnonzero(~repels)
        # From the side that each is near: a share that nearly vanishes is no difference of two.
        is_on = theta[free] > 0.5
        signed, share = (
            np.where(is_on[:, None], -rows[free], rows[free]),
            np.where(is_on, 1.0 - theta[free], theta[free]),
        )
        base = force + share @ signed
        share, velocity = least_norm(base, signed)
        theta[free] = np.where(is_on, 1.0 - share, share)
        self.size = float(np.linalg.norm(base))
        return rows, unit @ velocity, repels, theta, velocity

    def _kinks(
        self, rows: np.ndarray, along: np.ndarray, repels: np.ndarray, theta: np.ndarray, velocity: np.ndarray
    ) -> Kinks:
        del along
        least = np.minimum(AT_BOUND * self.size / np.maximum(np.linalg.norm(rows, axis=1), 1e-300), AT_BOUND)
        is_inside = (theta > least) & (theta < 1.0 - least)
        for k in range(len(theta)):
            self._set(k, theta[k] if is_inside[k] else round(theta[k]))
        holds = np.flatnonzero(is_inside & ~repels).tolist()
        longest = max([float(np.linalg.norm(velocity)), *np.linalg.norm(rows, axis=1)])
        held = tuple(self.surfaces[k] for k in holds)
        return Kinks(
            self.on.copy(), held, theta[holds], rows[holds], velocity, self.log_scale, longest, False, True, self.rails
        )

    def _turn(self, k: int, side: float) -> None:
        self.sides[k] = side
        self._set(k, side)

    def _set(self, k: int, theta: float) -> None:
        self.on.reshape(-1)[list(self.surfaces[k].units)] = self.surfaces[k].shares(float(theta))

    def _share(self, k: int) -> float:
        return float(self.on.reshape(-1)[self.surfaces[k].units[0]])


def _surfaces(normal: np.ndarray, at: list[int]) -> list[Surface]:
    """Units at their kinks, those of one surface together."""
    rows = normal.reshape(-1, normal.shape[-1])[at]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    groups: list[list[int]] = []
    for j in range(len(at)):
        own = next((g for g in groups if abs(rows[g[0]] @ rows[j]) >= 1.0 - ONE_SURFACE), None)
        if own is None:
            groups.append([j])
        else:
            own.append(j)
    return [Surface(tuple(at[j] for j in g), tuple(1 if rows[g[0]] @ rows[j] > 0 else -1 for j in g)) for g in groups]
