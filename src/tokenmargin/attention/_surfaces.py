"""Surfaces of units at their kinks, and the directions of a flow that some of them hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokenmargin.attention._pieces import Piece, Units
from tokenmargin.attention.head_risk import HeadField
from tokenmargin.attention.heads import Kink

#: A share this close to 0 or 1 tends there, while the force that it makes up for vanishes.
VANISHING = 1e-5

#: Normals of units that hold p are dependent where one lies in the span of the others up to this share of its length.
DEPENDENT = 1e-8


@dataclass(frozen=True)
class Surface:
    """Units that share one surface; the sign of each is that of its normal along the first one's."""

    units: tuple[int, ...]
    signs: tuple[int, ...]

    def shares(self, theta: float) -> list[float]:
        """Share of each unit where the first has `theta`."""
        return [theta if sign > 0 else 1.0 - theta for sign in self.signs]


@dataclass(frozen=True, eq=False)
class Kinks:
    """Directions at a point: the pattern in which the flow goes on, and the surfaces that hold it."""

    on: np.ndarray  #: 0 or 1 for each unit; theta for those that hold p, shape (n, h)
    held: tuple[Surface, ...]  #: surfaces along which the flow slides
    theta: np.ndarray  #: share of each, strictly between 0 and 1
    rows: np.ndarray  #: jump of the force across each, shape (k, r)
    velocity: np.ndarray  #: minus the least-norm element in units of exp(log_scale), shape (r,)
    log_scale: float  #: logarithm of all pair weights, the larger of units at their kinks on and off
    spread: float  #: length of the longest of what cancels in it: rounding is relative to this
    is_weak: bool  #: True if the scale is that of what held surfaces make up for, far below that of beyond them
    is_consistent: bool  #: False where units of several layers meet and no pattern is carried on by its own velocity
    rails: tuple[int, ...] = ()  #: units on whose surfaces p stays, whatever pulls on it

    @property
    def independent(self) -> list[int]:
        """Numbers of held surfaces whose normals span all of them."""
        return independent(self.rows)

    @property
    def lasting(self) -> Kinks:
        """The same without surfaces whose shares vanish: their units are on or off."""
        lasts = (self.theta > VANISHING) & (self.theta < 1.0 - VANISHING)
        gone = np.flatnonzero(~lasts).tolist()
        on = turned(self.on, [self.held[k] for k in gone], np.round(self.theta[gone]).tolist())
        held = tuple(surface for surface, own in zip(self.held, lasts, strict=True) if own)
        return replace(self, on=on, held=held, theta=self.theta[lasts], rows=self.rows[lasts])

    @property
    def named(self) -> tuple[Kink, ...]:
        """Every unit that holds p, with its share."""
        h, on = self.on.shape[1], self.on.reshape(-1)
        return tuple(Kink(unit // h, unit % h, float(on[unit])) for unit in sorted(self.members))

    @property
    def piece_units(self) -> np.ndarray:
        """One unit of each independent surface, padded to a multiple of four, so that few sizes are compiled."""
        first = [*(self.held[k].units[0] for k in self.independent), *self.rails]
        return np.array(first + [-1] * (-len(first) % 4 or (4 if not first else 0)), dtype=np.int64)

    @property
    def members(self) -> list[int]:
        """Every unit of a surface that holds p, and rails."""
        return [*(unit for surface in self.held for unit in surface.units), *self.rails]

    @property
    def nothing_pulls(self) -> bool:
        """True if p stays, as no unit that is on moves the loss of any input."""
        return self.log_scale == -np.inf

    def piece(self, field: HeadField) -> Piece:
        """The smooth piece along which the flow goes on.

        Units that hold p are on or off, whichever is further from their share: along the surfaces the force is one,
        and with its share an input may pull on nothing, though its weight is what the others' is to be compared with. A
        share that vanishes does so because all other weights do: then these are the scale.
        """
        vanishes = np.minimum(self.theta, 1.0 - self.theta) < VANISHING
        sides = np.where(vanishes, np.round(self.theta), self.theta < 0.5)
        on = turned(self.on, self.held, sides.astype(float).tolist())
        return Piece.of(field, on, self.piece_units)


def turned(on: np.ndarray, surfaces: Sequence[Surface], shares: Sequence[float]) -> np.ndarray:
    """The pattern with these shares of the first unit of each surface."""
    pattern = np.array(on, dtype=float)
    for surface, share in zip(surfaces, shares, strict=True):
        pattern.reshape(-1)[list(surface.units)] = surface.shares(share)
    return pattern


def jumps(units: Units, surfaces: Sequence[Surface]) -> np.ndarray:
    """Fall of the force as the units of each surface turn on, shape (k, r)."""
    r = len(units.force)
    rows = np.asarray(units.bend).reshape(-1, 1) * np.asarray(units.normal).reshape(-1, r)
    found = [np.asarray(one.signs) @ rows[list(one.units)] for one in surfaces]
    return np.stack(found) if found else np.zeros((0, r))


def along_rails(units: Units, rails: Sequence[int]) -> np.ndarray:
    """The projection on what is orthogonal to the normals of the rails, shape (r, r)."""
    r = len(units.force)
    if not len(rails):
        return np.eye(r)
    normal = np.asarray(units.normal).reshape(-1, r)[list(rails)]
    basis = np.linalg.qr((normal / np.linalg.norm(normal, axis=1, keepdims=True)).T)[0]
    return np.asarray(np.eye(r) - basis @ basis.T)


def independent(rows: np.ndarray) -> list[int]:
    """Numbers of rows that span all of them, by Gram and Schmidt."""
    basis, kept = np.zeros((0, rows.shape[1])), list[int]()
    for k, row in enumerate(rows):
        unit = row / max(float(np.linalg.norm(row)), 1e-300)
        rest = unit - (basis @ unit) @ basis
        rest = rest - (basis @ rest) @ basis
        if np.linalg.norm(rest) > DEPENDENT:
            basis, kept = np.vstack([basis, rest / np.linalg.norm(rest)]), [*kept, k]
    return kept
